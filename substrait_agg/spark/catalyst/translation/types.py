"""Types of Spark as types of Substrait, and typed expressions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from substrait_agg.plan.types import field_name
from substrait_agg.spark.catalyst.analyzed.refusals import Refusal
from substrait_agg.spark.catalyst.analyzed.tree import type_names

_SIMPLE = {
    "boolean": ("bool", "bool"),
    "byte": ("i8", "i8"),
    "short": ("i16", "i16"),
    "integer": ("i32", "i32"),
    "long": ("i64", "i64"),
    "float": ("fp32", "fp32"),
    "double": ("fp64", "fp64"),
    "string": ("string", "str"),
    # Spark stores columns of no type in no format; their only value is null.
    "void": ("string", "str"),
    "binary": ("binary", "vbin"),
    "date": ("date", "date"),
}
"""Name in Spark's JSON -> field of a Substrait type, and its short name in signatures."""
_TIMES = {
    "timestamp_ntz": ("precisionTimestamp", "pts"),
    "timestamp": ("precisionTimestampTz", "ptstz"),
    "time(6)": ("precisionTime", "pt"),
}
_INTERVAL = re.compile(r"interval (?:(?:year|month)|(day|hour|minute|second))(?: to \w+)?")
_NESTED = {"struct": "struct", "array": "list", "map": "map"}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
INTEGERS = ("byte", "short", "integer", "long")
MOST_DIGITS = 38
"""Most digits of a decimal."""


@dataclass(frozen=True)
class SparkType:
    """A type.

    Attributes:
        name: as in Spark's JSON, such as ``long`` or ``decimal(10,2)``; the JSON of a nested type.
        nullable: whether values may be null.
    """

    name: str
    nullable: bool = True

    @property
    def digits(self) -> tuple[int, int] | None:
        """Precision and scale of a decimal."""
        match = _DECIMAL.fullmatch(self.name)
        return (int(match[1]), int(match[2])) if match else None

    @property
    def interval(self) -> str:
        """The field of a Substrait type of intervals of months or of microseconds; empty for other types."""
        match = _INTERVAL.fullmatch(self.name)
        return "" if match is None else "intervalDay" if match[1] else "intervalYear"

    @property
    def nested(self) -> dict[str, Any] | None:
        """The JSON of a struct, an array or a map."""
        if not self.name.startswith("{"):
            return None
        read: dict[str, Any] = json.loads(self.name)
        return read

    def message(self) -> dict[str, Any]:
        """Return the Substrait type as JSON.

        Raises:
            Refusal: a type that a plan does not have.
        """
        nullability = "NULLABILITY_NULLABLE" if self.nullable else "NULLABILITY_REQUIRED"
        if self.name in _SIMPLE:
            return {_SIMPLE[self.name][0]: {"nullability": nullability}}
        if self.interval == "intervalYear":
            return {self.interval: {"nullability": nullability}}
        if self.name in _TIMES or self.interval:
            names = _TIMES.get(self.name) or (self.interval,)
            return {names[0]: {"precision": 6, "nullability": nullability}}
        if self.digits:
            precision, scale = self.digits
            return {"decimal": {"precision": precision, "scale": scale, "nullability": nullability}}
        nested = self.nested
        if nested is None or nested["type"] not in _NESTED:
            raise type_refused(self.name if nested is None else str(nested["type"]))
        return {_NESTED[nested["type"]]: {**_parts(nested), "nullability": nullability}}

    @property
    def short(self) -> str:
        """Return the short name in function signatures."""
        names = _SIMPLE.get(self.name) or _TIMES.get(self.name)
        if names:
            return names[1]
        if self.interval:
            return "iday" if self.interval == "intervalDay" else "iyear"
        nested = self.nested
        return "dec" if nested is None else _NESTED.get(nested["type"], "any")

    def without_nulls(self) -> str:
        """Return the name without whether parts of nested values may be null, and without field names."""
        nested = self.nested
        if nested is None:
            return self.name
        parts = [f["type"] for f in nested.get("fields", ())]
        parts += [nested[p] for p in ("elementType", "keyType", "valueType") if p in nested]
        return f"{nested['type']}<{', '.join(type_of(part).without_nulls() for part in parts)}>"

    def field_names(self) -> Iterator[str]:
        """Yield the names of the fields of structs in the type, depth first."""
        nested = self.nested
        if nested is None:
            return
        if nested["type"] == "struct":
            for field in nested["fields"]:
                yield field["name"]
                yield from type_of(field["type"]).field_names()
        for part in ("elementType", "keyType", "valueType"):
            if part in nested:
                yield from type_of(nested[part]).field_names()


def type_refused(name: str) -> Refusal:
    """Return the error for a type that a plan does not have."""
    return Refusal(
        "type", f"a column or value is of type {name}",
        "leave it out, or cast it to a number, text, date or timestamp",
    )  # fmt: skip


def _parts(nested: dict[str, Any]) -> dict[str, Any]:
    if nested["type"] == "struct":
        fields = nested["fields"]
        return {"types": [type_of(f["type"], nullable=f["nullable"]).message() for f in fields]}
    if nested["type"] == "array":
        return {"type": type_of(nested["elementType"], nullable=nested["containsNull"]).message()}
    value = type_of(nested["valueType"], nullable=nested["valueContainsNull"])
    return {
        "key": type_of(nested["keyType"], nullable=False).message(),
        "value": value.message(),
    }


_COLLATED = "string collate "
"""How the name of a text with a collation begins in Spark's JSON."""


def is_collated(written: Any) -> bool:
    """Return whether texts of a type are compared otherwise than by their bytes."""
    return next(collations(written), None) is not None


def collations(written: Any) -> Iterator[str]:
    """Yield the types of texts with a collation in a type of Spark's JSON."""
    return (name for name in type_names(written) if name.startswith(_COLLATED))


def type_of(written: Any, *, nullable: bool = True) -> SparkType:
    """Return a type of Spark's JSON. Collations, comments and other metadata of fields do not count.

    A variant is the struct of its two binaries: no plan has a type for it.
    """
    plain = _plain(written)
    return SparkType(plain if isinstance(plain, str) else json.dumps(plain), nullable)


def array_of(element: SparkType) -> SparkType:
    """Return the type of lists of values of a type."""
    parts = {"elementType": _written(element), "containsNull": element.nullable}
    return type_of({"type": "array", **parts}, nullable=False)


def struct_of(types: Sequence[SparkType]) -> SparkType:
    """Return the type of structs of values of these types, with the names of fields in plans."""
    fields = [
        {"name": field_name(i), "type": _written(t), "nullable": t.nullable}
        for i, t in enumerate(types)
    ]
    return type_of({"type": "struct", "fields": fields}, nullable=False)


def _written(type_: SparkType) -> Any:
    return type_.nested or type_.name


_VARIANT = {
    "type": "struct",
    "fields": [{"name": n, "type": "binary", "nullable": True} for n in ("value", "metadata")],
}


def _plain(written: Any) -> Any:
    if written == "variant":
        return _VARIANT
    if isinstance(written, dict):
        return {
            name: part if name == "name" else _plain(part)
            for name, part in written.items()
            if name != "metadata"
        }
    if isinstance(written, list):
        return [_plain(part) for part in written]
    return "string" if is_collated(written) else written


def decimal(precision: int, scale: int, *, nullable: bool) -> SparkType:
    """Return a decimal type of at most 38 digits."""
    return SparkType(f"decimal({min(MOST_DIGITS, precision)},{scale})", nullable)


@dataclass(frozen=True)
class Typed:
    """A Substrait expression as JSON, and its type."""

    message: dict[str, Any]
    type: SparkType


@dataclass(frozen=True)
class ColumnOf:
    """A column of a relation: its id in Spark, its name and its type."""

    id: int
    name: str
    type: SparkType


def flat_names(columns: Sequence[ColumnOf]) -> list[str]:
    """Return the names of columns and of the fields of structs in them, depth first."""
    return [name for c in columns for name in (c.name, *c.type.field_names())]


@dataclass(frozen=True)
class Relation:
    """A Substrait relation as JSON, and its columns."""

    message: dict[str, Any]
    columns: tuple[ColumnOf, ...]
