"""Define parameters, options and reasons that several rows of the aggregate catalogue share."""

from __future__ import annotations

from collections.abc import Mapping

from substrait_agg.functions.aggregates.row import (
    HONOURED,
    Alias,
    FieldHandling,
    FunctionOption,
    FunctionParameter,
    no_op,
)
from substrait_agg.functions.aggregates.types import ALL_NUMBERS, INTEGERS, ORDERED
from substrait_agg.functions.signatures.derive import FLOATS

ARITHMETIC = "functions_arithmetic"
DECIMAL = "functions_arithmetic_decimal"
GENERIC = "functions_aggregate_generic"
APPROX = "functions_aggregate_approx"
BOOLEAN = "functions_boolean"
DATETIME = "functions_datetime"
LIST = "functions_list"
STRING = "functions_string"
UNSIGNED_EXTENSION = "unsigned_integers"

DATAFUSION, DUCKDB, ISTHMUS, FLOWTIDE = ("DataFusion",), ("DuckDB",), ("Isthmus",), ("Flowtide",)
SPARK, OCTOSQL = ("Spark",), ("OctoSQL",)

# --- reasons ---------------------------------------------------------------------------------

ORDER_FREE = no_op("the result is exact and the same in every order of rows")
SAME_ONCE = no_op("duplicate values do not change the result")
ANY_DIRECTION = no_op("any of the values may be returned, so an order has no effect")
_EXACT = no_op("an exact result is a valid approximation")

# --- options ---------------------------------------------------------------------------------

ROUNDINGS = ("TIE_TO_EVEN", "TIE_AWAY_FROM_ZERO", "TRUNCATE", "CEILING", "FLOOR")
"""Rounding directions of results, which are rounded once (`functions.numbers.exact.ROUNDINGS`)."""

_OVERFLOW: Mapping[str, FieldHandling] = dict.fromkeys(("ERROR", "SATURATE", "SILENT"), HONOURED)
_ROUNDING: Mapping[str, FieldHandling] = dict.fromkeys(ROUNDINGS, HONOURED)

OVERFLOW = {"OVERFLOW": FunctionOption(_OVERFLOW)}
ROUNDING = {"ROUNDING": FunctionOption(_ROUNDING)}
PRODUCT = {
    "OVERFLOW": FunctionOption(_OVERFLOW, INTEGERS),
    "ROUNDING": FunctionOption(_ROUNDING, (*FLOATS, "decimal")),
}
TIES = {"TIES": FunctionOption({"LEAST": HONOURED, "GREATEST": HONOURED})}
IGNORE_NULLS = {"IGNORE_NULLS": FunctionOption({"FALSE": HONOURED, "TRUE": HONOURED})}

DISTRIBUTIONS: Mapping[str, FieldHandling] = {"SAMPLE": HONOURED, "POPULATION": HONOURED}
SPREAD = {"DISTRIBUTION": FunctionOption(DISTRIBUTIONS), **ROUNDING}
POPULATION = (("DISTRIBUTION", "POPULATION"),)
SAMPLE = (("DISTRIBUTION", "SAMPLE"),)

# --- parameters ------------------------------------------------------------------------------

ANYTHING = FunctionParameter("x")
NUMBER = FunctionParameter("x", kinds=ALL_NUMBERS)
INTEGER = FunctionParameter("x", kinds=INTEGERS)
CONDITION = FunctionParameter("x", kinds=("bool",))
COMPARABLE = FunctionParameter("x", kinds=ORDERED)
FLOATING = FunctionParameter("x", kinds=ALL_NUMBERS, as_float=(*INTEGERS, "decimal"))
FLOATING_Y = FunctionParameter("y", kinds=ALL_NUMBERS, as_float=(*INTEGERS, "decimal"))
FACTOR = FunctionParameter("x", kinds=ALL_NUMBERS, as_float=("decimal",))
DISTRIBUTION = FunctionParameter("distribution", "enum", optional=True, words=DISTRIBUTIONS)
PRECISION_WORDS: Mapping[str, FieldHandling] = {"EXACT": HONOURED, "APPROXIMATE": _EXACT}
PRECISION = FunctionParameter("precision", "enum", optional=True, words=PRECISION_WORDS)
FRACTION = FunctionParameter("fraction", "constant", rule="fraction")
ACCURACY = FunctionParameter("accuracy", "constant", optional=True, rule="integer")


def to_aliases(names: str, producers: tuple[str, ...] = ()) -> tuple[Alias, ...]:
    """Return aliases with exactly the meaning of the function, from a text of names."""
    return tuple(Alias(name, producers) for name in names.split())


def preset(
    names: str, presets: tuple[tuple[str, str], ...], producers: tuple[str, ...] = ()
) -> tuple[Alias, ...]:
    """Return aliases whose name decides options."""
    return tuple(Alias(name, producers, presets) for name in names.split())
