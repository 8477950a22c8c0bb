"""For append-only input, extremes are those of all rows so far, computed by Spark, by tasks or by
the driver.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from datafusion import SessionContext
from datafusion.substrait import Serde

import substrait_agg as sa
from tests.e2e.files import write_in_order
from tests.e2e.rows import Bag, plain
from tests.e2e.running import Views, check_versions, maintain, observed_strategy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Row = dict[str, Any]
Draw = Callable[[random.Random], Any]
EPOCH = datetime(1970, 1, 1)
ODD = (math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 2.0**100, -1.5, 1.5)


def integers(bits: int, *, signed: bool = True) -> Draw:
    low = -(1 << (bits - 1)) if signed else 0
    high = low + (1 << bits) - 1
    return lambda rng: rng.choice((low, high, rng.randint(low, high), max(low, -1), 0, 1))


def moments(zone: Any = None) -> Draw:
    return lambda rng: (EPOCH + timedelta(microseconds=rng.randint(-(10**15), 10**15))).replace(
        tzinfo=zone
    )


PARTIAL: dict[str, tuple[pa.DataType, Draw]] = {
    "i8": (pa.int8(), integers(8)),
    "i16": (pa.int16(), integers(16)),
    "i32": (pa.int32(), integers(32)),
    "i64": (pa.int64(), integers(64)),
    "u8": (pa.uint8(), integers(8, signed=False)),
    "u16": (pa.uint16(), integers(16, signed=False)),
    "u32": (pa.uint32(), integers(32, signed=False)),
    "b": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "d": (pa.date32(), lambda rng: date(1970, 1, 1) + timedelta(rng.randint(-90_000, 90_000))),
    "m": (pa.decimal128(9, 2), lambda rng: Decimal(rng.randint(-(10**9) + 1, 10**9 - 1)).scaleb(-2)),
    "w": (pa.decimal128(38, 10), lambda rng: Decimal(f"{rng.randint(-(10**38) + 1, 10**38 - 1)}e-10")),
    "f": (pa.float32(), lambda rng: rng.choice((*ODD[:5], -1.5, 1.5))),
    "g": (pa.float64(), lambda rng: rng.choice(ODD)),
    "t": (pa.timestamp("us"), moments()),
    "z": (pa.timestamp("us", "UTC"), moments(UTC)),
}  # fmt: skip
"""Columns whose ends Spark finds: their Arrow type, and random values."""
OTHERS: dict[str, tuple[pa.DataType, Draw]] = {
    "s": (pa.string(), lambda rng: rng.choice(("", "a", "ab", "a long text", "a long text more", "é", "𝄞", "￿"))),
    "y": (pa.binary(), lambda rng: rng.choice((b"", b"\0", b"\xff" * 9, b"\xff" * 10))),
}  # fmt: skip
"""Columns whose ends only tasks find."""


def rows(rng: random.Random, columns: dict[str, Any], count: int, keys: int) -> list[Row]:
    return [
        {"k": rng.randrange(keys), "flag": rng.choice((True, False, None))}
        | {n: None if rng.random() < 0.2 else draw(rng) for n, (_, draw) in columns.items()}
        for _ in range(count)
    ]


def in_order(value: Any) -> Any:
    """NaN is the greatest, zeros are equal, texts are in order of their bytes."""
    if isinstance(value, float):
        return (True, 0.0) if math.isnan(value) else (False, value + 0.0)
    return value.encode() if isinstance(value, str) else value


def end(choose: Any, values: list[Any]) -> Any:
    there = [v for v in values if v is not None]
    found = choose(there, key=in_order) if there else None
    return plain(found + 0.0 if isinstance(found, float) else found)


def wanted(sofar: list[Row], columns: dict[str, Any], *, keyed: bool) -> Bag:
    groups: dict[Any, list[Row]] = {} if keyed else {0: []}
    for row in sofar:
        groups.setdefault(row["k"] if keyed else 0, []).append(row)
    view: Bag = Counter()
    for key, members in groups.items():
        told = [r for r in members if r["flag"]]
        ends = [
            cell
            for name in columns
            for cell in (
                end(min, [r[name] for r in members]),
                end(max, [r[name] for r in members]),
                end(max, [r[name] for r in told]),
            )
        ]
        view[*([key] if keyed else []), len(members), *ends] += 1
    return view


def schema_of(columns: dict[str, Any]) -> pa.Schema:
    types = {"k": pa.int64(), "flag": pa.bool_()} | {n: t for n, (t, _) in columns.items()}
    return pa.schema(list(types.items()))


def plan_of(columns: dict[str, Any], *, keyed: bool) -> Any:
    context = SessionContext()
    context.register_record_batches("t", [[pa.RecordBatch.from_pylist([], schema_of(columns))]])
    ends = ", ".join(f"min({n}), max({n}), max({n}) filter (where flag)" for n in columns)
    by = ("k, ", " group by k") if keyed else ("", "")
    sql = f"select {by[0]}count(*), {ends} from t{by[1]}"
    return sa.load(Serde.serialize_bytes(sql, context))


def check(
    spark: SparkSession | None, folder: Path, columns: dict[str, Any], *, keyed: bool
) -> set[bool]:
    """Check random rows in batches with a restart; return the ways in which they were exchanged."""
    rng = random.Random(f"ends {len(columns)} {keyed}")
    batches = [
        rows(rng, columns, *size) for size in ((40, 4), (30, 10**6), (0, 1), (60, 3), (5, 2))
    ]
    files = [pa.Table.from_pylist(batch, schema_of(columns)) for batch in batches]
    plan = plan_of(columns, keyed=keyed)
    views: Views = {}
    with observed_strategy() as seen:
        for start, stop, partitions in ((0, 2, 2), (2, 5, 4)):
            write_in_order(folder / "t", files[start:stop], start)
            source = {"t": f"parquet:{folder / 't'}?batch-files=1"}
            views |= maintain(spark, plan, source, folder / "checkpoint", partitions=partitions)
    sofar = [[row for batch in batches[:n] for row in batch] for n in range(len(batches) + 1)]
    check_versions(folder / "checkpoint", views, [wanted(s, columns, keyed=keyed) for s in sofar])
    assert sa.open_state(folder / "checkpoint").verify().ok
    assert not list((folder / "checkpoint" / "state").glob("tree*"))
    return {care.skip_preaggregation for care in seen}


@pytest.mark.usefixtures("on_spark")
@pytest.mark.parametrize("keyed", [True, False], ids=["by key", "of all rows"])
def test_ends_that_spark_finds(spark: SparkSession, tmp_path: Path, *, keyed: bool) -> None:
    """Values of every type with nulls and special values; keys that repeat, rarely repeat, are new,
    or have no rows.
    """
    assert check(spark, tmp_path, PARTIAL, keyed=keyed) == ({True, False} if keyed else {False})


@pytest.mark.usefixtures("on_spark")
def test_ends_that_tasks_find(spark: SparkSession, tmp_path: Path) -> None:
    """With texts among the values all rows are exchanged, and tasks compute the extremes."""
    check(spark, tmp_path, PARTIAL | OTHERS, keyed=True)


@pytest.mark.parametrize("keyed", [True, False], ids=["by key", "of all rows"])
def test_ends_that_the_driver_finds(tmp_path: Path, *, keyed: bool) -> None:
    """The driver computes extremes from rows that were not summed before."""
    check(None, tmp_path, PARTIAL, keyed=keyed)


def test_ends_of_groups_that_wait(tmp_path: Path) -> None:
    """Pending groups are stored like others: emitted at the end, their value is over all rows."""
    rng = random.Random("ends that wait")
    batches = [rows(rng, PARTIAL, 20, 9) for _ in range(3)]
    write_in_order(tmp_path / "t", [pa.Table.from_pylist(b, schema_of(PARTIAL)) for b in batches])
    source = {"t": f"parquet:{tmp_path / 't'}?batch-files=1"}
    plan, checkpoint = plan_of(PARTIAL, keyed=True), tmp_path / "checkpoint"
    views = maintain(None, plan, source, checkpoint, emit="count:1000", partitions=2)
    *waiting, last = (views[version] for version in sorted(views))
    assert len(waiting) == 1 + len(batches)
    assert not any(waiting)
    assert last == wanted([row for batch in batches for row in batch], PARTIAL, keyed=True)
