"""Aggregate functions of Spark as measures of Substrait."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any

from substrait_agg.functions import merge_texts
from substrait_agg.functions.aggregates.types import LEAST_DEVIATION
from substrait_agg.spark.catalyst.analyzed.tree import SparkTree
from substrait_agg.spark.catalyst.translation.scope import (
    Scope,
    cast,
    decimal_cast,
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
    array_of,
    decimal,
    struct_of,
    type_of,
)

_MOST_PLACES = 24
"""Decimal places of an average up to which Spark's rounding, to 39 places first, changes no value.

It could from 10^15 rows on.
"""


@dataclass(frozen=True)
class TranslatedMeasure:
    """The measures of a call as JSON, and its result.

    Attributes:
        messages: the measures with their filters.
        types: the types of their values.
        result: turns their values into that of Spark's function.
    """

    messages: tuple[dict[str, Any], ...]
    types: tuple[SparkType, ...]
    result: Callable[[Sequence[Typed]], Typed]


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
        others: further calls, whose values are called c1, c2 and so on.
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
    others: tuple[_Call, ...] = ()


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
    first = _call(scope, function)
    calls = (first, *first.others)
    messages = tuple(_message(scope, tree, call, filters, filtered=filtered) for call in calls)

    def result(values: Sequence[Typed]) -> Typed:
        """Return the value of Spark's function."""
        if not first.text:
            return cast(values[0], first.as_type)
        text = Typed({"literal": {"string": first.text}}, SparkType("string", nullable=False))
        return scope.by_text([text, *values], SparkType(first.as_type))

    return TranslatedMeasure(messages, tuple(call.type for call in calls), result)


def _message(
    scope: Scope, tree: SparkTree, call: _Call, filters: Sequence[SparkTree], *, filtered: bool
) -> dict[str, Any]:
    """Return a measure with its filter."""
    distinct = bool(tree.fields["isDistinct"])
    if distinct and not call.arguments:  # of constants
        children = tree.children[0].children
        call = replace(call, arguments=tuple(map(scope.translate, children)))
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
    if not conditions:
        return {"measure": body}
    return {"measure": body, "filter": _every(scope, conditions).message}


def _of_units(scope: Scope, tree: SparkTree, value: Typed, urn: str, name: str) -> _Call:
    """Return the call of a function of months or microseconds in place of intervals."""
    type_, result = _OF_UNITS[name]
    convert = "try_cast" if name == "try_sum" else "CAST"
    if value.type.interval == "intervalYear":  # a number of months in plans
        units, back = "c0", f"{convert}({result} AS INT)"
    else:
        units = "c0 div INTERVAL '0.000001' SECOND"
        back = f"{convert}({result} AS BIGINT) * INTERVAL '0.000001' SECOND"
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
    "try_sum": (SparkType("decimal(19,0)"), "c0"),
    "percentile_cont": (SparkType("double"), "c0"),
}
"""Function of numbers in place of intervals -> the type of the numbers, and SQL of a number of units."""


def _with_nulls(scope: Scope, call: _Call, conditions: list[Typed]) -> _Call:
    """Return a call whose values are null in rows that do not count."""
    condition = _every(scope, conditions)
    if not call.arguments:  # count(*)
        true = Typed({"literal": {"boolean": True}}, SparkType("boolean", nullable=False))
        return replace(call, arguments=(mask(true, condition),))
    values = call.arguments[: 1 if call.name in _WITH_CONSTANT else None]
    rest = call.arguments[len(values) :]
    return replace(call, arguments=(*(mask(value, condition) for value in values), *rest))


def mask(value: Typed, condition: Typed) -> Typed:
    """Return a value that is null where a condition is not true."""
    clause = {"if": condition.message, "then": value.message}
    body = {"ifs": [clause], "else": null(value.type.name).message}
    return Typed({"ifThen": body}, SparkType(value.type.name))


_WITH_CONSTANT = frozenset(
    {"hyperloglog_count", "percentile_cont", "percentile_disc", "string_agg"}
)
"""Functions whose last argument is a constant."""


def _call(scope: Scope, function: SparkTree) -> _Call:
    make = _FUNCTIONS.get(function.kind)
    if make is not None:
        return make(scope, function)
    if function.replacement is not None:
        return _call(scope, function.replacement)
    by_order = function.kind.startswith(_BY_ORDER)
    raise not_supported(function, "its value depends on the order of the rows" if by_order else "")


_BY_ORDER = ("ApproxTopK", "HistogramNumeric", "HllSketch", "Kll", "ThetaSketch", "Tuple", "Vector")
"""How the names of classes begin whose values depend on the order in which Spark reads the rows."""


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
    value = scope.translate(tree.children[0])
    if gives_null_for_errors(tree) and tree.type != "double":
        return _sum_or_null(scope, tree, value)
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


def _sum_or_null(scope: Scope, tree: SparkTree, value: Typed) -> _Call:
    """Return a sum that is null where it is too large: one of 38 digits, and a cast that gives null."""
    result = type_of(tree.type)
    if value.type.interval:
        call = _of_units(scope, tree, value, "arithmetic_decimal", "try_sum")
    else:
        precision, scale = value.type.digits or (_LONG_DIGITS, 0)
        number = decimal_cast(value, precision, scale)
        name = "BIGINT" if result.name == "long" else result.name
        call = _Call(
            "arithmetic_decimal", "sum", (number,), decimal(38, scale, nullable=True), result.name,
            text=f"try_cast(c0 AS {name})",
        )  # fmt: skip
    return replace(call, name="sum", options=_SILENT)


_LONG_DIGITS = 19
_SILENT = {"OVERFLOW": "SILENT"}
"""A decimal that is too large becomes null."""


def _average(scope: Scope, tree: SparkTree) -> _Call:
    value = scope.translate(tree.children[0])
    if value.type.interval:
        mean = _of_units(scope, tree, value, "arithmetic_decimal", "avg")
        if not gives_null_for_errors(tree):
            return mean
        total = _sum_or_null(scope, tree, value)
        text = f"if({total.text.replace('c0', 'c1')} IS NULL, NULL, {mean.text})"
        return replace(mean, text=text, others=(total,))
    if value.type.digits:
        precision, scale = (min(MOST_DIGITS, digits + 4) for digits in value.type.digits)
        if scale > _MOST_PLACES:
            raise not_supported(
                tree, f"of decimals with more than {_MOST_PLACES - 4} decimal places"
            )
        type_ = decimal(precision, scale, nullable=True)
        options = _SILENT if gives_null_for_errors(tree) else {}
        return _Call("arithmetic_decimal", "avg", (value,), type_, type_.name, options=options)
    return _Call("arithmetic", "avg", (_double(tree, value),), SparkType("double"), "double")


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


def _regression(scope: Scope, tree: SparkTree, *, names: str, text: str) -> _Call:
    """Return a function of pairs without nulls as an expression over other functions of them.

    Args:
        scope: the columns of the rows.
        tree: the call, of y and x, or of y.
        names: the functions, named in `_OF_PAIRS`.
        text: the expression of their values.
    """
    values = {"yx"[i]: _double(tree, value) for i, value in enumerate(scope.arguments(tree))}
    boolean = SparkType("boolean", nullable=False)
    pairs = tuple(scope.call("comparison", "is_not_null", (v,), boolean) for v in values.values())
    calls = []
    for word in names.split():
        name, of, enum = _OF_PAIRS[word]
        arguments = tuple(values[v] for v in of)
        type_ = SparkType("long" if name == "count" else "double", name != "count")
        urn = "aggregate_generic" if name == "count" else "arithmetic"
        calls.append(_Call(urn, name, arguments, type_, "double", enum, conditions=pairs))
    return replace(calls[0], text=text, others=tuple(calls[1:]))


_OF_PAIRS = {
    "correlation": ("corr", "yx", ""),
    "count": ("count", "y", ""),
    "covariance": ("covar", "yx", "POPULATION"),
    "mean_x": ("avg", "x", ""),
    "mean_y": ("avg", "y", ""),
    "variance_x": ("variance", "x", "POPULATION"),
    "variance_y": ("variance", "y", "POPULATION"),
}
"""Word -> function, its arguments and its distribution."""


def _by(scope: Scope, tree: SparkTree, *, name: str) -> _Call:
    value, order = scope.arguments(tree)
    type_ = SparkType(value.type.name)
    return _Call("arithmetic", name, (value, order), type_, type_.name)


def _most_by(scope: Scope, tree: SparkTree) -> _Call:
    """Return the first or last values of the list of all orders and values."""
    value, order = map(scope.translate, tree.children[:2])
    count = tree.children[2]
    if count.kind != "Literal":
        raise not_supported(tree, "its third argument must be a constant")
    row = struct_of((order.type, value.type))
    nested = {"nested": {"struct": {"fields": [order.message, value.message]}}}
    listed = array_of(row)
    boolean = SparkType("boolean", nullable=False)
    ordered = scope.call("comparison", "is_not_null", (order,), boolean)
    rows = "c0" if tree.fields["reverse"] else "reverse(c0)"
    return _Call(
        "list", "collect_list", (Typed(nested, row),), listed, array_of(value.type).name,
        conditions=(ordered,),
        text=f"if(size(c0) = 0, NULL, transform(slice({rows}, 1, {count.fields['value']}), r -> r.f1))",
    )  # fmt: skip


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
    value = scope.translate(tree.children[0])
    type_ = type_of(tree.type, nullable=False)
    if tree.fields.get("ignoreNulls") is not False:
        return _Call("list", name, (value,), type_, type_.name)
    text = (
        "coalesce(c0, array())"
        if name == "collect_list"
        else "coalesce(array_distinct(c0), array())"
    )
    return _Call("list", "array_agg", (value,), SparkType(type_.name), type_.name, text=text)


def _percentiles(scope: Scope, tree: SparkTree, *, name: str) -> _Call:
    """Return a percentile, or a list of them: a call for each."""
    fraction, frequency = (
        tree.fields["percentageExpression"],
        tree.fields.get("frequencyExpression"),
    )
    if fraction.kind != "Literal":
        raise not_supported(tree, "only with constant shares")
    value = scope.translate(tree.fields["child"])
    if frequency is None or (frequency.kind, frequency.fields.get("value")) == ("Literal", "1"):
        of_share = partial(_percentile, scope, tree, value, name)
    else:
        of_share = partial(_repeated_percentile, scope, tree, value, scope.translate(frequency))
    if not isinstance(fraction.type, dict):
        return of_share(Decimal(fraction.fields["value"]))
    shares = list(map(Decimal, fraction.fields["value"]))
    if not shares:
        raise not_supported(tree, "without a share")
    first, *others = calls = list(map(of_share, shares))
    convert = "double" if tree.type["elementType"] == "double" else ""
    items = [(call.text or f"{convert}(c0)").replace("c0", f"c{i}") for i, call in enumerate(calls)]
    text = f"if({items[0]} IS NULL, NULL, array({', '.join(items)}))"
    return replace(first, text=text, as_type=type_of(tree.type).name, others=tuple(others))


def _repeated_percentile(
    scope: Scope, tree: SparkTree, value: Typed, frequency: Typed, share: Decimal
) -> _Call:
    """Return a percentile of values of which each counts as often as its frequency says."""
    text = merge_texts.PERCENTILE.format(float(share))
    if value.type.interval:
        units = _of_units(scope, tree, value, "arithmetic", "percentile_cont")
        (value,), text = units.arguments, units.text.replace("c0", text)
    times = cast(frequency, "long")
    row, boolean = struct_of((value.type, times.type)), SparkType("boolean", nullable=False)
    nested = {"nested": {"struct": {"fields": [value.message, times.message]}}}
    count = tuple(scope.call("comparison", "is_not_null", (v,), boolean) for v in (value, times))
    return _Call(
        "list", "collect_list", (Typed(nested, row),), array_of(row), type_of(tree.type).name,
        conditions=count, text=text,
    )  # fmt: skip


def _percentile(scope: Scope, tree: SparkTree, value: Typed, name: str, share: Decimal) -> _Call:
    reverse = bool(tree.fields.get("reverse", False))
    turned = reverse and name == "percentile_cont"
    part = {"literal": {"fp64": float(1 - share if turned else share)}}
    constant = Typed(part, SparkType("double", nullable=False))
    if name == "percentile_cont" and value.type.interval:
        call = _of_units(scope, tree, value, "arithmetic", name)
        return replace(call, arguments=(*call.arguments, constant))
    if name == "percentile_cont":
        value = _double(tree, value) if not value.type.digits else cast(value, "double")
        return _Call("arithmetic", name, (value, constant), SparkType("double"), "double")
    type_ = SparkType(value.type.name)
    order = {"expr": value.message, "direction": "SORT_DIRECTION_DESC_NULLS_LAST"}
    sorts = (order,) if reverse else ()
    return _Call("arithmetic", name, (value, constant), type_, type_of(tree.type).name, sorts=sorts)


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


def _listed(scope: Scope, tree: SparkTree, *, text: str, name: str = "collect_list") -> _Call:
    """Return the list of the values of a group, and its merger by a function of one row."""
    value, *options = tree.children
    if any(option.kind != "Literal" for option in options):
        raise not_supported(tree, "its further arguments must be constants")
    argument = scope.translate(value)
    listed = array_of(SparkType(argument.type.name, nullable=False))
    merged = text.format(*(option.fields["value"] for option in options))
    return _Call("list", name, (argument,), listed, type_of(tree.type).name, text=merged)


def _count_min(scope: Scope, tree: SparkTree) -> _Call:
    """Return a sketch with counters for an error and a probability that Spark reads as their numbers."""
    value, *constants = tree.children
    if any(constant.kind != "Literal" for constant in constants):
        raise not_supported(tree, "its further arguments must be constants")
    error, confidence, seed = (float(constant.fields["value"]) for constant in constants)
    depth, width = math.ceil(-math.log1p(-confidence) / math.log(2)), math.ceil(2 / error)
    long = SparkType("long", nullable=False)
    sizes = (Typed({"literal": {"i64": str(int(n))}}, long) for n in (depth, width, seed))
    binary = SparkType("binary", nullable=False)
    return _Call(
        "aggregate_approx", "count_min_sketch", (scope.translate(value), *sizes), binary, "binary"
    )


def _union(scope: Scope, tree: SparkTree) -> _Call:
    """Return the distinct elements of lists."""
    value = scope.translate(tree.children[0])
    type_ = SparkType(value.type.name, nullable=False)
    text = "c0" if tree.fields["ignoreNulls"] is False else "array_compact(c0)"
    return _Call(
        "list", "list_union_distinct_agg", (value,), type_, type_of(tree.type).name, text=text
    )


def _list_text(scope: Scope, tree: SparkTree) -> _Call:
    """Return the list of texts as one; that of binary values is one of hexadecimal digits first."""
    value, separator = scope.translate(tree.fields["child"]), tree.fields["delimiter"]
    type_ = value.type.name
    if separator.kind != "Literal" or type_ not in ("string", "binary"):
        raise not_supported(tree, "only of texts and binary values, with a constant delimiter")
    between, orders = separator.fields["value"] or "", sorts(scope, tree.fields.get("orderExpressions") or [])  # fmt: skip
    if type_ == "binary":
        between, own = base64.b64decode(between).hex(), value
        hex_ = Typed({"literal": {"string": "hex(c0)"}}, SparkType("string", nullable=False))
        value = scope.by_text((hex_, own), SparkType("string", own.type.nullable))
        # Hexadecimal digits have the order of the bytes.
        orders = [{**o, "expr": value.message} if o["expr"] == own.message else o for o in orders]
    text = {"literal": {"string": between}}
    constant = Typed(text, SparkType("string", nullable=False))
    result = "unhex(c0)" if type_ == "binary" else ""
    return _Call(
        "string", "string_agg", (value, constant), SparkType("string"), type_,
        sorts=tuple(orders), text=result,
    )  # fmt: skip


_SAMPLE, _POPULATION = "SAMPLE", "POPULATION"

_FUNCTIONS: dict[str, Callable[[Scope, SparkTree], _Call]] = {
    "ApproximatePercentile": partial(_percentiles, name="percentile_disc"),
    "Average": _average,
    "BitAndAgg": partial(_of_same_type, name="bit_and"),
    "BitmapAndAgg": partial(
        _listed, name="collect_set", text=merge_texts.BITMAPS.format("FF", "&")
    ),
    "BitmapConstructAgg": partial(_listed, name="collect_set", text=merge_texts.BITMAP),
    "BitmapOrAgg": partial(_listed, name="collect_set", text=merge_texts.BITMAPS.format("00", "|")),
    "BitOrAgg": partial(_of_same_type, name="bit_or"),
    "BitXorAgg": partial(_of_same_type, name="bit_xor"),
    "CollectList": partial(_collect, name="collect_list"),
    "CollectSet": partial(_collect, name="collect_set"),
    "CollectUnion": _union,
    "Corr": partial(_moment, name="corr"),
    "Count": _count,
    "CountMinSketchAgg": _count_min,
    "CovPopulation": partial(_moment, name="covar", enum=_POPULATION),
    "CovSample": partial(_moment, name="covar", enum=_SAMPLE),
    "First": partial(_place, name="first"),
    "HllUnionAgg": partial(_listed, text=merge_texts.HLL_UNION),
    "HyperLogLogPlusPlus": _approximate,
    "Kurtosis": partial(_moment, name="population_kurtosis"),
    "Last": partial(_place, name="last"),
    "ListAgg": _list_text,
    "MaxMinByK": _most_by,
    "Max": partial(_extreme, name="max"),
    "MaxBy": partial(_by, name="max_by"),
    "Min": partial(_extreme, name="min"),
    "MinBy": partial(_by, name="min_by"),
    "Mode": _mode,
    "Percentile": partial(_percentiles, name="percentile_cont"),
    "PercentileDisc": partial(_percentiles, name="percentile_disc"),
    "RegrIntercept": partial(
        _regression,
        names="covariance variance_x mean_y mean_x",
        text="if(c1 = 0D, NULL, c2 - c0 / c1 * c3)",
    ),
    "RegrR2": partial(
        _regression,
        names="correlation variance_x variance_y",
        text="if(c1 = 0D, NULL, if(c2 = 0D, 1D, c0 * c0))",
    ),
    "RegrReplacement": partial(_regression, names="variance_y count", text="c0 * c1"),
    "RegrSXY": partial(_regression, names="covariance count", text="c0 * c1"),
    "RegrSlope": partial(
        _regression, names="covariance variance_x", text="if(c1 = 0D, NULL, c0 / c1)"
    ),
    "SchemaOfVariantAgg": partial(_listed, name="collect_set", text=merge_texts.VARIANT_SCHEMA),
    "Skewness": partial(_moment, name="population_skewness"),
    "StddevPop": partial(_moment, name="std_dev", enum=_POPULATION),
    "StddevSamp": partial(_moment, name="std_dev", enum=_SAMPLE),
    "Sum": _sum,
    "ThetaIntersectionAgg": partial(_listed, text=merge_texts.THETA_INTERSECTION),
    "ThetaUnionAgg": partial(_listed, text=merge_texts.THETA_UNION),
    "VariancePop": partial(_moment, name="variance", enum=_POPULATION),
    "VarianceSamp": partial(_moment, name="variance", enum=_SAMPLE),
}
"""Class of an aggregate function in Spark -> how it is translated."""
