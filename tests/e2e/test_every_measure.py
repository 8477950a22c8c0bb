"""Every measure that DataFusion writes, on Spark, over insertions and deletions: each version
equals DataFusion's result.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from datafusion import SessionContext
from datafusion.substrait import Serde

import substrait_agg as sa
from tests.e2e.files import write_in_order
from tests.e2e.killing import Command
from tests.e2e.queries import EVERY_MEASURE, nearly, table
from tests.e2e.rows import bag, changes_by_version, running_sums
from tests.e2e.running import starting
from tests.sampling import sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Row = dict[str, Any]
_PLAIN = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def _batches(seed: int) -> list[list[tuple[Row, str]]]:
    """Batches of rows with their operation: insertions, deletions (half of them of extremes), corrections, a batch that undoes all."""
    rng = random.Random(seed)
    rows = table(seed=seed, rows=150).to_pylist()
    live = rows[:80]
    batches = [[(row, "insert") for row in live]]
    gone = _some(rng, live, 30)
    batches.append([(r, "delete") for r in gone] + [(r, "insert") for r in rows[80:120]])
    live = [r for r in live if r not in gone] + rows[80:120]
    changed = _some(rng, live, 25)
    corrected = [
        {**r, **{k: v for k, v in n.items() if k != "id"}}
        for r, n in zip(changed, rows[120:], strict=False)
    ]
    batches.append([(r, "delete") for r in changed] + [(r, "insert") for r in corrected])
    live = [r for r in live if r not in changed] + corrected
    batches.append([(r, "delete") for r in live])
    batches.append([(r, "insert") for r in live[::3]])
    return batches


def _some(rng: random.Random, rows: list[Row], count: int) -> list[Row]:
    by_value = sorted(rows, key=lambda r: (r["i"] is None, r["i"] or 0, r["id"]))
    ends = by_value[: count // 4] + by_value[-count // 4 :]
    rest = [r for r in rows if r not in ends]
    return ends + rng.sample(rest, count - len(ends))


def _tables(batches: list[list[tuple[Row, str]]]) -> tuple[list[pa.Table], list[pa.Table]]:
    """The files of the changes, and the live rows after each of them."""
    schema = table(seed=0, rows=0).schema
    files, states = [], []
    live: list[Row] = []
    for batch in batches:
        files.append(
            pa.Table.from_pylist([r for r, _ in batch], schema=schema).append_column(
                "op", pa.array([op for _, op in batch])
            )
        )
        for row, op in batch:
            live.append(row) if op == "insert" else live.remove(row)
        states.append(pa.Table.from_pylist(live, schema=schema))
    return files, states


def _context(rows: pa.Table) -> SessionContext:
    context = SessionContext()
    batches = rows.to_batches() or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
    context.register_record_batches("t", [batches])
    return context


def _wanted(rows: pa.Table, sql: str) -> list[tuple[Any, ...]]:
    found = _context(rows).sql(sql).to_arrow_table()
    return _sorted(found.cast(pa.schema([(f.name, _plain(f.type)) for f in found.schema])))


def _plain(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_list(type_):
        return pa.list_(_plain(type_.value_type))
    return pa.string() if pa.types.is_large_string(type_) else _PLAIN.get(type_, type_)


def _sorted(rows: pa.Table) -> list[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in rows.columns]
    return sorted(zip(*columns, strict=True), key=lambda row: [_key(v) for v in row])


def _key(value: Any) -> tuple[bool, str]:
    return value is not None, f"{value:.6g}" if isinstance(value, float) else repr(value)


def _same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(_same, ours, theirs))
    return nearly(ours, theirs)


KILLED = """
select g, b, min(i), max(m), count(distinct s), sum(distinct a), median(x), stddev(f), first_value(id), last_value(id),
string_agg(distinct s, '|' order by s) from t group by rollup(g, b)
"""


@pytest.mark.soak
def test_kills_leave_no_trace_in_trees(spark: SparkSession, tmp_path: Path) -> None:
    """Killed twice with kill -9; view and changes of every version are those of a run that was never killed."""
    files, states = _tables(_batches(3))
    write_in_order(tmp_path / "in", files)
    plan = tmp_path / "plan.bin"
    plan.write_bytes(Serde.serialize_bytes(KILLED, _context(states[0])))
    source = f"t=parquet:{tmp_path / 'in'}?op=op&batch-files=1"
    arguments = (
        str(plan),
        "--source",
        source,
        "--no-progress",
        "--master",
        "local[2]",
        "--output",
        "none",
    )
    command = Command(arguments, tmp_path / "killed", tmp_path / "log")
    for versions, delay in ((2, 0.05), (1, 0.2)):
        command.kill_after(versions, delay)
    command.finish()
    sources = {"t": source.removeprefix("t=")}
    sa.run(sa.load(plan), sources, checkpoint=tmp_path / "whole", spark=spark).wait()
    killed, whole = (sa.open_view(tmp_path / name) for name in ("killed", "whole"))
    assert killed.versions() == whole.versions() == list(range(len(files) + 1))
    assert bag(killed.to_arrow()) == bag(whole.to_arrow())
    assert changes_by_version(killed.changes()) == changes_by_version(whole.changes())


RUNS = ((2, 2), (1, 4), (2, 1))
"""The batches of each run, and its partitions."""


@pytest.mark.parametrize("sql", [sql for sql in EVERY_MEASURE if "grouping(" not in sql])
def test_every_version_is_what_datafusion_computes(tmp_path: Path, sql: str) -> None:
    """Stopped and continued with another number of partitions in between; the changes add up to every view."""
    _check(None, tmp_path, sql, RUNS)


@pytest.mark.parametrize(
    "sql",
    sample(EVERY_MEASURE, *EVERY_MEASURE[::2], *(s for s in EVERY_MEASURE if "grouping(" in s)),
)
def test_spark_sums_what_datafusion_computes(spark: SparkSession, tmp_path: Path, sql: str) -> None:
    """Insertions and deletions are summed and exchanged by Spark, which also computes the bits of
    grouping().
    """
    _check(spark, tmp_path, sql, RUNS if "grouping(" in sql else ((2, 2),))


def _check(
    spark: SparkSession | None,
    tmp_path: Path,
    sql: str,
    runs: Sequence[tuple[int, int]],
) -> None:
    """Check every version of some runs."""
    files, states = _tables(_batches(7)[: sum(count for count, _ in runs)])
    plan = sa.load(Serde.serialize_bytes(sql, _context(states[0])))
    source = {"t": f"parquet:{tmp_path / 'in'}?op=op&batch-files=1"}
    views: dict[int, pa.Table] = {}

    def keep(progress: Any) -> None:
        views[progress.version] = sa.open_view(tmp_path / "ck").to_arrow(progress.version)

    written = 0
    for count, partitions in runs:
        write_in_order(tmp_path / "in", files[written : written + count], written)
        written += count
        starting(spark)(
            plan, source, checkpoint=tmp_path / "ck", partitions=partitions, progress=keep
        ).wait()
    view = sa.open_view(tmp_path / "ck")
    sums = running_sums(view.changes(), view.versions())
    assert sorted(views) == list(range(len(files) + 1))
    for version, rows in enumerate(states, start=1):
        ours, theirs = _sorted(views[version]), _wanted(rows, sql)
        assert len(ours) == len(theirs), version
        wrong = [
            (version, name, left, right)
            for mine, other in zip(ours, theirs, strict=True)
            for name, left, right in zip(view.to_arrow().schema.names, mine, other, strict=True)
            if not _same(left, right)
        ]
        assert not wrong
        assert sums[version] == bag(views[version])
