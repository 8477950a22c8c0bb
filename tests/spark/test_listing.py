"""The files of a source: which ones a run takes, when, and in which order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from unittest.mock import patch
from urllib.parse import unquote

import pytest

import substrait_agg as sa
from substrait_agg.errors import InputRefused, UsageError
from substrait_agg.spark.positions import listing as listings
from substrait_agg.spark.positions.file_source import FileSource, file_source
from substrait_agg.spark.positions.listing import LocalListing, RemoteListing
from substrait_agg.spark.sources import files
from substrait_agg.spark.sources.files import FileRules, FoundFile, look_up
from substrait_agg.spark.sources.specs import as_spec
from tests.e2e.plans import Builder, aggregate, column, read
from tests.sampling import seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAST = 1_000_000_000


def put(path: Path, text: str = "k\n1\n", time: float = PAST) -> Path:
    """Write a file with its time of modification."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time, time))
    return path


def settle(root: Path) -> None:
    """Make folders look as if nothing had happened in them for long."""
    for folder in (root, *(path for path in root.rglob("*") if path.is_dir())):
        os.utime(folder, (PAST, PAST))


def path_of(file: FoundFile) -> Path:
    assert file.uri.startswith("file:///")
    return Path(unquote(file.uri.removeprefix("file://")))


def looked(listing: LocalListing | RemoteListing) -> set[Path]:
    """The files of the next look, each once."""
    found = listing.new()
    paths = {path_of(file) for file in found}
    assert len(paths) == len(found)
    for file in found:
        status = path_of(file).stat()
        assert (file.size, file.modified) == (status.st_size, status.st_mtime_ns // 1_000_000)
    return paths


# --- random trees against a plain walk ------------------------------------------------------------

NAMES = ("a.csv", "b c.csv", "50%.csv", "%41.csv", "[x].csv", "{y}.csv", "*.csv", "q?.csv", "s\\t.csv", "ü☂.csv", "a.txt",
         ".h.csv", "_SUCCESS", "_d=1.csv", "c.csv._COPYING_", "n\nl.csv", "a+b#c:d.csv", "~", "a=b.csv")  # fmt: skip
FLAT, PARTS, DEEP = (
    ("",),
    ("k=1", "k=ü %", "k=2/j=[3]", "_k=4"),
    ("", "sub", "sub/k=1", "{s}", ".h", "_log"),
)
ACCEPTED: dict[str, str | tuple[str, ...]] = {
    "": "",
    "*.csv": ".csv",
    "*.{csv,txt}": (".csv", ".txt"),
    "[!.]*t": "t",
}
"""Pattern of names -> the ends of shown names that it matches."""


def is_hidden(part: str) -> bool:
    return part[0] == "." or (part[0] == "_" and "=" not in part) or part.endswith("._COPYING_")


@dataclass
class FileTree:
    """Files that change at random below a folder, and a plain walk of them."""

    root: Path
    random: Random
    folders: tuple[str, ...]

    def change(self) -> None:
        """Create files, also empty and old ones, fill empty ones, and delete some."""
        if self.random.random() < 0.7:
            settle(self.root)
        for _ in range(self.random.randint(0, 6)):
            path = self.root / self.random.choice(self.folders) / self.random.choice(NAMES)
            text = self.random.choice(("", "k\n1\n", "k\n22\n"))
            if not path.exists():
                put(path, text, PAST + self.random.randrange(-99, 99))
        for path in filter(Path.is_file, list(self.root.rglob("*"))):
            if self.random.random() < 0.1:
                path.unlink()
            elif not path.stat().st_size and self.random.random() < 0.3:
                put(path)

    def expected(self, rules: FileRules) -> set[Path]:
        """The files that Spark reads."""
        found = set()
        for path in self.root.rglob("*"):
            *above, name = path.relative_to(self.root).parts
            shown = path.is_file() and not any(map(is_hidden, (*above, name)))
            placed = rules.recursive or not above or "=" in above[-1]
            if shown and placed and name.endswith(ACCEPTED[rules.pattern]) and path.stat().st_size:
                found.add(path)
        return found


@pytest.mark.parametrize("seed", seeds(12, 400))
def test_every_look_finds_the_new_files_of_a_plain_walk(tmp_path: Path, seed: int) -> None:
    """Also files with older times, files that were empty, and after a restart. None comes twice."""
    random = Random(seed)
    rules = FileRules(random.choice(list(ACCEPTED)), random.random() < 0.5)
    folders = DEEP + PARTS if rules.recursive else random.choice((FLAT, PARTS))
    tree = FileTree(tmp_path / "in %[a]", random, folders)
    tree.root.mkdir()
    location, taken, uris = str(tree.root), set[Path](), list[str]()
    listing = LocalListing(location, rules)
    for _ in range(12):
        tree.change()
        if random.random() < 0.2:
            listing = LocalListing(f"{location}/", rules, uris)
        expected = tree.expected(rules) - taken
        found = looked(listing)
        assert found == expected
        taken |= found
        uris += [path.as_uri() for path in found]


# --- globs and names, against Hadoop and Spark ----------------------------------------------------

TREE = ("a.csv", "ab.csv", "b.csv", "c d.csv", "{e}.csv", "f*.csv", "[g].csv", "50%.csv", "ü.txt", ".h.csv", "_h.csv",
        "i.csv._COPYING_", "s/a.csv", "s/b.csv", "s/u/a.csv", "s/.v/a.csv", ".v/a.csv", "k=1/a.csv", "k=2/b.csv", "t/k=1/a.csv")  # fmt: skip
GLOBS = ("*", "?.csv", "[a-c].csv", "[!a]*.csv", "{a,b}.csv", "{a,{b,ab}}.csv", "*/", "s/*.csv", "*/a.csv", "*/*/a.csv",
         "{s,s/u}", "{s/a,b}.csv", "{s,{t,s/u}}/*.csv", "{a.csv,*.csv,s/../a.csv}", "//s//*.csv", "s/../?.csv", r"\{e\}.csv",
         r"f\**", r"\[g\]*", "50%*", "k={1,2}", "k=*", "[^x]*", ".*", "_*", "*.csv*", "no/*.csv", "s/no*/a.csv", "{s,t}/k=?",
         "s", "a.csv", "{e}.csv", "f*.csv", "[g].csv", ".h.csv", "i.csv._COPYING_", "s/./u", ".")  # fmt: skip
RULES = (FileRules(), FileRules("*.csv"), FileRules("a*", recursive=True))


@pytest.mark.spark
def test_globs_find_what_hadoop_and_spark_find(spark: SparkSession, tmp_path: Path) -> None:
    """With names of files and with recursion; as for a store, too."""
    for number, name in enumerate(TREE):
        put(tmp_path / name, time=PAST + number)
    for glob, rules in product(GLOBS, RULES):
        location = f"{tmp_path}/{glob}"
        place = look_up(spark, location, rules)
        hadoop = (
            set() if place is None else {Path(uri.removeprefix("file:")) for uri in place.files}
        )
        if place is None or not place.missed:
            assert looked(LocalListing(location, rules)) == hadoop, (glob, rules)
        if place is None or place.only_file or place.missed:
            continue  # Spark does not filter a single file by its name, and reads no missed one
        options = {
            "pathGlobFilter": rules.pattern or "*",
            "recursiveFileLookup": str(rules.recursive),
        }
        spark_reads = spark.read.options(**options).text(place.path).inputFiles()
        assert {Path(unquote(uri).removeprefix("file://")) for uri in spark_reads} == hadoop


@pytest.mark.spark
def test_a_store_is_looked_at_as_a_folder_is(spark: SparkSession, tmp_path: Path) -> None:
    for name in TREE[:10]:
        put(tmp_path / name)
    location, rules = f"{tmp_path}/{{*,a*}}.csv", FileRules("[!f]*")
    with patch.object(files, "_is_here", lambda _: False):
        source = file_source(spark, as_spec(f"csv:{location}?pathGlobFilter=[!f]*"), ())
        assert isinstance(source._listing, RemoteListing)
        source.look()
        first = source.take(float("inf"))
        put(tmp_path / "new.csv")
        source.look()
        (new,) = source.take(float("inf"))
    names = {Path(unquote(file.uri)).name for file in (*first, new)}
    assert names == {path.name for path in looked(LocalListing(location, rules))}
    assert unquote(new.uri).endswith("/new.csv")


@pytest.mark.spark
def test_rows_of_files_with_odd_names_are_read_once(spark: SparkSession, tmp_path: Path) -> None:
    """By one run, and by a second one that finds more of them and another spelling of the folder."""
    shown = [
        name for name in NAMES if not is_hidden(name) and ":" not in name
    ]  # Hadoop reads no name with one
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    b = Builder()
    plan = b.plan(
        aggregate(read("t", {"k": "string"}), [column(0)], [b.measure("count", output="i64!")]),
        "k",
        "n",
    )
    for part, spelled in ((shown[::2], folder), (shown, f"{tmp_path}//in/")):
        for name in part:
            put(folder / name, f"k\n{NAMES.index(name)}\n")
        for name in filter(is_hidden, NAMES):
            put(folder / name, "k\nhidden\n")
        sa.run(plan, {"t": f"csv:{spelled}"}, checkpoint=checkpoint, spark=spark).wait()
    rows = sa.open_view(checkpoint).to_arrow().to_pydict()
    assert dict(zip(rows["k"], rows["n"], strict=True)) == {
        str(NAMES.index(name)): 1 for name in shown
    }


# --- from look to look ----------------------------------------------------------------------------


@contextmanager
def counted() -> Iterator[list[str]]:
    """Note the folders that are listed."""
    listed: list[str] = []
    list_folder, scan = os.listdir, os.scandir

    def listed_path(path: str) -> list[str]:
        listed.append(path)
        return list_folder(path)

    def scanned(path: str) -> Iterator[os.DirEntry[str]]:
        listed.append(path)
        return scan(path)

    with patch.object(os, "listdir", listed_path), patch.object(os, "scandir", scanned):
        yield listed


@pytest.mark.parametrize("glob", ["", "/*", "/*/*.csv", "/k=*"])
def test_folders_that_have_not_changed_are_not_listed_again(tmp_path: Path, glob: str) -> None:
    """A file that is created in one of them is found at the next look, and an empty one when it has content."""
    put(tmp_path / "k=1" / "a.csv")
    empty = put(tmp_path / "k=1" / "empty.csv", "")
    settle(tmp_path)
    listing = LocalListing(f"{tmp_path}{glob}", FileRules())
    assert looked(listing) == {tmp_path / "k=1" / "a.csv"}
    with counted() as listed:
        assert looked(listing) == set()
        put(empty)
        assert looked(listing) == {empty}
        assert listed == []
    for name, time in (("k=1/b.csv", PAST), ("k=2/a.csv", 1)):
        new = put(tmp_path / name, time=time)
        assert looked(listing) == {new}
        settle(tmp_path)
        assert looked(listing) == set()


def test_a_folder_that_has_just_changed_is_listed_again(tmp_path: Path) -> None:
    """Its time may be that of an earlier change of the same moment. Times that lie are believed for a while only."""
    put(tmp_path / "a.csv")
    listing = LocalListing(str(tmp_path), FileRules())
    now = tmp_path.stat()
    assert looked(listing)
    put(tmp_path / "b.csv")
    os.utime(tmp_path, ns=(now.st_atime_ns, now.st_mtime_ns))
    assert looked(listing) == {tmp_path / "b.csv"}
    settle(tmp_path)
    assert not looked(listing)
    put(tmp_path / "c.csv")
    settle(tmp_path)
    assert not looked(listing)
    with patch.object(listings, "LONGEST_UNLISTED", -1.0):
        assert looked(listing) == {tmp_path / "c.csv"}


@pytest.mark.parametrize(
    ("location", "file"),
    [("in", "in/a.csv"), ("in/a.csv", "in/a.csv"), ("*/x/a.csv", "in/x/a.csv"), ("*/x/y/*", "in/x/y/a.csv"),
     ("no/*.csv", "no/a.csv"), ("{in,no}/x", "no/x/a.csv")],
)  # fmt: skip
def test_a_location_that_appears_later_is_found_at_the_next_look(
    tmp_path: Path, location: str, file: str
) -> None:
    (tmp_path / "in").mkdir()
    if not location.startswith("*"):
        (tmp_path / "in").rmdir()
    settle(tmp_path)
    listing = LocalListing(f"{tmp_path}/{location}", FileRules())
    assert not looked(listing)
    assert not looked(listing)
    put(tmp_path / file)
    assert looked(listing) == {tmp_path / file}


def test_a_file_that_is_gone_before_it_is_looked_at_is_none(tmp_path: Path) -> None:
    put(tmp_path / "a.csv")
    (tmp_path / "link.csv").symlink_to(tmp_path / "nothing")
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    for location in (tmp_path, f"{tmp_path}/*.csv"):
        assert looked(LocalListing(str(location), FileRules())) == {tmp_path / "a.csv"}


def test_what_cannot_be_listed_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "sub" / "a.csv")
    refusing = patch.object(
        os, "scandir", side_effect=PermissionError(13, "Permission denied", "sub")
    )
    with refusing, pytest.raises(InputRefused, match="Permission denied") as refused:
        LocalListing(str(tmp_path), FileRules(recursive=True)).new()
    assert refused.value.code == "SOURCE_UNREADABLE"
    put(Path(os.fsdecode(bytes(tmp_path) + b"/\xff.csv")))
    with pytest.raises(InputRefused, match="not UTF-8"):
        LocalListing(str(tmp_path), FileRules()).new()


@pytest.mark.parametrize("late", ["a.csv", "sub/a.csv"])
def test_partition_folders_and_other_files_of_one_look_are_refused(
    tmp_path: Path, late: str
) -> None:
    listing = LocalListing(str(tmp_path), FileRules())
    assert looked(listing) == set()
    put(tmp_path / late)
    put(tmp_path / "k=1" / "a.csv")
    with pytest.raises(InputRefused) as refused:
        listing.new()
    assert refused.value.code == "SOURCE_FILES_UNREAD"
    assert late in str(refused.value)
    assert len(looked(LocalListing(str(tmp_path), FileRules(recursive=True)))) == 2


@pytest.mark.parametrize(("early", "late"), [("a.csv", "k=1/b.csv"), ("k=1/a.csv", "b.csv")])
def test_partition_folders_and_other_files_of_two_looks_are_refused(
    tmp_path: Path, early: str, late: str
) -> None:
    """Spark would give the later files other columns than the earlier ones."""
    put(tmp_path / early)
    listing = LocalListing(str(tmp_path), FileRules())
    assert len(looked(listing)) == 1
    put(tmp_path / late)
    with pytest.raises(InputRefused) as refused:
        listing.new()
    assert refused.value.code == "SOURCE_FILES_UNREAD"


def test_files_of_subfolders_alone_are_refused(tmp_path: Path) -> None:
    listing = LocalListing(str(tmp_path), FileRules())
    assert looked(listing) == set()
    put(tmp_path / "sub" / "a.csv")
    with pytest.raises(InputRefused) as refused:
        listing.new()
    assert refused.value.code == "SOURCE_FILES_UNREAD"


# --- batches --------------------------------------------------------------------------------------


def source(folder: Path, options: str = "", read: tuple[str, ...] = ()) -> FileSource:
    spec = as_spec(f"csv:{folder}?{options}")
    return FileSource(LocalListing(spec.location, spec.file_rules, read), spec)


def batches(of: FileSource, most: float = float("inf")) -> list[str]:
    """The names of the files of each batch until none waits."""
    taken = []
    while of.has_waiting:
        taken.append(" ".join(path_of(file).stem for file in of.take(most)))
    assert of.take(most) == ()
    return taken


@pytest.mark.parametrize(
    ("options", "most", "expected"),
    [("", float("inf"), ["z b c a e d"]), ("batch-files=2", float("inf"), ["z b", "c a", "e d"]),
     ("maxFilesPerTrigger=4", float("inf"), ["z b c a", "e d"]), ("MAXFILESPERTRIGGER=6", float("inf"), ["z b c a e d"]),
     ("maxBytesPerTrigger=25", float("inf"), ["z b", "c", "a e", "d"]), ("maxBytesPerTrigger=1", float("inf"), list("zbcaed")),
     ("maxBytesPerTrigger=80&batch-files=3", float("inf"), ["z b c", "a e d"]), ("", 25, ["z b", "c", "a e", "d"]),
     ("", 0, list("zbcaed")), ("maxBytesPerTrigger=25", 10, list("zbcaed")), ("maxBytesPerTrigger=25", 99, ["z b", "c", "a e", "d"]),
     ("latestFirst=TRUE", float("inf"), ["d e a c b z"]), ("latestFirst=true&batch-files=4", float("inf"), ["d e a c", "b z"]),
     ("latestFirst=false", float("inf"), ["z b c a e d"])],
)  # fmt: skip
def test_a_batch_takes_files_in_order_up_to_its_limits(
    tmp_path: Path, options: str, most: float, expected: list[str]
) -> None:
    """By time, then by name; at least one file, whatever the limits are."""
    for name, time, size in (
        ("z", 1, 10),
        ("b", 2, 10),
        ("c", 3, 40),
        ("e", 4, 12),
        ("a", 4, 12),
        ("d", 5, 30),
    ):
        put(tmp_path / f"{name}.csv", "1" * size, PAST + time)
    of = source(tmp_path, options)
    assert not of.has_waiting
    of.look()
    assert batches(of, most) == expected


def test_files_of_one_time_are_taken_by_name(tmp_path: Path) -> None:
    for name in "badc":
        put(tmp_path / f"{name}.csv")
    of = source(tmp_path, "batch-files=1")
    of.look()
    assert batches(of) == list("abcd")


def test_files_of_any_age_are_taken_oldest_first(tmp_path: Path) -> None:
    for name, time in (("a", 1_700_000_000), ("b", 10), ("c", 0), ("d", PAST)):
        put(tmp_path / f"{name}.csv", time=time)
    of = source(tmp_path, "batch-files=1")
    of.look()
    assert batches(of) == list("cbda")


def test_files_that_arrive_are_put_in_order_among_those_that_wait(tmp_path: Path) -> None:
    """A file with an older time than those that were read is taken, too. One that was read is not, whatever becomes of it."""
    for number, name in enumerate("bdf"):
        put(tmp_path / f"{name}.csv", time=PAST + 10 * number)
    of = source(tmp_path, "batch-files=1")
    of.look()
    (first,) = of.take(float("inf"))
    assert path_of(first).stem == "b"
    put(tmp_path / "a.csv", time=PAST - 5)
    put(tmp_path / "c.csv", time=PAST + 5)
    (tmp_path / "b.csv").unlink()
    of.look()
    put(tmp_path / "b.csv", "k\n2\n")
    put(tmp_path / "d.csv", "k\n3\n", PAST + 99)
    of.look()
    assert batches(of) == list("acdf")
    read = tuple((tmp_path / f"{name}.csv").as_uri() for name in "abcd")
    again = source(tmp_path, "", read)
    again.look()
    assert batches(again) == ["f"]


@pytest.mark.parametrize(
    ("option", "told"),
    [("cleanSource=delete", "does not move or delete"), ("sourceArchiveDir=/a", "does not move or delete"),
     ("fileNameOnly=true", "two folders"), ("maxFileAge=1d", "any age"), ("maxCachedFiles=1", "keeps the names"),
     ("discardCachedInputRatio=0.1", "keeps the names"), ("cleansource=off", "does not move or delete"),
     ("batch-files=0", "at least 1"), ("maxFilesPerTrigger=x", "at least 1"), ("maxBytesPerTrigger=-1", "at least 1"),
     ("maxBytesPerTrigger=", "at least 1"), ("modifiedBefore=2024-01-01T00:00:00", "pathGlobFilter")],
)  # fmt: skip
def test_options_that_a_run_does_not_follow_are_refused(option: str, told: str) -> None:
    for format_ in ("csv", "parquet"):
        with pytest.raises(UsageError, match=told) as refused:
            as_spec(f"{format_}:in?{option}")
        assert refused.value.code == "SPEC_OPTION_BAD"
