"""Expressions of Spark as expressions of Substrait."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from substrait_agg.functions.scalars.catalogue import true_for
from substrait_agg.spark.catalyst.analyzed.tree import SparkTree
from substrait_agg.spark.catalyst.translation.arithmetic import (
    arithmetic,
    divide,
    divide_whole,
    same_type,
    shift_right,
    translate_round,
)
from substrait_agg.spark.catalyst.translation.scope import (
    Maker,
    Scope,
    any_nullable,
    cast,
    constant,
    in_other_zone,
    not_supported,
    null,
    write_literal,
)
from substrait_agg.spark.catalyst.translation.subqueries import outer_reference, predicate, scalar
from substrait_agg.spark.catalyst.translation.times import (
    add_days,
    add_interval,
    clock_value,
)
from substrait_agg.spark.catalyst.translation.types import (
    INTEGERS,
    SparkType,
    Typed,
    type_of,
)


def _attribute(scope: Scope, tree: SparkTree) -> Typed:
    column = scope.columns.get(tree.id)
    if column is None and "clock" in tree.metadata:
        return clock_value(scope, tree)
    if column is None:
        raise not_supported(tree, f"column {tree.fields['name']} is not one of its inputs")
    return column


def literal(tree: SparkTree) -> Typed:
    """Return a constant.

    Raises:
        Refusal: constants of its type cannot be in a plan.
    """
    type_ = type_of(tree.type)
    if type_.nested and tree.fields["value"] is not None:
        return Typed(
            {"literal": write_literal(type_, tree.fields["value"])}, replace(type_, nullable=False)
        )
    value = constant(type_, tree.fields["value"])
    if value is None:
        raise not_supported(tree, f"a constant of type {tree.type}")
    return value


def _comparison(scope: Scope, tree: SparkTree, *, name: str) -> Typed:
    """Return the comparison of two values of one type."""
    values = scope.arguments(tree)
    if len({value.type.without_nulls() for value in values}) != 1:
        raise not_supported(tree, "of these types")
    if values[0].type.name in ("float", "double"):
        return _float_comparison(scope, tree, name, values[0], values[1])
    nullable = name != "is_not_distinct_from" and any_nullable(values)
    return scope.call("comparison", name, values, SparkType("boolean", nullable))


def _float_comparison(scope: Scope, tree: SparkTree, name: str, left: Typed, right: Typed) -> Typed:
    """Compare floats as Spark does: NaN equals NaN and is greater than all numbers."""
    type_ = SparkType("boolean", any_nullable((left, right)))

    def logic(function: str, *values: Typed) -> Typed:
        return scope.call("boolean", function, values, type_)

    def is_nan(value: Typed) -> Typed:
        """Return the call that tests a float."""
        type_ = SparkType("boolean", value.type.nullable)
        return scope.call("comparison", "is_nan", (value,), type_)

    def greater(left_: Typed, right_: Typed) -> Typed:
        """Return whether a float is greater than another one, with NaN above all numbers."""
        plain = scope.call("comparison", "gt", (left_, right_), type_)
        no_nan = scope.call(
            "boolean", "not", (is_nan(right_),), SparkType("boolean", right_.type.nullable)
        )
        return logic("or", plain, logic("and", is_nan(left_), no_nan))

    if name == "is_not_distinct_from":
        same = _float_comparison(scope, tree, "equal", left, right)
        return _null_safe(scope, same, left, right)
    if name == "equal":
        plain = scope.call("comparison", "equal", (left, right), type_)
        return logic("or", plain, logic("and", is_nan(left), is_nan(right)))
    signs = true_for(name)
    if len(signs) != (2 if 0 in signs else 1):
        raise not_supported(tree, "of floats")
    if 0 in signs:  # the opposite comparison is not true
        return logic("not", greater(right, left) if 1 in signs else greater(left, right))
    return greater(left, right) if 1 in signs else greater(right, left)


def _null_safe(scope: Scope, same: Typed, left: Typed, right: Typed) -> Typed:
    """Return whether values are equal or both null, given a comparison that may be null."""
    type_ = SparkType("boolean", nullable=False)
    never = Typed({"literal": {"boolean": False}}, type_)
    equal = scope.call("comparison", "coalesce", (same, never), type_)
    nulls = [scope.call("comparison", "is_null", (value,), type_) for value in (left, right)]
    both = scope.call("boolean", "and", nulls, type_)
    return scope.call("boolean", "or", (equal, both), type_)


def _boolean(scope: Scope, tree: SparkTree, *, name: str) -> Typed:
    values = scope.arguments(tree)
    return scope.call("boolean", name, values, SparkType("boolean", any_nullable(values)))


def _null_test(scope: Scope, tree: SparkTree, *, name: str) -> Typed:
    return scope.call(
        "comparison", name, scope.arguments(tree), SparkType("boolean", nullable=False)
    )


def _is_nan(scope: Scope, tree: SparkTree) -> Typed:
    """Spark's result is false for a null, that of the standard's function is null."""
    (value,) = scope.arguments(tree)
    nullable = value.type.nullable
    call = scope.call("comparison", "is_nan", (value,), SparkType("boolean", nullable))
    never = Typed({"literal": {"boolean": False}}, SparkType("boolean", nullable=False))
    if not nullable:
        return call
    return scope.call("comparison", "coalesce", (call, never), never.type)


def _text(
    scope: Scope, tree: SparkTree, *, name: str, result: str, count: bool = False, **options: str
) -> Typed:
    """Return the call of a text function whose arguments are all strings."""
    values = scope.arguments(tree)
    if any(value.type.name != "string" for value in values):
        raise not_supported(tree, "of values that are not strings")
    type_ = SparkType("long" if count else result, any_nullable(values))
    return cast(scope.call("string", name, values, type_, **options), result)


def _substring(scope: Scope, tree: SparkTree) -> Typed:
    text, start, length = scope.arguments(tree)
    numbers = [c.fields["value"] or 0 for c in tree.children[1:] if c.kind == "Literal"]
    if (
        text.type.name != "string"
        or len(numbers) != 2
        or int(numbers[0]) < 1
        or int(numbers[1]) < 0
    ):
        raise not_supported(tree, "only of a string, with a constant position from 1 on and length")
    return scope.call(
        "string", "substring", (text, start, length), SparkType("string", text.type.nullable)
    )


def _like(scope: Scope, tree: SparkTree) -> Typed:
    pattern, escape = tree.children[1], str(tree.fields["escapeChar"])
    if pattern.kind != "Literal" or escape in str(pattern.fields["value"]):
        raise not_supported(tree, "only with a constant pattern without its escape character")
    return _text(scope, replace(tree, children=tree.children[:2]), name="like", result="boolean")


def _trim(scope: Scope, tree: SparkTree, *, name: str) -> Typed:
    if len(tree.children) > 1:
        raise not_supported(tree, "of other characters than spaces")
    return _text(scope, tree, name=name, result="string")


def _replace_text(scope: Scope, tree: SparkTree) -> Typed:
    replaced = tree.children[1]
    if replaced.kind != "Literal" or not replaced.fields["value"]:
        raise not_supported(tree, "of a text that is not constant")
    return _text(scope, tree, name="replace", result="string")


def _split_part(scope: Scope, tree: SparkTree) -> Typed:
    """Return the call for a part of a split text, which is an element of a list in Spark."""
    split, place = tree.children
    if split.kind != "StringSplitSQL" or place.kind != "Literal":
        raise not_supported(tree)
    values = [*scope.arguments(split), scope.translate(place)]
    if any(value.type.name != "string" for value in values[:2]):
        raise not_supported(tree, "of values that are not strings")
    return scope.call("string", "split_part", values, SparkType("string", any_nullable(values)))


_OF_CLOCK = {"HH": "HOUR", "mm": "MINUTE", "ss": "SECOND"}
_PIECE = re.compile(r"yyyy-MM-dd|HH|mm|ss|[ :./_-]+")
"""Pieces of a format of `date_format` that are translated."""


def _formatted_time(scope: Scope, tree: SparkTree) -> Typed:
    """Return a time as the text of its date and its clock; other formats are left to Spark."""
    time, pattern = tree.children
    text = str(pattern.fields["value"]) if pattern.kind == "Literal" else ""
    pieces = _PIECE.findall(text)
    if not pieces or "".join(pieces) != text or tree.zone not in ("", "UTC"):
        raise not_supported(tree)
    parts = [_piece_of_time(scope, replace(tree, children=(time,)), piece) for piece in pieces]
    if len(parts) == 1:
        return parts[0]
    type_ = SparkType("string", any_nullable(parts))
    return scope.call("string", "concat", parts, type_, null_handling="ACCEPT_NULLS")


def _piece_of_time(scope: Scope, tree: SparkTree, piece: str) -> Typed:
    if piece == "yyyy-MM-dd":
        return cast(cast(scope.translate(tree.children[0]), "date"), "string")
    if piece not in _OF_CLOCK:
        return Typed({"literal": {"string": piece}}, SparkType("string", nullable=False))
    number = cast(_part_of_time(scope, tree, component=_OF_CLOCK[piece], clock=True), "string")
    zero = Typed({"literal": {"string": "0"}}, SparkType("string", nullable=False))
    two = Typed({"literal": {"i32": 2}}, SparkType("integer", nullable=False))
    digits = scope.call(
        "string", "concat", (zero, number), number.type, null_handling="ACCEPT_NULLS"
    )
    return scope.call("string", "right", (digits, two), number.type)


def _part_of_time(scope: Scope, tree: SparkTree, *, component: str, clock: bool = False) -> Typed:
    """Return the call that extracts a part of a date, or of a time with or without a zone."""
    (value,) = scope.arguments(tree)
    kind = value.type.name
    if kind not in (("timestamp", "timestamp_ntz") if clock else ("date",)):
        raise not_supported(tree, f"of a {kind}")
    if kind == "timestamp" and tree.zone not in ("", "UTC"):
        raise in_other_zone(tree)
    utc = Typed({"literal": {"string": "UTC"}}, SparkType("string", nullable=False))
    values = (value, utc) if kind == "timestamp" else (value,)
    called = {
        "functionReference": scope.context.reference("datetime", "extract", values, "req_"),
        "arguments": [{"enum": component}, *({"value": v.message} for v in values)],
        "outputType": SparkType("long", value.type.nullable).message(),
    }
    return cast(
        Typed({"scalarFunction": called}, SparkType("long", value.type.nullable)), "integer"
    )


def _coalesce(scope: Scope, tree: SparkTree) -> Typed:
    values = scope.arguments(tree)
    if len({value.type.without_nulls() for value in values}) != 1:
        raise not_supported(tree, "of different types")
    type_ = type_of(tree.type, nullable=all(value.type.nullable for value in values))
    return scope.call("comparison", "coalesce", values, type_)


def _extreme(scope: Scope, tree: SparkTree, *, name: str) -> Typed:
    """Translate ``greatest`` and ``least``, which pass over nulls."""
    values = scope.arguments(tree)
    names = {value.type.name for value in values}
    if len(names) != 1 or names & {"float", "double"} or values[0].type.nested:
        raise not_supported(tree, "of these types")
    type_ = SparkType(values[0].type.name, all(value.type.nullable for value in values))
    return scope.call("comparison", name, values, type_)


def _in(scope: Scope, tree: SparkTree) -> Typed:
    value, *options = scope.arguments(tree)
    if {option.type.without_nulls() for option in options} != {value.type.without_nulls()}:
        raise not_supported(tree, "of different types")
    if value.type.name in ("float", "double"):
        # In a list of Substrait NaN equals nothing; in Spark it equals NaN.
        same = [_float_comparison(scope, tree, "equal", value, option) for option in options]
        return scope.call("boolean", "or", same, SparkType("boolean", any_nullable(same)))
    body = {"value": value.message, "options": [option.message for option in options]}
    return Typed({"singularOrList": body}, SparkType("boolean", any_nullable((value, *options))))


def _case(scope: Scope, tree: SparkTree) -> Typed:
    """Return a conditional for CASE WHEN and IF: conditions and values, then an optional ELSE."""
    values = scope.arguments(tree)
    pairs = [(values[i], values[i + 1]) for i in range(0, len(values) - 1, 2)]
    results = [value for _, value in pairs]
    (other,) = values[-1:] if len(values) % 2 else (None,)
    everything = [*results, *([other] if other else [])]
    if len({value.type.without_nulls() for value in everything}) != 1:
        raise not_supported(tree, "with values of different types")
    type_ = type_of(tree.type, nullable=other is None or any_nullable(everything))
    last = other.message if other else null(type_.name).message
    clauses = [{"if": condition.message, "then": value.message} for condition, value in pairs]
    return Typed({"ifThen": {"ifs": clauses, "else": last}}, type_)


def _field_of_struct(scope: Scope, tree: SparkTree) -> Typed:
    """Return a field of a struct that is a column, or a field of one."""
    value = scope.translate(tree.children[0])
    step = {"structField": {"field": int(tree.fields["ordinal"])}}
    return _part(tree, value, step)


def _item_of_pivot(scope: Scope, tree: SparkTree) -> Typed:
    """Return the value of one column of a pivot; items of other lists may fail in Spark."""
    array, place = tree.children
    if array.id not in scope.context.pivots:
        raise not_supported(tree, "of a list that is not from a pivot")
    return _part(
        tree, scope.translate(array), {"listElement": {"offset": int(place.fields["value"])}}
    )


def _part(tree: SparkTree, value: Typed, step: Mapping[str, Any]) -> Typed:
    reference = value.message.get("selection", {}).get("directReference")
    if reference is None:
        raise not_supported(tree, "of a value that is not a column")
    moved = _with_step(reference, step)
    type_ = type_of(tree.type, nullable=value.type.nullable or tree.nullable)
    return Typed({"selection": {**value.message["selection"], "directReference": moved}}, type_)


def _with_step(reference: Mapping[str, Any], step: Mapping[str, Any]) -> dict[str, Any]:
    ((kind, body),) = reference.items()
    child = _with_step(body["child"], step) if "child" in body else step
    return {kind: {**body, "child": child}}


_NUMBERS = (*INTEGERS, "float", "double")


def _cast(scope: Scope, tree: SparkTree) -> Typed:
    (child,) = tree.children
    target = type_of(tree.type)
    if child.kind == "Literal" and child.fields["value"] is None:
        return null(target.name)
    value = scope.translate(child)
    if tree.fields["evalMode"] != "ANSI":
        raise not_supported(tree, "with a null where it fails")
    if "timestamp" in (value.type.name, target.name) and tree.zone not in ("", "UTC"):
        raise in_other_zone(tree)
    if (
        value.type.interval
        and value.type.interval == target.interval
        and _keeps(value.type, target)
    ):
        return Typed(value.message, SparkType(target.name, value.type.nullable))
    if value.type.interval or target.interval or value.type.nested or target.nested:
        raise not_supported(tree, "of a nested type")
    number = [t.name in _NUMBERS or t.digits for t in (value.type, target)]
    if any(number) and {"date", "timestamp", "timestamp_ntz", "binary"} & {
        value.type.name,
        target.name,
    }:
        raise not_supported(tree, "of these types")
    return cast(value, target.name)


_UNITS = ("year", "month", "day", "hour", "minute", "second")


def _keeps(source: SparkType, target: SparkType) -> bool:
    """Return whether intervals of one type are those of another one with the same or smaller units."""
    one, other = (_UNITS.index(type_.name.split()[-1]) for type_ in (source, target))
    return one <= other


def _nan_value(scope: Scope, tree: SparkTree) -> Typed:
    """Translate ``nanvl``: the second value in place of NaN."""
    value, other = scope.arguments(tree)
    test = scope.call("comparison", "is_nan", (value,), SparkType("boolean", value.type.nullable))
    clause = {"if": test.message, "then": other.message}
    type_ = SparkType(value.type.name, any_nullable((value, other)))
    return Typed({"ifThen": {"ifs": [clause], "else": value.message}}, type_)


def _enough_values(scope: Scope, tree: SparkTree) -> Typed:
    """Return whether at least some number of values are neither null nor NaN."""
    boolean, integer = SparkType("boolean", nullable=False), SparkType("integer", nullable=False)
    zero, one = (Typed({"literal": {"i32": n}}, integer) for n in (0, 1))
    total = zero
    for value in scope.arguments(tree):
        tests = [scope.call("comparison", "is_null", (value,), boolean)]
        if value.type.name in ("float", "double"):
            nan = scope.call("comparison", "is_nan", (value,), SparkType("boolean"))
            tests.append(nan)
        clauses = [{"if": test.message, "then": zero.message} for test in tests]
        counted = Typed({"ifThen": {"ifs": clauses, "else": one.message}}, integer)
        total = scope.call("arithmetic", "add", (total, counted), integer, overflow="ERROR")
    least = Typed({"literal": {"i32": tree.fields["n"]}}, integer)
    return scope.call("comparison", "gte", (total, least), boolean)


def _collate(scope: Scope, tree: SparkTree) -> Typed:
    """Return a text as it is: its collation is one of its type."""
    return scope.translate(tree.children[0])


def _with(scope: Scope, tree: SparkTree) -> Typed:
    """Return an expression in which Spark names parts that it computes once."""
    child, *definitions = tree.children
    by_id = {d.fields["id"]: scope.translate(d.children[0]) for d in definitions}
    computed = {
        node.same: by_id[node.fields["id"]]
        for node in child.walk()
        if node.kind == "CommonExpressionRef" and node.fields["id"] in by_id
    }
    return replace(scope, computed={**scope.computed, **computed}).translate(child)


EXPRESSIONS: dict[str, Maker] = {
    "Abs": partial(same_type, name="abs"),
    "Add": partial(arithmetic, name="add", overflow="ERROR"),
    "Alias": lambda scope, tree: scope.translate(tree.children[0]),
    "And": partial(_boolean, name="and"),
    "AtLeastNNonNulls": _enough_values,
    "AttributeReference": _attribute,
    "BitwiseAnd": partial(arithmetic, name="bitwise_and"),
    "BRound": partial(translate_round, mode="TIE_TO_EVEN"),
    "CaseWhen": _case,
    "Cast": _cast,
    "Coalesce": _coalesce,
    "Collate": _collate,
    "Concat": partial(_text, name="concat", result="string", null_handling="ACCEPT_NULLS"),
    "Contains": partial(_text, name="contains", result="boolean"),
    "BitLength": partial(_text, name="bit_length", result="integer", count=True),
    "DateAdd": partial(add_days, sign=1),
    "DateSub": partial(add_days, sign=-1),
    "DayOfMonth": partial(_part_of_time, component="DAY"),
    "DayOfYear": partial(_part_of_time, component="DAY_OF_YEAR"),
    "Hour": partial(_part_of_time, component="HOUR", clock=True),
    "IntegralDivide": divide_whole,
    "Second": partial(_part_of_time, component="SECOND", clock=True),
    "Minute": partial(_part_of_time, component="MINUTE", clock=True),
    "OctetLength": partial(_text, name="octet_length", result="integer", count=True),
    "Quarter": partial(_part_of_time, component="QUARTER"),
    "StringReplace": _replace_text,
    "StringTrim": partial(_trim, name="trim"),
    "StringTrimLeft": partial(_trim, name="ltrim"),
    "StringTrimRight": partial(_trim, name="rtrim"),
    "WeekOfYear": partial(_part_of_time, component="ISO_WEEK"),
    "DateFormatClass": _formatted_time,
    "Divide": divide,
    "ElementAt": _split_part,
    "EndsWith": partial(_text, name="ends_with", result="boolean"),
    "EqualNullSafe": partial(_comparison, name="is_not_distinct_from"),
    "EqualTo": partial(_comparison, name="equal"),
    "Exists": predicate,
    "GetArrayItem": _item_of_pivot,
    "GetStructField": _field_of_struct,
    "Greatest": partial(_extreme, name="greatest_skip_null"),
    "GreaterThan": partial(_comparison, name="gt"),
    "GreaterThanOrEqual": partial(_comparison, name="gte"),
    "If": _case,
    "In": _in,
    "InSubquery": predicate,
    "IsNaN": _is_nan,
    "IsNotNull": partial(_null_test, name="is_not_null"),
    "IsNull": partial(_null_test, name="is_null"),
    "Least": partial(_extreme, name="least_skip_null"),
    "Length": partial(_text, name="char_length", result="integer", count=True),
    "LessThan": partial(_comparison, name="lt"),
    "LessThanOrEqual": partial(_comparison, name="lte"),
    "Like": _like,
    "Literal": lambda _, tree: literal(tree),
    "Lower": partial(_text, name="lower", result="string"),
    "Month": partial(_part_of_time, component="MONTH"),
    "Multiply": partial(arithmetic, name="multiply", overflow="ERROR"),
    "NaNvl": _nan_value,
    "Not": predicate,
    "Or": partial(_boolean, name="or"),
    "OuterReference": outer_reference,
    "Remainder": partial(arithmetic, name="modulus", division_type="TRUNCATE", overflow="ERROR"),
    "Round": partial(translate_round, mode="TIE_AWAY_FROM_ZERO"),
    "ScalarSubquery": scalar,
    "ShiftRight": shift_right,
    "StartsWith": partial(_text, name="starts_with", result="boolean"),
    "Substring": _substring,
    "Subtract": partial(arithmetic, name="subtract", overflow="ERROR"),
    "UnaryMinus": partial(same_type, name="negate"),
    "TimestampAddInterval": add_interval,
    "Upper": partial(_text, name="upper", result="string"),
    "With": _with,
    "Year": partial(_part_of_time, component="YEAR"),
}
"""Class of an expression in Spark -> how it is translated."""
