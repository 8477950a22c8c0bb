"""SQL text and ibis expressions over files without declared types, on Spark, continued with new files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ibis
import pytest

import substrait_agg as sa

pytestmark = pytest.mark.spark

WINDOWS = """
SELECT city, window.start AS start, count(*) AS n, sum(amount) AS total, max(day) AS day
FROM sales JOIN customers ON sales.customer = customers.id
GROUP BY city, window(at, '5 minutes')
ORDER BY city, start
"""
HEADER = "customer,amount,at,day\n"


def write(folder: Path, number: int, *lines: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{number}.csv").write_text(HEADER + "".join(f"{line}\n" for line in lines))


def rows(checkpoint: Path) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in sa.open_view(checkpoint).to_arrow().to_pylist()]


def test_a_query_over_csv_and_json_follows_new_files(spark: Any, tmp_path: Path) -> None:
    """Dates and timestamps that are inferred from files have the same types in the plan and in
    Spark.
    """
    write(tmp_path / "sales", 1, "1,1.5,2026-01-01 10:00:00,2026-01-01", "2,2,2026-01-01 10:06:00,")
    (tmp_path / "customers.json").write_text(
        '{"id": 1, "city": "Rome"}\n{"id": 2, "city": "Oslo"}\n'
    )
    sources = {"sales": f"csv:{tmp_path}/sales", "customers": f"json:{tmp_path}/customers.json"}
    checkpoint = tmp_path / "ckpt"
    for _ in range(2):
        plan = sa.sql(WINDOWS, sources, spark=spark)
        sa.run(plan, sources, checkpoint=checkpoint, spark=spark).wait()
        write(tmp_path / "sales", 2, "1,4,2026-01-01T10:04:59.5,2026-02-01")
    shown = [
        (city, str(start), n, total, str(day)) for city, start, n, total, day in rows(checkpoint)
    ]
    assert shown == [
        ("Oslo", "2026-01-01 10:05:00", 1, 2.0, "None"),
        ("Rome", "2026-01-01 10:00:00", 2, 5.5, "2026-02-01"),
    ]


def test_an_ibis_expression_runs_and_its_view_is_a_table_of_ibis(
    spark: Any, tmp_path: Path
) -> None:
    write(tmp_path / "sales", 1, "1,1.5,2026-01-01 10:00:00,2026-01-01", "2,2,2026-01-01 10:06:00,")
    schema = {"customer": "int64", "amount": "float64", "at": "timestamp(6)"}
    sales = ibis.table(schema, name="sales")
    totals = sales.group_by(hour=sales["at"].truncate("h")).agg(total=sales.amount.sum())
    sources = {"sales": f"csv:{tmp_path}/sales"}
    sa.run(totals, sources, checkpoint=tmp_path / "ckpt", spark=spark).wait()
    table = sa.open_view(tmp_path / "ckpt").to_ibis()
    assert table.filter(table.total > 3).total.sum().execute() == 3.5


def test_a_function_reads_the_column_of_the_input(spark: Any, tmp_path: Path) -> None:
    """The column of the first place is c0 in the input of a projection and in its output."""
    (tmp_path / "t.json").write_text('{"s": "Hello", "n": 1}\n')
    sources = {"t": f"json:{tmp_path}/t.json"}
    query = "SELECT lpad(s, 8, '*') AS a, instr(s, 'l') AS b, initcap(s) AS c, regexp_replace(s, 'l', 'L') AS d FROM t"
    sa.run(
        sa.sql(query, sources, spark=spark), sources, checkpoint=tmp_path / "ckpt", spark=spark
    ).wait()
    assert rows(tmp_path / "ckpt") == [("***Hello", 3, "Hello", "HeLLo")]
