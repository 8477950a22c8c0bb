"""What is at a path: the data files that Spark would read, and nothing else."""

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
    """Files and hidden ones, an empty one, a link to a folder and one to nothing; some time apart."""
    root = tmp_path / "in"
    for number, name in enumerate((*HIDDEN, *DATA[:4])):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if "empty" in name else "k\n1\n")
        os.utime(path, (1_000, 1_000 + number + 0.25))
    (root / "link").symlink_to(root / "sub")
    (root / "gone.csv").symlink_to(root / "nothing")
    return root


@pytest.mark.parametrize("here", [True, False], ids=["this machine", "any file system"])
def test_the_files_are_those_that_spark_reads(
    here: bool, spark: SparkSession, folder: Path
) -> None:
    """Listed here, and as in a store: the same names and times, so that it does not matter where the folder is."""
    from substrait_agg.spark import files

    (folder / "gone.csv").unlink()  # Hadoop fails where a link leads nowhere
    listed = files._listed_here
    if not here:
        system = spark.sparkContext._jvm.org.apache.hadoop.fs.FileSystem  # type: ignore[union-attr]
        local = system.getLocal(spark.sparkContext._jsc.hadoopConfiguration())
        path = spark.sparkContext._jvm.org.apache.hadoop.fs.Path  # type: ignore[union-attr]
        listed = lambda root: files._listed(local, local.getFileStatus(path(root)))  # noqa: E731
    with patch.object(files, "_listed_here", listed):
        found = files.look_up(spark, str(folder))
    assert found is not None
    assert found.files == tuple(sorted(f"file:{folder / name}" for name in DATA))
    times = {Path(name).name: time for name, time in zip(found.files, found.modified, strict=True)}
    assert times["a.csv"] == 1_000 * (1_000 + len(HIDDEN)) + 250
    read = spark.read.option("recursiveFileLookup", "true").csv(str(folder), header=True)
    told = {unquote(uri).removeprefix("file://") for uri in read.inputFiles()}
    assert told - {f"{folder}/empty.csv"} == {f"{folder / name}" for name in DATA}


def test_a_link_to_nothing_is_no_file(spark: SparkSession, folder: Path) -> None:
    from substrait_agg.spark.files import look_up

    found = look_up(spark, str(folder))
    assert found is not None
    assert len(found.files) == len(DATA)


def test_a_folder_that_may_not_be_read_is_refused(spark: SparkSession, folder: Path) -> None:
    """Nothing in it would be missed otherwise."""
    from substrait_agg.spark.files import look_up

    scan = os.scandir

    def refusing(path: str) -> object:
        if str(path).endswith("sub"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    with patch("os.scandir", refusing), pytest.raises(InputRefused) as refused:
        look_up(spark, str(folder))
    assert refused.value.code == "SOURCE_UNREADABLE"
    assert "sub" in str(refused.value)
