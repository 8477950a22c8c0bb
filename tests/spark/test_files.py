"""The content of a path: exactly the data files that Spark would read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch
from urllib.parse import unquote

import pytest

from substrait_agg.errors import InputRefused, UsageError

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
        found = files.look_up(spark, str(folder), files.FileRules(recursive=True))
    assert found is not None
    assert found.files == tuple(sorted(f"file:{folder / name}" for name in DATA))
    times = {Path(name).name: time for name, time in zip(found.files, found.modified, strict=True)}
    assert times["a.csv"] == 1_000 * (1_000 + len(HIDDEN)) + 250
    read = spark.read.option("recursiveFileLookup", "true").csv(str(folder), header=True)
    told = {unquote(uri).removeprefix("file://") for uri in read.inputFiles()}
    assert told - {f"{folder}/empty.csv"} == {f"{folder / name}" for name in DATA}


def found_in(spark: SparkSession, folder: Path) -> int:
    from substrait_agg.spark.sources.files import FileRules, look_up

    found = look_up(spark, str(folder), FileRules(recursive=True))
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


@pytest.mark.parametrize(
    ("names", "pattern", "missed", "below"),
    [
        (("a.csv", "b.csv"), "", (), ()),
        (("p=1/a.csv", "p=2/b.csv"), "", (), ()),
        (("a.csv", "p=1/b.csv"), "", ("a.csv",), ()),
        (("a.csv", "p=1/q=2/b.csv"), "", ("a.csv",), ()),
        (("a.csv", "p=1/empty.csv"), "", ("a.csv",), ()),
        (("a.csv", "sub/b.csv", "sub/deep/c.csv"), "", (), ("sub/b.csv", "sub/deep/c.csv")),
        (("sub/a.csv",), "", ("sub/a.csv",), ()),
        (("a.csv", "sub/b.csv"), "/*", (), ()),
        (("p=1/a.csv", "p=1/q=1/b.csv"), "/*", ("p=1/a.csv",), ()),
        (("a.csv", "c/plan.json", "c/snapshots/0.json", "c/state/r.arrow"), "", (), ()),
        (("a.csv", "c/plan.json"), "", (), ("c/plan.json",)),
    ],
)
def test_files_that_spark_leaves_out_are_known(
    spark: SparkSession,
    tmp_path: Path,
    names: tuple[str, ...],
    pattern: str,
    missed: tuple[str, ...],
    below: tuple[str, ...],
) -> None:
    """What Spark reads without a word about the rest is exactly the other files."""
    from substrait_agg.spark.sources.files import look_up

    for name in names:
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if "empty" in name else f"k\n{name}\n")
    location = f"{tmp_path / 'in'}{pattern}"
    found = look_up(spark, location)
    assert found is not None
    assert found.missed == tuple(f"file:{tmp_path / 'in' / name}" for name in missed)
    assert found.below == tuple(f"file:{tmp_path / 'in' / name}" for name in below)
    read = spark.read.csv(location, header=True, schema="k string").collect()
    uris = sorted(f"file:{tmp_path / 'in' / row['k']}" for row in read)
    assert list(found.files) == uris


def test_a_source_with_files_left_out_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Files that the options leave out anyway do not count; nor do any if all folders are read."""
    from substrait_agg.plan.types import Type
    from substrait_agg.spark.sources.readers import read_source
    from substrait_agg.spark.sources.specs import as_spec

    (tmp_path / "p=1").mkdir()
    for name in ("a.csv", "p=1/b.csv", "c.txt"):
        (tmp_path / name).write_text("k\nx\n")

    def rows(options: str) -> int:
        spec = as_spec(f"csv:{tmp_path}?static=true{options}")
        return read_source(spark, spec, {"k": Type("string")}, "t")[0].count()

    with pytest.raises(InputRefused) as refused:
        rows("")
    assert refused.value.code == "SOURCE_FILES_UNREAD"
    assert "a.csv and 1 more" in str(refused.value)
    with pytest.raises(InputRefused, match=r"c\.txt"):
        rows("&pathGlobFilter=[bc].*")
    assert rows("&pathGlobFilter=b.csv") == 1
    assert rows("&recursiveFileLookup=TRUE") == 3


def test_files_in_subfolders_beside_others_give_a_warning(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The header of the source is that of a file that Spark reads."""
    from substrait_agg.plan.types import Type
    from substrait_agg.spark.sources.readers import read_source
    from substrait_agg.spark.sources.specs import as_spec

    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "a.csv").write_text("other\n1\n")
    (tmp_path / "b.csv").write_text("k\nx\n")
    spec = as_spec(f"csv:{tmp_path}?static=true")
    assert read_source(spark, spec, {"k": Type("string")}, "t")[0].count() == 1
    assert "SOURCE_FILES_UNREAD" in caplog.text
    assert "a/a.csv" in caplog.text


NAMES = ("a.csv", "b.csv", "ab.csv", "a.txt", "{a}.csv", "a,b", "^a", "!a", "-a", "a+b(1).csv", "")


@pytest.mark.parametrize(
    "pattern",
    ["*.csv", "?.csv", "{a,b}.csv", "{a,{b,ab}}.*", "[ab].csv", "[!b]*", "[^b]*", "[a-b].csv", r"\{a\}.csv",
     "a,b", "a}", "a+b(1).csv", "a.csv", "[-!]a", "*", r"[\^]a"],
)  # fmt: skip
def test_name_patterns_mean_what_they_mean_to_hadoop(spark: SparkSession, pattern: str) -> None:
    from substrait_agg.spark.sources.files import name_test

    glob = getattr(spark.sparkContext._jvm, "org.apache.hadoop.fs.GlobPattern")(pattern)
    ours = name_test(pattern)
    assert [name for name in NAMES if ours(name)] == [name for name in NAMES if glob.matches(name)]


@pytest.mark.parametrize("pattern", ["[a", "{a", "a["])
def test_a_bad_name_pattern_is_refused(pattern: str) -> None:
    from substrait_agg.spark.sources.specs import as_spec

    with pytest.raises(UsageError) as refused:
        as_spec(f"csv:in?pathGlobFilter={pattern}")
    assert refused.value.code == "SPEC_OPTION_BAD"


def test_only_files_of_the_pattern_are_looked_at(tmp_path: Path) -> None:
    """A column of the table is not taken from a file that Spark does not read."""
    from substrait_agg.spark.sources.inferred_columns import inferred_columns

    (tmp_path / "a.txt").write_text("x\n1\n")
    (tmp_path / "b.csv").write_text("k\n1\n")
    found = inferred_columns(
        f"csv:{tmp_path}?pathGlobFilter=*.csv", "t", lambda: pytest.fail("no Spark")
    )
    assert found.names == ["k"]


def test_other_files_do_not_change_a_static_table(tmp_path: Path) -> None:
    from substrait_agg.commit.documents.snapshot import InputPlace
    from substrait_agg.spark.inputs.static_content import files_content
    from substrait_agg.spark.sources.specs import as_spec

    def content(pattern: str) -> str:
        spec = as_spec(f"csv:{tmp_path}?static=true&pathGlobFilter={pattern}")
        return files_content(spec, InputPlace("t", "csv"), None, None).content

    (tmp_path / "b.csv").write_text("k\n1\n")
    before = content("*.csv"), content("*")
    (tmp_path / "a.txt").write_text("k\n2\n")
    assert content("*.csv") == before[0]
    assert content("*") != before[1]
