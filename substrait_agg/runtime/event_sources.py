"""Find the sources with a watermark among the tables of a plan, and the columns that they need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from substrait_agg.bind.bound import BoundRead
from substrait_agg.bind.plan.table_sources import find_table
from substrait_agg.bind.plan.views import BoundViews
from substrait_agg.errors import UsageError
from substrait_agg.operator.common.watermarks import WatermarkRule, parse_rule
from substrait_agg.plan.types import Type

Table = tuple[str, ...]
EVENT_TYPES = ("precision_timestamp", "precision_timestamp_tz", "date")


@dataclass(frozen=True, slots=True)
class EventSource:
    """A table with a watermark.

    Attributes:
        table: the name of the table in the plan.
        column: the column of event time.
        rule: the rule that derives the watermark from event times.
        needed: the columns that the watermark needs, with their types. They are read even if the
            plan does not read them.
    """

    table: Table
    column: str
    rule: WatermarkRule
    needed: tuple[tuple[str, Type], ...]

    @property
    def type(self) -> Type:
        """Return the type of the event time."""
        return self.needed[0][1]

    @property
    def reads_twice(self) -> bool:
        """Return whether the rule needs a second read of the batch."""
        return self.rule.percent is not None or bool(self.rule.by)

    @property
    def label(self) -> str:
        """Return the name of the source in the plan document."""
        by = f" by {self.rule.by}" if self.rule.by else ""
        return f"{'.'.join(self.table)}.{self.column}{by}"


def event_sources(plan: BoundViews, texts: Mapping[str, str]) -> tuple[EventSource, ...]:
    """Return the sources with a watermark.

    Args:
        plan: the views of the run.
        texts: ``TABLE.COLUMN`` -> rule, both as users write them.

    Raises:
        UsageError: OPTION_INVALID, WATERMARK_COLUMN.
    """
    tables = _schemas(plan.reads)
    by_table: dict[Table, EventSource] = {}
    for name, text in texts.items():
        source = _event_source(name, parse_rule(text), tables)
        if source.table in by_table:
            raise _refuse(f"the table {'.'.join(source.table)} has two watermarks", "give it one")
        by_table[source.table] = source
    return tuple(sorted(by_table.values(), key=lambda s: s.table))


def _event_source(
    name: str, rule: WatermarkRule, tables: Mapping[Table, Mapping[str, Type]]
) -> EventSource:
    table, column = _split(name, tables)
    columns = tables[table]
    for name_ in (column, *([rule.by] if rule.by else [])):
        if name_ not in columns:
            known_columns = ", ".join(columns)
            raise _refuse(
                f"{name}: the table {'.'.join(table)} has no column {name_} in the plan",
                f"name one of its columns: {known_columns}",
            )
    if columns[column].kind not in EVENT_TYPES:
        raise _refuse(
            f"{name}: a column of type {columns[column]} cannot be an event time",
            "name a column of timestamps or dates",
        )
    needed = {n: columns[n] for n in (column, *([rule.by] if rule.by else []))}
    return EventSource(table, column, rule, tuple(needed.items()))


def _split(name: str, tables: Mapping[Table, Mapping[str, Type]]) -> tuple[Table, str]:
    """Return table and column of ``TABLE.COLUMN``; either name may contain dots."""
    places = [i for i, letter in enumerate(name) if letter == "."]
    for place in reversed(places):
        table = find_table(name[:place], tables)
        if table is not None:
            return table, name[place + 1 :]
    known_tables = ", ".join(".".join(t) for t in tables) or "no table"
    raise _refuse(
        f"{name!r} is not a column of a table that the plan reads",
        f"write TABLE.COLUMN; tables: {known_tables}",
    )


def _schemas(reads: Iterable[BoundRead]) -> dict[Table, dict[str, Type]]:
    """Return the columns of every table that is read."""
    by_table: dict[Table, dict[str, Type]] = {}
    for read in reads:
        by_table.setdefault(read.table, {}).update(zip(read.names, read.types, strict=True))
    return by_table


def _refuse(message: str, help: str) -> UsageError:
    return UsageError("WATERMARK_COLUMN", message, help=help, path="watermark")
