"""One plan over the tables of many aggregate cases: a group for each case, a measure for each kind of call.

The table ``t`` has the number of the case, a marker, and for every type that some case uses as many columns as
it needs. A row belongs to one case and is null in the columns of others; measures skip nulls, and a case
looks at its own measure only. Where the input of a case is empty, its group is held by a row that a filter
on the marker keeps from every measure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from substrait_agg.api import Plan
from substrait_agg.plan.types import Type
from tests.conformance.cases import Call, Case, ColumnRef, Literal, Table
from tests.conformance.declared_functions import signature_of
from tests.conformance.messages import Declarations, Json, column

KEY, MARKER = "case_number", "holds_values"
_KEYS = (Type("i32", nullable=False), Type("bool", nullable=False))

Slot = tuple[Type, int]
"""A column: its type, and how many of that type stand before it."""


@dataclass(frozen=True, slots=True)
class SharedCall:
    """A call that several cases share; `types` are those of its columns, all nullable."""

    call: Call
    signature: tuple[str, str]
    options: tuple[tuple[str, str], ...]
    types: tuple[Type, ...]
    output: Type | None


def measure_of(case: Case) -> SharedCall:
    """The call of a case."""
    if case.table is None:
        message = f"{case.text} is no aggregate case"
        raise ValueError(message)
    value = case.expected.value
    output = value.type if isinstance(value, Literal) else None
    types = tuple(t.as_nullable() for t in case.table.types)
    return SharedCall(case.call, signature_of(case), case.options, types, output)


def table_of(case: Case) -> Table:
    """The table of an aggregate case."""
    if case.table is None:
        message = f"{case.text} has no table"
        raise ValueError(message)
    return case.table


def slots_of(types: Sequence[Type]) -> tuple[Slot, ...]:
    """The columns for values of these types in the shared table."""
    return tuple((t, sum(t == u for u in types[:i])) for i, t in enumerate(types))


@dataclass(frozen=True)
class AggregatePlan:
    """SELECT case_number, every measure FROM t GROUP BY case_number, over some cases."""

    cases: tuple[Case, ...]

    @cached_property
    def measures(self) -> tuple[SharedCall, ...]:
        """Distinct measures, in order of first use."""
        return tuple(dict.fromkeys(measure_of(c) for c in self.cases))

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """The value columns of the table."""
        return tuple(dict.fromkeys(s for m in self.measures for s in slots_of(m.types)))

    @cached_property
    def filter_rows(self) -> bool:
        """Whether some case has no rows, so that measures are filtered by the marker."""
        return any(not table_of(c).rows for c in self.cases)

    @property
    def columns(self) -> dict[str, Type]:
        """Name -> type of the table's columns."""
        names = [f"v{i}" for i in range(len(self.slots))]
        return dict(zip((KEY, MARKER, *names), (*_KEYS, *(t for t, _ in self.slots)), strict=True))

    def positions(self, case: Case) -> tuple[int, ...]:
        """The ordinals in `slots` of the columns of a case."""
        return tuple(self.slots.index(s) for s in slots_of(measure_of(case).types))

    def text(self) -> str:
        """The plan."""
        made = Declarations()
        types = [made.type(t) for t in self.columns.values()]
        schema = {"types": types, "nullability": "NULLABILITY_REQUIRED"}
        read: Json = {
            "read": {
                "baseSchema": {"names": list(self.columns), "struct": schema},
                "namedTable": {"names": ["t"]},
            }
        }
        body: Json = {
            "input": read,
            "groupingExpressions": [column(0)],
            "groupings": [{"expressionReferences": [0]}],
            "measures": [self._measure(m, made) for m in self.measures],
        }
        names = [KEY, *(f"m{i}" for i in range(len(self.measures)))]
        return made.plan({"aggregate": body}, names)

    def _measure(self, measure: SharedCall, made: Declarations) -> Json:
        places = [self.slots.index(s) + len(_KEYS) for s in slots_of(measure.types)]
        arguments = tuple(
            replace(a, ordinal=places[a.ordinal]) if isinstance(a, ColumnRef) else a
            for a in measure.call.arguments
        )
        call = replace(measure.call, arguments=arguments)
        body = made.function(call, measure.signature, measure.output, measure.options)
        body["phase"] = "AGGREGATION_PHASE_INITIAL_TO_RESULT"
        body["invocation"] = "AGGREGATION_INVOCATION_ALL"
        return {"measure": body, "filter": column(1)} if self.filter_rows else {"measure": body}


def refusal(case: Case) -> tuple[str, ...] | None:
    """Codes of the errors that the plan of a case alone is refused with, or None where it is valid."""
    checked = Plan(case.text, AggregatePlan((case,)).text()).check()
    if checked.bound is not None:
        return None
    return tuple(sorted({p.code for p in checked.problems if p.level == "error"}))
