"""Build window functions over time.

They compute with microseconds since 1970 in UTC, so the session time zone has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.bind.bound import Call
from substrait_agg.bind.rewrite import call_durations
from substrait_agg.errors import UsageError
from substrait_agg.functions.windows import windows_per_row
from substrait_agg.plan.types import Type
from substrait_agg.spark.functions.parts import Arguments, Builder
from substrait_agg.spark.types.literals import bigint, since_epoch, zoneless


def time_micros(time: Column, type_: Type) -> Column:
    """Convert a point in time to microseconds since 1970."""
    zoned = type_.kind == "precision_timestamp_tz"
    return F.unix_micros(time) if zoned else since_epoch(time)


def time_of(micros: Column, type_: Type) -> Column:
    """Convert microseconds since 1970 to a point in time of a type."""
    zoned = type_.kind == "precision_timestamp_tz"
    return F.timestamp_micros(micros) if zoned else zoneless(micros)


def window(start: Column, size: int, type_: Type) -> Column:
    """Return the window [start, start + size) as a struct of two points in time of a type."""
    end = start + bigint(size)
    return F.struct(time_of(start, type_).alias("f0"), time_of(end, type_).alias("f1"))


def last_start(micros: Column, slide: int, offset: int) -> Column:
    """Return the greatest offset + k * slide that is not after a time, all in microseconds."""
    # Both remainders are small, so times near the limits of 64 bits do not overflow.
    shifted = F.pmod(micros, bigint(slide)) - bigint(offset % slide)
    return micros - F.pmod(shifted, bigint(slide))


def _tumble(args: Arguments, edge: Callable[[Column, int, Type], Column]) -> Column:
    time, type_ = args[0], args.type(0)
    size, offset = (*call_durations(args.call.arguments), 0)[:2]
    start = last_start(time_micros(time, type_), size, offset)
    return F.when(time.isNotNull(), edge(start, size, type_))


def _end(start: Column, size: int, type_: Type) -> Column:
    return time_of(start + bigint(size), type_)


def hop(call: Call, arguments: Sequence[Column]) -> Column:
    """Return all windows of a `hop` with a row, as an array; of one null if the time is null."""
    time, type_ = arguments[0], call.arguments[0].type
    size, slide, offset = (*call_durations(call.arguments), 0)[:3]
    count = windows_per_row(size, slide)
    micros = time_micros(time, type_)
    first = last_start(micros, slide, offset)
    starts = F.transform(
        F.sequence(bigint(0), bigint(count - 1)), lambda i: first - i * bigint(slide)
    )
    if size % slide:
        # The earliest window may end before the row.
        starts = F.filter(starts, lambda start: start + bigint(size) > micros)
    windows = F.transform(starts, lambda start: window(start, size, type_))
    none = F.array(F.when(F.lit(False), window(bigint(0), size, type_)))
    return F.when(time.isNotNull(), windows).otherwise(none)


def _grouping_only(args: Arguments) -> Column:
    raise UsageError(
        "FUNCTION_NOT_SUPPORTED",
        f"{args.call.function} has no value for a single row",
        help="use it as a grouping expression",
    )


WINDOWS: dict[str, Builder] = {
    "tumble": lambda args: _tumble(args, window),
    "tumble_start": lambda args: _tumble(args, lambda start, _size, type_: time_of(start, type_)),
    "tumble_end": lambda args: _tumble(args, _end),
    "hop": _grouping_only,
    "session": _grouping_only,
}
"""Window function -> its builder. Operators compute `hop` and `session` as grouping expressions."""
