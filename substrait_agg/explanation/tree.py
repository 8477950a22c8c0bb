"""The explanation of a plan as data: every output format is written from this tree alone.

All texts are on one line and free of control characters. Column names are those of the tables, or
the text of the expression that computes the column. A long expression is replaced by a short name
made of the column's place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf

from substrait_agg.document_fields import DOCUMENT_OMITTED, OPTIONAL_ORDINAL
from substrait_agg.flow.graph.graph import trees_together

InputKind = OneOf["table", "rows", "operator"]
Place = OneOf["spark", "operator", "driver", "reader"]
"""Where a step runs: as Spark expressions, in the Python task of a hash range, on the driver, or in
the reader of the view."""


@dataclass(frozen=True, slots=True)
class ExplainedColumn:
    """A column: its name, its Substrait type as text (``?`` marks nullable ones), nullability."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class ExplainedKey:
    """A grouping expression; `name` is the name of its column in later steps."""

    name: str
    expression: str
    type: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class ExplainedGroupingSet:
    """A grouping set with the names of its keys. The group of the empty set is always shown."""

    index: int
    keys: tuple[str, ...]
    always_shown: bool


@dataclass(frozen=True, slots=True)
class MeasureInput:
    """State that a measure reads, and its role.

    `source` is an accumulator (``a0``), ``total weight`` or a tree (``tree 0``).
    """

    source: str
    role: str


@dataclass(frozen=True, slots=True)
class ExplainedOption:
    """An option of a function and its value."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class ExplainedMeasure:
    """A measure.

    Attributes:
        ordinal: ordinal among the measures of its operator.
        name: name of its column in later steps.
        call: function, arguments, DISTINCT, ORDER BY and constants.
        function: its name as the plan writes it.
        type: type of its column.
        nullable: whether its column has nulls.
        state: class of state (``additive``, ``shared tree``, ``own tree``, ``none``).
        reads: the state that it is computed from; empty if the group itself determines it.
        options: every option of the function, with its value.
        filter: condition of the rows that count, None for all.
        path: path in the plan.
    """

    ordinal: int
    name: str
    call: str
    function: str
    type: str
    nullable: bool
    state: str
    reads: tuple[MeasureInput, ...]
    options: tuple[ExplainedOption, ...]
    filter: str | None
    path: str


@dataclass(frozen=True, slots=True)
class ExplainedAccumulator:
    """A number per group.

    Attributes:
        name: ``a0``, ``a1``, ...
        kind: as in `functions.aggregates.accumulators.Accumulator`.
        what: the number in words.
        digits: number of 32-bit digits; None if it depends on the values.
        bytes: its size; None likewise.
        measures: ordinals of the measures that read it; empty for the counters that every tree has.
    """

    name: str
    kind: str
    what: str
    digits: int | None
    bytes: int | None
    measures: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExplainedTree:
    """An ordered tree of values per group.

    Attributes:
        ordinal: ordinal among the trees of its operator.
        what: its order, or its content.
        use: the measures that read it, or its purpose.
        measures: ordinals of the measures that read it.
        entry_bytes: size of an entry in a run without its variable parts; 0 if no entries are kept.
        varies: names of the parts whose size depends on the values.
        ends_alone: whether only its extremes are kept, with the group, because rows are never
            retracted.
        stored: whether it is stored. A join does not store rows that no later row asks for.
        within: the tree whose entries have its weights, too; None if it has entries of its own.
    """

    ordinal: int
    what: str
    use: str
    measures: tuple[int, ...]
    entry_bytes: int
    varies: tuple[str, ...]
    ends_alone: bool
    stored: bool = True
    within: int | None = None


@dataclass(frozen=True, slots=True)
class ExplainedState:
    """The state of an operator.

    Attributes:
        group_bytes: size of the row of a group in a run without its variable parts: hash, keys,
            total weight, accumulators, the row last emitted, and the stored extremes of trees.
        varies: names of the parts whose size depends on the values.
        accumulators: accumulators per group.
        trees: trees of the operator.
    """

    group_bytes: int
    varies: tuple[str, ...]
    accumulators: tuple[ExplainedAccumulator, ...]
    trees: tuple[ExplainedTree, ...]


@dataclass(frozen=True, slots=True)
class GroupCount:
    """The number of groups that can exist at one time, and the reason.

    It is at least `least` and at most `bound` (None: unknown).
    """

    least: int
    bound: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class ExplainedStep:
    """A filter or projection before an operator, which Spark runs on the changes of a batch."""

    kind: OneOf["filter", "project", "unnest"]
    expressions: tuple[str, ...]
    columns: tuple[ExplainedColumn, ...]


@dataclass(frozen=True, slots=True)
class ExplainedInput:
    """A linear path into an operator.

    Attributes:
        kind: kind of its origin.
        table: name of the table, empty for others.
        operator: id of the operator below, None for others.
        rows: number of rows written in the plan, None for others.
        columns: columns that are read.
        steps: linear steps, in order.
        port: input port of the operator; None if it has only one.
        static: whether all its rows come in the first version.
    """

    kind: InputKind
    table: str
    operator: int | None
    rows: int | None
    columns: tuple[ExplainedColumn, ...]
    steps: tuple[ExplainedStep, ...]
    port: int | None = None
    static: bool = False


@dataclass(frozen=True, slots=True)
class ExplainedRounding:
    """An expression or measure whose exact value is rounded to `digits` digits after the point."""

    expression: str
    digits: int


@dataclass(frozen=True, slots=True)
class RunStep:
    """A step of every batch: its name, where it runs, and what it does."""

    name: str
    place: Place
    what: str


@dataclass(frozen=True, slots=True)
class ExplainedOperator:
    """A stateful operator.

    Attributes:
        id: number in execution order.
        kind: kind of operator.
        path: path in the plan.
        keys: empty for one global group.
        sets: grouping sets; empty if all keys are one set.
        measures: measures in order.
        state: its state.
        output: its columns: keys, measures, and with several sets the index of the set.
        inputs: its inputs; several for a union.
        weights: what is known about the weights of its input.
        early_retraction: what happens to early retractions.
        row_multiple: maximum rows per input row: one per grouping set and hopping window.
        groups: number of groups that can exist.
        steps: steps of every batch, from input rows to changes.
        rounded: decimals of which the plan keeps fewer digits than the exact value has.
    """

    id: int
    kind: str
    path: str
    keys: tuple[ExplainedKey, ...]
    sets: tuple[ExplainedGroupingSet, ...]
    measures: tuple[ExplainedMeasure, ...]
    state: ExplainedState
    output: tuple[ExplainedColumn, ...]
    inputs: tuple[ExplainedInput, ...]
    weights: str
    early_retraction: str
    row_multiple: int
    groups: GroupCount
    steps: tuple[RunStep, ...]
    rounded: tuple[ExplainedRounding, ...]


@dataclass(frozen=True, slots=True)
class ViewOrder:
    """A sort key of the view; `column` is None if the view does not show it."""

    column: int | None
    name: str
    direction: OneOf["ascending", "descending"]
    nulls: OneOf["first", "last"]


@dataclass(frozen=True, slots=True)
class ExplainedView:
    """The result of a plan.

    Attributes:
        name: its name; empty for the only view of one plan.
        operator: the operator whose columns it shows.
        columns: its columns.
        sources: per column, the output column of the operator.
        order: its sort keys.
    """

    name: str
    operator: int
    columns: tuple[ExplainedColumn, ...]
    sources: tuple[str, ...]
    order: tuple[ViewOrder, ...]


@dataclass(frozen=True, slots=True)
class ExplainedRefresh:
    """The refresh policy of a view.

    Attributes:
        view: name of the view; empty for the only view of one plan.
        policy: its policy.
        operators: the operators that follow it.
        obstacles: why the policy is refused, or, for ``auto``, why no batch is full; empty if
            nothing is in the way.
    """

    view: str
    policy: str
    operators: tuple[int, ...]
    obstacles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExplainedBatch:
    """How a version of a checkpoint was computed.

    Attributes:
        version: the version.
        full: names of the views that were computed again from all rows.
        reason: why.
    """

    version: int
    full: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ExplainedPlan:
    """The whole explanation.

    Attributes:
        plan: fingerprint of the plan.
        views: the results.
        operators: operators in execution order.
        after: steps after the last operator: of every batch, and of reading the view.
        connected: how the changes of a table come, where a connector reads it, with the table.
        assumed: assumptions about the tables that the plan does not state; empty without any.
        refresh: the refresh policy of each view; empty unless it is asked for.
        batches: how the retained versions of a checkpoint were computed, newest first.
    """

    plan: str
    views: tuple[ExplainedView, ...]
    operators: tuple[ExplainedOperator, ...]
    after: tuple[RunStep, ...]
    assumed: str = ""
    connected: tuple[str, ...] = ()
    refresh: tuple[ExplainedRefresh, ...] = ()
    batches: tuple[ExplainedBatch, ...] = ()

    def shared_by(self, operator: int) -> tuple[str, ...]:
        """Return the names of the views that are computed from an operator, if there are several."""
        if len(self.views) == 1:
            return ()
        names = (v.name for v in self.views if operator in self._below(v.operator))
        return tuple(sorted(names))

    def _below(self, operator: int) -> frozenset[int]:
        operators, waiting = {operator}, [operator]
        while waiting:
            for branch in self.operators[waiting.pop()].inputs:
                if branch.operator is not None and branch.operator not in operators:
                    operators.add(branch.operator)
                    waiting.append(branch.operator)
        return frozenset(operators)


@dataclass(frozen=True, slots=True)
class NumberColumns:
    """A description of an accumulator.

    Attributes:
        what: the number in words.
        kind: as in `functions.aggregates.accumulators.Accumulator`.
        digits: number of consecutive 32-bit digits in the column ``fixed``; 0 for as many as its
            values need.
        scale: decimal places of its unit.
        tree: the tree whose entries it counts or sums; None without one.
    """

    what: str
    kind: str
    digits: int
    scale: int = 0
    tree: int | None = field(default=None, metadata=OPTIONAL_ORDINAL)


@dataclass(frozen=True, slots=True)
class TreeColumns:
    """A description of an ordered tree.

    Attributes:
        what: its order or its content.
        values: the name of each component of its key.
        within: the tree whose runs have its weights; None if it has runs of its own.
    """

    what: str
    values: tuple[str, ...]
    within: int | None = field(default=None, metadata=OPTIONAL_ORDINAL | {DOCUMENT_OMITTED: True})


@dataclass(frozen=True, slots=True)
class OperatorColumns:
    """A description of the state columns of an operator.

    Attributes:
        kind: the kind of operator (`NodeDescription`).
        keys: names of its key columns.
        values: names of its other output columns.
        numbers: its accumulators, in the order of their digits.
        trees: its ordered trees.
    """

    kind: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    numbers: tuple[NumberColumns, ...] = ()
    trees: tuple[TreeColumns, ...] = ()

    def runs_of(self, tree: int) -> tuple[int, int]:
        """Return the tree whose runs have the weights of a tree, and the ordinal of their column."""
        if tree >= len(self.trees):
            return tree, 0
        together = trees_together([other.within for other in self.trees], tree)
        return together[0], together.index(tree)
