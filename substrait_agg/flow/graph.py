"""The dataflow: incremental operators, the linear steps that feed them, and how the view is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal as OneOf
from typing import Protocol

from substrait_agg.bind.bound import BoundMeasure, Call, Expr, SortKey
from substrait_agg.bind.walk import call_durations
from substrait_agg.flow.times import EventKey, Grid
from substrait_agg.functions.accumulators import (
    Accumulator,
    EarlyRetraction,
    WeightKind,
    tree_counters,
)
from substrait_agg.functions.windows import windows_per_row
from substrait_agg.plan.types import Type


@dataclass(frozen=True, slots=True)
class Keyed:
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

    def behind(self, before: int, now: int) -> Keyed:
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
    keyed: Keyed | None = None


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
        ends_alone: nothing is kept of it but its ends, with the group, as no entry ever leaves it (`flow.ends`).
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
        events: the keys that tell event time (`flow.event_time`).
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

    @property
    def timed_by(self) -> tuple[Expr, ...]:
        """Expressions over the input of which some may tell event time: those that make `event_key`s."""
        return self.keys

    def event_key(self, ordinal: int, grids: tuple[Grid, ...], *, end: bool) -> EventKey | None:
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
    """

    kind: NodeKind
    keeps: str
    tree_use: str = ""


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
        return Description("rows of the view", "rows")

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

    def event_key(self, ordinal: int, grids: tuple[Grid, ...], *, end: bool) -> EventKey | None:
        """See `Node`: the time itself is no key."""
        return None if end else EventKey(None, grids)

    def event_column(self, event: EventKey) -> tuple[int, EventKey]:
        """See `Node`: a session ends at the latest where it does now, and any row that comes may be in one."""
        column = len(self.keys)
        return column, EventKey(column, (*event.grids, Grid(1, 0, 1)), end=True)

    def describe(self) -> Description:
        """See `Node`."""
        return Description("sessions", "sessions", "to tell sessions")

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
