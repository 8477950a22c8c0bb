"""The operators of a dataflow as nodes, with their inputs, state and output, and the whole flow."""

from __future__ import annotations

from dataclasses import dataclass

from substrait_agg.bind.bound import BoundMeasure, Call, Expr, SortKey
from substrait_agg.bind.joins.ranges import JoinRange
from substrait_agg.bind.rewrite import call_durations
from substrait_agg.flow.graph.graph import (
    WEIGHT_ALONE,
    Branch,
    FeedbackOrigin,
    Forget,
    OperatorOrigin,
    StatePerGroup,
)
from substrait_agg.flow.graph.time_steps import EventKey, TimeStep
from substrait_agg.functions.aggregates.accumulators import EarlyRetraction, WeightKind
from substrait_agg.functions.windows import windows_per_row
from substrait_agg.plan.types import Type


def _windows_of(key: Expr) -> int:
    if not isinstance(key, Call) or key.function != "hop":
        return 1
    return windows_per_row(*call_durations(key.arguments)[:2])


Argument = tuple[Expr | None, Expr | None]
"""What is computed per row: a value, and a filter without which it is null. Without a value it is
true."""


@dataclass(frozen=True, slots=True)
class Port:
    """An input of an operator.

    Attributes:
        branches: linear paths whose rows come in, all with the same columns.
        keys: expressions over these columns that determine the exchange; none for one group of all
            rows.
        arguments: further expressions that the operator reads per row.
        sets: the ordinals of the keys of each grouping set; empty if all keys are the only set.
    """

    branches: tuple[Branch, ...]
    keys: tuple[Expr, ...]
    arguments: tuple[Argument, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()

    @property
    def static(self) -> bool:
        """Return whether all its rows come in the first version."""
        return all(branch.static for branch in self.branches)


@dataclass(frozen=True, slots=True)
class Probe:
    """A lookup of changed rows of one port in the stored rows of another one.

    Attributes:
        stored: the port whose stored rows are searched.
        purpose: what the matching rows are used for.
    """

    changed: int
    stored: int
    purpose: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A stateful operator.

    Properties that only some operators have are empty here, so that no code asks for the kind.

    Attributes:
        id: position in `Flow.operators`; operators come after those that they read.
        types: types of the output columns.
        weight: what is known about the weights of its input.
        path: path in the plan.
        groups: what it stores per group; None if its state consists of the rows of its ports.
        early: what happens to early retractions.
        events: the keys that follow event time (`flow.passes.event_time`).
        forget: what happens to the rows in the view of idle groups that are evicted; empty if none
            are evicted.
        passes_late: whether its output may have rows that are late for the operators above, because
            it passes rows of a table on.
        timed: whether rows carry event time, which determines
            idle groups; otherwise processing time
            does.
    """

    id: int
    inputs: tuple[Port, ...]
    types: tuple[Type, ...]
    weight: WeightKind
    path: str
    groups: StatePerGroup | None = WEIGHT_ALONE
    early: EarlyRetraction = "carry"
    events: tuple[EventKey, ...] = ()
    forget: Forget = ""
    timed: bool = False
    passes_late: bool = False

    is_source = False
    """Whether its changes represent the rows of a table."""
    shows_rows_below = False
    """Whether its rows are unchanged rows of the operators below. A view shows their groups then."""

    # --- input ---------------------------------------------------------------------------------

    @property
    def branches(self) -> tuple[Branch, ...]:
        """Return the branches of all ports."""
        return tuple(branch for port in self.inputs for branch in port.branches)

    @property
    def keys(self) -> tuple[Expr, ...]:
        """Return the grouping expressions over the columns of the first port."""
        return self.inputs[0].keys

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Return the arguments of all ports, one after another."""
        return tuple(argument for port in self.inputs for argument in port.arguments)

    @property
    def static_ports(self) -> tuple[bool, ...]:
        """Return per port whether all its rows come in the first version."""
        return tuple(port.static for port in self.inputs)

    @property
    def sets(self) -> tuple[tuple[int, ...], ...]:
        """Return the grouping sets of the first port; see `Port`."""
        return self.inputs[0].sets

    @property
    def row_wise(self) -> bool:
        """Return whether its input comes row by row."""
        return self.groups is None or self.groups.row_wise

    @property
    def windows_per_row(self) -> int:
        """Return the maximum number of windows of a row; 1 if no key is a hopping window."""
        return max((_windows_of(key) for key in self.keys), default=1)

    @property
    def rows_per_row(self) -> int:
        """Return the maximum number of rows from an input row: one per grouping set and window."""
        hops = {i for i, key in enumerate(self.keys) if _windows_of(key) > 1}
        sets = self.sets or (tuple(range(len(self.keys))),)
        return sum(1 if hops.isdisjoint(keys) else self.windows_per_row for keys in sets)

    # --- state ---------------------------------------------------------------------------------

    @property
    def measures(self) -> tuple[BoundMeasure, ...]:
        """Return the measures that are computed per group, in order."""
        return () if self.groups is None else self.groups.measures

    @property
    def frame_measures(self) -> tuple[BoundMeasure, ...]:
        """Return the measures that are computed per frame of rows."""
        return ()

    @property
    def key_types(self) -> tuple[Type, ...]:
        """Return the types of the key columns of its state.

        These are the grouping expressions, then the grouping set index if there is one.
        """
        index = self.types[-1:] if self.sets else ()
        return (*self.types[: len(self.keys)], *index)

    @property
    def stored_types(self) -> tuple[Type, ...]:
        """Return the types of the output columns that are stored with a group."""
        return self.types

    @property
    def can_forget(self) -> bool:
        """Return whether idle groups can be evicted."""
        return bool(self.key_types) and not self.events

    # --- output --------------------------------------------------------------------------------

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of its output columns in state and change files, in order."""
        keys = [f"k{i}" for i in range(len(self.keys))]
        index = [f"k{len(keys)}"] if self.sets else []
        values = [f"v{i}" for i in range(len(self.types) - len(keys) - len(index))]
        return (*keys, *values, *index)

    @property
    def passed_on(self) -> tuple[Expr, ...]:
        """Return the output expressions after the keys that are not computed per group."""
        return ()

    @property
    def added_columns(self) -> tuple[str, ...]:
        """Return names of the last output columns, which are no keys, not passed on and no measures."""
        return ("grouping set",) if self.sets else ()

    @property
    def port_columns(self) -> tuple[tuple[int, Expr | None], ...] | None:
        """Return the port and the expression over its rows that each output column shows.

        None means that the output consists of keys, of `passed_on` and of measures. Otherwise the
        state consists of the rows of each port, by its keys.
        """
        return None

    @property
    def row_columns(self) -> tuple[tuple[int, Expr | None], ...] | None:
        """Return the columns that conditions of the node read, as those of `port_columns`.

        None means that its expressions read the columns of its first input.
        """
        return None

    @property
    def range(self) -> JoinRange | None:
        """Return the range by which rows of two ports without keys find each other."""
        return None

    @property
    def pair_condition(self) -> Expr | None:
        """Return the condition that pairs of rows with equal keys are tested with."""
        return None

    @property
    def probes(self) -> tuple[Probe, ...]:
        """Return the lookups in the stored rows of ports, in order."""
        return ()

    @property
    def stored_ports(self) -> tuple[bool, ...]:
        """Return, if the state consists of the rows of ports, per port whether they are stored."""
        return tuple(True for _ in self.inputs)

    @property
    def output_weight(self) -> WeightKind:
        """Return what is known about the weights of its changes."""
        return "changelog"

    @property
    def lookup_port(self) -> int | None:
        """Return the port whose rows alone decide when the output changes, if others are static.

        Each of its rows is looked up in the static rows. None if there is no such port.
        """
        return None

    @property
    def loop_end(self) -> int | None:
        """Return the last operator of the rounds that begin with this one; None for one without rounds."""
        return None

    @property
    def emits_together(self) -> bool:
        """Return whether its changes belong together, so that a view cannot show some of them."""
        return False

    def rows_out(self, groups: int | None) -> int | None:
        """Return the maximum number of output rows, given that of its groups; None is unknown."""
        return groups

    # --- event time ----------------------------------------------------------------------------

    @property
    def time(self) -> int | None:
        """Return the output column that is the event time of a table; None if there is none."""
        return None

    def with_time(self, column: int | None) -> Node:
        """Return the node with this output column as event time; unchanged without a table."""
        return self

    @property
    def timed_by(self) -> tuple[Expr, ...]:
        """Return expressions over the input that can make event keys (`event_key`)."""
        return self.keys

    def event_key(
        self, ordinal: int, time_steps: tuple[TimeStep, ...], *, end: bool
    ) -> EventKey | None:
        """Return the event key of expression `ordinal` of `timed_by`; None if it makes none."""
        everywhere = all(ordinal in keys for keys in self.sets)
        return EventKey(ordinal, time_steps, end) if everywhere else None

    def event_column(self, event: EventKey) -> tuple[int, EventKey]:
        """Return the output column that follows event time by an event key, and how."""
        if event.key is None:
            raise ValueError(event)
        return event.key, event

    # --- description ---------------------------------------------------------------------------

    def describe(self) -> NodeDescription:
        """Describe the node in words for explanations, plan documents and tools that show state."""
        return NodeDescription("aggregate" if self.measures else "distinct rows", "groups")

    def identity(self) -> tuple[object, ...]:
        """Return the properties besides rows and keys that determine its groups.

        The parts are: whether rows are kept, grouping sets, session, upserts.
        """
        return (False, self.sets, None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowNode(Node):
    """A stateful operator that emits rows with weights instead of a row per group.

    Its groups store their keys alone, and idle groups cannot be evicted.
    """

    can_forget = False
    output_weight = "weighted"

    @property
    def stored_types(self) -> tuple[Type, ...]:
        """See `Node`."""
        return self.key_types


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """A node in words.

    Attributes:
        kind: the kind of operator.
        keeps: the elements of its state: ``groups``, ``rows``, ``sessions``, ``upserts``,
            ``ordered rows`` or ``rows of both sides``.
        tree_uses: the use of each of its trees, if they are not for measures.
        emits: how it makes its changes, if not by retracting and inserting rows of groups.
        by_order: what it emits by the order of its first tree, a range of ranks or the values of
            functions; empty if that does not depend on an order.
    """

    kind: str
    keeps: str
    tree_uses: tuple[str, ...] = ()
    emits: str = ""
    by_order: str = ""


@dataclass(frozen=True, slots=True)
class FlowView:
    """A view of a flow: columns of the output of one operator.

    Attributes:
        name: its name; empty for the only view of a run of one plan.
        operator: id of the operator.
        output: ordinals of the operator's columns that make up the view, in order.
        sorts: sort order of the view.
        shared: whether other operators or other views read the changes of the operator. The change
            files then have all columns of the operator, else those of the view.
        fields: per column the names of the struct fields inside it, depth first; empty if they are
            named by their positions.
        hidden: ordinals of the operator's columns that only the sort order reads. Sort keys number
            them after the columns of the view.
    """

    name: str
    operator: int
    output: tuple[int, ...]
    names: tuple[str, ...]
    types: tuple[Type, ...]
    sorts: tuple[SortKey, ...]
    shared: bool = False
    fields: tuple[tuple[str, ...], ...] = ()
    hidden: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Flow:
    """The whole dataflow.

    Attributes:
        operators: stateful operators in execution order.
        views: the views, each of one operator.
        fingerprint: identity of the plan, or of all plans.
    """

    operators: tuple[Node, ...]
    views: tuple[FlowView, ...]
    fingerprint: str

    def shows(self, operator: int) -> bool:
        """Return whether a view has the rows of an operator."""
        return any(view.operator == operator for view in self.views)

    def view_node(self, view: FlowView) -> Node:
        """Return the operator whose rows a view has."""
        return self.operators[view.operator]

    def change_columns(self, operator: int) -> tuple[int, ...]:
        """Return the ordinals of an operator's columns that its change files have."""
        own = (v.output for v in self.views if v.operator == operator and not v.shared)
        return next(own, tuple(range(len(self.operators[operator].types))))


def hides_columns(node: Node, view: FlowView) -> bool:
    """Return whether a view omits a key or has a hidden column, so that other rows can be equal."""
    keys = {o for o, name in enumerate(node.columns) if name.startswith("k")}
    return bool(view.hidden) or not keys <= set(view.output)


def keyless_views(flow: Flow) -> frozenset[int]:
    """Return the operators of views whose changes can have equal rows, as columns are hidden."""
    views = (view for view in flow.views if not view.shared)
    return frozenset(v.operator for v in views if hides_columns(flow.view_node(v), v))


def shown_operators(flow: Flow) -> frozenset[int]:
    """Return the ids of the operators whose groups a view shows.

    This is the operator of the view, or those below it if its groups are whole rows. Operators that
    turn upserts into changes are never among them. A join has no groups: the rows of a view over a
    join are groups of the operator of the view.
    """
    return frozenset(o for view in flow.views for o in shown_by(flow, view))


def shown_by(flow: Flow, view: FlowView) -> frozenset[int]:
    """Return the ids of the operators whose groups one view shows."""
    last = flow.view_node(view)
    operators: set[int] = set()
    seen = [last] if last.shows_rows_below else []
    while seen:
        node = seen.pop()
        below = [flow.operators[o] for o in operators_below(node)]
        if any(other.port_columns is not None or other.loop_end is not None for other in below):
            return frozenset({last.id})
        seen += [other for other in below if other.shows_rows_below]
        operators |= {o.id for o in below if not (o.shows_rows_below or o.is_source)}
    return frozenset(operators) or frozenset({last.id})


def operators_below(node: Node) -> tuple[int, ...]:
    """Return the ids of the operators that an operator reads, each once."""
    origins = (branch.origin for branch in node.branches)
    inside = (o for o in origins if isinstance(o, OperatorOrigin | FeedbackOrigin))
    return tuple(dict.fromkeys(o.operator for o in inside))


def all_operators_below(flow: Flow, node: Node) -> frozenset[int]:
    """Return the ids of the operators that an operator reads, directly or through others."""
    waiting, below = [*operators_below(node)], set[int]()
    while waiting:
        operator = waiting.pop()
        if operator not in below:
            below.add(operator)
            waiting += operators_below(flow.operators[operator])
    return frozenset(below)
