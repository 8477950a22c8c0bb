"""Read ``Expression.Literal`` messages of every release: type and Python value (see `model.Literal`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from substrait_agg.plan.decoding.context import DecodeContext, each
from substrait_agg.plan.decoding.types import (
    REMOVED_TIMES,
    type_of,
    valid_parameters,
    with_variation,
)
from substrait_agg.plan.messages.node import MAX_NESTING, MessageNode
from substrait_agg.plan.model import Literal, Unsupported
from substrait_agg.plan.types import INTEGER_BITS, Type

_DECIMAL_BYTES, _UUID_BYTES = 16, 16
_MICROSECONDS, _SECONDS_DIGITS = 6, 12
_DAY = 24 * 60 * 60
_INT, _BIGINT = range(-(2**31), 2**31), (-(2**63), 2**63)
_UNKNOWN = Type("user_defined", name="unknown")

Value = tuple[Type, Any]


class _Invalid(Exception):
    """The literal is invalid; the text says why, and is empty if that was reported before."""


def read_literal(node: MessageNode, context: DecodeContext) -> Literal | Unsupported:
    """Return the constant of a ``Literal`` message; report problems at its path."""
    kind = node.which("literal_type")
    if kind is None:
        context.report_missing(node, "literal_type")
        return Unsupported("literal", node.path)
    nullable = bool(node.take("nullable"))
    try:
        type_, value = _read(node, kind, context)
    except _Invalid as problem:
        if str(problem):
            context.report("VALUE_INVALID", node.at(kind), field=kind, reason=str(problem))
        return Unsupported("literal", node.path)
    if type_ is _UNKNOWN:
        context.report("EXPRESSION_NOT_SUPPORTED", node.path, kind=f"literal of kind {kind}")
        return Unsupported("literal", node.path)
    type_ = type_ if value is None else replace(type_, nullable=nullable)
    typed = with_variation(type_, kind, node, context)
    if typed.kind != type_.kind and typed.kind in INTEGER_BITS:
        # Unsigned values are written in signed fields, large ones as negative numbers.
        value = value if value is None else value & ((1 << INTEGER_BITS[typed.kind]) - 1)
    return Literal(typed, value, node.path)


def _read(node: MessageNode, kind: str, context: DecodeContext) -> Value:
    levels = node.count_nesting()
    if levels >= MAX_NESTING:
        node.refuse()
        raise _Invalid(f"has more than {MAX_NESTING} levels" if levels == MAX_NESTING else "")
    return _READERS[kind](node, kind, context)


def _scalar(node: MessageNode, name: str, context: DecodeContext, *, kind: str) -> Value:
    return Type(kind), node.take(name)


def _small_integer(node: MessageNode, name: str, context: DecodeContext) -> Value:
    value = node.number(name)
    bits = INTEGER_BITS[name]
    # DataFusion writes unsigned values unchanged into these fields, which are wider than the type.
    low = -(1 << (bits - 1))
    high = (1 << bits) if context.datafusion else (1 << (bits - 1))
    if not low <= value < high:
        raise _Invalid(f"{value} does not fit the type")
    return Type(name), value


def _removed_time(node: MessageNode, name: str, context: DecodeContext) -> Value:
    context.report_removed(node, name, "0.88")
    return _ticks(Type(REMOVED_TIMES[name], params=(_MICROSECONDS,)), node.number(name))


def _precise_time(node: MessageNode, name: str, context: DecodeContext) -> Value:
    body = _body(node, name)
    ticks, digits = body.number("value"), body.number("precision")
    return _ticks(_check(Type(name, params=(digits,))), ticks)


def _ticks(type_: Type, ticks: int) -> Value:
    """Return a time of day or an instant; it must fit into 64 bits of microseconds."""
    second = 10 ** type_.params[0]
    if type_.kind == "precision_time" and not 0 <= ticks < _DAY * second:
        raise _Invalid("is not within a day")
    if not _BIGINT[0] * second <= ticks * 10**_MICROSECONDS < _BIGINT[1] * second:
        raise _Invalid("does not fit 64 bits of microseconds")
    return type_, ticks


def _check(type_: Type) -> Type:
    if not valid_parameters(type_.kind, type_.params):
        raise _Invalid(f"cannot have the parameters {', '.join(map(str, type_.params))}")
    return type_


def _body(node: MessageNode, name: str) -> MessageNode:
    body = node.message(name)
    if body is None:
        raise _Invalid("is empty")
    return body


def _fixed_char(node: MessageNode, name: str, context: DecodeContext) -> Value:
    value = node.text(name)
    return Type("fixedchar", params=(len(value),)), value


def _var_char(node: MessageNode, name: str, context: DecodeContext) -> Value:
    body = _body(node, name)
    value, length = body.text("value"), body.number("length")
    if len(value) > length:
        raise _Invalid(f"has {len(value)} characters, more than its length {length}")
    return Type("varchar", params=(length,)), value


def _fixed_binary(node: MessageNode, name: str, context: DecodeContext) -> Value:
    value = node.take(name)
    return Type("fixedbinary", params=(len(value),)), value


def _uuid(node: MessageNode, name: str, context: DecodeContext) -> Value:
    value = node.take(name)
    if len(value) != _UUID_BYTES:
        raise _Invalid(f"has {len(value)} bytes, not {_UUID_BYTES}")
    return Type("uuid"), value


def _decimal(node: MessageNode, name: str, context: DecodeContext) -> Value:
    body = _body(node, name)
    raw = body.take("value")
    type_ = _check(Type("decimal", params=(body.number("precision"), body.number("scale"))))
    if len(raw) != _DECIMAL_BYTES:
        raise _Invalid(f"has {len(raw)} bytes, not {_DECIMAL_BYTES}")
    value = int.from_bytes(raw, "little", signed=True)
    if abs(value) >= 10 ** type_.params[0]:
        raise _Invalid(f"has more digits than its precision {type_.params[0]}")
    return type_, value


def _months(body: MessageNode) -> int:
    months = body.number("years") * 12 + body.number("months")
    if months not in _INT:
        raise _Invalid("has more months than fit 32 bits")
    return months


def _interval_year(node: MessageNode, name: str, context: DecodeContext) -> Value:
    return Type("interval_year"), _months(_body(node, name))


def _day_parts(body: MessageNode, context: DecodeContext) -> tuple[int, int, int]:
    """Return precision, days and ticks; without a precision it is microseconds, as before 0.97."""
    days, seconds, subseconds = (body.number(n) for n in ("days", "seconds", "subseconds"))
    if body.has("microseconds"):
        context.report_removed(body, "microseconds", "0.98")
        return _MICROSECONDS, days, seconds * 10**_MICROSECONDS + body.number("microseconds")
    precision = body.number("precision")
    if not precision and not subseconds:
        precision = _MICROSECONDS
    _check(Type("interval_day", params=(precision,)))
    ticks = seconds * 10**precision + subseconds
    if abs(ticks) >= 10 ** (_SECONDS_DIGITS + precision):
        raise _Invalid(f"has seconds of more than {_SECONDS_DIGITS} digits")
    return precision, days, ticks


def _interval_day(node: MessageNode, name: str, context: DecodeContext) -> Value:
    precision, days, ticks = _day_parts(_body(node, name), context)
    return Type("interval_day", params=(precision,)), (days, ticks)


def _interval_compound(node: MessageNode, name: str, context: DecodeContext) -> Value:
    body = _body(node, name)
    months = body.message("interval_year_to_month")
    rest = body.message("interval_day_to_second")
    precision, days, ticks = _day_parts(rest, context) if rest else (_MICROSECONDS, 0, 0)
    value = (_months(months) if months else 0, days, ticks)
    return Type("interval_compound", params=(precision,)), value


def _null(node: MessageNode, name: str, context: DecodeContext) -> Value:
    return replace(_body(node, name).result, nullable=True), None


def _empty(node: MessageNode, name: str, context: DecodeContext, *, kind: str) -> Value:
    return type_of(kind, _body(node, name), context), ()


def _struct(node: MessageNode, name: str, context: DecodeContext) -> Value:
    fields = _constants(list(each(_body(node, name), "fields")))
    types = tuple(item.type for item in fields)
    return Type("struct", children=types), tuple(item.value for item in fields)


def _constants(items: list[Any]) -> list[Literal]:
    for item in items:
        if not isinstance(item, Literal):
            raise _Invalid("")
    return items


def _common_type(items: list[Literal]) -> Type:
    first = items[0].type
    if not all(first.same_kind(item.type) for item in items):
        raise _Invalid("holds values of different types")
    return replace(first, nullable=any(item.type.nullable for item in items))


def _list(node: MessageNode, name: str, context: DecodeContext) -> Value:
    items = _constants(list(each(_body(node, name), "values")))
    if not items:
        raise _Invalid("is empty; use empty_list, which has a type")
    return Type("list", children=(_common_type(items),)), tuple(item.value for item in items)


def _map(node: MessageNode, name: str, context: DecodeContext) -> Value:
    pairs = _body(node, name).messages("key_values")
    keys = _constants([_body(pair, "key").result for pair in pairs])
    values = _constants([_body(pair, "value").result for pair in pairs])
    if not pairs:
        raise _Invalid("is empty; use empty_map, which has a type")
    if any(key.value is None for key in keys):
        raise _Invalid("has a null among its keys")
    if len({repr(key.value) for key in keys}) < len(keys):
        raise _Invalid("has a duplicate key")
    type_ = Type("map", children=(_common_type(keys), _common_type(values)))
    entries = zip(keys, values, strict=True)
    return type_, tuple((key.value, value.value) for key, value in entries)


def _user_defined(node: MessageNode, name: str, context: DecodeContext) -> Value:
    """Read a standard unsigned integer, written as a struct with one decimal text.

    Other user defined types are not supported.
    """
    body = _body(node, name)
    declared = context.types.get(body.number("type_reference"))
    fields = body.message("struct") if body.has("struct") else None
    members = list(each(fields, "fields")) if fields is not None else []
    unsigned = declared is not None and declared.urn == "unsigned_integers"
    if declared is None or not unsigned or len(members) != 1 or declared.name not in INTEGER_BITS:
        body.refuse()
        return _UNKNOWN, None
    text = members[0].value if isinstance(members[0], Literal) else None
    if not isinstance(text, str) or not text.isdecimal() or len(text) > 20:
        raise _Invalid("is not a whole number in decimal digits")
    if int(text) >> INTEGER_BITS[declared.name]:
        raise _Invalid(f"does not fit {declared.name}")
    return Type(declared.name), int(text)


_READERS: dict[str, Callable[[MessageNode, str, DecodeContext], Value]] = {
    "boolean": partial(_scalar, kind="bool"),
    "i8": _small_integer,
    "i16": _small_integer,
    "i32": partial(_scalar, kind="i32"),
    "i64": partial(_scalar, kind="i64"),
    "fp32": partial(_scalar, kind="fp32"),
    "fp64": partial(_scalar, kind="fp64"),
    "string": partial(_scalar, kind="string"),
    "binary": partial(_scalar, kind="binary"),
    "date": partial(_scalar, kind="date"),
    "timestamp": _removed_time,
    "timestamp_tz": _removed_time,
    "time": _removed_time,
    "precision_time": _precise_time,
    "precision_timestamp": _precise_time,
    "precision_timestamp_tz": _precise_time,
    "interval_year_to_month": _interval_year,
    "interval_day_to_second": _interval_day,
    "interval_compound": _interval_compound,
    "fixed_char": _fixed_char,
    "var_char": _var_char,
    "fixed_binary": _fixed_binary,
    "decimal": _decimal,
    "struct": _struct,
    "map": _map,
    "list": _list,
    "empty_list": partial(_empty, kind="list"),
    "empty_map": partial(_empty, kind="map"),
    "uuid": _uuid,
    "null": _null,
    "user_defined": _user_defined,
}
