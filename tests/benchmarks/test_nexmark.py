"""The queries of Nexmark as views: late events, events in any order, and events that are taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import substrait_agg as sa
from benchmarks.data.data_sets import WEIGHT
from benchmarks.data.nexmark import SIDE_INPUT, TABLES, Nexmark, side_input, write
from benchmarks.nexmark.queries import NAMES, for_duckdb, query, tables_of
from tests.local.run import LocalRun
from tests.spark_plans import plan_query
from tests.sql.results import Row, of_duckdb, of_spark, ordered

BATCHES = 3
TAKEN_BACK = Nexmark(
    2000, BATCHES, per_second=100, disorder=400, begin=24 * 3600 - 12, deleted_share=0.05
)
"""Events around midnight, of which some are taken back; each may come four seconds late."""
LATE = Nexmark(3000, 6, per_second=100, disorder=1500)


@dataclass(frozen=True)
class Events:
    """Events in files, and as what is left of them.

    Attributes:
        sources: of the tables.
        changes: the rows of each batch, by table.
    """

    sources: Mapping[str, str]
    changes: list[dict[str, pa.Table]]

    @staticmethod
    def of(generated: Nexmark, folder: Path) -> Events:
        """Write the events into a folder."""
        changes = list(generated.changes())
        write(folder, changes)
        weight = f"&weight={WEIGHT}" if generated.deleted_share else ""
        sources = {name: f"parquet:{folder / name}?batch-files=1{weight}" for name in TABLES}
        return Events(
            {**sources, SIDE_INPUT: f"parquet:{folder / SIDE_INPUT}?static=true"}, changes
        )

    def rows(self, version: int) -> dict[str, pa.Table]:
        """Return the rows that are left after a version."""
        with duckdb.connect() as connection:
            found = {SIDE_INPUT: side_input()}
            for name in TABLES:
                connection.register("t", pa.concat_tables(b[name] for b in self.changes[:version]))
                left = f"SELECT * EXCLUDE {WEIGHT} FROM t GROUP BY ALL HAVING sum({WEIGHT}) > 0"
                found[name] = connection.sql(left).to_arrow_table()
        return found


@pytest.fixture(scope="module")
def taken_back(tmp_path_factory: pytest.TempPathFactory) -> Events:
    """Give events of which some are taken back."""
    return Events.of(TAKEN_BACK, tmp_path_factory.mktemp("nexmark"))


@pytest.fixture(scope="module")
def plans(spark: SparkSession, taken_back: Events) -> dict[str, sa.Plan]:
    """Give the plans of the queries."""
    assert spark is not None
    schemas = {name: rows.schema for name, rows in taken_back.rows(1).items()}
    return {name: plan_query(query(name), schemas) for name in NAMES}


def test_every_view_equals_duckdb_at_every_version(
    plans: Mapping[str, sa.Plan], taken_back: Events, tmp_path: Path
) -> None:
    LocalRun(
        plans, taken_back.sources, checkpoint=tmp_path / "c", partitions=1, keep_versions=100
    ).wait()
    _compare(taken_back, tmp_path / "c", lambda name, rows: of_duckdb(for_duckdb(name), rows))


@pytest.mark.soak
def test_every_view_on_spark_equals_spark_at_every_version(
    plans: Mapping[str, sa.Plan], taken_back: Events, spark: SparkSession, tmp_path: Path
) -> None:
    sa.run(
        plans, taken_back.sources, checkpoint=tmp_path / "c", spark=spark, keep_versions=100
    ).wait()
    _compare(taken_back, tmp_path / "c", lambda name, rows: of_spark(spark, query(name), rows))


def _compare(
    events: Events, checkpoint: Path, answer: Callable[[str, Mapping[str, pa.Table]], list[Row]]
) -> None:
    """Compare the views of all queries with an answer over the rows that are left."""
    seen = dict.fromkeys(NAMES, 0)
    for version in range(1, BATCHES + 1):
        rows = events.rows(version)
        for name in NAMES:
            found = _rows(sa.open_view(checkpoint, name).to_arrow(version))
            seen[name] += len(found)
            assert found == answer(name, rows), f"{name} at version {version}"
    assert all(seen.values()), seen


def _rows(table: pa.Table) -> list[Row]:
    return ordered([tuple(row.values()) for row in table.to_pylist()])


CLOSED: Mapping[str, tuple[str, str]] = {
    "q5": ("range(5) AS steps(step)", " WHERE time_bucket(INTERVAL 2 SECONDS, dateTime) - to_seconds(2 * step) + INTERVAL 10 SECONDS > closed"),
    "q11": ("FROM bid", " WHERE dateTime >= closed"),
    "q12": ("FROM bid", " WHERE time_bucket(INTERVAL 10 SECONDS, dateTime) + INTERVAL 10 SECONDS > closed"),
}  # fmt: skip
"""Query -> what follows in its text which part, so that it leaves out what comes after the watermark."""


def test_late_bids_are_left_out_of_closed_windows(
    plans: Mapping[str, sa.Plan], tmp_path: Path
) -> None:
    """The watermark is that of the benchmark: four seconds behind the newest bid of the batches before."""
    events = Events.of(LATE, tmp_path / "in")
    kept = {name: plans[name] for name in CLOSED}
    run = LocalRun(
        kept, {"bid": events.sources["bid"]}, checkpoint=tmp_path / "c", watermark={"bid.dateTime": "max-diff:4s"}
    )  # fmt: skip
    run.wait()
    assert run.progress.late_rows > 0
    bids = pa.concat_tables(_with_watermark(batch["bid"] for batch in events.changes))
    for name, (part, condition) in CLOSED.items():
        text = for_duckdb(name).replace(part, part + condition)
        found = _rows(sa.open_view(tmp_path / "c", name).to_arrow())
        assert found == of_duckdb(text, {"bid": bids}), name
        assert found != of_duckdb(for_duckdb(name), {"bid": bids}), name


def _with_watermark(batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Add the watermark before each batch to its rows."""
    newest: Any = None
    for rows in batches:
        limit = pa.scalar(newest, rows.schema.field("dateTime").type)
        closed = pc.subtract(limit, pa.scalar(4_000_000, pa.duration("us")))
        column = pc.coalesce(closed, pa.scalar(0, pa.timestamp("us")))
        yield rows.append_column("closed", pa.repeat(column, rows.num_rows))
        latest = pc.max(rows["dateTime"]).as_py()
        newest = latest if newest is None else max(newest, latest)


def test_events_have_the_shares_of_the_benchmark_and_leave_after_they_came() -> None:
    first = list(TAKEN_BACK.changes())
    assert first == list(TAKEN_BACK.changes())
    came = dict.fromkeys(TABLES, 0)
    alive: set[Any] = set()
    for batch in first:
        for name, rows in batch.items():
            added = rows.filter(pc.greater(rows[WEIGHT], 0))
            came[name] += added.num_rows
        bids = batch["bid"].to_pylist()
        gone = {bid["extra"] for bid in bids if bid[WEIGHT] < 0}
        assert gone <= alive
        alive |= {bid["extra"] for bid in bids if bid[WEIGHT] > 0}
    assert came == {"person": 40, "auction": 120, "bid": 1840}


def test_queries_name_their_tables() -> None:
    assert {name for text in NAMES for name in tables_of(text)} == {*TABLES, SIDE_INPUT}
    assert tables_of("q5") == ("bid",)
    assert tables_of("q3") == ("auction", "person")
