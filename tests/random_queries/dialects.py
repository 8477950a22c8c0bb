"""SQL text in two dialects, made from one tree: Spark's and DuckDB's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    """SQL as Spark and as DuckDB read it."""

    spark: str
    duck: str


def say(template: str, *parts: Text | str | int, duck: str = "") -> Text:
    """Fill a template with parts; `duck` is the template of DuckDB where it differs."""
    spark = template.format(*(p.spark if isinstance(p, Text) else p for p in parts))
    theirs = (duck or template).format(*(p.duck if isinstance(p, Text) else p for p in parts))
    return Text(spark, theirs)


def together(parts: Iterable[Text], separator: str = ", ") -> Text:
    """Return parts with a separator between them."""
    made = list(parts)
    return Text(separator.join(p.spark for p in made), separator.join(p.duck for p in made))


@dataclass(frozen=True)
class Column:
    """A column of a relation.

    Attributes:
        text: how an expression refers to it.
        type: one of `TYPES`.
    """

    text: Text
    type: str


@dataclass(frozen=True)
class Scope:
    """What an expression can refer to.

    Attributes:
        columns: of the relations of its own FROM.
        outer: of the query around, which it refers to in some comparisons only.
    """

    columns: tuple[Column, ...]
    outer: tuple[Column, ...] = ()

    def of(self, *types: str) -> list[Column]:
        """Return the columns of some types."""
        return [column for column in self.columns if column.type in types]


SIMPLE = ("int", "dec", "dbl", "ratio", "str", "date", "ts", "bool")
"""Types whose values have an order in every place: `ratio` is a DOUBLE whose sums depend on the order of rows."""
NESTED = ("list", "words", "struct")
TYPES = (*SIMPLE, *NESTED, "span")
