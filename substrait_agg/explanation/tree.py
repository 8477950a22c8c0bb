"""What `explain` says about a plan, as data: every form of the explanation is made from this tree alone.

All texts are on one line and free of control characters. Column names are those of the tables, or the text of the
expression that makes the column; where that is long, a short name made of the place of the column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from substrait_agg.flow.graph.nodes import NodeKind

InputKind = OneOf["table", "rows", "operator"]
Place = OneOf["spark", "operator", "driver", "reader"]
"""Where a step runs: as Spark expressions; in the Python task of a hash range; on the driver; in whatever reads the view."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, its Substrait type as text (``?`` marks nullable ones), and whether null occurs."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class Key:
    """A grouping expression; `name` is what its column is called in the steps above."""

    name: str
    expression: str
    type: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class GroupingSet:
    """A grouping set: the names of its keys. The group of the empty set is always shown."""

    index: int
    keys: tuple[str, ...]
    always_shown: bool


@dataclass(frozen=True, slots=True)
class MeasureInput:
    """What a measure is computed from: an accumulator (``a0``), ``total weight`` or a tree (``tree 0``), and as what."""

    source: str
    role: str


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a function and the value that holds."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class MeasureDescription:
    """A measure.

    Attributes:
        ordinal: among the measures of its operator.
        name: what its column is called in the steps above.
        call: function, arguments, DISTINCT, ORDER BY and constants.
        function: its name as the plan writes it.
        type: of its column.
        nullable: whether its column has nulls.
        state: class of state (``additive``, ``shared tree``, ``own tree``, ``none``).
        reads: what it is computed from; nothing where the group itself tells.
        options: every option of the function, with the value that holds.
        filter: condition of the rows that count, None for all.
        path: place in the plan.
    """

    ordinal: int
    name: str
    call: str
    function: str
    type: str
    nullable: bool
    state: str
    reads: tuple[MeasureInput, ...]
    options: tuple[Option, ...]
    filter: str | None
    path: str


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A number kept per group.

    Attributes:
        name: ``a0``, ``a1``, ...
        kind: as in `functions.aggregates.accumulators.Accumulator`.
        what: the number in words.
        digits: of 32 bits; None where it keeps as many as the values need.
        bytes: they take; None likewise.
        measures: ordinals of the measures that read it; none for the counters that every tree has.
    """

    name: str
    kind: str
    what: str
    digits: int | None
    bytes: int | None
    measures: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TreeDescription:
    """An ordered tree of values per group.

    Attributes:
        ordinal: among the trees of its operator.
        what: what it is ordered by, or holds.
        use: which measures read it, or what it is for.
        measures: ordinals of the measures that read it.
        entry_bytes: what an entry takes in a run, its varying parts aside; 0 where no entries are kept.
        varies: names of the parts whose size depends on the values.
        ends_alone: no entries are kept, but the ends of the tree, with the group, as rows are never taken back.
    """

    ordinal: int
    what: str
    use: str
    measures: tuple[int, ...]
    entry_bytes: int
    varies: tuple[str, ...]
    ends_alone: bool


@dataclass(frozen=True, slots=True)
class StateDescription:
    """What an operator keeps.

    Attributes:
        group_bytes: what the row of a group takes in a run, its varying parts aside: hash, keys, total weight,
            accumulators, the row last emitted, and the remembered ends of trees.
        varies: names of the parts whose size depends on the values.
        accumulators: of every group.
        trees: of the operator.
    """

    group_bytes: int
    varies: tuple[str, ...]
    accumulators: tuple[Accumulator, ...]
    trees: tuple[TreeDescription, ...]


@dataclass(frozen=True, slots=True)
class GroupCount:
    """How many groups there can be at one time: always `least`, at most `bound` (None: unknown), and why."""

    least: int
    bound: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Step:
    """A filter or projection on the way to an operator, as Spark runs it on the changes of a batch.

    Attributes:
        kind: ``filter`` or ``project``.
        expressions: the condition, or what the columns are made of.
        columns: after the step.
    """

    kind: OneOf["filter", "project"]
    expressions: tuple[str, ...]
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Input:
    """A linear path into an operator.

    Attributes:
        kind: where its rows come from.
        table: name of the table, empty for others.
        operator: whose changes they are, None for others.
        rows: how many are written in the plan, None for others.
        columns: that are read.
        steps: in order.
    """

    kind: InputKind
    table: str
    operator: int | None
    rows: int | None
    columns: tuple[Column, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class RunStep:
    """A step of every batch: its name, where it runs, and what it does."""

    name: str
    place: Place
    what: str


@dataclass(frozen=True, slots=True)
class Operator:
    """A stateful operator.

    Attributes:
        id: operators are numbered in the order in which they run.
        kind: what it is.
        path: place in the plan.
        keys: none for one global group.
        sets: none where all keys are one set.
        measures: in order.
        state: what it keeps.
        output: its columns: keys, measures, and with several sets the index of the set.
        inputs: what it reads; several for a union.
        weights: what is known of the weights of its input.
        early_retraction: what becomes of a retraction that comes before its insertion.
        row_multiple: rows per input row at most: one per grouping set and hopping window.
        groups: how many there can be.
        steps: of every batch, from the rows of the inputs to changes.
    """

    id: int
    kind: NodeKind
    path: str
    keys: tuple[Key, ...]
    sets: tuple[GroupingSet, ...]
    measures: tuple[MeasureDescription, ...]
    state: StateDescription
    output: tuple[Column, ...]
    inputs: tuple[Input, ...]
    weights: str
    early_retraction: str
    row_multiple: int
    groups: GroupCount
    steps: tuple[RunStep, ...]


@dataclass(frozen=True, slots=True)
class ViewOrder:
    """A key of the order in which the view is read."""

    column: int
    name: str
    direction: OneOf["ascending", "descending"]
    nulls: OneOf["first", "last"]


@dataclass(frozen=True, slots=True)
class View:
    """The result: whose columns it shows, which of them, and in which order."""

    operator: int
    columns: tuple[Column, ...]
    sources: tuple[str, ...]
    order: tuple[ViewOrder, ...]


@dataclass(frozen=True, slots=True)
class ExplainedPlan:
    """The whole explanation.

    Attributes:
        plan: fingerprint of the plan.
        view: the result.
        operators: in the order in which they run.
        after: steps of every batch after the last operator, and of reading the view.
        assumed: what was taken for granted of the tables, because no plan says it; empty where nothing was.
    """

    plan: str
    view: View
    operators: tuple[Operator, ...]
    after: tuple[RunStep, ...]
    assumed: str = ""
