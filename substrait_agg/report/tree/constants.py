"""Format types and constants of a plan's message as short texts, even if they are invalid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from substrait_agg.plan.messages.node import MessageNode

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
_EPOCH = date(1970, 1, 1)


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
    return _LITERALS[kind](value) if kind in _LITERALS else f"{kind} {_plain(value)}"


def quote(text: str, limit: int = MAX_TEXT) -> str:
    """Return a string in single quotes, cut if it is long."""
    return f"'{clip(text, limit)}'"


def clip(text: str, limit: int) -> str:
    """Return a text of about `limit` characters; a cut one says how many are missing."""
    if len(text) <= limit + 20:
        return text
    return f"{text[:limit]}… {len(text) - limit:,} more characters"


def hexadecimal(value: bytes, limit: int = MAX_TEXT) -> str:
    """Return bytes as hexadecimal text, cut if they are long.

    >>> hexadecimal(b"ab")
    '0x6162'
    """
    more = f"… {len(value) - limit:,} more bytes" if len(value) > limit else ""
    return f"0x{value[:limit].hex()}{more}"


def _plain(value: Any) -> str:
    if isinstance(value, MessageNode):
        inside = ", ".join(
            f"{name} {_plain(member)}"
            for name, member in value.values.items()
            if not isinstance(member, MessageNode | list)
        )
        return f"({inside})"
    if isinstance(value, bytes):
        return hexadecimal(value)
    return quote(value) if isinstance(value, str) else str(value)


def _date(value: int) -> str:
    try:
        return f"DATE '{_EPOCH + timedelta(days=value)}'"
    except OverflowError:
        return f"DATE of day {value}"


def _decimal(value: MessageNode) -> str:
    number = int.from_bytes(value.values.get("value", b"")[:16], "little", signed=True)
    scale = value.values.get("scale", 0)
    if not 0 <= scale <= 38:
        return f"decimal of {number} with scale {scale}"
    return f"{Decimal(number).scaleb(-scale):f}"


def _months(value: MessageNode) -> str:
    return f"INTERVAL {value.values.get('years', 0)} years {value.values.get('months', 0)} months"


_LITERALS: Mapping[str, Callable[[Any], str]] = {
    "boolean": lambda value: "TRUE" if value else "FALSE",
    **dict.fromkeys(("i8", "i16", "i32", "i64", "fp32", "fp64"), str),
    **dict.fromkeys(("string", "fixed_char"), quote),
    **dict.fromkeys(("binary", "fixed_binary"), hexadecimal),
    "var_char": lambda value: quote(value.values.get("value", "")),
    "date": _date,
    "decimal": _decimal,
    "interval_year_to_month": _months,
}
_MEMBERS = {"struct": "fields", "list": "values", "map": "key_values"}


def _several(kind: str, value: MessageNode, levels: int) -> str:
    members = value.values.get(_MEMBERS[kind], [])
    if not levels:
        return f"{kind} of {len(members):,}"
    texts = [_member(member, levels - 1) for member in members[:ITEMS]]
    texts += [f"… {len(members) - ITEMS:,} more"] if len(members) > ITEMS else []
    return f"{kind}({', '.join(texts)})"


def _member(member: MessageNode, levels: int) -> str:
    if member.shape.name == "Expression.Literal":
        return literal_text(member, levels)
    pair = (member.values.get("key"), member.values.get("value"))
    return " → ".join("nothing" if part is None else literal_text(part, levels) for part in pair)
