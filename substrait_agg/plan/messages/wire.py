"""Parse protobuf's binary encoding message by message, without recursion.

The parsers of protobuf refuse more than 100 levels of messages, which real plans exceed, and drop
or hide unknown fields. This parser accepts any depth up to `MAX_DEPTH` and reports unknown fields
by their place.
Encoding: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import math
import struct
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from substrait_agg.plan.messages.node import MAX_VALUES, MessageNode, Unreadable
from substrait_agg.plan.messages.schema import MESSAGE, NEWEST_RELEASE, Field, schema

Report = Callable[..., None]
"""Called as ``report(code, path, **params)``."""

_VARINT, _FIXED64, _LENGTH, _START_GROUP, _END_GROUP, _FIXED32 = range(6)
_WIRE_TYPES = {"float": _FIXED32, "double": _FIXED64, "string": _LENGTH, "bytes": _LENGTH}
_WIRE_TYPES[MESSAGE] = _LENGTH
_SIGNED_BITS = {"int32": 32, "int64": 64, "enum": 32}
_NAN = math.nan


class _Malformed(Exception):
    """The bytes do not follow the encoding at `offset`."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset
        self.reason = reason


def read_wire(data: bytes, report: Report) -> MessageNode:
    """Parse a ``Plan`` message; report unknown fields and bad values, and continue.

    Raises:
        Unreadable: the bytes are not protobuf, or exceed a limit.
    """
    root = MessageNode(schema().messages["Plan"])
    pending: deque[tuple[MessageNode, int, int]] = deque([(root, 0, len(data))])
    budget = MAX_VALUES
    while pending:
        node, start, end = pending.popleft()
        try:
            for item, value in _fields(data, start, end, node, report):
                budget -= 1
                if budget < 0:
                    raise Unreadable("PLAN_TOO_LARGE", limit=f"{MAX_VALUES} values")
                if item is None:
                    continue
                _check_oneof(node, item, report)
                if item.kind == MESSAGE:
                    pending.append((node.child(item), *value))
                else:
                    node.put(item, value)
        except _Malformed as problem:
            reason = f"byte {problem.offset}: {problem.reason}"
            at = problem.offset
            raise Unreadable("PLAN_UNREADABLE", node.path, offset=at, reason=reason) from None
    return root


def field_ranges(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the positions of the fields of the message in ``data[start:end]``; stop at an error.

    Yields:
        Number, offset of the field, offset of its value (after the length, if any), and end offset.
    """
    at = start
    try:
        while at < end:
            tag, inside = _varint(data, at, end)
            value, after = _value(data, inside, end, tag & 7)
            yield tag >> 3, at, value[0] if isinstance(value, tuple) else inside, after
            at = after
    except _Malformed:
        return


def _check_oneof(node: MessageNode, item: Field, report: Report) -> None:
    other = node.other_member(item)
    if other is not None:
        report("FIELD_CONFLICT", node.at(item.name), field=item.name, other=other)
        del node.values[other]


def _fields(
    data: bytes, start: int, end: int, node: MessageNode, report: Report
) -> Iterator[tuple[Field | None, Any]]:
    """Yield the fields of one message with their values.

    The value of a message is its range of bytes. Unknown fields are yielded as None.
    """
    at = start
    by_number = node.shape.by_number
    while at < end:
        tag, after = _varint(data, at, end)
        number, wire_type = tag >> 3, tag & 7
        if number == 0:
            raise _Malformed(at, "a field has number 0")
        value, after = _value(data, after, end, wire_type)
        item = by_number.get(number)
        packed = item is not None and item.repeated and wire_type == _LENGTH
        if item is None or not (packed or wire_type == _WIRE_TYPES.get(item.kind, _VARINT)):
            _report_unknown(node, number, item, report)
            yield None, None
        elif packed and _WIRE_TYPES.get(item.kind, _VARINT) != _LENGTH:
            for single in _unpack(data, item, *value):
                yield item, single
        else:
            yield item, _convert(data, item, value, node, report)
        at = after


def _report_unknown(node: MessageNode, number: int, item: Field | None, report: Report) -> None:
    if item is None:
        field, path = f"number {number} of {node.shape.name}", node.at(str(number))
    else:
        field, path = f"{item.name} of {node.shape.name} in this encoding", node.at(item.name)
    report("UNKNOWN_FIELD", path, field=field, newest=NEWEST_RELEASE)


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    result = shift = 0
    for offset in range(at, min(end, at + 10)):
        byte = data[offset]
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFF_FFFF_FFFF_FFFF, offset + 1
        shift += 7
    raise _Malformed(at, "a number is not terminated")


def _value(data: bytes, at: int, end: int, wire_type: int) -> tuple[Any, int]:
    """Return the raw value at `at` (an integer, or a range of bytes) and its end offset."""
    if wire_type == _VARINT:
        return _varint(data, at, end)
    if wire_type == _LENGTH:
        length, at = _varint(data, at, end)
    elif wire_type in (_FIXED32, _FIXED64):
        length = 4 if wire_type == _FIXED32 else 8
    elif wire_type == _START_GROUP:
        return None, _skip_group(data, at, end)
    else:
        raise _Malformed(at, f"wire type {wire_type} is not valid")
    if length > end - at:
        raise _Malformed(at, f"{length} bytes expected, {end - at} found")
    return (at, at + length), at + length


def _skip_group(data: bytes, at: int, end: int) -> int:
    """Return the end offset of a group, an encoding that no Substrait message uses."""
    level, budget = 1, MAX_VALUES
    while level:
        budget -= 1
        if budget < 0:
            raise Unreadable("PLAN_TOO_LARGE", limit=f"{MAX_VALUES} values")
        tag, after = _varint(data, at, end)
        if tag & 7 == _START_GROUP:
            level, at = level + 1, after
        elif tag & 7 == _END_GROUP:
            level, at = level - 1, after
        else:
            _, at = _value(data, after, end, tag & 7)
    return at


def _unpack(data: bytes, item: Field, start: int, end: int) -> Iterator[Any]:
    """Yield the values of a packed repeated number."""
    width = {"float": 4, "double": 8}.get(item.kind)
    at = start
    while at < end:
        if width is None:
            number, at = _varint(data, at, end)
            yield _integer(item.kind, number)
        elif end - at < width:
            raise _Malformed(at, "a number is cut off")
        else:
            yield _float(item.kind, data[at : at + width])
            at += width


def _convert(data: bytes, item: Field, value: Any, node: MessageNode, report: Report) -> Any:
    if item.kind == MESSAGE:
        return value
    if isinstance(value, int):
        return _integer(item.kind, value)
    raw = data[value[0] : value[1]]
    if item.kind == "string":
        try:
            return raw.decode()
        except UnicodeDecodeError:
            report("VALUE_INVALID", node.at(item.name), field=item.name, reason="is not UTF-8")
            return raw.decode(errors="replace")
    return raw if item.kind == "bytes" else _float(item.kind, raw)


def _integer(kind: str, number: int) -> int | bool:
    if kind == "bool":
        return number != 0
    if kind == "uint32":
        return number & 0xFFFF_FFFF
    bits = _SIGNED_BITS.get(kind)
    if bits is None:
        return number
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def _float(kind: str, raw: bytes) -> float:
    value: float = struct.unpack("<f" if kind == "float" else "<d", raw)[0]
    return _NAN if math.isnan(value) else value
