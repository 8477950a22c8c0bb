"""Format types and constants of a plan's message as short texts, even if they are invalid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from substrait_agg.bind.show import constant_text, hexadecimal, nested_text, quote
from substrait_agg.plan.messages.node import MessageNode
from substrait_agg.plan.types import Type

LEVELS = 4
"""Levels of nested types and constants that a text shows."""

ITEMS = 5
"""Members of a list, struct or map that a text shows."""

MAX_TEXT = 60
"""Characters of a string that a text shows."""

_TYPE_NAMES = {"fixed_char": "fixedchar", "fixed_binary": "fixedbinary"}
_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "fixed_char": ("length",), "varchar": ("length",), "fixed_binary": ("length",), "decimal": ("precision", "scale"),
    "precision_time": ("precision",), "precision_timestamp": ("precision",), "precision_timestamp_tz": ("precision",),
    "interval_day": ("precision",), "interval_compound": ("precision",), "user_defined": ("type_reference",),
}  # fmt: skip
_NULLABLE = 1
_MOST_DIGITS = 38


def type_text(node: MessageNode, levels: int = LEVELS) -> str:
    """Return a ``Type`` message as text, such as ``decimal?<15,2>``; ``?`` means nullable."""
    kind = node.which("kind")
    body = node.values.get(kind) if kind else None
    if kind is None or not isinstance(body, MessageNode):
        return f"user-defined type {body}" if kind else "no type"
    parameters = [str(body.values.get(name, 0)) for name in _PARAMETERS.get(kind, ())]
    inner = [body.values[name] for name in ("type", "key", "value") if name in body.values]
    inner += body.values.get("types", ())
    if inner and not levels:
        parameters.append("…")
    elif inner:
        parameters += [type_text(item, levels - 1) for item in inner[:ITEMS]]
        parameters += ["…"] if len(inner) > ITEMS else []
    name = _TYPE_NAMES.get(kind, kind)
    mark = "?" if body.values.get("nullability") == _NULLABLE else ""
    return f"{name}{mark}<{','.join(parameters)}>" if parameters else f"{name}{mark}"


def literal_text(node: MessageNode, levels: int = LEVELS) -> str:
    """Return an ``Expression.Literal`` message as text, such as ``0.05`` or ``DATE '1998-09-02'``."""
    kind = node.which("literal_type")
    if kind is None:
        return "constant without a value"
    value = node.values[kind]
    if kind == "null":
        return f"NULL of {type_text(value)}"
    if kind in _MEMBERS:
        return _several(kind, value, levels)
    return _scalar_text(kind, value) or f"{kind} {_plain(value)}"


def _plain(value: Any) -> str:
    if isinstance(value, MessageNode):
        inside = ", ".join(
            f"{name} {_plain(member)}"
            for name, member in value.values.items()
            if not isinstance(member, MessageNode | list)
        )
        return f"({inside})"
    if isinstance(value, bytes):
        return hexadecimal(value, MAX_TEXT)
    return quote(value, MAX_TEXT) if isinstance(value, str) else str(value)


def _scalar_text(kind: str, value: Any) -> str:
    """Return a constant without members as text; empty if it has no short form, or is invalid."""
    type_, plain = Type(kind), value
    fields: Mapping[str, Any] = value.values if isinstance(value, MessageNode) else {}
    if kind == "decimal":
        type_ = Type(kind, params=(0, fields.get("scale", 0)))
        plain = int.from_bytes(fields.get("value", b"")[:16], "little", signed=True)
    elif kind in ("precision_timestamp", "precision_timestamp_tz"):
        type_ = Type(kind, params=(fields.get("precision", 0),))
        plain = fields.get("value", 0)
    elif kind == "interval_year_to_month":
        type_ = Type("interval_year")
        plain = fields.get("years", 0) * 12 + fields.get("months", 0)
    elif kind == "var_char":
        plain = fields.get("value", "")
    elif kind not in _PLAIN:
        return ""
    valid = all(0 <= digits <= _MOST_DIGITS for digits in type_.params)
    return constant_text(type_, plain, MAX_TEXT) if valid else ""


_PLAIN = frozenset(
    {"boolean", "i8", "i16", "i32", "i64", "fp32", "fp64", "string", "fixed_char", "binary", "fixed_binary", "date"}
)  # fmt: skip
"""Kinds of constants whose values are no messages, and say what they are."""

_MEMBERS = {"struct": "fields", "list": "values", "map": "key_values"}


def _several(kind: str, value: MessageNode, levels: int) -> str:
    members = value.values.get(_MEMBERS[kind], [])
    if not levels:
        return f"{kind} of {len(members):,}"
    texts = [_member(member, levels - 1) for member in members[:ITEMS]]
    texts += [f"… {len(members) - ITEMS:,} more"] if len(members) > ITEMS else []
    return nested_text(kind, ", ".join(texts))


def _member(member: MessageNode, levels: int) -> str:
    if member.shape.name == "Expression.Literal":
        return literal_text(member, levels)
    pair = (member.values.get("key"), member.values.get("value"))
    return " → ".join("nothing" if part is None else literal_text(part, levels) for part in pair)
