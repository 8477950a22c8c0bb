"""Names, commands and codes in the documents match the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import substrait_agg
from substrait_agg.changes import OUTPUTS
from substrait_agg.functions.aggregates.catalogue import AGGREGATE_NAMES
from substrait_agg.functions.scalars.catalogue import SCALAR_NAMES, SCALARS
from substrait_agg_cli.main import main

ROOT = Path(__file__).parents[2]
LONGEST = 120
"""Characters of a line of prose."""
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])


def id_of(path: Path) -> str:
    return path.name


@pytest.mark.parametrize("document", DOCUMENTS, ids=id_of)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), target


def prose(text: str) -> list[str]:
    """Return the lines of a document outside code, tables, comments, headings and HTML."""
    text = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    return [line for line in text.splitlines() if not re.match(r"\s*[|#<]", line)]


def test_code_and_tables_are_no_prose() -> None:
    text = "a\n```sql\nb\n```\n| c |\n  ```\n  d\n  ```\n<!-- e\nf -->\ng"
    assert [line for line in prose(text) if line] == ["a", "g"]


@pytest.mark.parametrize("document", [*DOCUMENTS, ROOT / "CONTRIBUTING.md"], ids=id_of)
def test_lines_of_prose_are_short(document: Path) -> None:
    """A line may be longer only if it has nowhere to break."""
    for line in prose(document.read_text()):
        words = re.sub(r"^\s*(?:[-*]|\d+\.) ", "", line)
        assert len(line) <= LONGEST or " " not in words, line


def test_every_command_has_an_example() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text()
    for command in main.commands:
        assert f"substrait-agg {command} " in page, command


def test_commands_in_the_documents_exist() -> None:
    for document in DOCUMENTS:
        named = set(
            re.findall(r"^(?:\.venv/bin/)?substrait-agg ([a-z]+)", document.read_text(), re.M)
        )
        assert named <= set(main.commands), document.name


def test_make_targets_in_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"make ([a-z]+)", (ROOT / "README.md").read_text()))
    assert {"demo", "test"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_every_how_to_is_listed() -> None:
    folder = ROOT / "docs" / "how-to"
    index = (folder / "index.md").read_text()
    for page in folder.glob("*.md"):
        assert page.name == "index.md" or f"]({page.name})" in index, page.name


def test_every_output_kind_is_described() -> None:
    formats = (ROOT / "docs" / "formats.md").read_text()
    for kind in OUTPUTS:
        assert f"`{kind}" in formats, kind


def test_the_tables_of_functions_are_what_the_command_prints() -> None:
    page = (ROOT / "docs" / "functions.md").read_text()
    _, _, rest = page.partition("`substrait-agg functions --format markdown` -->\n\n")
    tables, end, _ = rest.partition("\n<!-- end of functions -->")
    printed = CliRunner().invoke(main, ["functions", "--format", "markdown"]).stdout
    assert end, "the marks are there"
    same = tables == printed
    assert same, "write them again: python tests/tools/write_functions_page.py"


def test_every_function_is_listed() -> None:
    """The page lists every function of the tables under every name."""
    text = (ROOT / "docs" / "functions.md").read_text()
    named = set(re.findall(r"`([a-z_0-9]+)`", text))
    assert set(SCALAR_NAMES) | set(AGGREGATE_NAMES) <= named
    for page in ("README.md", "docs/supported.md"):
        assert f"{len(SCALARS)} scalar functions" in (ROOT / page).read_text(), page


def test_every_code_in_the_documents_is_one_of_the_code() -> None:
    """A code that was renamed must not live on in the documents."""
    modules = [*(ROOT / "substrait_agg").rglob("*.py"), *(ROOT / "cli").rglob("*.py")]
    source = "".join(path.read_text() for path in modules)
    for document in DOCUMENTS:
        # The plans in it are in the words of the specification.
        text = re.sub(r"```json\n.*?\n```", "", document.read_text(), flags=re.DOTALL)
        for code in re.findall(r"[`\"]([A-Z]+(?:_[A-Z]+)+)[`\"]", text):
            assert f'"{code}"' in source, f"{document.name}: {code}"


def test_the_version_is_in_the_changelog() -> None:
    assert f"## {substrait_agg.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_public_name_is_described() -> None:
    """Each name of the package's `__all__` has a docstring."""
    for name in substrait_agg.__all__:
        if name != "__version__":
            assert (getattr(substrait_agg, name).__doc__ or "").strip(), name
