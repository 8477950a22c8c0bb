"""The parts of a dataflow besides its operators: origins of rows, linear steps and state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from typing import Literal as OneOf

from substrait_agg.bind.bound import BoundMeasure, Expr
from substrait_agg.functions.aggregates.accumulators import Accumulator
from substrait_agg.plan.types import Type


@dataclass(frozen=True, slots=True)
class UpsertSource:
    """How to read the rows of a table with upserts.

    Attributes:
        keys: ordinals of the columns of the primary key.
        order: ordinals of the columns that order the rows of a key; empty for the order of arrival.
        paths: fields of the envelope of change events, read as further columns after those of the
            table.
        partial: ordinals of the columns that an event may omit because they did not change; a
            boolean column per such column is read after all others.
    """

    keys: tuple[int, ...]
    order: tuple[int, ...] = ()
    paths: tuple[str, ...] = ()
    partial: tuple[int, ...] = ()

    def behind(self, before: int, now: int) -> UpsertSource:
        """Return the upsert source after a change of the number of columns read."""
        order = tuple(o + now - before if o >= before else o for o in self.order)
        return replace(self, order=order)

    @property
    def extra(self) -> int:
        """Return the number of columns that are read after those of the table."""
        return len(self.paths) + len(self.partial)


@dataclass(frozen=True, slots=True)
class TableOrigin:
    """Changes of a source table; only the columns `names` are read.

    With `upsert`, a row of weight 1 replaces the row of its key, and a row of weight -1 deletes it.
    """

    table: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[Type, ...]
    upsert: UpsertSource | None = None


@dataclass(frozen=True, slots=True)
class RowsOrigin:
    """Rows written in the plan. The first version inserts them once."""

    types: tuple[Type, ...]
    rows: tuple[tuple[Expr, ...], ...]


@dataclass(frozen=True, slots=True)
class OperatorOrigin:
    """Changes of the operator with id `operator` in the same batch."""

    operator: int
    types: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class FeedbackOrigin:
    """Changes of operator `operator`, which reads this one, in the round before of the same batch."""

    operator: int
    types: tuple[Type, ...]


Origin = TableOrigin | RowsOrigin | OperatorOrigin | FeedbackOrigin


@dataclass(frozen=True, slots=True)
class FilterStep:
    """A step that keeps the rows for which `condition` is true."""

    condition: Expr


@dataclass(frozen=True, slots=True)
class ProjectStep:
    """A step that replaces the columns by `expressions`."""

    expressions: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class UnnestStep:
    """A step that makes a row per element of the list `values`; the element is the last column.

    A row whose list is null or empty is left out.
    """

    values: Expr

    @property
    def element(self) -> Type:
        """The type of the new column."""
        return self.values.type.children[0]


Step = FilterStep | ProjectStep | UnnestStep


def step_expressions(step: Step) -> tuple[Expr, ...]:
    """Return the expressions that a step computes."""
    match step:
        case FilterStep(condition=condition):
            return (condition,)
        case UnnestStep(values=values):
            return (values,)
        case ProjectStep(expressions=expressions):
            return expressions


@dataclass(frozen=True, slots=True)
class Branch:
    """A linear path from `origin` through `steps`, in order, into port `port` of an operator.

    Weights pass through unchanged.

    Attributes:
        origin: where its rows come from.
        port: the port that they go to.
        static: whether all its rows come in the first version: those of a static table, rows
            written in the plan, and the changes of operators that read nothing else.
    """

    origin: Origin
    steps: tuple[Step, ...]
    port: int = 0
    static: bool = False


Forget = OneOf["", "retract", "keep"]
"""What happens to the rows in the view of groups that are evicted because they are idle; empty: no
group is evicted."""

COMPUTED = 1 << 16
"""First ordinal of the argument columns that a user-defined measure computes from others."""


@dataclass(frozen=True, slots=True)
class UserColumn:
    """A column that a user-defined measure computes.

    Attributes:
        implementation: the measure.
        arguments: ordinals of the arguments that it reads.
        column: the total of the measure that the column is for.
    """

    implementation: str
    arguments: tuple[int, ...]
    column: str


ARRIVAL_BATCH, ARRIVAL_POSITION = 1 << 17, (1 << 17) + 1
"""Argument ordinals of the batch in which a value arrived, and of its position in the batch."""


@dataclass(frozen=True, slots=True)
class ArrivalTree:
    """A tree of arrivals, which maps values of tree `tree` to the time of their arrival.

    Attributes:
        latest: whether the newest row with a value counts; otherwise the row that made
            it present.
        by_value: whether it is ordered by value, for lookups of arrivals; otherwise by arrival.
    """

    tree: int
    latest: bool
    by_value: bool


@dataclass(frozen=True, slots=True)
class TreeComponent:
    """A column of the key of an ordered tree: prepared argument `argument` and its sort order."""

    argument: int
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class ValueTree:
    """An ordered multiset per group, shared by the measures that need the same one.

    Attributes:
        components: columns that order and identify its entries.
        skipped: ordinals of the components whose nulls exclude a row.
        present: argument that is null in excluded rows (a filter where nulls are kept); None
            if it excludes none.
        elements: whether its one component is a list, and the entries are the elements of the
            lists.
        follows: set if it contains arrivals of the values of another tree instead of values of
            rows.
        extremes_only: whether only its extremes are kept, with the group, because no entry ever leaves
            it (`flow.graph.measures`).
        partial: whether Spark can find the extremes of a batch as part of its partial sums.
        within: the tree without FILTER over the same values whose runs have this tree's weights in
            a further column; None if the tree has runs of its own.
    """

    components: tuple[TreeComponent, ...]
    skipped: tuple[int, ...]
    present: int | None
    elements: bool = False
    follows: ArrivalTree | None = None
    extremes_only: bool = False
    partial: bool = False
    within: int | None = None


def trees_together(within: Sequence[int | None], tree: int) -> list[int]:
    """Return the trees that share runs with a tree, itself included, in order of their columns.

    Args:
        within: `ValueTree.within` of each tree of the operator.
        tree: ordinal of the tree.
    """
    first = within[tree]
    first = tree if first is None else first
    return [first, *(i for i, other in enumerate(within) if other == first)]


Side = OneOf["", "first", "last"]


@dataclass(frozen=True, slots=True)
class MeasureState:
    """The state that a measure is computed from.

    Attributes:
        accumulators: ordinals in the order that its kind needs; None is the total weight of the
            group.
        tree: ordinal of its tree; None without one.
        values: components of the tree that are the measure's arguments.
        side: ``first`` or ``last`` if it is the least or greatest live entry of the tree.
    """

    accumulators: tuple[int | None, ...] = ()
    tree: int | None = None
    values: tuple[int, ...] = ()
    side: Side = ""


def row_wise(
    trees: Sequence[Any], computed: Sequence[object], accumulators: Sequence[Accumulator]
) -> bool:
    """Return whether the state of an operator needs more than partial sums and extremes.

    Trees with entries, products and computed columns are no sums, and sums would lose the port.
    """
    single = any(a.kind == "product" or a.port is not None for a in accumulators)
    return single or bool(computed) or not all(tree.partial for tree in trees)


@dataclass(frozen=True, slots=True)
class StatePerGroup:
    """What an operator stores per group, besides the key and the total weight.

    Attributes:
        measures: the measures that are computed per group, in order.
        reads: per measure, the state that it is computed from.
        trees: the ordered trees.
        accumulators: the numbers besides the total weight, each shared by its measures.
        computed: the argument columns from `COMPUTED` on.
        guard: the tree of whole input rows that detects early retractions; None without one.
        keeps_rows: whether the entries of every tree are whole rows, and not only those of the guard.
    """

    measures: tuple[BoundMeasure, ...] = ()
    reads: tuple[MeasureState, ...] = ()
    trees: tuple[ValueTree, ...] = ()
    accumulators: tuple[Accumulator, ...] = ()
    computed: tuple[UserColumn, ...] = ()
    guard: int | None = None
    keeps_rows: bool = False

    @property
    def row_wise(self) -> bool:
        """Return whether the input comes row by row."""
        return row_wise(self.trees, self.computed, self.accumulators)

    def stores_whole_rows(self, tree: int) -> bool:
        """Return whether the entries of a tree are whole rows, in which any value may be null."""
        return self.keeps_rows or tree == self.guard


WEIGHT_ALONE = StatePerGroup()
"""The state of groups of which only the total weight is stored."""
