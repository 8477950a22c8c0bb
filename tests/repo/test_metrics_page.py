"""The page of metrics matches the table."""

from __future__ import annotations

from tests.tools.write_metrics_page import PAGE, written


def test_the_page_is_what_the_table_says() -> None:
    page = PAGE.read_text(encoding="utf-8")
    same = written(page) == page
    assert same, "write it again: python tests/tools/write_metrics_page.py"
    assert "| `substrait_agg_version` |" in page
