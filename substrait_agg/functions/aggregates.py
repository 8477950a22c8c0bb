"""THE table of aggregate functions: what is maintained, from what state, and what is known but refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal as OneOf

from substrait_agg.functions.accumulators import STATE_CLASS, MeasureKind
from substrait_agg.functions.derive import FLOATS, MAX_PRECISION, SIGNED, Derivation
from substrait_agg.plan.types import Type, decimal

Handling = OneOf["honoured", "no-op", "refused"]
"""What becomes of a part of a measure: it is obeyed, provably changes nothing, or makes the plan be refused."""

ARITHMETIC = "functions_arithmetic"
DECIMAL = "functions_arithmetic_decimal"
GENERIC = "functions_aggregate_generic"
DECIMAL_OUTPUT = "functions_aggregate_decimal_output"
APPROX = "functions_aggregate_approx"
BOOLEAN = "functions_boolean"
DATETIME = "functions_datetime"
STRING = "functions_string"
UNSIGNED = "unsigned_integers"

NUMBERS: tuple[str, ...] = (*SIGNED, *FLOATS, "decimal")
OVERFLOW: Mapping[str, tuple[str, ...]] = {"OVERFLOW": ("ERROR", "SATURATE", "SILENT")}


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """A row of the table.

    Attributes:
        name: canonical name, lower case.
        kind: what is maintained, or None where the function is known but not maintained yet.
        state: class of its state: ``additive``, ``shared tree`` or ``own tree``.
        urns: last parts of the extensions that declare it; empty where only producers know it.
        aliases: other names that mean the same.
        arity: least and most arguments.
        kinds: type kinds its argument may have; empty for any.
        options: option name -> values that are honoured, the default first; upper case.
        distinct, order_by, filter: what becomes of these parts of a measure.
    """

    name: str
    kind: MeasureKind | None
    state: str
    urns: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    arity: tuple[int, int] = (1, 1)
    kinds: tuple[str, ...] = ()
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    distinct: Handling = "refused"
    order_by: Handling = "refused"
    filter: Handling = "honoured"


def _kept(
    kind: MeasureKind, urns: tuple[str, ...], arity: tuple[int, int], kinds: tuple[str, ...]
) -> AggregateFunction:
    aliases = {"count": ("count_star",), "sum0": ("sum_zero",), "avg": ("mean",)}.get(kind, ())
    return AggregateFunction(kind, kind, STATE_CLASS[kind], urns, aliases, arity, kinds, OVERFLOW)


def _known(
    state: str, name: str, urns: tuple[str, ...] = (), aliases: str = ""
) -> AggregateFunction:
    return AggregateFunction(
        name, None, state, urns, tuple(aliases.split()), (0, 9), filter="refused"
    )


_ADDITIVE, _SHARED, _OWN = "additive", "shared tree", "own tree"

_ROWS: tuple[AggregateFunction, ...] = (
    _kept("count", (GENERIC, DECIMAL_OUTPUT), (0, 1), ()),
    _kept("sum", (ARITHMETIC, DECIMAL, UNSIGNED), (1, 1), NUMBERS),
    _kept("sum0", (ARITHMETIC, DECIMAL), (1, 1), NUMBERS),
    _kept("avg", (ARITHMETIC, DECIMAL), (1, 1), NUMBERS),
    _known(_ADDITIVE, "product", (ARITHMETIC,)),
    _known(_ADDITIVE, "std_dev", (ARITHMETIC,), "stddev stddev_samp std_dev_samp stdev"),
    _known(_ADDITIVE, "std_dev_pop", (), "stddev_pop"),
    _known(_ADDITIVE, "variance", (ARITHMETIC,), "var var_samp var_sample variance_samp"),
    _known(_ADDITIVE, "variance_pop", (), "var_pop var_population"),
    _known(_ADDITIVE, "corr", (ARITHMETIC,)),
    _known(_ADDITIVE, "covar", (), "covar_samp covar_pop covariance"),
    _known(_ADDITIVE, "bool_and", (BOOLEAN,), "every"),
    _known(_ADDITIVE, "bool_or", (BOOLEAN,), "some"),
    _known(_ADDITIVE, "bit_and"),
    _known(_ADDITIVE, "bit_or"),
    _known(_ADDITIVE, "bit_xor"),
    _known(_ADDITIVE, "count_if", (), "countif"),
    _known(_ADDITIVE, "grouping"),
    _known(_SHARED, "min", (ARITHMETIC, DECIMAL, DATETIME, UNSIGNED)),
    _known(_SHARED, "max", (ARITHMETIC, DECIMAL, DATETIME, UNSIGNED)),
    _known(_SHARED, "count_distinct"),
    _known(_SHARED, "approx_count_distinct", (APPROX, DECIMAL_OUTPUT), "approx_distinct"),
    _known(_SHARED, "any_value", (GENERIC,), "arbitrary"),
    _known(_SHARED, "mode", (ARITHMETIC,)),
    _known(_SHARED, "median", (ARITHMETIC,), "approx_median"),
    _known(
        _SHARED, "quantile", (ARITHMETIC,),
        "percentile_cont percentile_disc approx_percentile_cont approx_percentile quantile_cont",
    ),
    _known(_SHARED, "list_agg", (), "array_agg collect_list list"),
    _known(_SHARED, "string_agg", (STRING,), "listagg group_concat"),
    _known(_OWN, "min_by", (), "arg_min"),
    _known(_OWN, "max_by", (), "arg_max"),
    _known(_OWN, "first_value", (), "first"),
    _known(_OWN, "last_value", (), "last"),
    _known(_OWN, "nth_value"),
    _known(_OWN, "list_union_distinct_agg"),
)  # fmt: skip

AGGREGATES: dict[str, AggregateFunction] = {row.name: row for row in _ROWS}
"""Canonical name -> row."""

AGGREGATE_NAMES: dict[str, str] = {
    spelling: row.name for row in _ROWS for spelling in (row.name, *row.aliases)
}
"""Every accepted spelling -> canonical name."""

MAINTAINED: tuple[str, ...] = tuple(row.name for row in _ROWS if row.kind is not None)
"""Names of the functions that are maintained now."""

STANDARD_URNS = frozenset(
    {
        ARITHMETIC, DECIMAL, GENERIC, DECIMAL_OUTPUT, APPROX, BOOLEAN, DATETIME, STRING, UNSIGNED,
        "functions_comparison", "functions_logarithmic", "functions_rounding", "functions_set",
        "functions_rounding_decimal", "functions_list", "functions_geometry",
    }
)  # fmt: skip
"""Last parts of the URNs and URIs of the standard extension files that declare functions."""


def result_type(
    kind: MeasureKind, argument: Type | None, urn: str | None, rules: Derivation
) -> Type:
    """The type of a measure as its declaration derives it.

    Args:
        kind: the measure.
        argument: type of its argument (a number for all but count).
        urn: last part of the URN the function was declared under, which decides the type of count.
        rules: whose derivation.
    """
    if kind == "count" or argument is None:
        return (
            decimal(MAX_PRECISION, 0, nullable=False)
            if urn == DECIMAL_OUTPUT
            else Type("i64", nullable=False)
        )
    derive = _avg_type if kind == "avg" else _sum_type
    return derive(argument, rules).as_nullable(kind != "sum0")


def _sum_type(argument: Type, rules: Derivation) -> Type:
    if argument.kind != "decimal":
        return Type("fp64" if argument.kind in FLOATS else "i64")
    precision, scale = argument.params
    wide = precision + 10 if rules == "arrow" else MAX_PRECISION
    return decimal(min(wide, MAX_PRECISION), scale)


def _avg_type(argument: Type, rules: Derivation) -> Type:
    if argument.kind != "decimal":
        return Type("fp64") if rules == "arrow" else argument
    precision, scale = argument.params
    if rules == "arrow":
        return decimal(min(precision + 4, MAX_PRECISION), min(scale + 4, MAX_PRECISION))
    return decimal(MAX_PRECISION, scale)


def converts(kind: MeasureKind, argument: Type | None, output: Type) -> bool:
    """Whether the exact value of a measure can be converted to the type `output`.

    Counts and totals of integers and decimals go to every integer, decimal and float type; totals of floats
    only to floats, since NaN and infinities have no other form.
    """
    if kind != "count" and argument is not None and argument.kind in FLOATS:
        return output.kind in FLOATS
    return output.kind in NUMBERS
