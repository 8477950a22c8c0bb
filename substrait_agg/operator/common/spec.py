"""What an operator instance needs to know, free of plan and Spark: types, state layout, what each measure reads."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from substrait_agg.bind.bound import BoundMeasure, Expr
from substrait_agg.flow.graph.graph import (
    ARRIVAL_BATCH,
    ARRIVAL_POSITION,
    Computed,
    Follows,
    Forget,
    Read,
    Side,
    ValueTree,
)
from substrait_agg.flow.graph.nodes import Aggregate, Distinct, Node, Sessionize, Upsert, row_wise
from substrait_agg.functions.aggregates.accumulators import (
    DIGIT_BITS,
    MET,
    Accumulator,
    EarlyRetraction,
    WeightKind,
    tree_counters,
)
from substrait_agg.functions.aggregates.kinds import MeasureKind
from substrait_agg.functions.aggregates.registry import implementation_of
from substrait_agg.functions.aggregates.user import AdditiveMeasure
from substrait_agg.operator.common.layout import Layout
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import BOOL, Type
from substrait_agg.state.entries import TreeLayout
from substrait_agg.state.keys.keys import Component
from substrait_agg.state.run import PAGE_ROWS

__all__ = [
    "ROW_COUNT",
    "THERE",
    "ComputedSpec",
    "InputSpec",
    "MeasureSpec",
    "OperatorSpec",
    "SessionSpec",
    "TreeSpec",
    "UpsertSpec",
    "group_spec",
    "session_spec",
    "upsert_spec",
]

ROW_COUNT = -1  # ordinal that stands for the group's total weight
SLICE_ROWS = 1 << 20
SLICE_BYTES = 1 << 29


@dataclass(frozen=True, slots=True)
class MeasureSpec:
    """How a measure's value is made.

    Attributes:
        kind: what is maintained.
        accumulators: ordinals of what it is computed from, in the order its kind needs (`ROW_COUNT` = all rows).
        type: type of the measure's column.
        label: how an error message names the measure.
        scale: decimal digits of the unit of a total.
        tree: ordinal of its tree, or -1.
        values: components of the tree that are its arguments.
        side: ``first`` or ``last`` where it is an end of the tree.
        distinct: equal values count once.
        options: (name, value that holds), upper case.
        constants: constant arguments: separator, n, fraction; of ``grouping`` one value per grouping set.
        inputs: types of its arguments.
        implementation: of a user-defined measure.
    """

    kind: MeasureKind
    accumulators: tuple[int, ...]
    type: Type
    label: str
    scale: int = 0
    tree: int = -1
    values: tuple[int, ...] = ()
    side: Side = ""
    distinct: bool = False
    options: tuple[tuple[str, str], ...] = ()
    constants: tuple[Any, ...] = ()
    inputs: tuple[Type, ...] = ()
    implementation: object = None

    @property
    def total(self) -> int:
        """Ordinal of the accumulator summed, -1 for counts."""
        return self.accumulators[0] if len(self.accumulators) > 1 else -1

    @property
    def count(self) -> int:
        """Ordinal of the accumulator that counts its contributors."""
        return self.accumulators[-1]

    @property
    def overflow(self) -> str:
        """ERROR, SATURATE or SILENT."""
        return self.option("OVERFLOW", "ERROR")

    def option(self, name: str, default: str = "") -> str:
        """The value that holds for an option."""
        return dict(self.options).get(name, default)


@dataclass(frozen=True, slots=True)
class TreeSpec:
    """An ordered tree.

    Attributes:
        layout: its components and the columns of its runs.
        arguments: argument column of each component.
        skipped: components whose nulls keep a row out.
        present: argument that is null in rows which stay out, or -1.
        elements: the entries are the elements of its one component, a list.
        follows: set where it holds arrivals of the values of another tree.
        ends_alone: it has no entries: all that is kept of it are its ends, with the group.
        partial: delta rows may bring the ends of the rows they stand for (`operator.numeric.delta`).
    """

    layout: TreeLayout
    arguments: tuple[int, ...]
    skipped: tuple[int, ...]
    present: int
    elements: bool
    follows: Follows | None = None
    extremes_only: bool = False
    partial: bool = False

    @property
    def by_arrival(self) -> bool:
        """Whether it depends on the order in which rows came."""
        return self.follows is not None or ARRIVAL_POSITION in self.arguments


@dataclass(frozen=True, slots=True)
class ComputedSpec:
    """An argument column that a user-defined measure computes: total `column` over the columns `arguments`."""

    implementation: AdditiveMeasure
    arguments: tuple[int, ...]
    column: str


class InputSpec(Protocol):
    """What the exchange and the tasks have to know of an operator, whatever it does with its rows."""

    @property
    def keys(self) -> tuple[pa.DataType, ...]:
        """Arrow types of the columns by which rows are exchanged."""

    @property
    def weight(self) -> WeightKind:
        """What is known of the weights of the input."""

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        """Sums that may be made before the exchange."""

    @property
    def trees(self) -> tuple[TreeSpec, ...]:
        """Ordered trees of arguments."""

    @property
    def extremes(self) -> tuple[tuple[int, Side], ...]:
        """Ends of trees that may be found before the exchange."""

    @property
    def always(self) -> tuple[int, ...]:
        """Indices of the grouping sets whose groups are there without rows."""

    @property
    def is_global(self) -> bool:
        """Whether there is one group, which is there without rows."""

    @property
    def row_wise(self) -> bool:
        """Whether rows have to come one by one, and not summed per key."""

    @property
    def by_arrival(self) -> bool:
        """Whether rows have to say where in their batch they stand."""

    @property
    def output(self) -> pa.Schema:
        """Columns of its changes that are its groups': keys, then values."""

    @property
    def slice_rows(self) -> int:
        """Rows held at once, fewer where they or the stored rows of their groups are long."""

    @property
    def slice_bytes(self) -> int:
        """Bytes that they may take."""

    @property
    def page_rows(self) -> int:
        """Rows per page of a run."""


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """An incremental aggregate.

    Attributes:
        keys: Arrow types of the grouping columns (with several grouping sets, the set index is the last).
        accumulators: exact numbers kept per group, after its total weight.
        measures: output columns after the keys.
        weight: what is known of the weights of the input.
        multiset: keeps rows with their weights; its changes carry weights other than 1 and -1.
        is_global: no grouping: one group that is always shown.
        trees: ordered trees.
        always: indices of the empty grouping sets among several: their groups are always shown.
        computed: argument columns from `COMPUTED` on.
        early: what becomes of a retraction that comes before its insertion.
        guard: ordinal of the tree of whole input rows that tells such retractions; -1 where they are carried, and of a
            multiset, whose groups are its rows.
        forget: what becomes of the rows shown of groups that are forgotten when they are idle; empty where none are.
        page_rows: rows per page of a run.
        slice_rows: rows of input held at once, fewer where they or the stored rows of their groups are long.
        slice_bytes: what they may take.
    """

    keys: tuple[pa.DataType, ...]
    accumulators: tuple[Accumulator, ...]
    measures: tuple[MeasureSpec, ...]
    weight: WeightKind
    multiset: bool
    is_global: bool
    trees: tuple[TreeSpec, ...] = ()
    always: tuple[int, ...] = ()
    computed: tuple[ComputedSpec, ...] = ()
    early: EarlyRetraction = "carry"
    guard: int = -1
    forget: Forget = ""
    page_rows: int = PAGE_ROWS
    slice_rows: int = SLICE_ROWS
    slice_bytes: int = SLICE_BYTES
    layout: Layout = field(init=False)

    def __post_init__(self) -> None:
        ends = [self.trees[t].layout.components for t, _ in self.extremes]
        layout = Layout.of(
            self.output,
            len(self.keys),
            self.accumulators,
            tuple(tuple(c.type for c in components) for components in ends),
            chained=bool(self.trees),
            timed=bool(self.forget),
        )
        object.__setattr__(self, "layout", layout)

    @property
    def limb_bits(self) -> int:
        """Distance in bits between the partial sums of one accumulator."""
        return 16 if self.weight == "any" else DIGIT_BITS

    @property
    def extremes(self) -> tuple[tuple[int, Side], ...]:
        """Which end of which tree is remembered in a group's row: (tree, side), each once."""
        return tuple(dict.fromkeys((m.tree, m.side) for m in self.measures if m.side))

    def alive(self, tree: int) -> int:
        """Ordinal of the accumulator that is above zero for groups which have live entries in a tree."""
        live = tree_counters(tree)[0]
        return self.accumulators.index(
            replace(live, kind=MET) if self.trees[tree].extremes_only else live
        )

    @property
    def row_wise(self) -> bool:
        """Whether its input comes row by row: trees with entries, products and computed columns are not made of sums."""
        return row_wise(self.trees, self.computed, self.accumulators)

    @property
    def by_arrival(self) -> bool:
        """Whether rows have to say where in their batch they stand."""
        return any(tree.by_arrival for tree in self.trees)

    @property
    def output(self) -> pa.Schema:
        """Columns of the operator's changes, without weight: ``k*`` then ``v*``."""
        keys = [pa.field(f"k{i}", t) for i, t in enumerate(self.keys)]
        given = [to_arrow(m.type) for m in self.measures]
        return pa.schema([*keys, *(pa.field(f"v{i}", t) for i, t in enumerate(given))])


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSpec(OperatorSpec):
    """An operator that tells sessions: its keys are what they are told apart by, its one tree begins with the time.

    Attributes:
        gap: microseconds without a row that end a session.
        window: Arrow type of a session.
        values: Arrow types of what goes on with each row.
    """

    gap: int
    window: pa.DataType
    values: tuple[pa.DataType, ...]

    @property
    def changes(self) -> pa.Schema:
        """Columns of its changes: the other keys, the session, the values, and the weight."""
        types = (self.window, *self.values)
        fields = [pa.field(f"v{i}", t) for i, t in enumerate(types)]
        return pa.schema([*self.output, *fields, pa.field(WEIGHT, pa.int64())])


THERE = "there"
"""The column of the tree of upserts that says whether the key has a row."""


@dataclass(frozen=True, slots=True)
class UpsertSpec:
    """An operator that keeps the newest row of each key; satisfies `InputSpec`.

    Attributes:
        keys: Arrow types of the key.
        values: Arrow types of the columns behind the key; they arrive as ``x0``, ``x1``, ...
        order: what orders the rows of one key; the columns arrive behind the values. Empty: the order of arrival.
        partial: which of the values a row may leave out because they did not change. Behind what orders arrives a boolean
            column for each that says so.
        labels: how an error message names them.
        page_rows: rows per page of a run.
        slice_rows: rows of input held at once, fewer where they or the stored rows of their groups are long.
        slice_bytes: what they may take.
    """

    keys: tuple[pa.DataType, ...]
    values: tuple[pa.DataType, ...]
    order: tuple[Component, ...] = ()
    partial: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    page_rows: int = PAGE_ROWS
    slice_rows: int = SLICE_ROWS
    slice_bytes: int = SLICE_BYTES

    weight: ClassVar[WeightKind] = "sign"
    accumulators: ClassVar[tuple[Accumulator, ...]] = ()
    trees: ClassVar[tuple[TreeSpec, ...]] = ()
    extremes: ClassVar[tuple[tuple[int, Side], ...]] = ()
    always: ClassVar[tuple[int, ...]] = ()
    is_global: ClassVar[bool] = False
    row_wise: ClassVar[bool] = True
    by_arrival: ClassVar[bool] = True

    @property
    def output(self) -> pa.Schema:
        """Columns of its changes, without weight: ``k*`` then ``v*``."""
        keys = [pa.field(f"k{i}", t) for i, t in enumerate(self.keys)]
        return pa.schema([*keys, *(pa.field(f"v{i}", t) for i, t in enumerate(self.values))])

    @property
    def order_columns(self) -> tuple[str, ...]:
        """Names of the columns that order, in the rows that arrive."""
        return tuple(f"x{len(self.values) + i}" for i in range(len(self.order)))

    @property
    def partial_columns(self) -> tuple[str, ...]:
        """Names of the columns that say which values are left out, in the rows that arrive."""
        first = len(self.values) + len(self.order)
        return tuple(f"x{first + i}" for i in range(len(self.partial)))

    @property
    def stored(self) -> pa.Schema:
        """Columns of a run: hash, dead, keys, ``there``, ``v*`` (the row, null without one) and ``o*`` (its order)."""
        keys, values = list(self.output)[: len(self.keys)], list(self.output)[len(self.keys) :]
        return pa.schema(
            [
                pa.field("hash", pa.uint64()),
                pa.field("dead", pa.bool_()),
                *keys,
                pa.field(THERE, pa.bool_()),
                *values,
                *(pa.field(f"o{i}", c.type) for i, c in enumerate(self.order)),
            ]
        )


def group_spec(node: Aggregate | Distinct) -> OperatorSpec:
    """The spec of a node that keeps groups, or whole rows."""
    return OperatorSpec(multiset=node.output_weight == "any", **_of_groups(node))


def session_spec(node: Sessionize) -> SessionSpec:
    """The spec of a node that tells sessions."""
    window, *values = (to_arrow(t) for t in node.types[len(node.keys) :])
    own = {"gap": node.gap, "window": window, "values": tuple(values)}
    return SessionSpec(multiset=False, **_of_groups(node), **own)


def _of_groups(node: Node) -> dict[str, Any]:
    return {
        "keys": tuple(to_arrow(t) for t in node.key_types),
        "accumulators": node.accumulators,
        "measures": tuple(map(_measure, node.measures, node.reads)),
        "weight": node.weight,
        "is_global": not node.key_types,
        "trees": tuple(
            _tree(tree, node.arguments, whole=i == node.guard) for i, tree in enumerate(node.trees)
        ),
        "always": tuple(i for i, keys in enumerate(node.sets) if not keys),
        "computed": tuple(map(_computed, node.computed)),
        "early": node.early,
        "guard": node.guard,
        "forget": node.forget,
    }


def upsert_spec(node: Upsert) -> UpsertSpec:
    """The spec of a node that takes upserts."""
    types = [BOOL if value is None else value.type for value, _ in node.arguments]
    order = types[node.values : len(types) - len(node.partial)]
    return UpsertSpec(
        tuple(map(to_arrow, node.key_types)),
        tuple(map(to_arrow, types[: node.values])),
        tuple(Component(to_arrow(t)) for t in order),
        node.partial,
        node.labels,
    )


def _computed(column: Computed) -> ComputedSpec:
    implementation = implementation_of(column.implementation).implementation
    if not isinstance(implementation, AdditiveMeasure):
        raise TypeError(column.implementation)
    return ComputedSpec(implementation, column.arguments, column.column)


def _measure(measure: BoundMeasure, read: Read) -> MeasureSpec:
    return MeasureSpec(
        kind=measure.kind,
        accumulators=read.accumulators,
        type=measure.type,
        label=f"{measure.name} at {measure.path}",
        scale=_scale(measure, read),
        tree=read.tree,
        values=read.values,
        side=read.side,
        distinct=measure.distinct,
        options=measure.options,
        constants=measure.constants,
        inputs=tuple(a.type for a in measure.arguments),
        implementation=_implementation(measure),
    )


def _implementation(measure: BoundMeasure) -> object:
    return (
        implementation_of(measure.implementation).implementation if measure.implementation else None
    )


def _scale(measure: BoundMeasure, read: Read) -> int:
    # A count has no unit, whatever it counts.
    if len(read.accumulators) < 2 or measure.arguments[0].type.kind != "decimal":
        return 0
    return measure.arguments[0].type.params[1]


def _tree(
    tree: ValueTree, arguments: tuple[tuple[Expr | None, Expr | None], ...], *, whole: bool
) -> TreeSpec:
    """The tree; one of whole rows has nullable components, so that its runs alone tell its layout."""
    components = []
    for i, component in enumerate(tree.components):
        if component.argument in (ARRIVAL_BATCH, ARRIVAL_POSITION):
            components.append(Component(pa.int64()))
            continue
        value, condition = arguments[component.argument]
        given = BOOL if value is None else value.type
        type_ = given.children[0] if tree.elements else given
        nullable = whole or type_.nullable or condition is not None
        components.append(
            Component(
                to_arrow(type_),
                nullable=nullable and (tree.elements or i not in tree.skipped),
                descending=component.descending,
                nulls_first=component.nulls_first,
            )
        )
    return TreeSpec(
        TreeLayout(tuple(components)),
        tuple(c.argument for c in tree.components),
        tree.skipped,
        tree.present,
        tree.elements,
        tree.follows,
        tree.ends_alone,
        tree.partial,
    )
