"""Plan AUTO CDC flows: a table has the newest event of each key, unless it is a deletion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn

from substrait_agg.spark.catalyst.analyzed.refusals import Refusal
from substrait_agg.spark.catalyst.plan import NotMaintained

_NEWEST = "__spark_autocdc_newest"
"""Name of a column within the query. Spark keeps names that begin so for itself."""


@dataclass(frozen=True)
class ChangeFlow:
    """How the events of a table change another table.

    Attributes:
        keys: the columns that identify a row.
        sequence: orders the events of a key.
        deletes: whether an event is a deletion.
        included: the columns of the table; empty for all but those of `excluded`.
        excluded: columns of the events that the table does not have.
    """

    keys: Sequence[Column]
    sequence: Column
    deletes: Column | None = None
    included: Sequence[Column] = ()
    excluded: Sequence[Column] = ()

    def newest(self, events: DataFrame) -> DataFrame:
        """Return the rows of the table.

        An event without a value of `sequence` is passed over. Of events of a key with equal values, a
        deletion counts, or else the one with the greatest values.

        Raises:
            NotMaintained: the table does not have a key.
        """
        keys = {name.lower() for name in events.select(*self.keys).columns}
        names = self._kept_names(events)
        missing = sorted(keys - {name.lower() for name in names})
        if missing:
            message = f"the key {missing[0]} is no column of the table that the flow fills"
            help = "add it to the columns; a key is a column of the events"
            raise NotMaintained([Refusal("expression", message, help)])
        rest = [_to_column(name) for name in names if name.lower() not in keys]
        if not rest and self.deletes is None:
            return (
                events.where(self.sequence.isNotNull()).select(*map(_to_column, names)).distinct()
            )
        deleted = F.lit(False) if self.deletes is None else F.coalesce(self.deletes, F.lit(False))
        event = F.struct(
            deleted.alias("deleted"), *([F.struct(*rest).alias("event")] if rest else [])
        )
        newest = F.max_by(event, self.sequence).alias(_NEWEST)
        groups = events.groupBy(*(_to_column(n) for n in names if n.lower() in keys)).agg(newest)
        return groups.where(~F.col(f"{_NEWEST}.deleted")).select(
            *(_to_column(n) if n.lower() in keys else _event_column(n) for n in names)
        )

    def _kept_names(self, events: DataFrame) -> list[str]:
        """Return the names of the columns of the table."""
        if self.included:
            return events.select(*self.included).columns
        excluded = {name.lower() for name in events.select(*self.excluded).columns}
        return [name for name in events.columns if name.lower() not in excluded]


def change_flow_of(parsed: Any, spark: SparkSession) -> ChangeFlow:
    """Return the flow that a parsed statement of Spark describes, with its expressions as columns."""
    column = spark._jvm.org.apache.spark.sql.classic.ExpressionUtils.column  # type: ignore[union-attr]

    def columns(expressions: Any) -> list[Column]:
        return [ClassicColumn(column(expressions.apply(i))) for i in range(expressions.size())]

    def to_columns(names: Any) -> list[Column]:
        return columns(names.get()) if names.isDefined() else []

    deletes = columns(parsed.deleteCondition().toList())
    return ChangeFlow(
        columns(parsed.keys()),
        ClassicColumn(column(parsed.sequenceByExpr())),
        deletes[0] if deletes else None,
        to_columns(parsed.includeColumns()),
        to_columns(parsed.excludeColumns()),
    )


def _to_column(name: str) -> Column:
    return F.col(_quote(name))


def _event_column(name: str) -> Column:
    return F.col(f"{_NEWEST}.event.{_quote(name)}").alias(name)


def _quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
