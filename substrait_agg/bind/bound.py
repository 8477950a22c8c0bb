"""The bound plan: every expression typed, every function resolved, every relation with its schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from substrait_agg.functions.accumulators import MeasureKind
from substrait_agg.plan.types import Type

# --- expressions: each has `.type`; column ordinals count the input row of the relation -------


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal; `value` as in `plan.model.Literal` (None for null)."""

    type: Type
    value: Any


@dataclass(frozen=True, slots=True)
class Column:
    """Column `ordinal` of the input row."""

    type: Type
    ordinal: int


@dataclass(frozen=True, slots=True)
class Nested:
    """A part of a nested value: `step` is a struct field ordinal, a list offset, or a map key (`Constant`)."""

    type: Type
    input: Expr
    step: Any


@dataclass(frozen=True, slots=True)
class Call:
    """A scalar function by its canonical name (a key of `functions.scalars.SCALARS`).

    `arguments` hold expressions; enumeration arguments stand in `enums` by position, upper case;
    `options` are (name, chosen preference) in upper case.
    """

    type: Type
    function: str
    arguments: tuple[Expr, ...]
    enums: tuple[tuple[int, str], ...] = ()
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Conversion:
    """A cast to `type`; with `null_on_failure` a value that does not convert becomes null, else the batch fails."""

    type: Type
    input: Expr
    null_on_failure: bool = False


@dataclass(frozen=True, slots=True)
class Conditional:
    """If-then (conditions and values) with the last value as default; Switch is bound to this with equality."""

    type: Type
    clauses: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class InList:
    """SQL IN with three-valued logic."""

    type: Type
    value: Expr
    options: tuple[Expr, ...]


Expr = Constant | Column | Nested | Call | Conversion | Conditional | InList


@dataclass(frozen=True, slots=True)
class BoundMeasure:
    """A measure that can be maintained.

    Attributes:
        kind: what is maintained (a row of the aggregate catalogue).
        argument: the value, None for count of rows.
        filter: boolean; only rows for which it is true count.
        type: the type of the measure's column: as declared, or as derived for the producer.
        overflow: ``ERROR``, ``SATURATE`` or ``SILENT``: what happens when the exact result does not fit `type`.
        name: the function's name as the plan writes it.
        path: place in the plan.
    """

    kind: MeasureKind
    argument: Expr | None
    filter: Expr | None
    type: Type
    overflow: str
    name: str
    path: str


# --- relations: each has `.types`, its output columns ------------------------------------------


@dataclass(frozen=True, slots=True)
class BoundRead:
    """A table's columns `names` with `types`; no filter or projection (those are relations above it)."""

    table: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[Type, ...]
    path: str


@dataclass(frozen=True, slots=True)
class BoundRows:
    """Rows written in the plan: constants after binding."""

    types: tuple[Type, ...]
    rows: tuple[tuple[Expr, ...], ...]
    path: str


@dataclass(frozen=True, slots=True)
class BoundFilter:
    """Rows for which `condition` is true."""

    input: BoundRelation
    condition: Expr
    types: tuple[Type, ...]
    path: str


@dataclass(frozen=True, slots=True)
class BoundProject:
    """Exactly the columns `expressions` (emit and pass-through columns are already resolved)."""

    input: BoundRelation
    expressions: tuple[Expr, ...]
    types: tuple[Type, ...]
    path: str


@dataclass(frozen=True, slots=True)
class BoundUnion:
    """All rows of all inputs, which have the same column types."""

    inputs: tuple[BoundRelation, ...]
    types: tuple[Type, ...]
    path: str


@dataclass(frozen=True, slots=True)
class BoundAggregate:
    """One grouping set: `types` are those of `keys`, then those of `measures`."""

    input: BoundRelation
    keys: tuple[Expr, ...]
    measures: tuple[BoundMeasure, ...]
    types: tuple[Type, ...]
    path: str


BoundRelation = BoundRead | BoundRows | BoundFilter | BoundProject | BoundUnion | BoundAggregate


@dataclass(frozen=True, slots=True)
class SortKey:
    """Order of the view by an output column; `descending` and `nulls_first` as in SQL."""

    ordinal: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class BoundPlan:
    """A plan that can be run: the relation, the names of its columns (unique or not), the order of the view."""

    root: BoundRelation
    names: tuple[str, ...]
    sorts: tuple[SortKey, ...]
    producer: str
    fingerprint: str
