"""Draw the pictures of the documentation that are files: ``make pictures``.

The plans are explained by the program itself, and the plots come from stored measurements. A test
compares the files with what this module draws.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import flowchart

import substrait_agg as sa
from benchmarks import plot

PLANS = {
    "explain-join": """
        CREATE TABLE orders (id BIGINT, customer BIGINT, region STRING, amount DECIMAL(10, 2));
        CREATE TABLE customers (id BIGINT, name STRING);
        SELECT name, sum(amount) AS revenue
        FROM orders JOIN customers ON orders.customer = customers.id
        GROUP BY name ORDER BY revenue DESC LIMIT 2
    """,
    "explain-windows": """
        CREATE TABLE readings (sensor STRING, at TIMESTAMP, value DOUBLE);
        SELECT sensor, window.end AS minute, avg(value) AS mean, median(value) AS middle
        FROM readings WHERE value IS NOT NULL GROUP BY sensor, window(at, '1 minute')
    """,
}
"""File name -> the query whose explanation is drawn."""


def pictures() -> Iterator[tuple[Path, str]]:
    """Yield each picture as its file and its content."""
    for name, query in PLANS.items():
        chart = str(sa.explain(sa.sql(query), format="mermaid"))
        title = "operators, state and steps of the plan"
        yield ROOT / "docs" / "pictures" / f"{name}.svg", flowchart.draw(chart, title)
    for measured in sorted((ROOT / "docs" / "benchmarks").glob("*.json")):
        yield measured.with_suffix(".svg"), plot.picture(json.loads(measured.read_text()))


if __name__ == "__main__":
    for path, drawn in pictures():
        path.parent.mkdir(exist_ok=True)
        path.write_text(drawn)
