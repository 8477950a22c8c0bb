"""What a dataflow is made of besides its operators: origins and linear steps of rows, and the parts of state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal as OneOf

from substrait_agg.bind.bound import Expr
from substrait_agg.plan.types import Type


@dataclass(frozen=True, slots=True)
class UpsertSource:
    """How rows of a table are read that are upserts.

    Attributes:
        keys: ordinals of the columns of the primary key.
        order: ordinals of the columns by which the rows of a key are ordered; empty: by arrival.
        paths: fields of the envelope of change events, which are read as further columns behind those of the table.
        partial: ordinals of the columns that an event may leave out because they did not change; behind all others a boolean
            column is read for each.
    """

    keys: tuple[int, ...]
    order: tuple[int, ...] = ()
    paths: tuple[str, ...] = ()
    partial: tuple[int, ...] = ()

    def behind(self, before: int, now: int) -> UpsertSource:
        """The same of a table of which more columns are read: `now` of them, and not `before`."""
        order = tuple(o + now - before if o >= before else o for o in self.order)
        return replace(self, order=order)

    @property
    def extra(self) -> int:
        """How many columns are read behind those of the table."""
        return len(self.paths) + len(self.partial)


@dataclass(frozen=True, slots=True)
class TableOrigin:
    """Changes of a source table; only the columns `names` are read.

    With `keyed`, rows of weight 1 set the row of their key, and rows of weight -1 take it away.
    """

    table: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[Type, ...]
    keyed: UpsertSource | None = None


@dataclass(frozen=True, slots=True)
class RowsOrigin:
    """Rows written in the plan: inserted once, in the first version."""

    types: tuple[Type, ...]
    rows: tuple[tuple[Expr, ...], ...]


@dataclass(frozen=True, slots=True)
class OperatorOrigin:
    """Changes of operator `operator` in the same batch."""

    operator: int
    types: tuple[Type, ...]


Origin = TableOrigin | RowsOrigin | OperatorOrigin


@dataclass(frozen=True, slots=True)
class FilterStep:
    """Keep the rows for which `condition` is true."""

    condition: Expr


@dataclass(frozen=True, slots=True)
class ProjectStep:
    """Replace the columns by `expressions`."""

    expressions: tuple[Expr, ...]


Step = FilterStep | ProjectStep


@dataclass(frozen=True, slots=True)
class Branch:
    """A linear path: rows of `origin`, then `steps` in order, into port `port` of an operator. Weights pass through unchanged."""

    origin: Origin
    steps: tuple[Step, ...]
    port: int = 0


Forget = OneOf["", "retract", "keep"]
"""What becomes of the row shown of a group that is forgotten because it was idle; empty: no group is forgotten."""

ALL_ROWS = -1
"""Instead of the ordinal of an argument or of an accumulator: all rows, and the total weight of the group."""

COMPUTED = 1 << 16
"""Argument ordinals from here up are columns that a measure of the embedding program computes from others."""


@dataclass(frozen=True, slots=True)
class Computed:
    """A column that a user-defined measure computes: total `column` of `implementation` over the arguments `arguments`."""

    implementation: str
    arguments: tuple[int, ...]
    column: str


ARRIVAL_BATCH, ARRIVAL_POSITION = 1 << 17, (1 << 17) + 1
"""Argument ordinals of the batch in which a value arrived, and of its place there."""


@dataclass(frozen=True, slots=True)
class Follows:
    """A tree of arrivals: which value of tree `tree` arrived when.

    Attributes:
        tree: the tree of the values.
        latest: the newest row that brought a value counts, else the one with which it came to be there.
        by_value: ordered by value, to look an arrival up; else by arrival.
    """

    tree: int
    latest: bool
    by_value: bool


@dataclass(frozen=True, slots=True)
class TreeComponent:
    """One column of the key of an ordered tree: prepared argument `argument`, and how it is ordered."""

    argument: int
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class ValueTree:
    """An ordered multiset per group, shared by the measures that need the same one.

    Attributes:
        components: columns by which its entries are ordered and told apart.
        skipped: ordinals of the components whose nulls keep a row out.
        present: argument that is null in rows which stay out (a filter where nulls are kept), `ALL_ROWS` for none.
        elements: its one component is a list, and the entries are the elements of the lists.
        follows: set where it holds arrivals of the values of another tree instead of values of rows.
        ends_alone: nothing is kept of it but its ends, with the group, as no entry ever leaves it (`flow.graph.extremes`).
        partial: Spark can find the ends of a batch, as part of its partial sums.
    """

    components: tuple[TreeComponent, ...]
    skipped: tuple[int, ...]
    present: int
    elements: bool = False
    follows: Follows | None = None
    ends_alone: bool = False
    partial: bool = False


Side = OneOf["", "first", "last"]


@dataclass(frozen=True, slots=True)
class Read:
    """What a measure is computed from.

    Attributes:
        accumulators: ordinals in the order its kind needs; `ALL_ROWS` is the total weight of the group.
        tree: ordinal of its tree, or -1.
        values: components of the tree that are the measure's arguments.
        side: ``first`` or ``last`` where it is the least or greatest live entry of the tree.
    """

    accumulators: tuple[int, ...] = ()
    tree: int = -1
    values: tuple[int, ...] = ()
    side: Side = ""
