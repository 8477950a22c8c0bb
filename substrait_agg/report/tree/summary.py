"""Format a value of a plan message in a few words, to fit into a line of an excerpt."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from substrait_agg.escape import ELIDED, cut, printable
from substrait_agg.plan.messages.node import MessageNode
from substrait_agg.plan.messages.schema import ENUM, MESSAGE, Field, enum_names
from substrait_agg.report.tree.constants import literal_text, type_text

_MAX_STRING = 60
_MAX_BYTES = 16
_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class _Full(Exception):
    """The available room is used up."""


class _Words:
    """Collects text up to `room` characters.

    Reading stops when the room is used up, so a message of any depth is read in bounded time.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self.parts: list[str] = []

    def add(self, text: str) -> None:
        """Append a text; the first one that does not fit ends the summary."""
        self.parts.append(text)
        self.room -= len(text)
        if self.room < 0:
            raise _Full


def short_text(item: Field, value: Any, names: Mapping[int, str], room: int) -> str:
    """Return a field's value, or one value of a repeated field, in at most `room` characters.

    Args:
        item: the field.
        value: its value; for a repeated field, one of the values.
        names: names of functions by anchor, used for calls.
        room: available characters.
    """
    words = _Words(room)
    try:
        _Writer(words, names).value(item, value)
    except _Full:
        return cut("".join(words.parts), room)
    return "".join(words.parts)


def scalar(item: Field, value: Any, *, full: bool) -> str:
    """Return a number, text, bytes or enum value as text.

    Args:
        item: the field.
        value: its value.
        full: whether to write the whole name of an enum value, as in JSON.
    """
    if item.kind == ENUM:
        return _enum_name(item.type, value, full=full)
    if isinstance(value, bytes):
        more = ELIDED if len(value) > _MAX_BYTES else ""
        size = f"{len(value)} byte{'' if len(value) == 1 else 's'}"
        return f"{size} {value[:_MAX_BYTES].hex()}{more}" if value else size
    if isinstance(value, str):
        text = cut(value, _MAX_STRING)
        return printable(json.dumps(text, ensure_ascii=False))
    return json.dumps(value)


def _enum_name(enum: str, value: int, *, full: bool) -> str:
    name = enum_names(enum).get(value)
    if name is None:
        return str(value)
    prefix = _WORD_STARTS.sub("_", enum.rpartition(".")[2]).upper() + "_"
    return name if full else name.removeprefix(prefix)


class _Writer:
    """Writes values into `words`; a message with a single field is written in line with it."""

    def __init__(self, words: _Words, names: Mapping[int, str]) -> None:
        self.words = words
        self.names = names

    def value(self, item: Field, value: Any) -> None:
        """Write one value."""
        if item.kind == MESSAGE:
            self.message(value)
        else:
            self.words.add(scalar(item, value, full=False))

    def message(self, node: MessageNode) -> None:
        """Write a message in the short form of its kind, or field by field."""
        short = _SHORT.get(node.shape.name)
        if short is not None and short(self, node):
            return
        fields = list(_fields(node))
        if len(fields) == 1:
            self._chain(*fields[0])
            return
        self.words.add("{")
        for at, (item, value) in enumerate(fields):
            self.words.add(", " if at else "")
            self._write_named(item, value)
        self.words.add("}")

    def _chain(self, item: Field, value: Any) -> None:
        # Write `field 4`, not `selection field 4`: the short form is clear without the name.
        if not item.repeated and (item.type in _SHORT or item.name == "value"):
            self.value(item, value)
        else:
            self._write_named(item, value)

    def _write_named(self, item: Field, value: Any) -> None:
        self.words.add(item.name)
        self.words.add(" " if item.kind == MESSAGE and not item.repeated else ": ")
        self._any(item, value)

    def _any(self, item: Field, value: Any) -> None:
        if not item.repeated:
            self.value(item, value)
            return
        self.words.add("[")
        for at, single in enumerate(value):
            self.words.add(", " if at else "")
            self.value(item, single)
        self.words.add("]")

    # --- short forms: True where the message has one -----------------------------------------

    def column(self, node: MessageNode) -> bool:
        """Write a reference to an input column, as ``field 4``; return whether it is one."""
        number = column_number(node)
        if number is not None:
            self.words.add(f"field {number}")
        return number is not None

    def call(self, node: MessageNode) -> bool:
        """Write a call of a function, such as ``add(field 1, literal i32: 2)``.

        Return whether the name of the function is known.
        """
        anchor = node.values.get("function_reference", 0)
        if anchor not in self.names:
            return False
        self.words.add(f"{printable(self.names[anchor])}(")
        for at, argument in enumerate(node.values.get("arguments", node.values.get("args", ()))):
            self.words.add(", " if at else "")
            self.message(argument)
        self.words.add(")")
        return True

    def relation(self, node: MessageNode) -> bool:
        """Write only the kind of a relation inside an expression."""
        kind = node.which("rel_type")
        if kind is not None:
            self.words.add(f"{kind} {{{ELIDED}}}")
        return kind is not None

    def type(self, node: MessageNode) -> bool:
        """Write a type, such as ``decimal?<15,2>``."""
        self.words.add(printable(type_text(node)))
        return True

    def literal(self, node: MessageNode) -> bool:
        """Write a constant, such as ``DATE '1998-09-02'``."""
        self.words.add(printable(literal_text(node)))
        return True


def column_number(reference: MessageNode) -> int | None:
    """Return the ordinal of the input column that a ``FieldReference`` names; None for others."""
    direct = reference.values.get("direct_reference")
    step = direct.values.get("struct_field") if direct is not None else None
    if step is None or step.has("child") or reference.has("outer_reference"):
        return None
    return None if reference.has("expression") else int(step.values.get("field", 0))


def _fields(node: MessageNode) -> Iterator[tuple[Field, Any]]:
    for item in node.shape.by_number.values():
        if item.name in node.values:
            yield item, node.values[item.name]


_SHORT: dict[str, Callable[[_Writer, MessageNode], bool]] = {
    "Expression.FieldReference": _Writer.column,
    "Expression.ScalarFunction": _Writer.call,
    "Expression.WindowFunction": _Writer.call,
    "AggregateFunction": _Writer.call,
    "Expression.Literal": _Writer.literal,
    "Type": _Writer.type,
    "Rel": _Writer.relation,
}
