"""The columns of the rows that random aggregates read, and random values for them: values that meet often, and the ends of types."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from substrait_agg.bind.bound import Column
from substrait_agg.plan.types import BINARY, BOOL, DATE, FP32, FP64, I32, I64, STRING, Type, decimal
from tests.operator.measures_reference import Values

LIST = Type("list", True, (), (I32,))

COLUMNS: dict[str, Type] = {
    "k0": I64, "k1": STRING, "k2": I32,
    "long": I64, "int": I32, "double": FP64, "y": FP64, "single": FP32,
    "cents": decimal(10, 2), "wide": decimal(38, 4), "text": STRING, "flag": BOOL, "day": DATE,
    "list": LIST, "tiny": Type("u8"), "huge": Type("u64"), "bytes": BINARY,
    "stamp": Type("precision_timestamp", True, (6,)),
    "pair": Type("struct", True, (), (I32, FP64)), "map": Type("map", True, (), (STRING, I32)),
    "doubles": Type("list", True, (), (FP64,)),
    "sure_long": I64.as_nullable(False), "sure_double": FP64.as_nullable(False),
    "sure_flag": BOOL.as_nullable(False), "sure_text": STRING.as_nullable(False),
}  # fmt: skip
"""Columns of the input rows."""

NAMES = tuple(COLUMNS)

_FLOATS = [
    0.0, -0.0, 1.0, -1.5, 0.1, 1e20, -1e20, 5e-324, 1e308, -1e308, math.nan, math.inf, -math.inf, 3.0,
]  # fmt: skip
_SINGLES = [0.0, -0.0, 1.5, -2.0, 16777216.0, 2.0**-140, math.nan, math.inf, -math.inf]
_POOLS: dict[str, list[Any]] = {
    "k0": [0, 1, 2],
    "k1": ["", "a", "\0b"],
    "k2": [0, 7],
    "long": [-3, 0, 1, 2, 5, 2**63 - 1, -(2**63)],
    "int": [-2, 0, 1, 3, 2**31 - 1, -(2**31)],
    "double": _FLOATS,
    "y": _FLOATS,
    "single": _SINGLES,
    "cents": [Decimal(n) / 100 for n in (-250, 0, 1, 199, 10**10 - 1)],
    "wide": [Decimal(n) for n in ("0.0000", "-1.5000", "99999999999999999.0001")],
    "text": ["", "a", "ab", "b", "z\0", "\u00e9", "\U0001f600", "\uffee"],
    "flag": [True, False],
    "day": [date(1970, 1, 1) + timedelta(n) for n in (-1, 0, 5, 20_000)],
    "list": [[], [1], [1, None], [1, 2], [2, 2, None], [None]],
    "tiny": [0, 1, 200, 255],
    "huge": [Decimal(n) for n in (0, 3, 2**63, 2**64 - 1)],
    "bytes": [b"", b"\0", b"a", b"a\0\xff"],
    "stamp": [datetime(1970, 1, 1) + timedelta(microseconds=n) for n in (-1, 0, 10**15)],
    "pair": [{"f0": a, "f1": b} for a, b in ((1, 0.5), (1, None), (None, math.nan), (2, -1.0))],
    "map": [[], [("a", 1)], [("a", None), ("b", 2)], [("b", 2), ("a", None)]],
    "doubles": [[], [0.0], [-0.0], [math.nan, 1.0], [None], [-math.inf, math.inf]],
    "sure_long": [-1, 0, 4],
    "sure_double": [0.5, -0.0, 1e16, -2.25],
    "sure_flag": [True, False],
    "sure_text": ["x", "yy", ""],
}

WHOLE = ("long", "int", "sure_long", "tiny", "huge")
REAL = ("double", "sure_double", "single")
MONEY = ("cents", "wide")
NUMBERS = (*WHOLE, *REAL, *MONEY)
ORDERED = (*NUMBERS, "text", "flag", "day", "bytes", "stamp", "sure_text", "sure_flag", "k0")
ANYTHING = (*ORDERED, "list", "pair", "map", "doubles")
KEYS = (
    "k0",
    "k1",
    "k2",
    "flag",
    "day",
    "double",
    "single",
    "cents",
    "bytes",
    "list",
    "huge",
    "tiny",
)
ROUNDINGS = ("TIE_TO_EVEN", "TIE_AWAY_FROM_ZERO", "TRUNCATE", "CEILING", "FLOOR")


def column(name: str) -> Column:
    """A column of the input."""
    return Column(COLUMNS[name], NAMES.index(name))


def random_value(random: Random, name: str) -> Any:
    """A value of a column, now and then null."""
    if COLUMNS[name].nullable and random.random() < 0.15:
        return None
    return random.choice(_POOLS[name])


def random_values(random: Random) -> Values:
    """A row of the input."""
    return tuple(random_value(random, name) for name in NAMES)
