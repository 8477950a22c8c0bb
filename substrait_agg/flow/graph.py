"""The dataflow: incremental operators, the linear steps that feed them, and how the view is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal as OneOf
from typing import Protocol

from substrait_agg.bind.bound import BoundMeasure, Call, Expr, SortKey
from substrait_agg.bind.walk import call_durations
from substrait_agg.flow.times import EventKey
from substrait_agg.functions.accumulators import Accumulator, EarlyRetraction, WeightKind
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
    """A linear path: rows of `origin`, then `steps` in order. Weights pass through unchanged."""

    origin: Origin
    steps: tuple[Step, ...]


Forget = OneOf["", "retract", "keep"]
"""What becomes of the row shown of a group that is forgotten because it was idle; empty: no group is forgotten."""

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


@dataclass(frozen=True, slots=True)
class Latest:
    """That an operator keeps the newest row of each key, and nothing else.

    Attributes:
        values: how many arguments are columns of the row; those behind them order the rows of a key.
        partial: which of the values a row may leave out because they did not change; as many arguments, the last, say so.
        labels: how an error message names them.
    """

    values: int
    partial: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()

    def identity(self) -> tuple[object, ...]:
        """See `bind.fingerprint.Identified`."""
        return ("Latest", self.values, self.partial, self.labels)


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


@dataclass(frozen=True, slots=True)
class Session:
    """What tells sessions: rows of one group less than `gap` microseconds apart are in one; `call` is the grouping expression."""

    gap: int
    call: Call

    def identity(self) -> tuple[object, ...]:
        """See `bind.fingerprint.Identified`."""
        return ("Session", self.gap, self.call)


@dataclass(frozen=True, slots=True)
class AggregateNode:
    """A stateful operator.

    Attributes:
        id: position in `Flow.operators`; operators come after those they read.
        inputs: branches whose rows are its input, all with the same columns.
        keys: grouping expressions over the input columns (empty for a global aggregate).
        measures: what is computed, in order.
        arguments: the distinct (value, filter) pairs that accumulators and trees read; value None counts rows.
        trees: the ordered trees.
        accumulators: numbers kept per group, after its total weight: shared by measures that need the same number.
        reads: per measure, what it is computed from.
        types: output columns: keys, measures, and the index of the grouping set where there are several.
        weight: what is known of the weights of its input.
        multiset: True for the operator without measures that keeps the rows of a view and their weights.
        path: place in the plan.
        sets: ordinals of the keys of each grouping set; empty for the one set of all keys.
        computed: argument columns from `COMPUTED` on.
        early: what becomes of a retraction that comes before its insertion.
        guard: the tree of whole input rows that tells such retractions; -1 where they are carried, and of a multiset,
            whose groups are its rows.
        events: the keys that tell event time (`flow.event_time`).
        forget: what becomes of the rows shown of idle groups; empty where none are forgotten.
        timed: rows carry their event time, by which groups are idle; else they are by processing time.
        time: of upserts, the output column that is the event time of their table; None where none is.
        session: set for the operator ahead of an aggregate that groups by a session. Its keys are the other grouping
            expressions, its first argument is the time, its output columns are the keys, the session, and its other arguments.
        latest: set where its input are upserts, which it turns into changes.
    """

    id: int
    inputs: tuple[Branch, ...]
    keys: tuple[Expr, ...]
    measures: tuple[BoundMeasure, ...]
    arguments: tuple[tuple[Expr | None, Expr | None], ...]
    trees: tuple[ValueTree, ...]
    accumulators: tuple[Accumulator, ...]
    reads: tuple[Read, ...]
    types: tuple[Type, ...]
    weight: WeightKind
    multiset: bool
    path: str
    sets: tuple[tuple[int, ...], ...] = ()
    computed: tuple[Computed, ...] = ()
    early: EarlyRetraction = "carry"
    guard: int = -1
    events: tuple[EventKey, ...] = ()
    forget: Forget = ""
    timed: bool = False
    time: int | None = None
    session: Session | None = None
    latest: Latest | None = None

    @property
    def row_wise(self) -> bool:
        """Whether its input comes row by row: trees with entries, products and computed columns are not made of sums."""
        return row_wise(self.trees, self.computed, self.accumulators) or self.latest is not None

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

    @property
    def key_types(self) -> tuple[Type, ...]:
        """Types of the key columns of its state: the grouping expressions, then the set index if there is one."""
        index = self.types[-1:] if self.sets else ()
        return (*self.types[: len(self.keys)], *index)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of its output columns in state and change files, in the order of `types`."""
        keys = [f"k{i}" for i in range(len(self.keys))]
        count = len(self.measures) if self.latest is None else self.latest.values
        if self.session:
            count = len(self.types) - len(keys)
        values = [f"v{i}" for i in range(count)]
        return (*keys, *values, *([f"k{len(keys)}"] if self.sets else []))


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

    operators: tuple[AggregateNode, ...]
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
    origins = (b.origin for b in last.inputs if isinstance(b.origin, OperatorOrigin))
    below = {o.operator for o in origins if flow.operators[o.operator].latest is None}
    return frozenset(below) if last.multiset and below else frozenset({last.id})
