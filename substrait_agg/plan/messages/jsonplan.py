"""Parse protobuf-JSON plans of every release.

Names may be camelCase or snake_case, enum values names or numbers.
Mapping: https://protobuf.dev/programming-guides/json/
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from collections.abc import Callable
from typing import Any

from substrait_agg.plan.messages.jsontext import parse_json
from substrait_agg.plan.messages.node import MessageNode, Unreadable
from substrait_agg.plan.messages.schema import (
    ANY,
    ENUM,
    MESSAGE,
    NEWEST_RELEASE,
    SINGLE_BEFORE,
    Field,
    schema,
)
from substrait_agg.plan.messages.wire import Report

_RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}
_FLOAT_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


_NOT_IN_A_NAME = re.compile(r"[^\w@$-]")
"""Characters that no field name contains and that would change the meaning of a path."""


class _Invalid(Exception):
    """The value does not fit its field; the text says why."""


def read_json(text: str, report: Report) -> MessageNode:
    """Parse a plan as JSON; report unknown keys and invalid values, and continue.

    Raises:
        Unreadable: the text is not JSON or not an object, or exceeds a limit.
    """
    document = parse_json(text)
    if not isinstance(document, dict):
        raise Unreadable("PLAN_UNREADABLE", reason="the text is not a JSON object")
    minor = _minor_version(document)
    root = MessageNode(schema().messages["Plan"])
    pending: list[tuple[MessageNode, dict[str, Any]]] = [(root, document)]
    while pending:
        node, members = pending.pop()
        if node.shape.name == ANY:
            # No message inside an Any is decoded; only its type is kept, for messages.
            if isinstance(members.get("@type"), str):
                node.put(node.shape.by_json_name["type_url"], members["@type"])
            continue
        for key, value in members.items():
            item = node.shape.by_json_name.get(key)
            if item is not None:
                listed = _listed(node, item, value, minor)
                _read_field(node, item, listed, pending, report)
            else:
                field = f"{key[:80]} of {node.shape.name}"
                place = node.at(_NOT_IN_A_NAME.sub("?", key[:80]) or "?")
                report("UNKNOWN_FIELD", place, field=field, newest=NEWEST_RELEASE)
    return root


def _minor_version(document: dict[str, Any]) -> int:
    """Return the minor version of Substrait that the plan states; 0 if it is missing or invalid."""
    version = document.get("version")
    if not isinstance(version, dict):
        return 0
    minor = version.get("minorNumber", version.get("minor_number", 0))
    return minor if isinstance(minor, int) else 0


def _listed(node: MessageNode, item: Field, value: Any, minor: int) -> Any:
    """Return the value, as a list if the field was not repeated when the plan was written."""
    until = SINGLE_BEFORE.get((node.shape.name, item.name), 0)
    return [value] if isinstance(value, dict) and minor < until else value


def _read_field(
    node: MessageNode,
    item: Field,
    value: Any,
    pending: list[tuple[MessageNode, dict[str, Any]]],
    report: Report,
) -> None:
    if value is None:
        return
    path = node.at(item.name)
    other = item.name if item.name in node.values else node.other_member(item)
    if other is not None:
        report("FIELD_CONFLICT", path, field=item.name, other=other)
        return
    if item.repeated and not isinstance(value, list):
        report("VALUE_INVALID", path, field=item.name, reason="is not a list")
        return
    for index, single in enumerate(value if item.repeated else [value]):
        try:
            if item.kind != MESSAGE:
                node.put(item, _scalar(item, single))
            else:
                members = _object(single)
                pending.append((node.child(item), members))
        except _Invalid as problem:
            place = f"{path}[{index}]" if item.repeated else path
            report("VALUE_INVALID", place, field=item.name, reason=str(problem))


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Invalid("is not an object")
    return value


def _scalar(item: Field, value: Any) -> Any:
    if item.kind == ENUM:
        return _enum(item, value)
    return _READERS[item.kind](value, item.kind)


def _enum(item: Field, value: Any) -> int:
    if isinstance(value, str):
        known = schema().enums[item.type].get(value)
        if known is None:
            raise _Invalid(f"has the unknown value {value[:80]!r}")
        return known
    return _integer(value, "int32")


def _integer(value: Any, kind: str) -> int:
    if isinstance(value, str):
        value = _number_in(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _Invalid("is not an integer")
    low, high = _RANGES[kind]
    if not low <= value <= high:
        raise _Invalid(f"does not fit {kind}")
    return value


def _number_in(text: str) -> int | float:
    try:
        return int(text) if text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        raise _Invalid("is not a number") from None


def _float(value: Any, kind: str) -> float:
    if isinstance(value, str):
        value = _FLOAT_WORDS.get(value) if value in _FLOAT_WORDS else _number_in(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Invalid("is not a number")
    try:
        number = float(value)
        if kind == "float":
            number = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        raise _Invalid(f"does not fit {kind}") from None
    return math.nan if math.isnan(number) else number


def _bool(value: Any, kind: str) -> bool:
    if not isinstance(value, bool):
        raise _Invalid(f"is not a {kind}")
    return value


def _string(value: Any, kind: str) -> str:
    if not isinstance(value, str):
        raise _Invalid(f"is not a {kind}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _Invalid("holds half a character") from None
    return value


def _bytes(value: Any, kind: str) -> bytes:
    """Decode base64 in either alphabet, with or without padding."""
    plain = _string(value, "string").replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise _Invalid(f"is not {kind} in base64") from None


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "bool": _bool, "string": _string, "bytes": _bytes, "float": _float, "double": _float,
    "int32": _integer, "int64": _integer, "uint32": _integer, "uint64": _integer,
}  # fmt: skip
