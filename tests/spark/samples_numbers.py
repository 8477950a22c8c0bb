"""Samples of numbers, intervals and lists, with Python as the model."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import (
    ROUND_CEILING,
    ROUND_DOWN,
    ROUND_FLOOR,
    ROUND_HALF_DOWN,
    ROUND_UP,
    Context,
    Decimal,
)
from typing import Any

from substrait_agg.bind.bound import Call
from substrait_agg.plan.types import Type, decimal
from tests.spark.evaluating import DATE, DAYS, FP32, FP64, I8, I32, I64, MONTHS, STRING, call
from tests.spark.samples import FACES, FAILS, Sample, day


def logarithms() -> Iterator[Sample]:
    def logb(x: Any, base: Any, type_: Type = FP64, **options: str) -> Call:
        made = call("logb", FP64, (type_, x), (type_, base))
        return replace(made, options=tuple((k.upper(), v) for k, v in options.items()))

    for whole in (2, 3, 10):
        for power in range(0, 20, 3):
            yield Sample(logb(whole**power, whole, I64), float(power))
    yield Sample(logb(7.0, 2.0), math.log(7, 2))
    yield Sample(logb(0.125, 2.0), -3.0)
    yield Sample(logb(8.0, 0.5), -3.0)
    yield Sample(logb(math.inf, 2.0), math.inf)
    yield Sample(logb(2.0, math.inf), 0.0)
    yield Sample(logb(math.nan, 2.0, on_domain_error="ERROR"), math.nan)
    yield Sample(logb(None, 2.0), None)
    yield Sample(logb(2.0, None), None)
    for x, base in ((-1.0, 10.0), (8.0, -2.0), (8.0, 1.0), (8.0, 0.0), (-math.inf, 2.0)):
        yield Sample(logb(x, base), math.nan)
        yield Sample(logb(x, base, on_domain_error="NULL"), None)
        yield Sample(logb(x, base, on_domain_error="ERROR"), FAILS)
    yield Sample(logb(0.0, 2.0), -math.inf)
    yield Sample(logb(0.0, 2.0, on_log_zero="NAN"), math.nan)
    yield Sample(logb(0.0, 2.0, on_log_zero="ERROR"), FAILS)
    yield Sample(call("logb", FP64, (decimal(4, 2), 10_00), (decimal(4, 2), 10_00)), 1.0)


MODES = {
    "TRUNCATE": ROUND_DOWN,
    "CEILING": ROUND_CEILING,
    "FLOOR": ROUND_FLOOR,
    "AWAY_FROM_ZERO": ROUND_UP,
    "TIE_AWAY_FROM_ZERO": "ROUND_HALF_UP",
    "TIE_TOWARDS_ZERO": ROUND_HALF_DOWN,
    "TIE_TO_EVEN": "ROUND_HALF_EVEN",
}
"""The ways of rounding that Python's decimals have."""

WIDE = Context(prec=400)


def exact_round(x: Decimal, digits: int, mode: str) -> Decimal:
    """The model: of Python's decimals, and ties downwards, upwards or to the odd neighbour."""
    unit = Decimal(1).scaleb(-digits)
    if mode in MODES:
        return x.quantize(unit, MODES[mode], WIDE)
    below, above = x.quantize(unit, ROUND_FLOOR, WIDE), x.quantize(unit, ROUND_CEILING, WIDE)
    if x - below != above - x:
        return below if x - below < above - x else above
    if mode == "TIE_TO_ODD":
        return above if int(below.scaleb(digits)) % 2 == 0 else below
    return {"TIE_DOWN": below, "TIE_UP": above}[mode]


def roundings() -> Iterator[Sample]:
    modes = [*MODES, "TIE_DOWN", "TIE_UP", "TIE_TO_ODD"]
    wide = decimal(12, 3)
    for mode in modes:
        for x in (15, 25, -15, -25, 14, -16, 0, 120):
            for digits in (-1, -2, 0, 2, -20):
                wanted = int(exact_round(Decimal(x), digits, mode))
                fits = -(2**7) <= wanted < 2**7
                rounded = call("round", I8, (I8, x), (I32, digits), rounding=mode)
                yield Sample(rounded, wanted if fits else FAILS)
        for text in ("2.5", "-2.5", "3.5", "0.125", "-0.375", "1e300", "123456.789", "0.0", "1e-9"):
            for digits in (0, 1, 2, -3):
                near = float(exact_round(Decimal(text), digits, mode))
                rounded = call("round", FP64, (FP64, float(text)), (I32, digits), rounding=mode)
                yield Sample(rounded, near)
        for unscaled in (12_345, -12_345, 12_500, -500, 500, 0, 999_999_999_999):
            for digits in (2, 1, 0, -1, 3, 9):
                exact = exact_round(Decimal(unscaled).scaleb(-3), digits, mode)
                rounded = call(
                    "round", decimal(13, 3), (wide, unscaled), (I32, digits), rounding=mode
                )
                yield Sample(rounded, exact)
        yield Sample(call("round", FP64, (FP64, math.nan), (I32, 1), rounding=mode), math.nan)
        yield Sample(call("round", FP64, (FP64, -math.inf), (I32, 1), rounding=mode), -math.inf)
        yield Sample(call("round", FP32, (FP32, 2.5), (I32, 0), rounding=mode),
                     float(exact_round(Decimal("2.5"), 0, mode)))  # fmt: skip
        yield Sample(call("round", I64, (I64, None), (I32, 1), rounding=mode), None)
        yield Sample(call("round", I64, (I64, 1), (I32, None), rounding=mode), None)
    most = 10**38 - 1
    yield Sample(
        call("round", decimal(38, 0), (decimal(38, 0), most), (I32, -38), rounding="FLOOR"),
        Decimal(0),
    )
    yield Sample(
        call("round", decimal(38, 0), (decimal(38, 0), most), (I32, -38), rounding="CEILING"), FAILS
    )
    yield Sample(
        call("round", decimal(38, 0), (decimal(38, 0), -most), (I32, -38), rounding="FLOOR"), FAILS
    )
    yield Sample(
        call("round", decimal(38, 0), (decimal(38, 0), 49 * 10**36), (I32, -38), rounding="TIE_UP"),
        Decimal(0),
    )


def intervals() -> Iterator[Sample]:
    for kind in (I8, Type("i16"), I32, I64):
        yield Sample(
            call("multiply", DAYS, (kind, -3), (DAYS, (1, 500))),
            dt.timedelta(days=-3, microseconds=-1500),
        )
        yield Sample(call("multiply", DAYS, (kind, None), (DAYS, (1, 0))), None)
        # PySpark hands months over as no Python value: they are seen in a date.
        moved = call(
            "add",
            DATE,
            (DATE, day("2024-01-31")),
            call("multiply", MONTHS, (kind, 13), (MONTHS, 1)),
        )
        yield Sample(moved, dt.date(2025, 2, 28))
    yield Sample(call("multiply", DAYS, (I64, 2**40), (DAYS, (100_000, 0))), FAILS)
    yield Sample(call("multiply", DAYS, (I64, 0), (DAYS, (-5, 0))), dt.timedelta())


def lists() -> Iterator[Sample]:
    def index_in(element: Type, needle: Any, values: Any, nan: str = "NAN_IS_NAN") -> Call:
        haystack = (Type("list", children=(element,)), values)
        return call("index_in", I64, (element, needle), haystack, nan_equality=nan)

    yield Sample(index_in(I32, 3, (1, 3, 3)), 1)
    yield Sample(index_in(I32, 4, (1, 3)), None)
    yield Sample(index_in(I32, None, (1, None)), None)
    yield Sample(index_in(I32, 1, None), None)
    yield Sample(index_in(I32, 1, ()), None)
    yield Sample(index_in(I32, 3, (None, 3)), 1)
    yield Sample(index_in(STRING, FACES, ("", FACES)), 1)
    yield Sample(index_in(FP64, 0.0, (1.0, -0.0)), 1)
    yield Sample(index_in(FP64, math.nan, (1.0, math.nan)), 1)
    yield Sample(index_in(FP64, math.nan, (1.0, math.nan), nan="NAN_IS_NOT_NAN"), None)
    yield Sample(index_in(FP64, 1.0, (math.nan, 1.0), nan="NAN_IS_NOT_NAN"), 1)
    pair = Type("struct", children=(I32, STRING))
    yield Sample(index_in(pair, (1, "b"), ((1, "a"), (1, "b"))), 1)
    entries = Type("map", children=(STRING.as_nullable(False), I32))
    yield Sample(index_in(entries, (("b", 2), ("a", 1)), ((("a", 1), ("b", 2)),)), 0)
