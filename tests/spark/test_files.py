"""The content of a path: exactly the data files that Spark would read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch
from urllib.parse import unquote

import pytest

from substrait_agg.errors import InputRefused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DATA = (
    "a.csv",
    "sub/b c.csv",
    "sub/k=1/ü%20.csv",
    "_k=2/d.csv",
    "link/b c.csv",
    "link/k=1/ü%20.csv",
)
HIDDEN = (".a.csv.crc", "_SUCCESS", "_log/a.csv", ".tmp/b.csv", "sub/_c.csv", "empty.csv")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files and hidden ones, an empty one, links to a folder, to nothing and to itself; some time apart."""
    root = tmp_path / "in"
    for number, name in enumerate((*HIDDEN, *DATA[:4])):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if "empty" in name else "k\n1\n")
        os.utime(path, (1_000, 1_000 + number + 0.25))
    (root / "link").symlink_to(root / "sub")
    (root / "gone.csv").symlink_to(root / "nothing")
    (root / "loop.csv").symlink_to("loop.csv")
    return root


@pytest.mark.parametrize("here", [True, False], ids=["this machine", "any file system"])
def test_the_files_are_those_that_spark_reads(
    here: bool, spark: SparkSession, folder: Path
) -> None:
    """Listed here, and as in a store: the same names and times, so that it does not matter where the folder is."""
    from substrait_agg.spark.sources import files

    for link in ("gone.csv", "loop.csv"):
        (folder / link).unlink()  # Hadoop fails where a link leads nowhere
    with patch.object(files, "_is_here", lambda scheme: here and scheme == "file"):
        found = files.look_up(spark, str(folder))
    assert found is not None
    assert found.files == tuple(sorted(f"file:{folder / name}" for name in DATA))
    times = {Path(name).name: time for name, time in zip(found.files, found.modified, strict=True)}
    assert times["a.csv"] == 1_000 * (1_000 + len(HIDDEN)) + 250
    read = spark.read.option("recursiveFileLookup", "true").csv(str(folder), header=True)
    told = {unquote(uri).removeprefix("file://") for uri in read.inputFiles()}
    assert told - {f"{folder}/empty.csv"} == {f"{folder / name}" for name in DATA}


def found_in(spark: SparkSession, folder: Path) -> int:
    from substrait_agg.spark.sources.files import look_up

    found = look_up(spark, str(folder))
    assert found is not None
    return len(found.files)


def test_links_to_nothing_and_to_themselves_are_no_files(spark: SparkSession, folder: Path) -> None:
    assert found_in(spark, folder) == len(DATA)


def scanning(monkeypatch: pytest.MonkeyPatch, name: str, error: OSError) -> None:
    """Fail to look into folders of this name."""
    scan = os.scandir

    def refusing(path: str) -> object:
        if Path(path).name == name:
            raise error
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)


def test_a_folder_that_may_not_be_read_is_refused(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing in it would be missed otherwise; not so one that Spark does not look into."""
    scanning(monkeypatch, "_log", PermissionError(13, "Permission denied", "_log"))
    assert found_in(spark, folder) == len(DATA)
    scanning(monkeypatch, "sub", PermissionError(13, "Permission denied", "sub"))
    with pytest.raises(InputRefused) as refused:
        found_in(spark, folder)
    assert refused.value.code == "SOURCE_UNREADABLE"
    assert "sub" in str(refused.value)


def test_a_folder_that_is_taken_away_meanwhile_is_none(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanning(monkeypatch, "_k=2", FileNotFoundError(2, "No such file or directory", "_k=2"))
    assert found_in(spark, folder) == len(DATA) - 1


def test_a_name_that_is_no_text_is_refused(spark: SparkSession, folder: Path) -> None:
    """Spark does not find such a file again."""
    Path(os.fsdecode(bytes(folder) + b"/\xff.csv")).write_text("k\n1\n")
    with pytest.raises(InputRefused) as refused:
        found_in(spark, folder)
    assert refused.value.code == "SOURCE_UNREADABLE"
    assert "not UTF-8" in str(refused.value)
