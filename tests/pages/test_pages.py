"""The examples of the documentation run and print what the pages show."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from pyiceberg.utils.config import Config

from tests.pages.blocks import SOAK, blocks, differences

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
    postgres: dict[str, str], tmp_path: Path
) -> None:
    found = differences(OUTPUT, tmp_path, variables=postgres)
    assert not found, "\n\n".join(found)


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
    ],
)
def test_an_output_that_differs_is_found(text: str, fault: bool, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    assert bool(differences(page, tmp_path)) == fault
