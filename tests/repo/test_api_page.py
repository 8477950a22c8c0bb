"""The page of the Python API matches the docstrings, and has every public name."""

from __future__ import annotations

import inspect

import substrait_agg
from tests.tools.write_api_page import PAGE, SECTIONS, api_page, public


def test_the_page_is_what_the_docstrings_say() -> None:
    same = PAGE.read_text(encoding="utf-8") == api_page()
    assert same, "write it again: python tests/tools/write_api_page.py"


def test_every_public_name_is_described() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name, value in public().items():
        assert f"### {name}\n" in page or f"| `{name}`" in page, name
        assert inspect.getdoc(value), name


def test_sections_have_no_unknown_names() -> None:
    assert {name for names in SECTIONS.values() for name in names} <= set(public())


def test_types_that_public_functions_return_are_public() -> None:
    """Except the handle of a run, whose import needs PySpark."""
    for name, value in public().items():
        if inspect.isfunction(value):
            returned = str(inspect.signature(value).return_annotation).strip("'")
            assert returned in {*substrait_agg.__all__, "Run", "None", "str"}, (name, returned)
