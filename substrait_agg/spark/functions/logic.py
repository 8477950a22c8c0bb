"""Build comparisons, logic and conditional functions in SQL's three-valued logic.

Floats compare as in Spark: NaN equals NaN and is greater than every number; -0.0 equals 0.0.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.spark.functions.parts import (
    Arguments,
    Builder,
    any_null,
    constant_double,
    double,
    plain,
)


def _fold(operator: str) -> Builder:
    def build(a: Arguments) -> Column:
        if operator == "and":
            return reduce(lambda x, y: x & y, a.columns)
        return reduce(lambda x, y: x | y, a.columns)

    return build


def _truth(expected: bool | None, negated: bool) -> Builder:
    """Return a test whether a boolean is true, false or unknown (None); the result is never null.

    `negated` inverts the test.
    """

    def build(a: Arguments) -> Column:
        matches = (
            a[0].isNull() if expected is None else F.coalesce(a[0] == F.lit(expected), F.lit(False))
        )
        return ~matches if negated else matches

    return build


def _extreme(name: str, *, skip_nulls: bool) -> Builder:
    pick = {"least": F.least, "greatest": F.greatest}[name]

    def build(a: Arguments) -> Column:
        if len(a) == 1:
            return a[0]
        extreme = pick(*a.columns)
        return extreme if skip_nulls else F.when(~any_null(a.columns), extreme)

    return build


def _is_infinite(a: Arguments) -> Column:
    return F.abs(double(a[0])) == constant_double("Infinity")


def _is_finite(a: Arguments) -> Column:
    # In Spark, NaN is greater than infinity.
    return F.abs(double(a[0])) < constant_double("Infinity")


def _is_nan(a: Arguments) -> Column:
    return F.when(a[0].isNotNull(), F.isnan(a[0]))


LOGIC: dict[str, Builder] = {
    "equal": lambda a: a[0] == a[1],
    "not_equal": lambda a: a[0] != a[1],
    "lt": lambda a: a[0] < a[1],
    "lte": lambda a: a[0] <= a[1],
    "gt": lambda a: a[0] > a[1],
    "gte": lambda a: a[0] >= a[1],
    "is_distinct_from": lambda a: ~a[0].eqNullSafe(a[1]),
    "is_not_distinct_from": lambda a: a[0].eqNullSafe(a[1]),
    "between": lambda a: (a[0] >= a[1]) & (a[0] <= a[2]),
    "is_null": lambda a: a[0].isNull(),
    "is_not_null": lambda a: a[0].isNotNull(),
    "is_true": _truth(expected=True, negated=False),
    "is_not_true": _truth(expected=True, negated=True),
    "is_false": _truth(expected=False, negated=False),
    "is_not_false": _truth(expected=False, negated=True),
    "is_unknown": _truth(expected=None, negated=False),
    "is_not_unknown": _truth(expected=None, negated=True),
    "is_nan": _is_nan,
    "is_finite": _is_finite,
    "is_infinite": _is_infinite,
    "nullif": lambda a: F.when(F.coalesce(a[0] != a[1], F.lit(True)), a[0]),
    "coalesce": plain(F.coalesce),
    "least": _extreme("least", skip_nulls=False),
    "greatest": _extreme("greatest", skip_nulls=False),
    "least_skip_null": _extreme("least", skip_nulls=True),
    "greatest_skip_null": _extreme("greatest", skip_nulls=True),
    "and": _fold("and"),
    "or": _fold("or"),
    "not": lambda a: ~a[0],
    "xor": lambda a: a[0] != a[1],
    "and_not": lambda a: a[0] & ~a[1],
}
