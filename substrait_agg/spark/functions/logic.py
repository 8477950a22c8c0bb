"""Build comparisons, logic and conditional functions in SQL's three-valued logic.

Floats compare as in Spark: NaN equals NaN and is greater than every number; -0.0 equals 0.0.
"""

from __future__ import annotations

from functools import partial, reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.spark.functions.parts import (
    Arguments,
    Builder,
    any_null,
    constant_double,
    double,
)


def _fold(args: Arguments, *, operator: str) -> Column:
    if operator == "and":
        return reduce(lambda x, y: x & y, args.columns)
    return reduce(lambda x, y: x | y, args.columns)


def _truth(args: Arguments, *, expected: bool | None, negated: bool) -> Column:
    """Return whether a boolean is true, false or unknown (None); the result is never null.

    `negated` inverts the test.
    """
    matches = (
        args[0].isNull()
        if expected is None
        else F.coalesce(args[0] == F.lit(expected), F.lit(False))
    )
    return ~matches if negated else matches


def _extreme(name: str, *, skip_nulls: bool) -> Builder:
    pick = {"least": F.least, "greatest": F.greatest}[name]

    def build(args: Arguments) -> Column:
        """Return the extreme of the arguments; null where one is, unless nulls are skipped."""
        if len(args) == 1:
            return args[0]
        extreme = pick(*args.columns)
        return extreme if skip_nulls else F.when(~any_null(args.columns), extreme)

    return build


def _is_finite(args: Arguments) -> Column:
    # In Spark, NaN is greater than infinity.
    return F.abs(double(args[0])) < constant_double("Infinity")


LOGIC: dict[str, Builder] = {
    "equal": lambda args: args[0] == args[1],
    "not_equal": lambda args: args[0] != args[1],
    "lt": lambda args: args[0] < args[1],
    "lte": lambda args: args[0] <= args[1],
    "gt": lambda args: args[0] > args[1],
    "gte": lambda args: args[0] >= args[1],
    "is_distinct_from": lambda args: ~args[0].eqNullSafe(args[1]),
    "is_not_distinct_from": lambda args: args[0].eqNullSafe(args[1]),
    "between": lambda args: (args[0] >= args[1]) & (args[0] <= args[2]),
    "is_null": lambda args: args[0].isNull(),
    "is_not_null": lambda args: args[0].isNotNull(),
    "is_true": partial(_truth, expected=True, negated=False),
    "is_not_true": partial(_truth, expected=True, negated=True),
    "is_false": partial(_truth, expected=False, negated=False),
    "is_not_false": partial(_truth, expected=False, negated=True),
    "is_unknown": partial(_truth, expected=None, negated=False),
    "is_not_unknown": partial(_truth, expected=None, negated=True),
    "is_nan": lambda args: F.when(args[0].isNotNull(), F.isnan(args[0])),
    "is_finite": _is_finite,
    "is_infinite": lambda args: F.abs(double(args[0])) == constant_double("Infinity"),
    "nullif": lambda args: F.when(F.coalesce(args[0] != args[1], F.lit(True)), args[0]),
    "least": _extreme("least", skip_nulls=False),
    "greatest": _extreme("greatest", skip_nulls=False),
    "least_skip_null": _extreme("least", skip_nulls=True),
    "greatest_skip_null": _extreme("greatest", skip_nulls=True),
    "and": partial(_fold, operator="and"),
    "or": partial(_fold, operator="or"),
    "not": lambda args: ~args[0],
    "xor": lambda args: args[0] != args[1],
    "and_not": lambda args: args[0] & ~args[1],
}
