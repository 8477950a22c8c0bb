"""Read the columns of a topic: ``NAME TYPE [NOT NULL], ...``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pyarrow as pa

TYPES: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ltz": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""Name of a type in ``columns`` -> the type. There are decimals, arrays and structs as well."""

_TOKEN = re.compile(r"`(?:[^`]|``)+`|\w+|\S")
_HELP = "write columns=NAME TYPE, NAME TYPE, such as columns=id bigint, tags array<string>"


class ColumnsError(ValueError):
    """The text is not a list of columns.

    Attributes:
        help: what to write.
    """

    def __init__(self, message: str, help: str = _HELP) -> None:
        super().__init__(message)
        self.help = help


def read_columns(text: str) -> pa.Schema:
    """Return the columns that a text names, with their types.

    Raises:
        ColumnsError: it names none, or an unknown type, or a column twice.
    """
    return pa.schema(_Reader(text).read("", can_be_required=True))


def parts(type_: pa.DataType) -> Iterator[pa.DataType]:
    """Yield a type and all types inside of it."""
    yield type_
    for i in range(type_.num_fields):
        yield from parts(type_.field(i).type)


class _Reader:
    """Reads a text from left to right."""

    def __init__(self, text: str) -> None:
        self._tokens = [*((m.group(), m.start()) for m in _TOKEN.finditer(text)), ("", len(text))]

    def read(self, end: str, *, can_be_required: bool = False) -> list[pa.Field]:
        """Return columns up to a token, which is read as well."""
        fields: list[pa.Field] = []
        while not fields or not self._take(end):
            if fields:
                self._expect(",")
            name = self._name()
            self._take(":")
            type_ = self._type()
            is_required = can_be_required and self._take("not")
            if is_required:
                self._expect("null")
            if any(field.name == name for field in fields):
                raise ColumnsError(f"names {name} twice")
            fields.append(pa.field(name, type_, nullable=not is_required))
        return fields

    def _type(self) -> pa.DataType:
        name = self._name().lower()
        if name == "struct":
            self._expect("<")
            return pa.struct(self.read(">"))
        if name == "array":
            self._expect("<")
            element = self._type()
            self._expect(">")
            return pa.list_(element)
        if name in ("decimal", "numeric", "dec"):
            return self._decimal()
        if name not in TYPES:
            types = ", ".join([*TYPES, "decimal(P,S)", "array<TYPE>", "struct<NAME: TYPE, ...>"])
            raise ColumnsError(f"has the unknown type {name}", f"the types are {types}")
        return TYPES[name]

    def _decimal(self) -> pa.DataType:
        digits, decimals = 10, 0
        if self._take("("):
            digits = self._number()
            decimals = self._number() if self._take(",") else 0
            self._expect(")")
        if not decimals <= digits <= 38 or not digits:
            raise ColumnsError(
                f"has decimal({digits},{decimals}), which does not exist", "write at most 38 digits"
            )
        return pa.decimal128(digits, decimals)

    def _take(self, token: str) -> bool:
        """Read a token if it is the next one."""
        is_next = self._tokens[0][0].lower() == token
        if is_next and token:
            del self._tokens[0]
        return is_next

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise self._unreadable()

    def _name(self) -> str:
        word = self._tokens[0][0]
        if not re.match(r"\w|`.", word):
            raise self._unreadable()
        del self._tokens[0]
        return word[1:-1].replace("``", "`") if word[0] == "`" else word

    def _number(self) -> int:
        word = self._name()
        if not word.isdecimal():
            raise self._unreadable()
        return int(word)

    def _unreadable(self) -> ColumnsError:
        return ColumnsError(f"cannot be read from character {self._tokens[0][1] + 1}")
