"""Substrait types as immutable values: kind, parameters, children and nullability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

SIMPLE_KINDS = (
    "bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "fp32", "fp64",
    "string", "binary", "date", "interval_year", "uuid",
)  # fmt: skip
PARAMETER_KINDS = (
    "fixedchar", "varchar", "fixedbinary", "decimal", "precision_time",
    "precision_timestamp", "precision_timestamp_tz", "interval_day", "interval_compound",
)  # fmt: skip
NESTED_KINDS = ("struct", "list", "map")

SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")

INTEGER_BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "u8": 8, "u16": 16, "u32": 32, "u64": 64}


@dataclass(frozen=True, slots=True)
class Type:
    """One Substrait type.

    Attributes:
        kind: name of the type in the specification, such as ``i64``, or ``user_defined``. The
            removed kinds ``time``, ``timestamp`` and ``timestamp_tz`` are decoded as their
            precision forms with 6 digits. Unsigned integers (extension types ``u8`` to ``u64``, or
            signed integers with DataFusion's type variation 1) are kinds of their own.
        nullable: whether values may be null.
        params: ``(length,)`` for char kinds, ``(precision, scale)`` for decimal, ``(precision,)``
            for time kinds.
        children: field types of a struct, element type of a list, key and value types of a map.
        name: name of a user defined type, after its extension and a colon if that is known; else
            empty.

    >>> print(Type("list", nullable=False, children=(decimal(15, 2),)))
    list<decimal?<15,2>>
    """

    kind: str
    nullable: bool = True
    params: tuple[int, ...] = ()
    children: tuple[Type, ...] = field(default=())
    name: str = ""

    def identity(self) -> tuple[object, ...]:
        """Return the parts that identify the type; see `bind.plan.fingerprint.identity`."""
        return ("Type", self.kind, self.nullable, self.params, self.children, self.name)

    def as_nullable(self, nullable: bool = True) -> Type:
        """Return the same type with the given nullability."""
        return self if self.nullable == nullable else replace(self, nullable=nullable)

    def same_kind(self, other: Type) -> bool:
        """Return whether both types are equal apart from nullability, also of their children."""
        return (
            self.kind == other.kind
            and self.params == other.params
            and self.name == other.name
            and len(self.children) == len(other.children)
            and all(a.same_kind(b) for a, b in zip(self.children, other.children, strict=True))
        )

    def has_map(self) -> bool:
        """Return whether values of the type contain maps, which have no order."""
        return self.kind == "map" or any(child.has_map() for child in self.children)

    def __str__(self) -> str:
        mark = "?" if self.nullable else ""
        inner = [str(p) for p in self.params] + [str(c) for c in self.children]
        name = self.name or self.kind
        return f"{name}{mark}<{','.join(inner)}>" if inner else f"{name}{mark}"


BOOL = Type("bool")
I8, I16, I32, I64 = Type("i8"), Type("i16"), Type("i32"), Type("i64")
FP32, FP64 = Type("fp32"), Type("fp64")
STRING, BINARY, DATE = Type("string"), Type("binary"), Type("date")


def decimal(precision: int, scale: int, nullable: bool = True) -> Type:
    """Return the type ``decimal<precision, scale>``."""
    return Type("decimal", nullable, (precision, scale))


def field_name(ordinal: int) -> str:
    """Return the name of a struct field by its position: Substrait types do not name fields."""
    return f"f{ordinal}"


def names_width(type_: Type) -> int:
    """Return the number of names of a column in a depth-first list.

    The column has one name, and each struct field inside it has one. The elements of lists and maps
    have none.
    """
    total, pending = 1, [type_]
    while pending:
        item = pending.pop()
        total += len(item.children) if item.kind == "struct" else 0
        pending.extend(item.children)
    return total


def struct_fields(type_: Type) -> list[list[int]]:
    """Return, per struct inside a column, where its fields are in the names of the column.

    >>> struct_fields(Type("struct", children=(Type("struct", children=(I8, I8)), I8)))
    [[1, 4], [2, 3]]
    """
    structs: list[list[int]] = []
    pending = [(type_, 0)]
    while pending:
        item, place = pending.pop()
        fields = []
        for child in item.children:
            if item.kind == "struct":
                place += 1
                fields.append(place)
            pending.append((child, place))
            place += names_width(child) - 1
        if fields:
            structs.append(fields)
    return structs


def names_by_column(names: Sequence[str], types: Sequence[Type]) -> tuple[tuple[str, ...], ...]:
    """Return the names of each column from a depth-first list: its own, then those of fields in it."""
    ends = tuple(accumulate(map(names_width, types)))
    return tuple(tuple(names[s:e]) for s, e in zip((0, *ends), ends, strict=False))
