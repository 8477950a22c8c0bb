"""Random columns of every type: nulls, extremes, equal values, NaN, negative zero, long texts."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from substrait_agg.bind.bound import Constant
from substrait_agg.evaluation.constants import scalar
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import (
    BINARY,
    BOOL,
    DATE,
    FP32,
    FP64,
    I8,
    I16,
    I32,
    I64,
    INTEGER_BITS,
    STRING,
    Type,
    decimal,
)

MONTHS = Type("interval_year")
DAYS = Type("interval_day", params=(6,))
TS = Type("precision_timestamp", params=(6,))
TS3 = Type("precision_timestamp", params=(3,))
TSTZ = Type("precision_timestamp_tz", params=(6,))
VARCHAR = Type("varchar", params=(4,))

DECIMALS = (
    decimal(12, 2), decimal(15, 2), decimal(5, 5), decimal(18, 0), decimal(38, 4), decimal(38, 0),
    decimal(38, 38), decimal(20, 10),
)  # fmt: skip
INTEGERS = (I8, I16, I32, I64)
FLOATS = (FP32, FP64)
TYPES = (
    BOOL, *INTEGERS, *FLOATS, *DECIMALS, STRING, VARCHAR, BINARY, DATE, TS, TS3, TSTZ, MONTHS, DAYS
)  # fmt: skip

WORDS = (
    "", "a", "b", "ab", "aba", "promo", "PROMO BRUSHED", "special requests", "10%", "_", "%", "\\", "a\nb",
    " a ", "  ", "é", "éa", "日本語", "\U0001f600a\U0001f600", "ß", "a" * 40, "x\\%y", "ab\tc", ".*", "(", "Ab",
)  # fmt: skip


def integer(rng: random.Random, bits: int) -> int:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    chosen: int = rng.choice((low, high, 0, 1, -1, rng.randint(-9, 9), rng.randint(low, high)))
    return min(max(low, chosen), high)


def unscaled(rng: random.Random, digits: int) -> int:
    most: int = 10**digits - 1
    size = rng.choice((0, 1, 5, 50, most, most // 2, rng.randrange(10 ** rng.randint(1, digits))))
    return rng.choice((1, -1)) * min(size, most)


def floating(rng: random.Random) -> float:
    special = (
        0.0,
        -0.0,
        1.0,
        -1.5,
        0.5,
        2.5,
        float("nan"),
        float("inf"),
        float("-inf"),
        1e300,
        2.0**63,
    )
    return rng.choice(
        (*special, rng.uniform(-200, 200), rng.gauss(0, 1) * 10.0 ** rng.randint(-30, 30))
    )


def text(rng: random.Random) -> str:
    words = [rng.choice(WORDS) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    return "".join(words)


def day(rng: random.Random) -> int:
    far = rng.choice((rng.randint(-719162, 2932896), -800_000, 2_932_897, 20_000_000))
    return rng.choice((0, -1, 10957, 11016, rng.randint(8000, 12000), far))


def micros(rng: random.Random) -> int:
    return day(rng) * 86_400_000_000 + rng.choice((0, 1, 999_999, rng.randrange(86_400_000_000)))


def _millis(rng: random.Random) -> int:
    return micros(rng) // 1000


_VALUES: dict[str, Callable[[random.Random, Type], Any]] = {
    "bool": lambda rng, _type: rng.random() < 0.5,
    **{f"i{b}": lambda rng, type_: integer(rng, INTEGER_BITS[type_.kind]) for b in (8, 16, 32, 64)},
    "fp32": lambda rng, _type: floating(rng),
    "fp64": lambda rng, _type: floating(rng),
    "decimal": lambda rng, type_: unscaled(rng, type_.params[0]),
    "string": lambda rng, _type: text(rng),
    "varchar": lambda rng, type_: text(rng)[: type_.params[0]],
    "binary": lambda rng, _type: text(rng).encode() + rng.choice((b"", b"\x00", b"\xff")),
    "date": lambda rng, _type: day(rng),
    "precision_timestamp": lambda rng, type_: micros(rng) if type_.params[0] == 6 else _millis(rng),
    "precision_timestamp_tz": lambda rng, _type: micros(rng),
    "interval_year": lambda rng, _type: rng.choice(
        (0, 1, -1, 12, 13, -25, rng.randint(-2000, 2000))
    ),
    "interval_day": lambda rng, _type: (
        rng.choice((0, 1, -1, 90)),
        rng.choice((0, 1, 3_600_000_000)),
    ),
}


def value(rng: random.Random, type_: Type) -> Any:
    """A value as in a plan's literals."""
    return _VALUES[type_.kind](rng, type_)


def column(rng: random.Random, type_: Type, rows: int, *, tame: bool) -> pa.Array:
    """A column with nulls and repeated values; `tame` numbers are small, so that sums fit."""
    values = [None if rng.random() < 0.15 else value(rng, type_) for _ in range(rows)]
    if tame:
        values = [v if v is None else _tame(rng, type_, v) for v in values]
    made = [scalar(Constant(type_, v)) for v in values]
    return pa.concat_arrays([pa.repeat(m, 1) for m in made])


def _tame(rng: random.Random, type_: Type, original: Any) -> Any:
    if type_.kind in INTEGER_BITS:
        return rng.randint(-9, 9)
    if type_.kind == "decimal":
        return rng.choice((1, -1)) * rng.randrange(min(10**6, 10 ** type_.params[0]))
    if type_.kind in ("fp32", "fp64"):
        return rng.choice((0.5, -2.0, 3.25, 100.0))
    return original


def table(
    rng: random.Random, rows: int, types: Sequence[Type] = TYPES
) -> tuple[list[Type], pa.Table]:
    """Two columns of every type: one with extremes, one with small numbers."""
    columns, kinds = [], []
    for type_ in types:
        for tame in (False, True):
            columns.append(column(rng, type_, rows, tame=tame))
            kinds.append(type_)
    assert [c.type for c in columns] == [to_arrow(t) for t in kinds]
    return kinds, pa.table(columns, names=[f"c{i}" for i in range(len(columns))])
