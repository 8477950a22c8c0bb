"""Window functions of Spark as window functions of Substrait."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from substrait_agg.spark.catalyst.analyzed.tree import SparkTree
from substrait_agg.spark.catalyst.translation.aggregates import is_measure, mask, measure
from substrait_agg.spark.catalyst.translation.scope import (
    DAY,
    Scope,
    cast,
    check_measure,
    decimal_constant,
    duration,
    in_other_zone,
    not_supported,
)
from substrait_agg.spark.catalyst.translation.times import interval_of
from substrait_agg.spark.catalyst.translation.types import (
    INTEGERS,
    SparkType,
    Typed,
    struct_of,
)

RANKINGS: Mapping[str, str] = {"DenseRank": "dense_rank", "Rank": "rank", "RowNumber": "row_number"}
"""Class of a function of positions in Spark -> its name in Substrait."""

_SHARES: Mapping[str, str] = {"CumeDist": "cume_dist", "PercentRank": "percent_rank"}
_NEIGHBOURS: Mapping[str, tuple[str, str]] = {"Lag": ("lag", "lead"), "Lead": ("lead", "lag")}
"""Class of a function of the row at a distance -> its name, and that for a distance below zero."""
_PLACES: Mapping[str, str] = {"First": "first_value", "Last": "last_value", "NthValue": "nth_value"}

_BOUNDS: Mapping[str, Mapping[str, Any]] = {
    "UnboundedPreceding": {"unbounded": {}},
    "CurrentRow": {"currentRow": {}},
    "UnboundedFollowing": {"unbounded": {}},
}
_ROWS, _VALUES = "BOUNDS_TYPE_ROWS", "BOUNDS_TYPE_RANGE"
_FRAMES = {"RowFrame": _ROWS, "RangeFrame": _VALUES}
_FLOATS = {"float": "fp32", "double": "fp64"}


def window_function(
    scope: Scope, tree: SparkTree, partitions: list[Any], sorts: list[dict[str, Any]]
) -> Typed:
    """Return the value of a window function.

    Args:
        scope: the columns of the rows.
        tree: a function over a specification of a window.
        partitions: the keys of the partitions.
        sorts: the order of the rows.

    Raises:
        Refusal: it cannot be translated.
    """
    if tree.kind != "WindowExpression":
        raise not_supported(tree, "in place of a window function")
    function, specification = tree.children
    filters: Sequence[SparkTree] = ()
    if is_measure(function):
        aggregate, *conditions = function.children
        place = aggregate.replacement or aggregate
        if place.kind in _PLACES:
            function, filters = place, conditions
    frame = _frame(scope, specification)
    if filters and function.kind == "First" and sorts and _begins_at_start(frame):
        raise not_supported(
            function, "with FILTER over ROWS from UNBOUNDED PRECEDING, where Spark drops the FILTER"
        )
    calls, finish = _filter_place(scope, function, *filters) if filters else _calls(scope, function)

    def over(body: dict[str, Any], type_: SparkType) -> Typed:
        """Return a call over the window."""
        if function.fields.get("ignoreNulls") or filters:
            body = {**body, "options": [{"name": "IGNORE_NULLS", "preference": ["TRUE"]}]}
        window = {
            **body,
            **frame,
            "partitions": partitions,
            "sorts": sorts or body.get("sorts", []),
            "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
        }
        return Typed({"windowFunction": window}, type_)

    return finish([over(*call) for call in calls])


def _begins_at_start(frame: Mapping[str, Any]) -> bool:
    """Return whether a frame has the rows of a partition up to the row, or all."""
    is_open = "unbounded" in frame["lowerBound"] and not {"preceding", "following"} & {*frame["upperBound"]}  # fmt: skip
    return is_open and frame["boundsType"] == _ROWS


_Calls = tuple[list[tuple[dict[str, Any], SparkType]], Callable[[Sequence[Typed]], Typed]]


def _filter_place(scope: Scope, function: SparkTree, condition: SparkTree) -> _Calls:
    """Return the first or last value of the rows that meet a condition, the only ones that are not null."""
    value, test = scope.translate(function.children[0]), scope.translate(condition)
    if function.fields.get("ignoreNulls"):
        inside = mask(value, test)
    else:
        nested = {"nested": {"struct": {"fields": [value.message]}}}
        inside = mask(Typed(nested, struct_of((value.type,))), test)

    def finish(values: Sequence[Typed]) -> Typed:
        """Return the value, out of its struct."""
        if function.fields.get("ignoreNulls"):
            return values[0]
        step = {"structField": {"field": 0}}
        selection = {"directReference": step, "expression": values[0].message}
        return Typed({"selection": selection}, SparkType(value.type.name))

    return [_call(scope, _PLACES[function.kind], (inside,), inside.type)], finish


def _calls(scope: Scope, function: SparkTree) -> _Calls:
    """Return the calls of a function with their types, and what turns their values into that of Spark."""
    if is_measure(function):
        check_measure(function)
        aggregate = measure(scope, function, filtered=False)
        bodies = [message["measure"] for message in aggregate.messages]
        return list(zip(bodies, aggregate.types, strict=True)), aggregate.result
    make = _FUNCTIONS.get(function.kind)
    if make is None:
        raise not_supported(function, "as a window function")
    body, type_, finish = make(scope, function)
    return [(body, type_)], lambda values: finish(values[0])


_Function = tuple[dict[str, Any], SparkType, Callable[[Typed], Typed]]
"""The call, its type, and what turns its value into that of Spark."""


def _call(
    scope: Scope, name: str, arguments: Sequence[Typed], type_: SparkType
) -> tuple[dict[str, Any], SparkType]:
    reference = scope.context.reference("arithmetic", name, arguments)
    values = [{"value": argument.message} for argument in arguments]
    return {
        "functionReference": reference,
        "arguments": values,
        "outputType": type_.message(),
    }, type_


def _translate_ranking(scope: Scope, tree: SparkTree) -> _Function:
    called = _call(scope, RANKINGS[tree.kind], (), SparkType("long", nullable=False))
    return *called, lambda value: cast(value, "integer")


def _share(scope: Scope, tree: SparkTree) -> _Function:
    return *_call(scope, _SHARES[tree.kind], (), SparkType("double", nullable=False)), _as_it_is


def _ntile(scope: Scope, tree: SparkTree) -> _Function:
    parts = scope.translate(tree.children[0])
    return *_call(scope, "ntile", (parts,), SparkType("integer", nullable=False)), _as_it_is


def _neighbour(scope: Scope, tree: SparkTree) -> _Function:
    value, default = scope.translate(tree.children[0]), tree.children[2]
    distance = _constant(tree, tree.children[1])
    name = _NEIGHBOURS[tree.kind][distance < 0]
    arguments = [value, _integer(abs(distance))]
    nullable = True
    if default.kind != "Literal" or default.fields["value"] is not None:
        arguments.append(scope.translate(default))
        nullable = value.type.nullable or arguments[-1].type.nullable
    return *_call(scope, name, arguments, SparkType(value.type.name, nullable)), _as_it_is


def _place(scope: Scope, tree: SparkTree) -> _Function:
    value, *place = tree.children
    arguments = [scope.translate(value), *(_integer(_constant(tree, number)) for number in place)]
    type_ = SparkType(arguments[0].type.name)
    return *_call(scope, _PLACES[tree.kind], arguments, type_), _as_it_is


_FUNCTIONS: Mapping[str, Callable[[Scope, SparkTree], _Function]] = {
    **dict.fromkeys(RANKINGS, _translate_ranking),
    **dict.fromkeys(_SHARES, _share),
    **dict.fromkeys(_NEIGHBOURS, _neighbour),
    **dict.fromkeys(_PLACES, _place),
    "NTile": _ntile,
}
"""Class of a window function in Spark that is no aggregate function -> how it is translated."""


def _as_it_is(value: Typed) -> Typed:
    return value


def _constant(tree: SparkTree, number: SparkTree) -> int:
    """Return an integer argument of a function."""
    sign, literal = (-1, number.children[0]) if number.kind == "UnaryMinus" else (1, number)
    if literal.kind != "Literal" or literal.type != "integer":
        raise not_supported(tree, "with a number that is not constant")
    return sign * int(literal.fields["value"])


def _integer(value: int) -> Typed:
    return Typed({"literal": {"i32": value}}, SparkType("integer", nullable=False))


# --- frames --------------------------------------------------------------------------------------


def _frame(scope: Scope, specification: SparkTree) -> dict[str, Any]:
    frame = next(t for t in specification.walk() if t.kind.endswith("WindowFrame"))
    if frame.kind != "SpecifiedWindowFrame":
        raise not_supported(frame)
    kind = _FRAMES[str(frame.fields["frameType"])]
    keys = [scope.translate(order.children[0]).type for order in specification.walk() if order.kind == "SortOrder"]  # fmt: skip
    key = keys[0].name if kind == _VALUES and keys else ""
    lower, upper = (_translate_bound(scope, frame, bound, key) for bound in frame.children)
    return {"lowerBound": lower, "upperBound": upper, "boundsType": kind}


def _translate_bound(
    scope: Scope, frame: SparkTree, bound: SparkTree, key: str
) -> Mapping[str, Any]:
    """Return a bound of a frame.

    Args:
        scope: the columns of the rows.
        frame: the frame.
        bound: the bound in Spark; a distance is below zero before the row.
        key: type of the sort key between whose values distances are; empty for rows.
    """
    fixed = _BOUNDS.get(bound.kind.rstrip("$"))
    if fixed is not None:
        return fixed
    if bound.type == "interval":
        return _calendar_bound(scope, frame, bound, key)
    distance, type_ = _distance(frame, bound)
    if not distance:
        return _BOUNDS["CurrentRow"]
    size = abs(distance)
    side: dict[str, Any] = {"offset": str(size)}
    if type_.startswith("interval"):
        side = {"offsetExpr": _interval(scope, frame, type_, int(size), key)}
    elif type_ in _FLOATS:
        side = {"offsetExpr": {"literal": {_FLOATS[type_]: float(size)}}}
    elif key == "date":
        side = {"offsetExpr": interval_of(int(size) * DAY)}
    elif SparkType(type_).digits:
        side = {"offsetExpr": decimal_constant(size, SparkType(type_, nullable=False)).message}
    elif type_ not in INTEGERS:
        raise not_supported(frame, f"with a distance of type {type_}")
    return {"preceding" if distance < 0 else "following": side}


def _distance(frame: SparkTree, tree: SparkTree) -> tuple[Decimal, str]:
    """Return a constant distance, in least units if it is an interval, and its type."""
    if tree.kind == "Literal" and tree.fields["value"] is not None:
        return Decimal(tree.fields["value"]), str(tree.type)
    if tree.kind not in ("Cast", "UnaryMinus"):
        raise not_supported(frame, "with a distance that is not constant")
    distance, type_ = _distance(frame, tree.children[0])
    if tree.kind == "UnaryMinus":
        return -distance, type_
    # Spark casts a distance to the type of the sort key.
    target = str(tree.type)
    digits = SparkType(target).digits
    if digits:
        return distance.quantize(Decimal(1).scaleb(-digits[1]), ROUND_HALF_UP), target
    return (Decimal(int(distance)) if target in INTEGERS else distance), target


def _interval(scope: Scope, frame: SparkTree, type_: str, size: int, key: str) -> dict[str, Any]:
    """Return a literal of an interval of microseconds or months."""
    of_months = "month" in type_ or "year" in type_
    if of_months or size >= DAY:
        _check_zone(scope, frame, key)
    if of_months:
        return {"literal": {"intervalYearToMonth": {"months": size}}}
    return interval_of(size)


def _check_zone(scope: Scope, frame: SparkTree, key: str) -> None:
    """Refuse days of points in time whose length depends on the zone of the session."""
    zone = scope.context.tables.zone
    if key == "timestamp" and zone != "UTC":
        raise in_other_zone(frame, zone)


def _calendar_bound(
    scope: Scope, frame: SparkTree, bound: SparkTree, key: str
) -> Mapping[str, Any]:
    """Return a bound by months, days and microseconds together."""
    if bound.kind != "Literal":
        raise not_supported(frame, "with a distance that is not constant")
    _check_zone(scope, frame, key)
    months, days, micros = map(int, bound.fields["value"])
    rest = days * DAY + micros
    if not (months or rest):
        return _BOUNDS["CurrentRow"]
    sign = -1 if (months or rest) < 0 else 1
    parts = {
        "intervalYearToMonth": {"months": sign * months},
        "intervalDayToSecond": duration(sign * rest),
    }
    side = {"offsetExpr": {"literal": {"intervalCompound": parts}}}
    return {"preceding" if sign < 0 else "following": side}
