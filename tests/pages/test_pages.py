"""The examples of the documentation run and print what the pages show."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from pyiceberg.utils.config import Config

from tests.connect.server import Server, run
from tests.pages.blocks import SOAK, blocks, differences
from tests.pages.terminal import unknown_extras

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
GENERATED = {"api.md"}
"""Pages made of docstrings, whose examples run as doctests."""

PAGES = [
    ROOT / "README.md",
    *(p for p in sorted((ROOT / "docs").rglob("*.md")) if p.name not in GENERATED),
]
EXAMPLES = [
    p for p in PAGES if any(b.language in {"console", "python"} for b in blocks(p.read_text()))
]


HOW_TO = ROOT / "docs" / "how-to"
S3 = HOW_TO / "s3.md"
"""Its examples need a store."""
TABLES = HOW_TO / "postgres.md"
OUTPUT = HOW_TO / "postgres-output.md"
"""Their examples need a server; the second one has a run of its own."""
ICEBERG = HOW_TO / "iceberg.md"
"""pyiceberg reads the variables of its catalogues when it is imported."""
VERSIONS = """
SELECT column_name, data_type, is_nullable, indexdef
FROM information_schema.columns AS c JOIN pg_indexes ON tablename = table_name
WHERE table_name = 'substrait_agg_versions' ORDER BY column_name
"""
ENDLESS = "trap 'echo end; exit' INT; echo begun; while true; do sleep 0.1; done"
SPECIAL = {S3, TABLES, OUTPUT, ICEBERG}


@pytest.mark.parametrize(
    "page", [p for p in EXAMPLES if p not in SPECIAL], ids=lambda page: page.stem
)
def test_the_examples_of_a_page_print_what_it_says(
    page: Path, spark: SparkSession, tmp_path: Path
) -> None:
    found = differences(page, tmp_path, spark=spark)
    assert not found, "\n\n".join(found)


@pytest.mark.usefixtures("spark_and_s3")
def test_the_examples_over_a_store_print_what_the_page_says(tmp_path: Path) -> None:
    found = differences(S3, tmp_path)
    assert not found, "\n\n".join(found)


@pytest.mark.usefixtures("spark")
def test_the_examples_with_tables_of_postgres_print_what_the_page_says(
    postgres: dict[str, str], tmp_path: Path
) -> None:
    found = differences(TABLES, tmp_path, variables=postgres)
    assert not found, "\n\n".join(found)


@pytest.mark.spark
def test_the_examples_with_an_output_to_postgres_print_what_the_page_says(
    server: Server, postgres: dict[str, str], tmp_path: Path
) -> None:
    """The table of versions that the page creates is the one that the output makes itself."""
    found = differences(OUTPUT, tmp_path, variables=postgres)
    assert not found, "\n\n".join(found)
    (versions,) = (b for b in blocks(OUTPUT.read_text()) if b.language == "sql" and not b.file)
    shop = server.dsn("shop")
    made = run(shop, VERSIONS)
    assert made
    run(shop, "DROP TABLE substrait_agg_versions", versions.text)
    assert run(shop, VERSIONS) == made


@pytest.mark.usefixtures("spark")
def test_the_examples_with_a_catalogue_print_what_the_page_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lake = {"URI": "sqlite:///lake/catalog.db", "WAREHOUSE": "lake"}
    variables = {f"PYICEBERG_CATALOG__LAKE__{name}": value for name, value in lake.items()}
    with patch.dict(os.environ, variables):
        monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    found = differences(ICEBERG, tmp_path)
    assert not found, "\n\n".join(found)


@pytest.mark.soak
@pytest.mark.parametrize(
    "page", [p for p in PAGES if f"<!-- {SOAK}" in p.read_text()], ids=lambda page: page.stem
)
def test_the_long_examples_of_a_page_print_what_it_says(
    page: Path, spark: SparkSession, tmp_path: Path
) -> None:
    found = differences(page, tmp_path, soak=True, spark=spark)
    assert not found, "\n\n".join(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_installs_extras_that_exist(page: Path) -> None:
    assert unknown_extras(page.read_text()) == []


@pytest.mark.parametrize("page", sorted(HOW_TO.glob("*.md")), ids=lambda page: page.stem)
def test_every_command_of_a_how_to_is_run(page: Path) -> None:
    """Blocks of shell commands are of a kind that is run, or say that they are not."""
    assert not {block.language for block in blocks(page.read_text())} & {"sh", "bash", "shell"}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```console\n$ echo 1\n2\n```\n", True),
        ("```console\n$ echo 1 2\n1 ...\n```\n", False),
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", True),
        ('```text title="a/b.txt"\nhello\n```\n\n```console\n$ cat a/b.txt\nhello\n```\n', False),
        ("<!-- not run -->\n```console\n$ false\nnothing\n```\n", False),
        ("<!-- run by make soak: slow -->\n```console\n$ false\nnothing\n```\n", False),
        ("```console\n$ substrait-agg functions | grep -c nothing_such\n0\n```\n", False),
        ("```console\n$ echo a \\\n>   b\na b\n```\n", False),
        ("```console\n$ pip install 'substrait-agg[spark,kafka]'\n```\n", False),
        ("```console\n$ pip install 'substrait-agg[spark,nothing]'\n```\n", True),
        ("```console\n$ export A=b C=$HOME\n$ echo $A $C\nb /...\n```\n", False),
        ("```console\n$ export GIVEN=page\n$ echo $GIVEN\ntest\n```\n", False),
        ("```console\n$ export A=--help\n$ substrait-agg $A\nUsage:...\n```\n", False),
        (
            "```console\n$ echo export A=b; exec sleep 999\nexport A=b\n^C\n$ echo $A\nb\n```\n",
            False,
        ),
        (f"```console\n$ {ENDLESS}\nbegun\n^C\nend\n```\n", False),
        (f"```console\n$ {ENDLESS}\nbegun\n^C\n```\n", True),
        ("```console\n$ echo other\none\n^C\n```\n", True),
    ],
)
def test_an_output_that_differs_is_found(text: str, fault: bool, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    found = differences(page, tmp_path, variables={"GIVEN": "test"})
    assert bool(found) == fault, found
    assert "A" not in os.environ
