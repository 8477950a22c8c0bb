"""Format the table of metrics as Markdown, for the documentation."""

from __future__ import annotations

from substrait_agg.metrics.declared import METRICS, Metric


def metrics_markdown() -> str:
    """Return a Markdown table with one row per metric."""
    head = "| metric | kind | labels | what |\n|---|---|---|---|\n"
    return head + "".join(_row(metric) for metric in METRICS)


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    text = metric.help.replace("|", r"\|")
    return f"| `{metric.full_name}` | {metric.kind} | {labels} | {text} |\n"
