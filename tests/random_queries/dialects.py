"""SQL text in two dialects, made from one tree: Spark's and DuckDB's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Text:
    """SQL as Spark and as DuckDB read it."""

    spark: str
    duck: str

    @property
    def has_time(self) -> bool:
        """Whether the answer depends on the time of the version."""
        return NOW.spark in self.spark or TODAY.spark in self.spark

    @property
    def is_recursive(self) -> bool:
        """Whether a common table reads itself."""
        return self.spark.startswith("WITH RECURSIVE")

    def at(self, instant: datetime) -> Text:
        """Return the query of an instant."""
        values = {
            NOW.spark: f"CAST('{instant}' AS TIMESTAMP_NTZ)", TODAY.spark: f"DATE '{instant.date()}'",
            NOW.duck: f"TIMESTAMP '{instant}'", TODAY.duck: f"DATE '{instant.date()}'",
        }  # fmt: skip
        spark, duck = self.spark, self.duck
        for name, value in values.items():
            spark, duck = spark.replace(name, value), duck.replace(name, value)
        return Text(spark, duck)


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


NOW = Text("CAST(now() AS TIMESTAMP_NTZ)", "the_time_of_the_version")
TODAY = Text("current_date()", "the_date_of_the_version")
SIMPLE = ("int", "dec", "dbl", "ratio", "str", "date", "ts", "bool")
"""Types whose values have an order in every place: `ratio` is a DOUBLE whose sums depend on the order of rows."""
NESTED = ("list", "words", "struct")
TYPES = (*SIMPLE, *NESTED, "span")
