"""Types of Spark as types of Substrait, and typed expressions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from substrait_agg.errors import UsageError

_SIMPLE = {
    "boolean": ("bool", "bool"),
    "byte": ("i8", "i8"),
    "short": ("i16", "i16"),
    "integer": ("i32", "i32"),
    "long": ("i64", "i64"),
    "float": ("fp32", "fp32"),
    "double": ("fp64", "fp64"),
    "string": ("string", "str"),
    "binary": ("binary", "vbin"),
    "date": ("date", "date"),
}
"""Name in Spark's JSON -> field of a Substrait type, and its short name in signatures."""
_TIMES = {
    "timestamp_ntz": ("precisionTimestamp", "pts"),
    "timestamp": ("precisionTimestampTz", "ptstz"),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
INTEGERS = ("byte", "short", "integer", "long")
MOST_DIGITS = 38
"""Most digits of a decimal."""


@dataclass(frozen=True)
class SparkType:
    """A type.

    Attributes:
        name: as in Spark's JSON, such as ``long`` or ``decimal(10,2)``.
        nullable: whether values may be null.
    """

    name: str
    nullable: bool = True

    @property
    def digits(self) -> tuple[int, int] | None:
        """Precision and scale of a decimal."""
        match = _DECIMAL.fullmatch(self.name)
        return (int(match[1]), int(match[2])) if match else None

    def message(self) -> dict[str, Any]:
        """Return the Substrait type as JSON.

        Raises:
            UsageError: DATAFRAME_TYPE.
        """
        nullability = "NULLABILITY_NULLABLE" if self.nullable else "NULLABILITY_REQUIRED"
        if self.name in _SIMPLE:
            return {_SIMPLE[self.name][0]: {"nullability": nullability}}
        if self.name in _TIMES:
            return {_TIMES[self.name][0]: {"precision": 6, "nullability": nullability}}
        if self.digits:
            precision, scale = self.digits
            return {"decimal": {"precision": precision, "scale": scale, "nullability": nullability}}
        raise UsageError(
            "DATAFRAME_TYPE",
            f"the DataFrame has a column or value of type {self.name}",
            help="leave it out, or cast it to a number, text, date or timestamp",
        )

    @property
    def short(self) -> str:
        """Return the short name in function signatures."""
        names = _SIMPLE.get(self.name) or _TIMES.get(self.name)
        return names[1] if names else "dec"


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


@dataclass(frozen=True)
class Relation:
    """A Substrait relation as JSON, and its columns."""

    message: dict[str, Any]
    columns: tuple[ColumnOf, ...]
