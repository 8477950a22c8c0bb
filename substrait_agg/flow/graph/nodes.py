"""The operators of a dataflow as nodes: what each needs, keeps and gives, and the flow that they make up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal as OneOf
from typing import Protocol

from substrait_agg.bind.bound import BoundMeasure, Call, Expr, SortKey
from substrait_agg.bind.rewrite import call_durations
from substrait_agg.flow.graph.graph import (
    ALL_ROWS,
    Branch,
    Computed,
    Forget,
    OperatorOrigin,
    Read,
    TreeComponent,
    ValueTree,
)
from substrait_agg.flow.graph.time_steps import EventKey, TimeStep
from substrait_agg.functions.aggregates.accumulators import (
    Accumulator,
    EarlyRetraction,
    WeightKind,
    tree_counters,
)
from substrait_agg.functions.windows import windows_per_row
from substrait_agg.plan.types import Type


class _MayBePartial(Protocol):
    @property
    def partial(self) -> bool: ...


def row_wise(
    trees: Sequence[_MayBePartial], computed: Sequence[object], accumulators: Sequence[Accumulator]
) -> bool:
    """Whether the state of an operator is not made of partial sums, and of ends of values, alone."""
    products = any(a.kind == "product" for a in accumulators)
    return products or bool(computed) or not all(tree.partial for tree in trees)


def _windows_of(key: Expr) -> int:
    if not isinstance(key, Call) or key.function != "hop":
        return 1
    return windows_per_row(*call_durations(key.arguments)[:2])


Argument = tuple[Expr | None, Expr | None]
"""What is computed of a row: a value, and a filter without which it is null. Without a value it is true."""


@dataclass(frozen=True, slots=True)
class Port:
    """An input of an operator.

    Attributes:
        branches: linear paths whose rows come in, all with the same columns.
        keys: expressions over these columns by which rows are exchanged; none for one group of all rows.
        arguments: what the operator reads of a row besides.
    """

    branches: tuple[Branch, ...]
    keys: tuple[Expr, ...]
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A stateful operator. What only some operators have is empty here, so that nobody asks which kind one is.

    Attributes:
        id: position in `Flow.operators`; operators come after those they read.
        inputs: its ports.
        types: output columns.
        weight: what is known of the weights of its input.
        path: place in the plan.
        early: what becomes of a retraction that comes before its insertion.
        events: the keys that tell event time (`flow.passes.event_time`).
        forget: what becomes of the rows shown of idle groups; empty where none are forgotten.
        timed: rows carry their event time, by which groups are idle; else they are by processing time.
    """

    id: int
    inputs: tuple[Port, ...]
    types: tuple[Type, ...]
    weight: WeightKind
    path: str
    early: EarlyRetraction = "carry"
    events: tuple[EventKey, ...] = ()
    forget: Forget = ""
    timed: bool = False

    # --- input ---------------------------------------------------------------------------------

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The branches of all ports."""
        return tuple(branch for port in self.inputs for branch in port.branches)

    @property
    def keys(self) -> tuple[Expr, ...]:
        """The grouping expressions over the columns of the first port."""
        return self.inputs[0].keys

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments of all ports, behind one another."""
        return tuple(argument for port in self.inputs for argument in port.arguments)

    @property
    def sets(self) -> tuple[tuple[int, ...], ...]:
        """Ordinals of the keys of each grouping set; empty for the one set of all keys."""
        return ()

    @property
    def row_wise(self) -> bool:
        """Whether its input comes row by row: trees with entries, products and computed columns are not made of sums."""
        return row_wise(self.trees, self.computed, self.accumulators)

    @property
    def windows_per_row(self) -> int:
        """In how many windows a row can be; 1 where no key is a hopping window."""
        return max((_windows_of(key) for key in self.keys), default=1)

    @property
    def rows_per_row(self) -> int:
        """How many rows an input row can become: one per grouping set and window in it."""
        hops = {i for i, key in enumerate(self.keys) if _windows_of(key) > 1}
        sets = self.sets or (tuple(range(len(self.keys))),)
        return sum(1 if hops.isdisjoint(keys) else self.windows_per_row for keys in sets)

    # --- state ---------------------------------------------------------------------------------

    @property
    def measures(self) -> tuple[BoundMeasure, ...]:
        """What is computed per group, in order."""
        return ()

    @property
    def trees(self) -> tuple[ValueTree, ...]:
        """The ordered trees."""
        return ()

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        """Numbers kept per group, after its total weight: shared by measures that need the same number."""
        return ()

    @property
    def reads(self) -> tuple[Read, ...]:
        """Per measure, what it is computed from."""
        return ()

    @property
    def computed(self) -> tuple[Computed, ...]:
        """Argument columns from `COMPUTED` on."""
        return ()

    @property
    def guard(self) -> int:
        """The tree of whole input rows that tells early retractions; -1 where there is none."""
        return -1

    @property
    def key_types(self) -> tuple[Type, ...]:
        """Types of the key columns of its state: the grouping expressions, then the set index if there is one."""
        index = self.types[-1:] if self.sets else ()
        return (*self.types[: len(self.keys)], *index)

    @property
    def stored_types(self) -> tuple[Type, ...]:
        """Types of the output columns that are stored with a group."""
        return self.types

    @property
    def can_forget(self) -> bool:
        """Whether idle groups can be forgotten."""
        return bool(self.key_types) and not self.events

    # --- output --------------------------------------------------------------------------------

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of its output columns in state and change files, in the order of `types`."""
        keys = [f"k{i}" for i in range(len(self.keys))]
        index = [f"k{len(keys)}"] if self.sets else []
        values = [f"v{i}" for i in range(len(self.types) - len(keys) - len(index))]
        return (*keys, *values, *index)

    @property
    def passed_on(self) -> tuple[Expr, ...]:
        """What stands behind the keys in its output without being computed of a group."""
        return ()

    @property
    def output_weight(self) -> WeightKind:
        """What is known of the weights of its changes."""
        return "sign"

    @property
    def is_source(self) -> bool:
        """Whether its changes stand for the rows of a table."""
        return False

    @property
    def shows_rows_below(self) -> bool:
        """Whether it only keeps rows of operators below, so that their groups are what a view over it shows."""
        return False

    # --- event time ----------------------------------------------------------------------------

    @property
    def time(self) -> int | None:
        """The output column that is the event time of a table; None where none is."""
        return None

    def with_time(self, column: int | None) -> Node:
        """Return the node with this output column as the event time of its table; itself where it has no table."""
        return self

    @property
    def timed_by(self) -> tuple[Expr, ...]:
        """Expressions over the input of which some may tell event time: those that make `event_key`s."""
        return self.keys

    def event_key(self, ordinal: int, grids: tuple[TimeStep, ...], *, end: bool) -> EventKey | None:
        """Return the event key of expression `ordinal` of `timed_by`, which tells event time; None if it makes none."""
        everywhere = all(ordinal in keys for keys in self.sets)
        return EventKey(ordinal, grids, end) if everywhere else None

    def event_column(self, event: EventKey) -> tuple[int, EventKey]:
        """Return the output column that tells event time by an event key, and how."""
        if event.key is None:
            raise ValueError(event)
        return event.key, event

    # --- what it is ----------------------------------------------------------------------------

    def describe(self) -> Description:
        """Return what it is in words: for explanations, plan documents and the tools that show state."""
        return Description("aggregate" if self.measures else "distinct rows", "groups")

    def identity(self) -> tuple[object, ...]:
        """Return what its groups depend on besides rows and keys: whether rows are kept, sets, session, upserts."""
        return (False, self.sets, None, None)


NodeKind = OneOf["aggregate", "distinct rows", "rows of the view", "sessions", "upserts"]


@dataclass(frozen=True, slots=True)
class Description:
    """A node in words.

    Attributes:
        kind: what it is.
        keeps: what its state is made of: ``groups``, ``rows``, ``sessions`` or ``upserts``.
        tree_use: what its tree is for, where that is not to compute measures.
        emits: how its changes are made, where that is not by retracting and inserting groups.
    """

    kind: NodeKind
    keeps: str
    tree_use: str = ""
    emits: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate(Node):
    """Groups with measures.

    Attributes:
        measures: see `Node`, as all others.
        guard: the tree of whole input rows, behind all others; -1 where early retractions are carried.
    """

    measures: tuple[BoundMeasure, ...] = ()
    trees: tuple[ValueTree, ...] = ()
    accumulators: tuple[Accumulator, ...] = ()
    reads: tuple[Read, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()
    computed: tuple[Computed, ...] = ()
    guard: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct(Node):
    """The rows of a view, each once, with their weights: its keys are the whole row, and tell early retractions."""

    @property
    def output_weight(self) -> WeightKind:
        """See `Node`."""
        return "any"

    @property
    def shows_rows_below(self) -> bool:
        """See `Node`."""
        return True

    def describe(self) -> Description:
        """See `Node`."""
        return Description(
            "rows of the view",
            "rows",
            emits="insert or retract each row as often as its number has changed",
        )

    def identity(self) -> tuple[object, ...]:
        """See `Node`."""
        return (True, (), None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessionize(Node):
    """The operator ahead of an aggregate that groups by sessions: gives rows of one group, less than `gap` apart, one session.

    Its keys are the other grouping expressions. Its first argument is the time; the others are passed on with each row, behind
    the keys and the session.

    Attributes:
        gap: microseconds without a row that end a session.
        call: the grouping expression.
    """

    gap: int
    call: Call

    @property
    def trees(self) -> tuple[ValueTree, ...]:
        """The rows of a group, by time."""
        components = tuple(TreeComponent(i) for i in range(len(self.arguments)))
        return (ValueTree(components, (), ALL_ROWS),)

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        """See `Node`."""
        return tree_counters(0)

    @property
    def guard(self) -> int:
        """Its one tree has all that is read of a row."""
        return -1 if self.early == "carry" else 0

    @property
    def stored_types(self) -> tuple[Type, ...]:
        """See `Node`."""
        return self.key_types

    @property
    def can_forget(self) -> bool:
        """See `Node`."""
        return False

    @property
    def passed_on(self) -> tuple[Expr, ...]:
        """See `Node`."""
        return (self.call, *(value for value, _ in self.arguments[1:] if value is not None))

    @property
    def output_weight(self) -> WeightKind:
        """See `Node`."""
        return "any"

    @property
    def timed_by(self) -> tuple[Expr, ...]:
        """The time."""
        return tuple(value for value, _ in self.arguments[:1] if value is not None)

    def event_key(self, ordinal: int, grids: tuple[TimeStep, ...], *, end: bool) -> EventKey | None:
        """See `Node`: the time itself is no key."""
        return None if end else EventKey(None, grids)

    def event_column(self, event: EventKey) -> tuple[int, EventKey]:
        """See `Node`: a session ends at the latest where it does now, and any row that comes may be in one."""
        column = len(self.keys)
        return column, EventKey(column, (*event.grids, TimeStep(1, 0, 1)), end=True)

    def describe(self) -> Description:
        """See `Node`."""
        return Description(
            "sessions",
            "sessions",
            "to tell sessions",
            emits="retract the rows of sessions whose bounds moved, insert them with the new ones; pass the other rows on",
        )

    def identity(self) -> tuple[object, ...]:
        """See `Node`."""
        return (False, (), ("Session", self.gap, self.call), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert(Node):
    """Keeps the newest row of each key, and turns upserts into changes.

    Attributes:
        values: how many arguments are columns of the row; those behind them order the rows of a key.
        partial: which of the values a row may leave out because they did not change; as many arguments, the last, say so.
        labels: how an error message names them.
        time: see `Node`.
    """

    values: int
    partial: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    time: int | None = None

    @property
    def row_wise(self) -> bool:
        """See `Node`."""
        return True

    @property
    def can_forget(self) -> bool:
        """See `Node`."""
        return False

    @property
    def passed_on(self) -> tuple[Expr, ...]:
        """See `Node`."""
        return tuple(value for value, _ in self.arguments[: self.values] if value is not None)

    def with_time(self, column: int | None) -> Upsert:
        """See `Node`."""
        return replace(self, time=column)

    @property
    def is_source(self) -> bool:
        """See `Node`."""
        return True

    @property
    def timed_by(self) -> tuple[Expr, ...]:
        """None: the row of a key may change for ever."""
        return ()

    def describe(self) -> Description:
        """See `Node`."""
        return Description("upserts", "upserts")

    def identity(self) -> tuple[object, ...]:
        """See `Node`."""
        return (False, (), None, ("Latest", self.values, self.partial, self.labels))


@dataclass(frozen=True, slots=True)
class Flow:
    """The whole dataflow.

    Attributes:
        operators: stateful operators in the order in which they run.
        output: ordinals of the last operator's columns that make up the view, in order.
        names: column names of the view.
        types: column types of the view.
        sorts: order in which the view is shown.
        fingerprint: identity of the plan.
    """

    operators: tuple[Node, ...]
    output: tuple[int, ...]
    names: tuple[str, ...]
    types: tuple[Type, ...]
    sorts: tuple[SortKey, ...]
    fingerprint: str


def hides_keys(flow: Flow) -> bool:
    """Whether the view leaves out a key of its last operator, so that rows of different groups can be equal."""
    last = flow.operators[-1]
    keys = {o for o, name in enumerate(last.columns) if name.startswith("k")}
    return not keys <= set(flow.output)


def shown_operators(flow: Flow) -> frozenset[int]:
    """Ids of the operators whose groups the view shows: the last, or those below it where its groups are whole rows.

    Those that turn upserts into changes are never among them.
    """
    last = flow.operators[-1]
    origins = (b.origin for b in last.branches if isinstance(b.origin, OperatorOrigin))
    below = {o.operator for o in origins if not flow.operators[o.operator].is_source}
    return frozenset(below) if last.shows_rows_below and below else frozenset({last.id})
