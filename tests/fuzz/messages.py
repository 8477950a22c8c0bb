"""Plans as trees of fields that can be changed at will and written as protobuf or as JSON.

Shapes are those of every release of Substrait, so fields that the newest bindings do not know are kept and made too.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from substrait_agg.plan.messages.node import MessageNode
from substrait_agg.plan.messages.schema import MESSAGE, Field, Shape, schema
from substrait_agg.plan.messages.wire import read_wire

_FIXED = {"float": ("<f", 5), "double": ("<d", 1)}
_AS_TEXT = frozenset({"int64", "uint64"})


@dataclass(slots=True)
class Message:
    """One message: its fields in the order in which they are written, repeated ones as often as they have values."""

    shape: Shape
    fields: list[tuple[Field, Any]] = field(default_factory=list)

    def inner(self) -> Iterator[Message]:
        """The messages directly inside."""
        return (value for item, value in self.fields if item.kind == MESSAGE)

    def everything(self) -> list[Message]:
        """This message and all inside it."""
        found, pending = [], [self]
        while pending:
            message = pending.pop()
            found.append(message)
            pending.extend(message.inner())
        return found


def parsed(content: bytes) -> Message:
    """The messages of a binary plan; unknown fields are left out.

    Raises:
        Unreadable: it is no protobuf.
    """
    return from_node(read_wire(content, lambda *_, **__: None))


def from_node(node: MessageNode) -> Message:
    """The tree below a message that was read."""
    made = Message(node.shape)
    for name, held in node.values.items():
        item = node.shape.by_json_name[name]
        for value in held if item.repeated else [held]:
            made.fields.append((item, from_node(value) if item.kind == MESSAGE else value))
    return made


# --- protobuf ----------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    """A number of up to 64 bits in the variable-length encoding."""
    number &= 2**64 - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def to_wire(message: Message) -> bytes:
    """The message in protobuf's binary encoding."""
    return b"".join(_encoded(item, value) for item, value in message.fields)


def _encoded(item: Field, value: Any) -> bytes:
    if item.kind in _FIXED:
        form, wire_type = _FIXED[item.kind]
        return varint(item.number << 3 | wire_type) + struct.pack(form, value)
    if item.kind in (MESSAGE, "string", "bytes"):
        raw = to_wire(value) if item.kind == MESSAGE else value
        raw = raw.encode() if isinstance(raw, str) else raw
        return varint(item.number << 3 | 2) + varint(len(raw)) + raw
    return varint(item.number << 3) + varint(int(value))


# --- JSON --------------------------------------------------------------------------------------


def to_json(message: Message) -> str:
    """The message in protobuf's JSON encoding."""
    return json.dumps(as_json(message))


def as_json(message: Message) -> dict[str, Any]:
    """The message as JSON values; the content of an ``Any`` is left out, as JSON needs its type for that."""
    made: dict[str, Any] = {}
    if message.shape.name == "google.protobuf.Any":
        urls = [value for item, value in message.fields if item.name == "type_url"]
        return {"@type": urls[-1]} if urls else {}
    for item, value in message.fields:
        written = _written(item, value)
        if item.repeated:
            made.setdefault(item.name, []).append(written)
        else:
            made[item.name] = written
    return made


def _written(item: Field, value: Any) -> Any:
    if item.kind == MESSAGE:
        return as_json(value)
    if item.kind == "bytes":
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return str(value) if item.kind in _AS_TEXT else value


def shape_of(name: str) -> Shape:
    """The shape of the messages called `name`."""
    return schema().messages[name]
