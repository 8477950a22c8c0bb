"""Plan the views of a pipeline, each after those that it reads."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from substrait_agg.errors import PlanRefused, SqlRefused
from substrait_agg.plan.arrow import arrow_schema
from substrait_agg.report.checked_plan import Plan

ColumnsOf = Callable[[Container[str]], Mapping[str, pa.Schema]]
"""Returns the columns of the tables whose names, in lower case, are in a container."""


class TableNotPlanned(Exception):
    """A definition reads a table whose columns it was not given.

    Attributes:
        table: name of the table, in lower case.
        refused: the error to show if there is no such table.
    """

    def __init__(self, table: str, refused: SqlRefused) -> None:
        super().__init__(table)
        self.table = table
        self.refused = refused


class Definition(Protocol):
    """The definition of a view of a pipeline, in SQL or in Python."""

    @property
    def name(self) -> str:
        """Return the name of the view."""
        ...

    @property
    def place(self) -> str:
        """Return the file and the line of the definition."""
        ...

    @property
    def temporary(self) -> bool:
        """Return whether only other views read it."""
        ...

    @property
    def policy(self) -> str | None:
        """Return the refresh policy that it declares."""
        ...

    @property
    def reads(self) -> frozenset[str]:
        """Return the names of the tables that it is known to read, in lower case."""
        ...

    def plan(self, tables: Mapping[str, pa.Schema]) -> Plan:
        """Return the plan of the view.

        Args:
            tables: name of a table -> its columns.

        Raises:
            SqlRefused: as `SqlPlanner.plan`.
            TableNotPlanned: it reads a table that is not among `tables`.
        """
        ...

    def refused(self, code: str, message: str, help: str) -> SqlRefused:
        """Return an error at the place of the definition."""
        ...


def by_name(definitions: list[Definition]) -> dict[str, Definition]:
    """Return definitions by the names of their views, in lower case.

    Raises:
        SqlRefused: SQL_VIEW_TWICE.
    """
    found: dict[str, Definition] = {}
    for definition in definitions:
        first = found.setdefault(definition.name.lower(), definition)
        if first is not definition:
            message = f"the view {definition.name} is created twice, first at {first.place}"
            help = "rename or remove one of them"
            raise definition.refused("SQL_VIEW_TWICE", message, help)
    return found


@dataclass
class Planning:
    """Plans definitions in an order in which each follows the views that it reads.

    Attributes:
        views: the definitions by the names of their views, in lower case.
        tables: the columns of tables that are no views; those of views are added.
        columns_of: returns the columns of other tables that a definition turns out to read.
        plans: the plans by the names of their views.
    """

    views: Mapping[str, Definition]
    tables: dict[str, pa.Schema]
    columns_of: ColumnsOf
    plans: dict[str, Plan] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)

    def plan_all(self) -> dict[str, Plan]:
        """Plan all views.

        Raises:
            SqlRefused: as `Definition.plan`, and SQL_VIEW_CYCLE.
            PlanRefused: a view has problems.
        """
        for name in sorted(self.views):
            self._plan_after_reads(name)
        return self.plans

    def _plan_after_reads(self, name: str) -> None:
        waiting = [name]
        while waiting:
            name = waiting[-1]
            if name in self._done:
                waiting.pop()
                continue
            needed = sorted((self.views[name].reads & self.views.keys()) - self._done)
            below = needed[0] if needed else self._read_first(name)
            if below in waiting:
                raise self._circle(waiting[waiting.index(below) :])
            if below:
                waiting.append(below)

    def _read_first(self, name: str) -> str:
        """Plan a view; return the name of a view to plan before it, empty if it is planned."""
        view = self.views[name]
        try:
            plan = view.plan(self.tables)
        except TableNotPlanned as missing:
            if missing.table in self.views.keys() - self._done:
                return missing.table
            found = self.columns_of({missing.table.rpartition(".")[2]})
            if not found.keys() - self.tables.keys():
                raise missing.refused from missing.__cause__
            self.tables |= found
            return ""
        bound = plan.check().bound
        if bound is None:
            raise PlanRefused(plan.check().problems)
        types = [type_.as_nullable() for type_ in bound.types]
        self.tables[view.name] = arrow_schema(bound.names, types, bound.fields)
        self.plans[view.name] = plan
        self._done.add(name)
        return ""

    def _circle(self, names: list[str]) -> SqlRefused:
        text = " reads ".join((*names, names[0]))
        help = "remove one of these reads; recursive views are not supported"
        if len(names) == 1:
            help = f"if a source has the name {names[0]}, give the view another name; {help}"
        message = f"views read each other in a circle: {text}"
        return self.views[names[0]].refused("SQL_VIEW_CYCLE", message, help)
