"""The tables of limits and of source options agree with the code."""

from __future__ import annotations

import pytest

from tests.tools.write_reference_tables import TABLES, written


@pytest.mark.parametrize("name", TABLES)
def test_the_table_is_what_the_code_has(name: str) -> None:
    page, current = written(name)
    assert f"<!-- end of {name} -->" in page
    same = page == current
    assert same, "write it again: python tests/tools/write_reference_tables.py"
