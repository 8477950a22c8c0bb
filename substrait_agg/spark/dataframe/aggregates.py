"""Aggregate functions of Spark as measures of Substrait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from substrait_agg.spark.dataframe.analyzed import SparkTree
from substrait_agg.spark.dataframe.scope import Scope, cast, not_supported
from substrait_agg.spark.dataframe.types import INTEGERS, MOST_DIGITS, SparkType, Typed, decimal

_MOST_PLACES = 24
"""Decimal places of an average up to which Spark's rounding, to 39 places first, changes no value.

It could from 10^15 rows on.
"""


@dataclass(frozen=True)
class TranslatedMeasure:
    """A measure as JSON, and its result.

    Attributes:
        message: the measure with its filter.
        result: turns its value into that of Spark's function.
    """

    message: dict[str, Any]
    type: SparkType
    result: Callable[[Typed], Typed]


@dataclass(frozen=True)
class _Call:
    urn: str
    name: str
    arguments: tuple[Typed, ...]
    type: SparkType
    as_type: str


def is_measure(tree: SparkTree) -> bool:
    """Return whether an expression is a call of an aggregate function."""
    return tree.kind == "AggregateExpression"


def measure(scope: Scope, tree: SparkTree) -> TranslatedMeasure:
    """Return the measure of a call of an aggregate function.

    Raises:
        UsageError: DATAFRAME_EXPRESSION, DATAFRAME_TYPE.
    """
    function, *filters = tree.children
    make = _FUNCTIONS.get(function.kind)
    if make is None:
        raise not_supported(function)
    distinct = bool(tree.fields["isDistinct"])
    call = make(scope, function)
    if distinct and not call.arguments:
        raise not_supported(function, "DISTINCT of all rows")
    body = {
        "functionReference": scope.context.reference(call.urn, call.name, call.arguments),
        "arguments": [{"value": argument.message} for argument in call.arguments],
        "outputType": call.type.message(),
        "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
        "invocation": f"AGGREGATION_INVOCATION_{'DISTINCT' if distinct else 'ALL'}",
    }
    message: dict[str, Any] = {"measure": body}
    if filters:
        message["filter"] = scope.typed(filters[0]).message
    return TranslatedMeasure(message, call.type, lambda value: cast(value, call.as_type))


def _count(scope: Scope, tree: SparkTree) -> _Call:
    type_ = SparkType("long", nullable=False)
    constant = all(c.kind == "Literal" and c.fields["value"] is not None for c in tree.children)
    if constant:
        return _Call("aggregate_generic", "count", (), type_, "long")
    if len(tree.children) != 1:
        raise not_supported(tree, "of several columns")
    return _Call("aggregate_generic", "count", (scope.typed(tree.children[0]),), type_, "long")


def _sum(scope: Scope, tree: SparkTree) -> _Call:
    value = scope.typed(tree.children[0])
    if value.type.digits:
        precision, scale = value.type.digits
        result = decimal(precision + 10, scale, nullable=True).name
        return _Call(
            "arithmetic_decimal", "sum", (value,), decimal(38, scale, nullable=True), result
        )
    if value.type.name in INTEGERS:
        return _Call("arithmetic", "sum", (value,), SparkType("long"), "long")
    return _Call("arithmetic", "sum", (_double(tree, value),), SparkType("double"), "double")


def _average(scope: Scope, tree: SparkTree) -> _Call:
    value = scope.typed(tree.children[0])
    if value.type.digits:
        precision, scale = (min(MOST_DIGITS, digits + 4) for digits in value.type.digits)
        if scale > _MOST_PLACES:
            raise not_supported(
                tree, f"of decimals with more than {_MOST_PLACES - 4} decimal places"
            )
        type_ = decimal(precision, scale, nullable=True)
        return _Call("arithmetic_decimal", "avg", (value,), type_, type_.name)
    return _Call("arithmetic", "avg", (_double(tree, value),), SparkType("double"), "double")


def _double(tree: SparkTree, value: Typed) -> Typed:
    if value.type.name not in (*INTEGERS, "float", "double"):
        raise not_supported(tree, f"of {value.type.name}")
    return cast(value, "double")


def _extreme(scope: Scope, tree: SparkTree, *, name: str) -> _Call:
    """Return the call for the type of its argument."""
    value = scope.typed(tree.children[0])
    type_ = SparkType(value.type.name)
    urn = {"decimal": "arithmetic_decimal", "date": "datetime", "times": "datetime"}.get(
        "decimal" if value.type.digits else value.type.name, "arithmetic"
    )
    return _Call(urn, name, (value,), type_, type_.name)


_FUNCTIONS: dict[str, Callable[[Scope, SparkTree], _Call]] = {
    "Average": _average,
    "Count": _count,
    "Max": partial(_extreme, name="max"),
    "Min": partial(_extreme, name="min"),
    "Sum": _sum,
}
"""Class of an aggregate function in Spark -> how it is translated."""
