"""Write the generated part of docs/metrics.md: ``python tests/tools/write_metrics_page.py``."""

from __future__ import annotations

import re
from pathlib import Path

from substrait_agg.metrics.declared import METRICS, Metric

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
MADE = re.compile(r"(<!-- metrics: [^\n]* -->\n).*(<!-- end of metrics -->)", re.DOTALL)


def metrics_markdown() -> str:
    """Return a Markdown table with one row per metric."""
    head = "| metric | kind | labels | what |\n|---|---|---|---|\n"
    return head + "".join(_row(metric) for metric in METRICS)


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    text = metric.help.replace("|", r"\|")
    return f"| `{metric.full_name}` | {metric.kind} | {labels} | {text} |\n"


def written(page: str) -> str:
    """The page with the table as it is now."""
    return MADE.sub(lambda marks: f"{marks[1]}\n{metrics_markdown()}\n{marks[2]}", page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
