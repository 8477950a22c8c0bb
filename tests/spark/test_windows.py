"""Windows on Spark and on Arrow compared with integer arithmetic: all microseconds, before and after 1970, in the whole range of Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from substrait_agg.bind.bound import Call, Column, Constant
from substrait_agg.bind.expressions.windows import DURATION
from substrait_agg.evaluation.expressions import evaluate, supports
from substrait_agg.evaluation.times import hop
from substrait_agg.functions.windows import duration_value
from substrait_agg.plan.types import Type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The first and the last microsecond of the years 1 to 9999."""
DAY = 86_400_000_000
TIMES = [
    None, 0, 1, -1, 59_999_999, 60_000_000, -60_000_000, -60_000_001, FIRST, FIRST + 1, LAST,
    LAST - DAY, 1_700_000_000_123_456, -1_700_000_000_123_456,
]  # fmt: skip


def called(name: str, kind: str, *micros: int) -> Call:
    time = Type(kind, params=(6,))
    edge = time.as_nullable(False)
    struct = Type("struct", children=(edge, edge))
    durations = (Constant(DURATION, duration_value(m)) for m in micros)
    type_ = time if name in ("tumble_start", "tumble_end") else struct
    return Call(type_, name, (Column(time, 0), *durations))


def on_spark(spark: SparkSession, call: Call, zone: str | None) -> list[Any]:
    """The values of a call over `TIMES`, or all windows of a hop, in microseconds."""
    from pyspark.sql import functions as F

    from substrait_agg.spark.expressions import to_column
    from substrait_agg.spark.inputs.linear_steps import hop_windows

    frame = spark.createDataFrame(pa.table({"t": pa.array(TIMES, pa.timestamp("us", zone))}))
    build = hop_windows if call.function == "hop" else to_column
    column = build(call, [F.col("t")])
    values = frame.select(column.alias("w")).toArrow().column("w").combine_chunks()
    return list(map(plain, _numbers(values).to_pylist()))


def on_arrow(_spark: SparkSession, call: Call, zone: str | None) -> list[Any]:
    """The same as the driver computes it."""
    times = pa.array(TIMES, pa.timestamp("us", zone))
    if call.function != "hop":
        assert supports(call)
        return list(map(plain, _numbers(evaluate(call, [times], len(times))).to_pylist()))
    windows: list[list[Any]] = [[] for _ in TIMES]
    ordinals, values = hop(call, times)
    for at, value in zip(ordinals.to_pylist(), _numbers(values).to_pylist(), strict=True):
        windows[at].append(value)
    return list(map(plain, windows))


def _numbers(values: pa.Array) -> pa.Array:
    """Times as numbers: Python has none before the year 1, nor after 9999."""
    if pa.types.is_list(values.type):
        inner = _numbers(values.flatten())
        return pa.ListArray.from_arrays(values.offsets, inner)
    if pa.types.is_struct(values.type):
        edges = [_numbers(values.field(i)) for i in range(2)]
        return pa.StructArray.from_arrays(edges, ["start", "end"], mask=values.is_null())
    return values.cast(pa.int64())


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return sorted(map(plain, value), key=str)
    return (value["start"], value["end"]) if isinstance(value, dict) else value


SIZES = [(1, 0), (60_000_000, 0), (60_000_000, -1), (7 * DAY, 4 * DAY), (9_999_999, 10**15)]
KINDS = [("precision_timestamp", None), ("precision_timestamp_tz", "UTC")]
Values = Callable[["SparkSession", Call, str | None], list[Any]]


@pytest.mark.parametrize("values_of", [on_spark, on_arrow])
@pytest.mark.parametrize(("kind", "zone"), KINDS)
def test_tumbling_windows(
    kind: str, zone: str | None, values_of: Values, spark: SparkSession
) -> None:
    for size, offset in SIZES:
        starts = [None if t is None else (t - offset) // size * size + offset for t in TIMES]
        wanted = {
            "tumble_start": starts,
            "tumble_end": [None if s is None else s + size for s in starts],
            "tumble": [None if s is None else (s, s + size) for s in starts],
        }
        for name, values in wanted.items():
            assert values_of(spark, called(name, kind, size, offset), zone) == values


@pytest.mark.parametrize("values_of", [on_spark, on_arrow])
@pytest.mark.parametrize(("kind", "zone"), KINDS)
def test_hopping_windows(
    kind: str, zone: str | None, values_of: Values, spark: SparkSession
) -> None:
    for size, slide, offset in ((60, 20, 0), (50, 20, 7), (20, 50, -3), (DAY, 7 * DAY // 2, 1)):
        found = values_of(spark, called("hop", kind, size, slide, offset), zone)
        for time, windows in zip(TIMES, found, strict=True):
            assert windows == sorted(expected_windows(time, size, slide, offset), key=str)


def expected_windows(time: int | None, size: int, slide: int, offset: int) -> list[Any]:
    if time is None:
        return [None]
    last = (time - offset) // slide * slide + offset
    starts = (last - k * slide for k in range(size // slide + 1))
    return [(s, s + size) for s in starts if s <= time < s + size]
