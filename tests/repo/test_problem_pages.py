"""Every code of the program is documented, and the documents match the tables."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from substrait_agg.error_codes import ERROR_CODES
from substrait_agg.problem_kinds import KINDS
from substrait_agg_cli.main import main
from tests.repo.raised_codes import ROOT, raised_codes

PAGE = ROOT / "docs" / "problems.md"


def test_the_page_is_what_the_command_prints() -> None:
    _, _, rest = PAGE.read_text(encoding="utf-8").partition("problems --format markdown` -->\n\n")
    made, end, _ = rest.partition("\n<!-- end of problems -->")
    printed = CliRunner().invoke(main, ["problems", "--format", "markdown"]).stdout
    assert end, "the marks are there"
    same = made == printed
    assert same, "write it again: python tests/tools/write_problems_page.py"


def test_every_code_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^### `([A-Z_]+)`$", page, re.M) == _in_order_of_areas()
    assert set(ERROR_CODES) <= set(re.findall(r"^\| `([A-Z_]+)` \|", page, re.M))


def test_the_sample_at_the_top_is_a_true_one() -> None:
    page = PAGE.read_text(encoding="utf-8")
    sample = page.split("```text\n")[1].split("```")[0]
    assert page.count(sample) == 2


def _in_order_of_areas() -> list[str]:
    areas = list(dict.fromkeys(kind.area for kind in KINDS.values()))
    return [k.code for k in sorted(KINDS.values(), key=lambda k: areas.index(k.area))]


def test_every_code_that_can_be_raised_is_in_a_table() -> None:
    """Every new error needs a line with its remedy."""
    unknown = {
        code: place
        for code, place in raised_codes().items()
        if code not in KINDS and code not in ERROR_CODES
    }
    assert unknown == {}, "add it to substrait_agg/error_codes.py or problem_kinds/"


def test_no_table_has_a_code_that_nobody_raises() -> None:
    """A row that outlived its code would be documented for ever."""
    source = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("substrait_agg", "cli")
        for path in (ROOT / folder).rglob("*.py")
        if not _is_table(path)
    )
    for code in (*KINDS, *ERROR_CODES):
        assert f'"{code}"' in source or f"[{code}] " in source, code


def _is_table(path: Path) -> bool:
    return path.parent.name == "problem_kinds" or path.name == "error_codes.py"


def test_a_code_is_in_one_table_only() -> None:
    assert not set(KINDS) & set(ERROR_CODES)


def test_errors_say_what_to_do() -> None:
    for error in ERROR_CODES.values():
        assert error.meaning, error.code
        assert error.help, error.code
