"""Aggregate functions of Spark as measures of Substrait."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any

from substrait_agg.functions.aggregates.types import LEAST_DEVIATION
from substrait_agg.spark.catalyst.analyzed.tree import SparkTree
from substrait_agg.spark.catalyst.translation.scope import (
    Scope,
    cast,
    constant,
    gives_null_for_errors,
    not_supported,
    null,
    sorts,
)
from substrait_agg.spark.catalyst.translation.types import (
    INTEGERS,
    MOST_DIGITS,
    SparkType,
    Typed,
    decimal,
    type_of,
)

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
    """A call of an aggregate function.

    Attributes:
        urn: the extension of the function.
        name: its name.
        arguments: its values.
        type: type of its value.
        as_type: type of Spark's value.
        enum: word in front of the arguments; empty for none.
        options: its options.
        conditions: conditions of rows that count, besides the filter.
        sorts: order of the rows.
        text: Spark's expression over the value, called c0, if it is not the value.
    """

    urn: str
    name: str
    arguments: tuple[Typed, ...]
    type: SparkType
    as_type: str
    enum: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    conditions: tuple[Typed, ...] = ()
    sorts: tuple[dict[str, Any], ...] = ()
    text: str = ""


def is_measure(tree: SparkTree) -> bool:
    """Return whether an expression is a call of an aggregate function."""
    return tree.kind == "AggregateExpression"


def measure(scope: Scope, tree: SparkTree, *, filtered: bool = True) -> TranslatedMeasure:
    """Return the measure of a call of an aggregate function.

    Args:
        scope: the columns of the rows.
        tree: the call.
        filtered: whether the measure can have a filter. Window functions have none, so their values
            are null in the other rows, which all functions but those of places skip.

    Raises:
        Refusal: it cannot be translated.
    """
    function, *filters = tree.children
    distinct = bool(tree.fields["isDistinct"])
    call = _call(scope, function)
    if distinct and not call.arguments:  # of constants
        call = replace(call, arguments=tuple(map(scope.translate, function.children)))
    conditions = [*(scope.translate(condition) for condition in filters), *call.conditions]
    if conditions and not filtered:
        call, conditions = _with_nulls(scope, call, conditions), []
    arguments: list[dict[str, Any]] = [{"value": argument.message} for argument in call.arguments]
    before = "req_" if call.enum else ""
    body = {
        "functionReference": scope.context.reference(call.urn, call.name, call.arguments, before),
        "arguments": [*([{"enum": call.enum}] if call.enum else ()), *arguments],
        "options": [{"name": n, "preference": [v]} for n, v in call.options.items()],
        "outputType": call.type.message(),
        "sorts": list(call.sorts),
        "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
        "invocation": f"AGGREGATION_INVOCATION_{'DISTINCT' if distinct else 'ALL'}",
    }
    message: dict[str, Any] = {"measure": body}
    if conditions:
        message["filter"] = _every(scope, conditions).message

    def result(value: Typed) -> Typed:
        """Return the value of Spark's function."""
        if not call.text:
            return cast(value, call.as_type)
        text = Typed({"literal": {"string": call.text}}, SparkType("string", nullable=False))
        return scope.by_text([text, value], SparkType(call.as_type))

    return TranslatedMeasure(message, call.type, result)


def _of_units(scope: Scope, tree: SparkTree, value: Typed, urn: str, name: str) -> _Call:
    """Return the call of a function of months or microseconds in place of intervals."""
    type_, result = _OF_UNITS[name]
    if value.type.interval == "intervalYear":  # a number of months in plans
        units, back = "c0", f"CAST({result} AS INT)"
    else:
        units = "c0 div INTERVAL '0.000001' SECOND"
        back = f"CAST({result} AS BIGINT) * INTERVAL '0.000001' SECOND"
    text = (
        f"CAST({units} AS {type_.name if type_.digits else type_.name.replace('long', 'bigint')})"
    )
    constant = Typed({"literal": {"string": text}}, SparkType("string", nullable=False))
    number = scope.by_text((constant, value), SparkType(type_.name, value.type.nullable))
    total = decimal(38, 19, nullable=True) if type_.digits else type_
    return _Call(urn, name, (number,), total, type_of(tree.type).name, text=back)


_OF_UNITS = {
    "sum": (SparkType("long"), "c0"),
    # Spark rounds the quotient once, to the unit: at 19 places no other quotient ends in .5.
    "avg": (SparkType("decimal(34,15)"), "round(c0)"),
    "percentile_cont": (SparkType("double"), "c0"),
}
"""Function of numbers in place of intervals -> the type of the numbers, and SQL of a number of units."""


def _with_nulls(scope: Scope, call: _Call, conditions: list[Typed]) -> _Call:
    """Return a call whose values are null in rows that do not count."""
    condition = _every(scope, conditions)

    def mask(value: Typed) -> Typed:
        """Return a value that is null where the condition is not true."""
        clause = {"if": condition.message, "then": value.message}
        body = {"ifs": [clause], "else": null(value.type.name).message}
        return Typed({"ifThen": body}, SparkType(value.type.name))

    if not call.arguments:  # count(*)
        true = Typed({"literal": {"boolean": True}}, SparkType("boolean", nullable=False))
        return replace(call, arguments=(mask(true),))
    values = call.arguments[: 1 if call.name in _WITH_CONSTANT else None]
    rest = call.arguments[len(values) :]
    return replace(call, arguments=(*map(mask, values), *rest))


_WITH_CONSTANT = frozenset(
    {"hyperloglog_count", "percentile_cont", "percentile_disc", "string_agg"}
)
"""Functions whose last argument is a constant."""


def is_pivot(tree: SparkTree) -> bool:
    """Return whether a measure has a list with a value per column of a pivot."""
    return is_measure(tree) and tree.children[0].kind == "PivotFirst"


def pivot_values(scope: Scope, tree: SparkTree) -> list[TranslatedMeasure]:
    """Return a measure per column of a pivot: the value of the only row of the group with its key."""
    (function,) = tree.children
    key, value = (scope.translate(function.fields[name]) for name in ("pivotColumn", "valueColumn"))
    boolean = SparkType("boolean", nullable=False)
    type_ = SparkType(value.type.name)
    measures = []
    for text in function.fields["pivotColumnValues"]:
        searched = constant(key.type, text)
        if searched is None:
            raise not_supported(function, f"of keys of type {key.type.name}")
        same = scope.call("comparison", "is_not_distinct_from", (key, searched), boolean)
        body = {
            "functionReference": scope.context.reference(
                "aggregate_generic", "any_value", (value,)
            ),
            "arguments": [{"value": value.message}],
            "outputType": type_.message(),
            "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
            "invocation": "AGGREGATION_INVOCATION_ALL",
        }
        message = {"measure": body, "filter": same.message}
        measures.append(TranslatedMeasure(message, type_, lambda found: found))
    return measures


def _call(scope: Scope, function: SparkTree) -> _Call:
    make = _FUNCTIONS.get(function.kind)
    if make is not None:
        return make(scope, function)
    if function.replacement is not None:
        return _call(scope, function.replacement)
    raise not_supported(function)


def _every(scope: Scope, conditions: list[Typed]) -> Typed:
    if len(conditions) == 1:
        return conditions[0]
    return scope.call("boolean", "and", conditions, SparkType("boolean"))


def _count(scope: Scope, tree: SparkTree) -> _Call:
    type_ = SparkType("long", nullable=False)
    values = tuple(
        scope.translate(c)
        for c in tree.children
        if c.kind != "Literal" or c.fields["value"] is None
    )
    return _Call("aggregate_generic", "count", values, type_, "long")


def _sum(scope: Scope, tree: SparkTree) -> _Call:
    _check_errors(tree)
    value = scope.translate(tree.children[0])
    if value.type.digits:
        precision, scale = value.type.digits
        result = decimal(precision + 10, scale, nullable=True).name
        return _Call(
            "arithmetic_decimal", "sum", (value,), decimal(38, scale, nullable=True), result
        )
    if value.type.interval:
        return _of_units(scope, tree, value, "arithmetic", "sum")
    if value.type.name in INTEGERS:
        return _Call("arithmetic", "sum", (value,), SparkType("long"), "long")
    return _Call("arithmetic", "sum", (_double(tree, value),), SparkType("double"), "double")


def _average(scope: Scope, tree: SparkTree) -> _Call:
    _check_errors(tree)
    value = scope.translate(tree.children[0])
    if value.type.interval:
        return _of_units(scope, tree, value, "arithmetic_decimal", "avg")
    if value.type.digits:
        precision, scale = (min(MOST_DIGITS, digits + 4) for digits in value.type.digits)
        if scale > _MOST_PLACES:
            raise not_supported(
                tree, f"of decimals with more than {_MOST_PLACES - 4} decimal places"
            )
        type_ = decimal(precision, scale, nullable=True)
        return _Call("arithmetic_decimal", "avg", (value,), type_, type_.name)
    return _Call("arithmetic", "avg", (_double(tree, value),), SparkType("double"), "double")


def _check_errors(tree: SparkTree) -> None:
    if gives_null_for_errors(tree):
        raise not_supported(tree, "it is null where the total is too large; use it without try_")


def _double(tree: SparkTree, value: Typed) -> Typed:
    if value.type.name not in (*INTEGERS, "float", "double"):
        raise not_supported(tree, f"of {value.type.name}")
    return cast(value, "double")


def _extreme(scope: Scope, tree: SparkTree, *, name: str) -> _Call:
    """Return the call for the type of its argument."""
    value = scope.translate(tree.children[0])
    type_ = SparkType(value.type.name)
    urn = {"decimal": "arithmetic_decimal", "date": "datetime", "times": "datetime"}.get(
        "decimal" if value.type.digits else value.type.name, "arithmetic"
    )
    return _Call(urn, name, (value,), type_, type_.name)


def _moment(scope: Scope, tree: SparkTree, *, name: str, enum: str = "") -> _Call:
    """Return the call of a function of one or two doubles over a sample or a population."""
    values = tuple(scope.translate(child) for child in tree.children)
    doubles = tuple(_double(tree, value) for value in values)
    return _Call("arithmetic", name, doubles, SparkType("double"), "double", enum)


def _by(scope: Scope, tree: SparkTree, *, name: str) -> _Call:
    value, order = scope.arguments(tree)
    type_ = SparkType(value.type.name)
    return _Call("arithmetic", name, (value, order), type_, type_.name)


def _of_same_type(scope: Scope, tree: SparkTree, *, name: str) -> _Call:
    value = scope.translate(tree.children[0])
    type_ = SparkType(value.type.name)
    return _Call("arithmetic", name, (value,), type_, type_.name)


def _mode(scope: Scope, tree: SparkTree) -> _Call:
    """Return the call of the most frequent value; of several the greatest if it sorts in descending order."""
    least = tree.fields["reverseOpt"] is not False
    call = _of_same_type(scope, tree, name="mode")
    return call if least else replace(call, options={"TIES": "GREATEST"})


def _place(scope: Scope, tree: SparkTree, *, name: str) -> _Call:
    """Return the call of the first or last value in the order in which rows arrive."""
    value = scope.translate(tree.children[0])
    type_ = SparkType(value.type.name)
    options = {"IGNORE_NULLS": "TRUE" if tree.fields["ignoreNulls"] else "FALSE"}
    return _Call("aggregate_generic", name, (value,), type_, type_.name, options=options)


def _collect(scope: Scope, tree: SparkTree, *, name: str) -> _Call:
    if tree.fields.get("ignoreNulls") is False:
        raise not_supported(tree, "with RESPECT NULLS")
    value = scope.translate(tree.children[0])
    type_ = type_of(tree.type, nullable=False)
    return _Call("list", name, (value,), type_, type_.name)


def _percentile(scope: Scope, tree: SparkTree, *, name: str) -> _Call:
    value = scope.translate(tree.fields["child"])
    fraction, reverse = tree.fields["percentageExpression"], tree.fields.get("reverse", False)
    frequency = tree.fields.get("frequencyExpression")
    if fraction.kind != "Literal" or (frequency is not None and frequency.fields["value"] != "1"):
        raise not_supported(tree, "only with one constant share, and without frequencies")
    if fraction.type not in ("double",) and not SparkType(str(fraction.type)).digits:
        raise not_supported(tree, "only with one share; write a call per share")
    share = Decimal(fraction.fields["value"])
    part = {"literal": {"fp64": float(1 - share if reverse else share)}}
    constant = Typed(part, SparkType("double", nullable=False))
    if name == "percentile_cont" and value.type.interval:
        call = _of_units(scope, tree, value, "arithmetic", name)
        return replace(call, arguments=(*call.arguments, constant))
    if name == "percentile_cont":
        value = _double(tree, value) if not value.type.digits else cast(value, "double")
        return _Call("arithmetic", name, (value, constant), SparkType("double"), "double")
    if reverse:
        raise not_supported(tree, "in descending order")
    type_ = SparkType(value.type.name)
    return _Call("arithmetic", name, (value, constant), type_, type_of(tree.type).name)


def _approximate(scope: Scope, tree: SparkTree) -> _Call:
    """Return the estimate of the number of distinct values."""
    value = scope.translate(tree.children[0])
    long = SparkType("long", nullable=False)
    deviation = float(tree.fields["relativeSD"])
    if value.type.nested or value.type.name.startswith(("time(", "interval")):
        raise not_supported(tree, f"of {value.type.name}; count(DISTINCT ...) is exact")
    if deviation < LEAST_DEVIATION:
        raise not_supported(tree, f"with a deviation below {LEAST_DEVIATION}")
    part = Typed({"literal": {"fp64": deviation}}, SparkType("double", nullable=False))
    return _Call("aggregate_approx", "hyperloglog_count", (value, part), long, "long")


_NO_HLL = "X'0201070c030400080000000000000000000000000000000000000000000000000000000000000000'"
_NO_THETA = "X'01030300001e0000'"
"""What Spark gives for no sketch: an empty one."""


def _sketches(scope: Scope, tree: SparkTree, *, text: str) -> _Call:
    """Return the list of the sketches of a group, and their merger by a function of one row."""
    value, *options = tree.children
    if any(option.kind != "Literal" for option in options):
        raise not_supported(tree, "its second argument must be a constant")
    sketch = scope.translate(value)
    if sketch.type.name != "binary":
        raise not_supported(tree, f"of {sketch.type.name}")
    type_ = type_of({"type": "array", "elementType": "binary", "containsNull": False})
    merged = text.format(*(option.fields["value"] for option in options))
    collected = SparkType(type_.name, nullable=False)
    return _Call("list", "collect_list", (sketch,), collected, "binary", text=merged)


def _list_text(scope: Scope, tree: SparkTree) -> _Call:
    value, separator = scope.translate(tree.fields["child"]), tree.fields["delimiter"]
    if separator.kind != "Literal" or value.type.name != "string":
        raise not_supported(tree, "only of texts, with a constant delimiter")
    text = {"literal": {"string": separator.fields["value"] or ""}}
    constant = Typed(text, SparkType("string", nullable=False))
    orders = tuple(sorts(scope, tree.fields.get("orderExpressions") or []))
    string = SparkType("string")
    return _Call("string", "string_agg", (value, constant), string, "string", sorts=orders)


_SAMPLE, _POPULATION = "SAMPLE", "POPULATION"

_FUNCTIONS: dict[str, Callable[[Scope, SparkTree], _Call]] = {
    "ApproximatePercentile": partial(_percentile, name="percentile_disc"),
    "Average": _average,
    "BitAndAgg": partial(_of_same_type, name="bit_and"),
    "BitOrAgg": partial(_of_same_type, name="bit_or"),
    "BitXorAgg": partial(_of_same_type, name="bit_xor"),
    "CollectList": partial(_collect, name="collect_list"),
    "CollectSet": partial(_collect, name="collect_set"),
    "Corr": partial(_moment, name="corr"),
    "Count": _count,
    "CovPopulation": partial(_moment, name="covar", enum=_POPULATION),
    "CovSample": partial(_moment, name="covar", enum=_SAMPLE),
    "First": partial(_place, name="first"),
    "HllUnionAgg": partial(
        _sketches,
        text=f"if(size(c0) = 0, {_NO_HLL}, "
        "reduce(slice(c0, 2, size(c0)), get(c0, 0), (a, b) -> hll_union(a, b, {})))",
    ),
    "HyperLogLogPlusPlus": _approximate,
    "Last": partial(_place, name="last"),
    "ListAgg": _list_text,
    "Max": partial(_extreme, name="max"),
    "MaxBy": partial(_by, name="max_by"),
    "Min": partial(_extreme, name="min"),
    "MinBy": partial(_by, name="min_by"),
    "Mode": _mode,
    "Percentile": partial(_percentile, name="percentile_cont"),
    "PercentileDisc": partial(_percentile, name="percentile_disc"),
    "StddevPop": partial(_moment, name="std_dev", enum=_POPULATION),
    "StddevSamp": partial(_moment, name="std_dev", enum=_SAMPLE),
    "Sum": _sum,
    "ThetaIntersectionAgg": partial(
        _sketches,
        text=f"if(size(c0) = 0, {_NO_THETA}, "
        "reduce(c0, get(c0, 0), (a, b) -> theta_intersection(a, b)))",
    ),
    "ThetaUnionAgg": partial(
        _sketches, text=f"reduce(c0, {_NO_THETA}, (a, b) -> theta_union(a, b, {{}}))"
    ),
    "VariancePop": partial(_moment, name="variance", enum=_POPULATION),
    "VarianceSamp": partial(_moment, name="variance", enum=_SAMPLE),
}
"""Class of an aggregate function in Spark -> how it is translated."""
