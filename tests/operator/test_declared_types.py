"""The declared type of a measure: a value that fits is rounded once, another one fails the batch."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from substrait_agg.errors import RunFailed
from substrait_agg.operator.numeric.numbers import nearest
from substrait_agg.plan.types import FP32, FP64, I8, I64, Type, decimal
from tests.operator.measures_build import measure, row, world
from tests.operator.rounding import round_float

U8, U16, U64 = (Type(kind) for kind in ("u8", "u16", "u64"))
CHOSEN: dict[str, dict[str, Any]] = {
    "min": {},
    "max": {},
    "mode": {},
    "any_value": {},
    "median": {},
    "percentile_disc": {"constants": (0.5,)},
    "percentile_cont": {"constants": (0.5,)},
    "nth_value": {"constants": (1,)},
    "first": {},
    "last_value": {"order": ("double",)},
    "bit_or": {},
}
"""Measures whose value is one of the values, with what they need besides."""

NINES = Decimal("9" * 34 + ".9999")


def value_of(kind: Any, name: str, type_: Type, value: Any, folder: Path) -> Any:
    """The result of the measure for one value under a declared type."""
    made = world(folder, measure(kind, name, type_=type_, **CHOSEN[kind]))
    made.batch([row(k0=1, **{name: value})])
    return made.value(1)[0]


HELD: tuple[tuple[str, Type, Any, Any], ...] = (
    ("long", decimal(30, 25), 5, Decimal("5." + "0" * 25)),
    ("long", decimal(3, 2), -5, Decimal("-5.00")),
    ("long", U64, 2**63 - 1, Decimal(2**63 - 1)),
    ("int", U8, 255, 255),
    ("huge", I64, 2**63 - 1, 2**63 - 1),
    ("huge", FP64, 2**64 - 1, 2.0**64),
    ("long", FP32, 2**24 + 1, 2.0**24),
    ("cents", FP64, Decimal("0.3"), 0.3),
    ("cents", FP32, Decimal("0.07"), round_float(Fraction(7, 100), "TIE_TO_EVEN", single=True)),
    ("wide", decimal(38, 0), NINES, Decimal(10**34)),
    ("wide", decimal(38, 20), Decimal("-1.5"), Decimal("-1.5")),
)
NOT_HELD: tuple[tuple[str, Type, Any], ...] = (
    ("long", I8, 128),
    ("long", U8, 256),
    ("long", U16, -1),
    ("long", U64, -1),
    ("int", U8, -1),
    ("tiny", I8, 128),
    ("long", decimal(3, 2), 10),
    ("wide", U64, NINES),
    ("wide", decimal(34, 0), NINES),
)


def for_all(cases: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Each case with each measure that takes such values."""
    return [
        (k, *c) for c in cases for k in CHOSEN if k != "bit_or" or c[0] not in ("cents", "wide")
    ]


@pytest.mark.parametrize(("kind", "name", "type_", "value", "wanted"), for_all(HELD))
def test_what_the_declared_type_holds_is_given(
    kind: str, name: str, type_: Type, value: Any, wanted: Any, tmp_path: Path
) -> None:
    """Values that fit the declared type are converted: integers to decimals, decimals to floats,
    signed to unsigned.
    """
    assert value_of(kind, name, type_, value, tmp_path) == wanted


@pytest.mark.parametrize(("kind", "name", "type_", "value"), for_all(NOT_HELD))
def test_what_the_declared_type_does_not_hold_fails_the_batch(
    kind: str, name: str, type_: Type, value: Any, tmp_path: Path
) -> None:
    """Unsigned integers are stored in wider signed ones, which have values out of range."""
    with pytest.raises(RunFailed) as caught:
        value_of(kind, name, type_, value, tmp_path)
    assert caught.value.code == "RESULT_OVERFLOW"


@pytest.mark.parametrize(("precision", "scale"), [(10, 1), (18, 6), (38, 0), (38, 20), (38, 38)])
def test_decimals_become_the_nearest_floats(precision: int, scale: int) -> None:
    """As many digits as there are, nulls and slices included; Python's own conversion is the judge."""
    random = Random(precision * scale)
    sizes = [random.randint(1, precision) for _ in range(500)]
    exactly = Context(prec=precision)
    values = [Decimal(random.randint(1 - 10**n, 10**n - 1)).scaleb(-scale, exactly) for n in sizes]
    column = pa.array([None, *values, None], pa.decimal128(precision, scale)).slice(1)
    assert nearest(column, pa.float64()).to_pylist() == [*map(float, values), None]
    narrow = [round_float(Fraction(v), "TIE_TO_EVEN", single=True) for v in values]
    assert nearest(column, pa.float32()).to_pylist() == [*narrow, None]


def test_products_of_unsigned_words_lose_no_bits_on_the_way_to_floats(tmp_path: Path) -> None:
    """A factor of more than 53 bits is rounded with the product, not before."""
    made = world(tmp_path, measure("product", "huge", type_=FP64))
    factors = [2**53 + 1, 3, 2**64 - 1]
    made.batch([row(k0=1, huge=factor) for factor in factors])
    assert made.value(1) == (float(factors[0] * factors[1] * factors[2]),)
