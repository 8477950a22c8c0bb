"""Plan the views of a pipeline, each after those that it reads."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from substrait_agg.checked_plan import Plan
from substrait_agg.errors import PlanRefused, SqlRefused
from substrait_agg.plan.arrow import arrow_schema
from substrait_agg.plan.plannable import COLLATED

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

    def refuse(self, code: str, message: str, help: str) -> SqlRefused:
        """Return an error at the place of the definition."""
        ...


class Target(Protocol):
    """A table without a query: the rows come from a flow."""

    @property
    def name(self) -> str:
        """Return the name of the table."""
        ...

    @property
    def policy(self) -> str | None:
        """Return the refresh policy that it declares."""
        ...

    def check_columns(self, schema: pa.Schema) -> None:
        """Check that a flow has the columns that the table declares.

        Raises:
            SqlRefused: SQL_NOT_MAINTAINED.
        """
        ...

    def refuse(self, code: str, message: str, help: str) -> SqlRefused:
        """Return an error at the place of the definition."""
        ...


@dataclass(frozen=True)
class FilledTable:
    """A table without a query, and the flow into it: a view.

    Attributes:
        target: the table.
        flow: the flow, with the name of the table.
    """

    target: Target
    flow: Definition
    temporary: bool = False

    @property
    def name(self) -> str:
        """Return the name of the table."""
        return self.target.name

    @property
    def place(self) -> str:
        """Return the file and the line of the flow."""
        return self.flow.place

    @property
    def policy(self) -> str | None:
        """Return the refresh policy that the table declares."""
        return self.target.policy

    @property
    def reads(self) -> frozenset[str]:
        """Return the name of the table of events, in lower case."""
        return self.flow.reads

    def plan(self, tables: Mapping[str, pa.Schema]) -> Plan:
        """Return the plan of the flow."""
        plan = self.flow.plan(tables)
        self.target.check_columns(columns_of_plan(plan))
        return plan

    def refuse(self, code: str, message: str, help: str) -> SqlRefused:
        """Return an error at the place of the flow."""
        return self.flow.refuse(code, message, help)


@dataclass
class Definitions:
    """What the files of a pipeline define.

    Attributes:
        views: the views, each with its query.
        targets: the tables without a query.
        flows: the flows into them, each with the name of its table.
    """

    views: list[Definition] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    flows: list[Definition] = field(default_factory=list)

    def __add__(self, other: Definitions) -> Definitions:
        """Return what both define."""
        return Definitions(
            self.views + other.views, self.targets + other.targets, self.flows + other.flows
        )

    def by_name(self) -> dict[str, Definition]:
        """Return the views by their names, in lower case.

        Raises:
            SqlRefused: SQL_VIEW_TWICE; SQL_NOT_MAINTAINED for a flow without a table, a table without
                a flow, and several flows into one table.
        """
        flow_of: dict[str, Definition] = {}
        for flow in self.flows:
            first = flow_of.setdefault(flow.name.lower(), flow)
            if first is not flow:
                message = f"a second flow into {flow.name}; the first is at {first.place}"
                help = "write one flow from a view that is the UNION ALL of the events"
                raise flow.refuse("SQL_NOT_MAINTAINED", message, help)
        tables = [self._fill(target, flow_of) for target in self.targets]
        names = {target.name.lower() for target in self.targets}
        for name, flow in flow_of.items():
            if name not in names:
                message = (
                    f"the flow is into {flow.name}, which is no streaming table without a query"
                )
                help = f"add CREATE STREAMING TABLE {flow.name}, in Python create_streaming_table"
                raise flow.refuse("SQL_NOT_MAINTAINED", message, help)
        views: dict[str, Definition] = {}
        for view in (*self.views, *tables):
            first = views.setdefault(view.name.lower(), view)
            if first is not view:
                message = f"the view {view.name} is created twice, first at {first.place}"
                raise view.refuse("SQL_VIEW_TWICE", message, "rename or remove one of them")
        return views

    def _fill(self, target: Target, flow_of: Mapping[str, Definition]) -> FilledTable:
        """Return a table with its flow."""
        flow = flow_of.get(target.name.lower())
        if flow is None:
            message = f"the table {target.name} has no query and no AUTO CDC flow"
            help = "give it a query, in Python a function with @dp.table, or remove it"
            raise target.refuse("SQL_NOT_MAINTAINED", message, help)
        return FilledTable(target, flow)


def columns_of_plan(plan: Plan) -> pa.Schema:
    """Return the columns of the rows of a plan, each nullable.

    Raises:
        PlanRefused: the plan has problems.
    """
    checked = plan.check()
    bound = checked.bound
    if bound is None:
        raise PlanRefused(checked.problems)
    schema = arrow_schema(bound.names, [t.as_nullable() for t in bound.types], bound.fields)
    for place, column in plan.collations.items():
        field = schema.field(place).with_metadata({COLLATED: column})
        schema = schema.set(place, field)
    return schema


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
            columns = self.columns_of({missing.table.rpartition(".")[2]})
            if not columns.keys() - self.tables.keys():
                raise missing.refused from missing.__cause__
            self.tables |= columns
            return ""
        self.tables[view.name] = columns_of_plan(plan)
        self.plans[view.name] = plan
        self._done.add(name)
        return ""

    def _circle(self, names: list[str]) -> SqlRefused:
        text = " reads ".join((*names, names[0]))
        help = "remove one of these reads; recursive views are not supported"
        if len(names) == 1:
            help = f"if a source has the name {names[0]}, give the view another name; {help}"
        message = f"views read each other in a circle: {text}"
        return self.views[names[0]].refuse("SQL_VIEW_CYCLE", message, help)
