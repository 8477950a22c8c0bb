"""Streams that Spark reads, alone and beside files: every row once, over stops and failures at any place."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.functions import expr

import substrait_agg as sa
from substrait_agg.commit.log import read_files
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.spark.positions.spark_streams import SparkStreams
from tests.e2e.files import write_in_order
from tests.e2e.plans import COMPARISON, Builder, column, joined, projected, read
from tests.e2e.rows import Bag, view_rows
from tests.e2e.running import maintain
from tests.e2e.test_sources import COLUMNS, rows, sums

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

TABLE = "e2e_streamed"


class Feed:
    """A stream that grows, beside a table of files.

    Args:
        spark: the session.
        folder: for the files of both tables.
        kind: ``rate``, ``table``, ``files`` or ``both``: a DataFrame over files and another stream.
    """

    def __init__(self, spark: SparkSession, folder: Path, kind: str) -> None:
        self._spark, self._folder, self.kind = spark, folder, kind
        self._grown = 0
        for name in ("t", "u"):
            (folder / name).mkdir()
        self.expected: Bag = Counter()

    def grow(self, count: int = 1) -> None:
        """Give both tables a file or an insertion each, this many times."""
        for _ in range(count):
            number = self._grown
            write_in_order(self._folder / "t", [rows((f"t{number}", number))], number)
            self.expected[f"t{number}", number, 1] += 1
            if self.kind in ("files", "both"):
                write_in_order(self._folder / "u", [rows((f"u{number}", number))], number)
            if self.kind == "table":
                self._spark.sql(f"INSERT INTO {TABLE} VALUES ('u{number}', {number})")
            if self.kind != "rate":
                self.expected[f"u{number}", number, 1] += 1
            self._grown += 1

    def sources(self) -> dict[str, Any]:
        """The sources of a run."""
        files = f"parquet:{self._folder / 't'}?batch-files=1"
        if self.kind == "table":
            return {"t": files, "u": f"table:{TABLE}"}
        if self.kind == "rate":
            return {"t": files, "u": self.rate()}
        reader = self._spark.readStream.schema("x bigint, k string").option("maxFilesPerTrigger", 1)
        stream = reader.parquet(str(self._folder / "u"))
        return {"t": files, "u": stream.union(self.rate()) if self.kind == "both" else stream}

    def rate(self) -> DataFrame:
        """Return a stream of two rows per batch, numbered from 0."""
        reader = self._spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2)
        return reader.load().selectExpr("value AS x", "concat('r', value) AS k")

    def check(self, checkpoint: Path) -> None:
        """Check that the view has every row once, and as many rows of the rate as batches had."""
        found = view_rows(checkpoint)
        rate = sorted(row[1] for row in found if row[0].startswith("r"))
        assert rate == list(range(len(rate)))
        assert len(rate) % 2 == 0
        assert bool(rate) == (self.kind in ("rate", "both"))
        wanted = self.expected + Counter((f"r{n}", n, 1) for n in rate)
        assert found == Counter(dict.fromkeys(wanted, 1))


@pytest.fixture(params=["rate", "table", "files", "both"])
def feed(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Feed]:
    spark.sql(f"DROP TABLE IF EXISTS {TABLE}")
    spark.sql(f"CREATE TABLE {TABLE} (k STRING, x BIGINT) USING parquet")
    yield Feed(spark, tmp_path, request.param)
    spark.sql(f"DROP TABLE {TABLE}")


def test_stop_and_continue(
    spark: SparkSession, feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs to the end follow one another, and one of them has nothing to do."""
    monkeypatch.setattr(read_files, "MOST_RECENT", 2)
    checkpoint, plan = tmp_path / "checkpoint", sums("t", "u")
    for count in (2, 0, 3):
        feed.grow(count)
        maintain(spark, plan, feed.sources(), checkpoint)
        feed.check(checkpoint)
    assert sa.open_state(checkpoint).verify().ok


def await_rows(checkpoint: Path, rows: Bag) -> None:
    """Wait until the view has some rows."""
    deadline = time.monotonic() + 60
    while not rows <= view_rows(checkpoint):
        assert time.monotonic() < deadline, view_rows(checkpoint)
        time.sleep(0.05)


def test_stop_an_endless_run_and_continue(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    """Rows that come during the run are read, and the batch in progress is not lost at a stop."""
    checkpoint, plan = tmp_path / "checkpoint", sums("t", "u")
    feed.grow()
    for _ in range(2):
        options: dict[str, Any] = {"checkpoint": checkpoint, "spark": spark, "until": "100ms"}
        run = sa.run(plan, feed.sources(), **options)
        try:
            feed.grow()
            rate = {("r0", 0, 1): 1} if feed.kind in ("rate", "both") else {}
            await_rows(checkpoint, feed.expected + Counter(rate))
        finally:
            run.stop()
        run.wait()
        feed.check(checkpoint)
    maintain(spark, plan, feed.sources(), checkpoint)
    feed.check(checkpoint)


@pytest.mark.parametrize("place", ["before our commit", "between the commits"])
def test_a_kill(
    spark: SparkSession, feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Spark knows nothing of a batch that we have committed, or of one that we have not."""
    checkpoint, plan = tmp_path / "checkpoint", sums("t", "u")
    publish = Checkpoint.publish

    def publish_or_die(store: Checkpoint, snapshot: Any) -> None:
        newest = store.newest_snapshot()
        if newest is not None and newest.positions.streams != snapshot.positions.streams:
            raise RuntimeError("killed")
        publish(store, snapshot)

    def die(_streams: SparkStreams) -> None:
        raise RuntimeError("killed")

    feed.grow(2)
    maintain(spark, plan, feed.sources(), checkpoint)
    feed.grow(2)
    with monkeypatch.context() as patched:
        if place == "before our commit":
            patched.setattr(Checkpoint, "publish", publish_or_die)
        else:
            patched.setattr(SparkStreams, "commit", die)
        with pytest.raises(RuntimeError, match="killed"):
            maintain(spark, plan, feed.sources(), checkpoint)
    feed.grow()
    maintain(spark, plan, feed.sources(), checkpoint)
    feed.check(checkpoint)


def test_a_rollback_reads_the_streams_again(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    """Positions of streams are those of the version, as those of files are."""
    checkpoint, plan = tmp_path / "checkpoint", sums("t", "u")
    for count in (1, 2):
        feed.grow(count)
        maintain(spark, plan, feed.sources(), checkpoint)
    newest = sa.open_view(checkpoint).version
    assert newest is not None
    sa.open_state(checkpoint).rollback(newest - 1)
    maintain(spark, plan, feed.sources(), checkpoint)
    feed.check(checkpoint)


def test_a_stream_joined_with_files(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    """Rows of both sides meet, whichever comes first."""
    b = Builder()
    equal = b.call("equal:any_any", COMPARISON, column(1), column(3), output="bool")
    both = joined("inner", read("t", COLUMNS), read("u", COLUMNS), equal)
    plan = b.plan(projected(both, 4, column(0), column(2)), "t", "u")
    checkpoint = tmp_path / "checkpoint"
    for _ in range(3):
        feed.grow(2)
        maintain(spark, plan, feed.sources(), checkpoint)
    found = view_rows(checkpoint)
    rate = {int(u[1:]) for _, u in found if u.startswith("r")}
    assert rate == (set(range(6)) if feed.kind in ("rate", "both") else set())
    wanted = Counter({(f"t{n}", f"r{n}"): 1 for n in rate})
    if feed.kind != "rate":
        wanted.update({(f"t{n}", f"u{n}"): 1 for n in range(6)})
    assert found == wanted


def test_two_streams(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    """One query of Spark reads both; each table has its own rows."""
    checkpoint, plan = tmp_path / "checkpoint", sums("t", "u", "v")
    for count in (1, 2):
        feed.grow(count)
        sources = {**feed.sources(), "v": f"table:{TABLE}_2"}
        spark.sql(f"CREATE TABLE IF NOT EXISTS {TABLE}_2 (k STRING, x BIGINT) USING parquet")
        spark.sql(f"INSERT INTO {TABLE}_2 VALUES ('v{count}', {count})")
        maintain(spark, plan, sources, checkpoint)
    spark.sql(f"DROP TABLE {TABLE}_2")
    feed.expected.update({("v1", 1, 1): 1, ("v2", 2, 1): 1})
    feed.check(checkpoint)


# --- what is refused ------------------------------------------------------------------------------

STATEFUL: dict[str, Callable[[DataFrame], DataFrame]] = {
    "duplicates": lambda s: s.dropDuplicates(["k"]),
    "distinct": lambda s: s.select("k", "x").distinct(),
    "duplicates within a watermark": lambda s: s.withWatermark(
        "timestamp", "1 hour"
    ).dropDuplicatesWithinWatermark(["k"]),
    "a join of streams": lambda s: s.join(s.selectExpr("k AS l"), expr("k = l")).drop("l"),
    "groups": lambda s: s.groupBy("k").count().selectExpr("k", "`count` AS x"),
    "below other steps": lambda s: s.dropDuplicates(["k"]).where("x > 1").select("k", "x"),
}


@pytest.mark.parametrize("what", STATEFUL)
def test_state_in_spark_is_refused(spark: SparkSession, tmp_path: Path, what: str) -> None:
    """The message names the table, and what keeps the state."""
    reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).load()
    frame = STATEFUL[what](reader.selectExpr("value AS x", "concat('r', value) AS k", "timestamp"))
    with pytest.raises(sa.InputRefused) as refused:
        maintain(spark, sums("t"), {"t": frame}, tmp_path / "checkpoint")
    assert refused.value.code == "STREAM_STATEFUL"
    assert "the DataFrame of t " in refused.value.message
    assert refused.value.help


def test_steps_without_state_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """Filters, projections, unions of streams, a join with a static table, and a static aggregate in it."""
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
    names = spark.createDataFrame([(0, "a"), (1, "b"), (1, "b"), (2, "c")], "n bigint, k string")
    counted = names.groupBy("n", "k").count().distinct()
    kept = stream.join(counted, stream.value == counted.n).where("value > 0")
    frame = kept.selectExpr("k", "`count` AS x").union(stream.selectExpr("'all'", "value"))
    maintain(spark, sums("t"), {"t": frame}, tmp_path / "checkpoint")
    assert view_rows(tmp_path / "checkpoint") == Counter(
        {("b", 2, 1): 1, ("c", 1, 1): 1, ("all", 3, 3): 1}
    )


def test_other_tables_than_before(spark: SparkSession, tmp_path: Path) -> None:
    """A position of one table is not taken for that of another."""
    write_in_order(tmp_path / "in", [rows(("a", 1))])
    files = f"parquet:{tmp_path / 'in'}"
    stream = spark.readStream.schema("k string, x bigint").parquet(str(tmp_path / "in"))
    checkpoint, plan = tmp_path / "checkpoint", sums("t", "u")
    maintain(spark, plan, {"t": stream, "u": files}, checkpoint)
    other = {"t": files, "u": stream}
    with pytest.raises(sa.StateRefused) as refused:
        maintain(spark, plan, other, checkpoint, accept_source_change=True)
    assert refused.value.code == "OFFSETS_DIFFER"
    assert view_rows(checkpoint) == Counter({("a", 2, 2): 1})


def test_another_number_of_sources_than_before(spark: SparkSession, tmp_path: Path) -> None:
    """A DataFrame that becomes a union has offsets of its own."""
    write_in_order(tmp_path / "in", [rows(("a", 1))])
    stream = spark.readStream.schema("k string, x bigint").parquet(str(tmp_path / "in"))
    checkpoint, plan = tmp_path / "checkpoint", sums("t")
    maintain(spark, plan, {"t": stream}, checkpoint)
    with pytest.raises(sa.StateRefused) as refused:
        maintain(spark, plan, {"t": stream.union(stream)}, checkpoint)
    assert refused.value.code == "OFFSETS_DIFFER"


def test_the_session_of_the_caller_keeps_its_settings(spark: SparkSession, tmp_path: Path) -> None:
    """A run over a DataFrame uses the session of the DataFrame, and restores all that it sets."""
    write_in_order(tmp_path / "in", [rows(("a", 1))])
    stream = spark.readStream.schema("k string, x bigint").parquet(str(tmp_path / "in"))
    names = ("spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.shuffle.partitions")
    before = [spark.conf.get(name) for name in names]
    maintain(spark, sums("t"), {"t": stream}, tmp_path / "checkpoint")
    assert [spark.conf.get(name) for name in names] == before


# --- failures -------------------------------------------------------------------------------------


def test_a_row_that_fails(spark: SparkSession, tmp_path: Path) -> None:
    """One error with the reason; nothing of the batch is committed, and a corrected stream goes on."""
    write_in_order(tmp_path / "in", [rows(("a", 1)), rows(("a", 0))])
    reader = spark.readStream.schema("k string, x bigint").option("maxFilesPerTrigger", 1)
    stream = reader.parquet(str(tmp_path / "in"))
    broken = stream.selectExpr("k", "IF(x = 0, raise_error('zero is not allowed'), x) AS x")
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(sa.RunFailed, match="zero is not allowed") as failed:
        maintain(spark, sums("t"), {"t": broken}, checkpoint)
    assert "\n\tat " not in str(failed.value)
    assert view_rows(checkpoint) == Counter({("a", 1, 1): 1})
    maintain(spark, sums("t"), {"t": stream}, checkpoint)
    assert view_rows(checkpoint) == Counter({("a", 1, 2): 1})


def test_a_query_that_others_stop(spark: SparkSession, tmp_path: Path) -> None:
    """The run ends with an error, and the next one goes on."""
    write_in_order(tmp_path / "in", [rows(("a", 1))])
    stream = spark.readStream.schema("k string, x bigint").parquet(str(tmp_path / "in"))
    checkpoint = tmp_path / "checkpoint"
    run = sa.run(sums("t"), {"t": stream}, checkpoint=checkpoint, spark=spark, until="100ms")
    await_rows(checkpoint, Counter({("a", 1, 1): 1}))
    for query in spark.streams.active:
        query.stop()
    with pytest.raises(sa.RunFailed) as failed:
        run.wait()
    assert failed.value.code == "RUN_STOPPED"
    write_in_order(tmp_path / "in", [rows(("a", 2))], 1)
    maintain(spark, sums("t"), {"t": stream}, checkpoint)
    assert view_rows(checkpoint) == Counter({("a", 3, 2): 1})


@pytest.mark.parametrize("until", ["done", "100ms"])
def test_a_stream_that_fails(spark: SparkSession, tmp_path: Path, until: str) -> None:
    """One error with the reason, also of an endless run that waits for rows of files."""
    from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

    class Reader(SimpleDataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
            return {"n": 0}

        def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[Any, ...]], dict[str, int]]:
            raise ValueError("the feed is closed")

        def readBetweenOffsets(  # noqa: N802 - Spark's name
            self, start: dict[str, int], end: dict[str, int]
        ) -> Iterator[tuple[Any, ...]]:
            raise ValueError("the feed is closed")

    class Closed(DataSource):
        @classmethod
        def name(cls) -> str:
            return "closed-feed"

        def schema(self) -> str:
            return "k string, x bigint"

        def simpleStreamReader(self, schema: Any) -> Reader:  # noqa: N802 - Spark's name
            return Reader()

    spark.dataSource.register(Closed)
    write_in_order(tmp_path / "in", [rows(("a", 1))])
    sources = {
        "t": spark.readStream.format("closed-feed").load(),
        "u": f"parquet:{tmp_path / 'in'}",
    }
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(sa.RunFailed, match="the feed is closed") as failed:
        maintain(spark, sums("t", "u"), sources, checkpoint, until=until)
    assert "\n\tat " not in str(failed.value)
    assert failed.value.help
    assert set(view_rows(checkpoint)) <= {("a", 1, 1)}
