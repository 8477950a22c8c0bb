"""Specifications of operator instances, independent of plan and Spark.

A specification contains the column types, the column layout of the group tree and the inputs of each
measure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa

from substrait_agg.bind.bound import BoundMeasure
from substrait_agg.flow.graph.aggregate import Aggregate, Distinct
from substrait_agg.flow.graph.graph import (
    ARRIVAL_BATCH,
    ARRIVAL_POSITION,
    ArrivalTree,
    Forget,
    MeasureState,
    Side,
    StatePerGroup,
    UserColumn,
    row_wise,
    trees_together,
)
from substrait_agg.flow.graph.nodes import Argument, Node
from substrait_agg.functions.aggregates.accumulators import (
    COUNT_DIGITS,
    MET,
    Accumulator,
    EarlyRetraction,
    WeightKind,
    tree_counters,
)
from substrait_agg.functions.aggregates.kinds import MeasureKind
from substrait_agg.functions.aggregates.registry import implementation_of
from substrait_agg.functions.aggregates.user import AdditiveMeasure
from substrait_agg.functions.numbers.stored_digits import FIXED
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import BOOL, Type
from substrait_agg.required import require
from substrait_agg.state.entries import TreeLayout
from substrait_agg.state.keys.keys import Component
from substrait_agg.state.run import PAGE_ROWS


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a run of the group tree.

    Attributes:
        schema: the columns listed below, in this order.
        offsets: per accumulator, the position of its first digit in ``fixed``; -1 for float
            accumulators. The total weight starts at position 0.
        digits: number of digits in ``fixed``.

    Columns of `schema`:

    - ``hash`` (uint64), ``dead`` (bool), and the key columns ``k*``.
    - ``fixed`` (fixed size binary): the digits of the total weight and of all accumulators of fixed
      size, 4 bytes each. A run may have only the digits that are not 0 in all of its rows
      (`functions.numbers.stored_digits`).
    - Per float accumulator i, ``p{i}`` (int16), the position of its lowest digit, and ``f{i}``
      (list of int32), its digits.
    - ``shown`` (int64): the weight with which the row was last emitted.
    - ``v*``: the measures as last emitted.
    - With ordered trees, ``chain`` (uint16), the collision id of the group, and per stored extreme
      ``e{end}_{component}``.
    - If idle groups are evicted, ``time`` (int64), the newest event time of the group's rows.
    """

    schema: pa.Schema
    offsets: tuple[int, ...]
    digits: int

    @staticmethod
    def of(
        output: pa.Schema,
        keys: int,
        accumulators: Sequence[Accumulator],
        ends: Sequence[Sequence[pa.DataType]],
        *,
        chained: bool,
        timed: bool = False,
    ) -> Layout:
        """Return the layout of an operator.

        Args:
            output: its output columns, keys first.
            keys: number of keys.
            accumulators: its accumulators.
            ends: per stored extreme, the types of its components.
            chained: whether the operator has ordered trees.
            timed: whether the operator stores the newest event time of each group.
        """
        offsets, digits = [], COUNT_DIGITS
        floats: list[pa.Field] = []
        for i, accumulator in enumerate(accumulators):
            if accumulator.floating:
                offsets.append(-1)
                floats.append(pa.field(f"p{i}", pa.int16()))
                floats.append(pa.field(f"f{i}", pa.list_(pa.int32())))
            else:
                offsets.append(digits)
                digits += accumulator.digits
        columns = list(output)
        remembered = [
            pa.field(f"e{end}_{component}", type_)
            for end, types in enumerate(ends)
            for component, type_ in enumerate(types)
        ]
        fields = [
            pa.field("hash", pa.uint64()),
            pa.field("dead", pa.bool_()),
            *columns[:keys],
            pa.field(FIXED, pa.binary(4 * digits)),
            *floats,
            pa.field("shown", pa.int64()),
            *columns[keys:],
            *([pa.field("chain", pa.uint16())] if chained else []),
            *remembered,
            *([pa.field("time", pa.int64())] if timed else []),
        ]
        return Layout(pa.schema(fields), tuple(offsets), digits)


SLICE_ROWS = 1 << 20
SLICE_BYTES = 1 << 29


@dataclass(frozen=True, slots=True)
class MeasureSpec:
    """How to compute the value of a measure.

    Attributes:
        accumulators: ordinals of the accumulators that the measure reads, in the order its kind
            needs; None is the total weight of the group.
        type: type of the measure's column.
        label: name of the measure in error messages.
        scale: decimal digits after the point in the unit of a total.
        tree: ordinal of the measure's tree; None without one.
        values: components of the tree that are the measure's arguments.
        side: ``first`` or ``last`` if the measure is an extreme of the tree.
        distinct: whether equal values count once.
        options: (name, effective value), upper case.
        constants: constant arguments: separator, n, fraction; for ``grouping``, one value per
            grouping set.
        inputs: types of the arguments.
        implementation: the object that computes a user-defined measure.
    """

    kind: MeasureKind
    accumulators: tuple[int | None, ...]
    type: Type
    label: str
    scale: int = 0
    tree: int | None = None
    values: tuple[int, ...] = ()
    side: Side = ""
    distinct: bool = False
    options: tuple[tuple[str, str], ...] = ()
    constants: tuple[Any, ...] = ()
    inputs: tuple[Type, ...] = ()
    implementation: object = None

    @property
    def total(self) -> int | None:
        """Return the ordinal of the accumulator of the sum, None for counts."""
        return self.accumulators[0] if len(self.accumulators) > 1 else None

    @property
    def count(self) -> int | None:
        """Return the ordinal of the accumulator that counts the contributing rows.

        None is the total weight of the group.
        """
        return self.accumulators[-1]

    @property
    def overflow(self) -> str:
        """Return the overflow option: ERROR, SATURATE or SILENT."""
        return self.option("OVERFLOW", "ERROR")

    def option(self, name: str, default: str = "") -> str:
        """Return the effective value of an option."""
        return dict(self.options).get(name, default)


@dataclass(frozen=True, slots=True)
class MaskedArgument:
    """An argument that two other arguments determine, so that it need not be exchanged.

    Attributes:
        argument: its ordinal.
        value: the argument that has its value without its filter.
        condition: the argument that is null where its filter is not true.
    """

    argument: int
    value: int
    condition: int


@dataclass(frozen=True, slots=True)
class TreeSpec:
    """An ordered tree.

    Attributes:
        layout: the components of the key and the columns of the runs.
        arguments: argument column of each component.
        skipped: components that exclude a row if they are null.
        present: argument that excludes a row if it is null; None if none does.
        elements: whether the entries are the elements of the only component, a list.
        follows: set if the tree stores arrivals of the values of another tree.
        extremes_only: only extremes kept: the tree has no entries, its extremes are part of the
            group row.
        partial: whether delta rows may contain the extremes of the rows they sum up
            (`operator.numeric.delta`).
        within: the tree whose runs have this tree's weights; None if it has runs of its own.
    """

    layout: TreeLayout
    arguments: tuple[int, ...]
    skipped: tuple[int, ...]
    present: int | None
    elements: bool
    follows: ArrivalTree | None = None
    extremes_only: bool = False
    partial: bool = False
    within: int | None = None

    @property
    def by_arrival(self) -> bool:
        """Return whether the tree depends on the order in which rows arrive."""
        return self.follows is not None or ARRIVAL_POSITION in self.arguments


@dataclass(frozen=True, slots=True)
class ComputedSpec:
    """An argument column that a user-defined measure computes.

    It is the total `column` of `implementation` over the argument columns `arguments`.
    """

    implementation: AdditiveMeasure
    arguments: tuple[int, ...]
    column: str


class InputSpec(Protocol):
    """What the exchange and the tasks need to know about the input of any operator."""

    @property
    def keys(self) -> tuple[pa.DataType, ...]:
        """Return the Arrow types of the columns by which rows are exchanged."""

    @property
    def weight(self) -> WeightKind:
        """Return what is known about the weights of the input."""

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        """Return the accumulators that may be summed before the exchange."""

    @property
    def trees(self) -> tuple[TreeSpec, ...]:
        """Return the ordered trees of arguments."""

    @property
    def extremes(self) -> tuple[tuple[int, Side], ...]:
        """Return the extremes of trees that may be computed before the exchange."""

    @property
    def always(self) -> tuple[int, ...]:
        """Return the indices of the grouping sets whose groups exist without rows."""

    @property
    def is_global(self) -> bool:
        """Return whether there is a single group, which exists without rows."""

    @property
    def masked(self) -> tuple[MaskedArgument, ...]:
        """Return the arguments that the exchange of single rows leaves out."""

    @property
    def sets(self) -> tuple[tuple[int, ...], ...]:
        """Return the keys of each grouping set, if prepared rows may lack the index of their set.

        Such rows have all keys, and stand for one row per set.
        """

    @property
    def row_wise(self) -> bool:
        """Return whether the exchange must carry single rows rather than sums per key."""

    @property
    def by_arrival(self) -> bool:
        """Return whether rows must contain their position in the batch."""

    @property
    def output(self) -> pa.Schema:
        """Return the columns of the changes, without weight: keys, then values."""

    @property
    def slice_rows(self) -> int:
        """Return the maximal number of rows in memory, fewer if rows or stored groups are long."""

    @property
    def slice_bytes(self) -> int:
        """Return the maximal number of bytes that these rows may take."""

    @property
    def page_rows(self) -> int:
        """Return the number of rows per page of a run."""


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """The specification of an incremental aggregate.

    Attributes:
        keys: Arrow types of the grouping columns; with several grouping sets, the index of the set
            is the last one.
        accumulators: exact numbers stored per group, after its total weight.
        measures: output columns after the keys.
        weight: what is known about the weights of the input.
        is_global: whether there are no grouping columns; the single group is always shown.
        trees: ordered trees.
        always: indices of the empty grouping sets among several; their groups are always shown.
        computed: argument columns from `COMPUTED` on.
        masked: the arguments that the exchange of single rows leaves out.
        sets: the keys of each grouping set, if prepared rows may lack the index of their set.
        early: the policy for early retractions.
        guard: ordinal of the tree of whole input rows that detects early retractions; None if
            they are carried, and for a multiset, whose groups are its rows.
        forget: what happens to the emitted rows of groups that are evicted as idle; empty if idle
            groups are not evicted.
        page_rows: rows per page of a run.
        slice_rows: rows of input in memory, fewer if they or the stored rows of their groups are
            long.
        slice_bytes: bytes that these rows may take.
    """

    keys: tuple[pa.DataType, ...]
    accumulators: tuple[Accumulator, ...]
    measures: tuple[MeasureSpec, ...]
    weight: WeightKind
    is_global: bool
    trees: tuple[TreeSpec, ...] = ()
    always: tuple[int, ...] = ()
    computed: tuple[ComputedSpec, ...] = ()
    masked: tuple[MaskedArgument, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()
    early: EarlyRetraction = "carry"
    guard: int | None = None
    forget: Forget = ""
    page_rows: int = PAGE_ROWS
    slice_rows: int = SLICE_ROWS
    slice_bytes: int = SLICE_BYTES
    layout: Layout = field(init=False)

    groups_are_rows = False
    """Whether groups are rows with their weights. Changes then have weights other than 1 and -1."""

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

    def together(self, tree: int) -> list[int]:
        """Return the trees that share runs with a tree, itself included, in order of the columns."""
        return trees_together([other.within for other in self.trees], tree)

    @property
    def extremes(self) -> tuple[tuple[int, Side], ...]:
        """Return the extremes stored in a group's row, as (tree, side), each once."""
        return tuple(dict.fromkeys((require(m.tree), m.side) for m in self.measures if m.side))

    def alive(self, tree: int) -> int:
        """Return the ordinal of the accumulator that counts the live entries of a tree.

        For a tree with only extremes kept, the accumulator counts the extremes seen so far. Either
        is above zero exactly for groups with live entries.
        """
        live = tree_counters(tree)[0]
        return self.accumulators.index(
            replace(live, kind=MET) if self.trees[tree].extremes_only else live
        )

    @property
    def row_wise(self) -> bool:
        """Return whether the operator needs single input rows.

        Trees with entries, products and computed columns cannot be built from sums.
        """
        return row_wise(self.trees, self.computed, self.accumulators)

    @property
    def row_counts(self) -> tuple[int | None, ...]:
        """Return the accumulators that count equal input rows; below zero, rows came too early.

        None is the total weight of the group.
        """
        return (None,)

    @property
    def by_arrival(self) -> bool:
        """Return whether rows must contain their position in the batch."""
        return any(tree.by_arrival for tree in self.trees)

    @property
    def output(self) -> pa.Schema:
        """Return the columns of the changes, without weight: ``k*``, then ``v*``."""
        keys = [pa.field(f"k{i}", t) for i, t in enumerate(self.keys)]
        types = [to_arrow(m.type) for m in self.measures]
        return pa.schema([*keys, *(pa.field(f"v{i}", t) for i, t in enumerate(types))])


@dataclass(frozen=True, slots=True)
class MultisetSpec(OperatorSpec):
    """The specification of an operator whose groups are rows with their weights."""

    groups_are_rows = True


def group_spec(node: Aggregate) -> OperatorSpec:
    """Return the spec of a node that keeps groups with measures."""
    return OperatorSpec(**group_fields(node), masked=masked_arguments(node.arguments))


def multiset_spec(node: Distinct) -> MultisetSpec:
    """Return the spec of a node that keeps whole rows."""
    return MultisetSpec(**group_fields(node))


def group_fields(node: Node) -> dict[str, Any]:
    """Return the fields of the spec of a node with groups, as arguments of `OperatorSpec`."""
    groups = require(node.groups)
    return {
        "keys": tuple(to_arrow(t) for t in node.key_types),
        "accumulators": groups.accumulators,
        "measures": tuple(map(_measure, groups.measures, groups.reads)),
        "weight": node.weight,
        "is_global": not node.key_types,
        "trees": tuple(_tree(i, groups, node.arguments) for i in range(len(groups.trees))),
        "always": tuple(i for i, keys in enumerate(node.sets) if not keys),
        "computed": tuple(map(_computed_spec, groups.computed)),
        "sets": node.sets,
        "early": node.early,
        "guard": groups.guard,
        "forget": node.forget,
    }


def _computed_spec(column: UserColumn) -> ComputedSpec:
    implementation = implementation_of(column.implementation).implementation
    if not isinstance(implementation, AdditiveMeasure):
        raise TypeError(column.implementation)
    return ComputedSpec(implementation, column.arguments, column.column)


def _measure(measure: BoundMeasure, read: MeasureState) -> MeasureSpec:
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


def _scale(measure: BoundMeasure, read: MeasureState) -> int:
    # A count has no unit, whatever its argument.
    if len(read.accumulators) < 2 or measure.arguments[0].type.kind != "decimal":
        return 0
    return measure.arguments[0].type.params[1]


def masked_arguments(
    arguments: Sequence[Argument],
) -> tuple[MaskedArgument, ...]:
    """Return the arguments whose value and whose filter are separate arguments, too.

    Nested values are left out: the exchange changes the form of those that it sorts by.
    """
    # Equal written forms compute the same, as in `StateLayoutBuilder`.
    values = {repr(v): i for i, (v, c) in enumerate(arguments) if c is None}
    conditions = {repr(c): i for i, (v, c) in enumerate(arguments) if v is None and c is not None}
    return tuple(
        MaskedArgument(i, values[repr(value)], conditions[repr(condition)])
        for i, (value, condition) in enumerate(arguments)
        if value is not None
        and repr(value) in values
        and repr(condition) in conditions
        and not pa.types.is_nested(to_arrow(value.type))
    )


def _tree(ordinal: int, groups: StatePerGroup, arguments: Sequence[Argument]) -> TreeSpec:
    """Return the spec of a tree.

    The components of a tree of whole rows are nullable, so that the layout follows from the schema
    of its runs alone.
    """
    tree, whole = groups.trees[ordinal], groups.stores_whole_rows(ordinal)
    components = []
    for i, component in enumerate(tree.components):
        if component.argument in (ARRIVAL_BATCH, ARRIVAL_POSITION):
            components.append(Component(pa.int64()))
            continue
        value, condition = arguments[component.argument]
        argument_type = BOOL if value is None else value.type
        type_ = argument_type.children[0] if tree.elements else argument_type
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
        TreeLayout(tuple(components), 1 + sum(other.within == ordinal for other in groups.trees)),
        tuple(c.argument for c in tree.components),
        tree.skipped,
        tree.present,
        tree.elements,
        tree.follows,
        tree.extremes_only,
        tree.partial,
        tree.within,
    )
