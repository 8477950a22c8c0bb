"""Lower a bound plan: linear relations become branches, aggregates become operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from substrait_agg.bind.bound import (
    BoundAggregate,
    BoundFetch,
    BoundFilter,
    BoundJoin,
    BoundProject,
    BoundRead,
    BoundRecursion,
    BoundRecursiveRows,
    BoundRelation,
    BoundRows,
    BoundSetOperation,
    BoundUnion,
    BoundUnnest,
    BoundWindowValues,
    Call,
    Column,
    Constant,
    Expr,
    GroupedRelation,
)
from substrait_agg.bind.context import Schema, columns
from substrait_agg.bind.deep_stack import deep_call
from substrait_agg.bind.expressions.windows import DURATION
from substrait_agg.bind.joins.normal_form import normal_form
from substrait_agg.bind.joins.single_rows import has_one_row
from substrait_agg.bind.plan.fingerprint import canonical, digest, identity
from substrait_agg.bind.plan.views import columns_read, view_name
from substrait_agg.bind.rewrite import (
    call_durations,
    inputs_of,
    renumber,
    renumber_measure,
    selected_columns,
    with_inputs,
)
from substrait_agg.flow.graph.aggregate import Aggregate, Distinct, Recursion
from substrait_agg.flow.graph.graph import (
    Branch,
    FeedbackOrigin,
    FilterStep,
    OperatorOrigin,
    Origin,
    ProjectStep,
    RowsOrigin,
    Step,
    TableOrigin,
    UnnestStep,
)
from substrait_agg.flow.graph.join import Join
from substrait_agg.flow.graph.measures import state_layout
from substrait_agg.flow.graph.nodes import (
    Flow,
    FlowView,
    Node,
    Port,
    hides_columns,
    operators_below,
)
from substrait_agg.flow.graph.set_operation import SetOperation, port_counts
from substrait_agg.flow.passes.branches import Exprs, RawBranch, find_needed, positions_of, prune
from substrait_agg.flow.passes.joins import (
    StoredSide,
    Used,
    ViewRoot,
    ViewRoots,
    columns_used,
    passed_columns,
    stored_side,
)
from substrait_agg.flow.passes.ordered_rows import ordered_columns, ordered_rows_node
from substrait_agg.flow.passes.request import FlowRequest, Weights
from substrait_agg.flow.passes.sessions import (
    is_session,
    over,
    over_sessions,
    session_node,
)
from substrait_agg.flow.passes.upserts import Upserts
from substrait_agg.functions.aggregates.accumulators import EarlyRetraction, WeightKind
from substrait_agg.functions.windows import duration_value
from substrait_agg.plan.types import BOOL

_Stateful = GroupedRelation | BoundFetch | BoundJoin | BoundRecursion | BoundWindowValues

WIDTH: tuple[WeightKind, ...] = ("append_only", "changelog", "weighted")
"""Weight kinds, from narrow to wide."""


def _step(relation: BoundFilter | BoundProject | BoundUnnest) -> Step:
    match relation:
        case BoundFilter(condition=condition):
            return FilterStep(condition)
        case BoundProject(expressions=expressions):
            return ProjectStep(expressions)
        case BoundUnnest(values=values):
            return UnnestStep(values)


@dataclass(slots=True)
class _Lowering:
    """The operators built so far, in execution order."""

    weights: Weights
    early: EarlyRetraction
    used: Used
    upserts: Upserts = field(default_factory=dict)
    operators: list[Node] = field(default_factory=list)
    operators_by_id: dict[int, Node] = field(default_factory=dict)
    views: ViewRoots = field(default_factory=dict)
    recursions: dict[str, Recursion] = field(default_factory=dict)

    def view(self, name: str, view: ViewRoot) -> FlowView:
        """Add the operator of a view, after those that it reads."""
        selected = selected_columns(view.root)
        if selected is None:
            node = self.rows(view.root)
            output = tuple(range(len(node.types)))
        else:
            relation, output = selected
            node = self.once(relation)
        plan = view.plan
        output, hidden = output[: len(plan.names)], output[len(plan.names) :]
        types = tuple(node.types[o] for o in output)
        return FlowView(
            name, node.id, output, plan.names, types, plan.sorts, fields=plan.fields, hidden=hidden
        )

    def of_view(self, read: BoundRead, view: ViewRoot) -> tuple[RawBranch, ...]:
        """Return the linear paths into the columns of another view that a relation reads."""
        ordinals = columns_read(read, view.plan)
        columns = zip(ordinals, read.types, strict=True)
        step = ProjectStep(tuple(Column(type_, ordinal) for ordinal, type_ in columns))
        return tuple(branch.then(step) for branch in self.raw_branches(view.root))

    def raw_branches(self, relation: BoundRelation) -> tuple[RawBranch, ...]:
        """Return the linear paths into a relation; steps over a union go into each branch."""
        match relation:
            case BoundRead() if view_name(relation) in self.views:
                return self.of_view(relation, self.views[view_name(relation)])
            case BoundRead(table=table, names=names, types=types):
                return (RawBranch(TableOrigin(table, names, types), ()),)
            case BoundRows(types=types, rows=rows):
                return (RawBranch(RowsOrigin(types, rows), ()),)
            case BoundUnion(inputs=inputs):
                return tuple(b for i in inputs for b in self.raw_branches(i))
            case BoundRecursiveRows():
                return (self.last_level(relation),)
            case BoundFilter() | BoundProject() | BoundUnnest():
                step = _step(relation)
                return tuple(b.then(step) for b in self.raw_branches(relation.input))
            case BoundAggregate() | BoundSetOperation() | BoundRecursion():
                node = self.once(relation)
                return (RawBranch(OperatorOrigin(node.id, node.types), ()),)
            case BoundFetch() | BoundWindowValues():
                node = self.once(relation)
                steps = () if node.types == relation.types else (ordered_columns(relation, node),)
                return (RawBranch(OperatorOrigin(node.id, node.types), steps),)
            case BoundJoin():
                node = self.once(relation)
                step = passed_columns(relation, self.used[id(relation)])
                return (RawBranch(OperatorOrigin(node.id, node.types), (step,)),)

    def once(self, relation: _Stateful) -> Node:
        """Return the operator of a stateful relation, which several branches may read."""
        if id(relation) not in self.operators_by_id:
            match relation:
                case BoundAggregate():
                    rewritten = self.aggregate(relation)
                case BoundFetch() | BoundWindowValues():
                    rewritten = self.ordered_rows(relation)
                case BoundJoin():
                    rewritten = self.join(relation)
                case BoundSetOperation():
                    rewritten = self.set_operation(relation)
                case BoundRecursion():
                    rewritten = self.recursion(relation)
            self.operators_by_id[id(relation)] = rewritten
        return self.operators_by_id[id(relation)]

    def ordered_rows(self, relation: BoundFetch | BoundWindowValues) -> Node:
        """Add the operator of a fetch or of window functions, after those that it reads."""
        if isinstance(relation, BoundFetch) and not self.reads_number(relation):
            types = relation.types[: len(relation.input.types)]
            relation = replace(relation, types=types, numbered=False)
        inputs = self.inputs(relation.input, tuple(range(len(relation.input.types))))
        properties = self.input_properties(inputs)
        node = ordered_rows_node(len(self.operators), inputs, properties, relation)
        self.operators.append(node)
        return node

    def reads_number(self, relation: BoundFetch) -> bool:
        """Return whether the positions of rows are read, and are not the same for all rows."""
        read = len(relation.types) - 1 in self.used[id(relation)]
        return relation.numbered and relation.count != 1 and read

    def aggregate(self, relation: BoundAggregate) -> Node:
        """Add the operator of an aggregate, after those that it reads."""
        if any(is_session(key) for key in relation.keys):
            sessions = session_node(
                relation, lambda: len(self.operators), self.inputs, self.input_properties
            )
            self.operators.append(sessions)
            relation = over_sessions(relation)
            inputs, ordinals = over(sessions), tuple(range(len(sessions.types)))
        else:
            read = [e for m in relation.measures for e in m.expressions]
            ordinals = find_needed((*relation.keys, *read))
            inputs = self.inputs(relation.input, ordinals)
        weight = self.weight_of(inputs)
        places = positions_of(ordinals)
        moved = tuple(renumber_measure(m, places) for m in relation.measures)
        early = self.policy(inputs)
        weight = "weighted" if early == "quarantine" else weight
        keys = tuple(renumber(k, places) for k in relation.keys)
        several = len(relation.sets) > 1
        arguments, groups = state_layout(
            moved, weight, guarded=early != "carry", keys=row_keys(keys) if several else ()
        )
        node = Aggregate(
            id=len(self.operators),
            inputs=(Port(inputs, keys, arguments, relation.sets if several else ()),),
            groups=groups,
            types=relation.types,
            weight=weight,
            path=relation.path,
            early=early,
        )
        self.operators.append(node)
        return node

    def set_operation(self, relation: BoundSetOperation) -> Node:
        """Add the operator of a set operation, with a port per input."""
        every = tuple(range(len(relation.types)))
        ports = []
        for port, source in enumerate(relation.inputs):
            branches = (replace(b, port=port) for b in self.inputs(source, every))
            ports.append(Port(tuple(branches), columns(source.types)))
        inputs = tuple(branch for port in ports for branch in port.branches)
        node = SetOperation(
            id=len(self.operators),
            inputs=tuple(ports),
            groups=port_counts(len(ports)),
            types=relation.types,
            weight=self.weight_of(inputs),
            path=relation.path,
            early=self.policy(inputs),
            operation=relation.operation,
        )
        self.operators.append(node)
        return node

    def recursion(self, relation: BoundRecursion) -> Node:
        """Add the operator of a recursion, those of its step after it, and the feedback from the step."""
        anchor, step = relation.inputs
        every, keys = tuple(range(len(relation.types))), columns(relation.types)
        before = self.inputs(anchor, every)
        node = Recursion(
            id=len(self.operators),
            inputs=(Port(before, keys),),
            types=relation.types,
            weight="weighted",
            path=relation.path,
            limit=relation.limit,
            most_rows=relation.rows,
            definition=relation.name,
        )
        self.operators.append(node)
        self.recursions[relation.name] = node
        after = (replace(b, origin=_feedback(b.origin)) for b in self.inputs(step, every))
        node = replace(node, inputs=(Port((*before, *after), keys),))
        self.operators[node.id] = node
        return node

    def last_level(self, relation: BoundRecursiveRows) -> RawBranch:
        """Return the rows of a recursion that have a next level."""
        node, level = self.recursions[relation.recursion], columns(relation.types)[-1]
        has_next = Call(BOOL, "lt", (level, Constant(level.type, node.limit)))
        return RawBranch(OperatorOrigin(node.id, node.types), (FilterStep(has_next),))

    def join(self, relation: BoundJoin) -> Node:
        """Add the operator of a join, after those that it reads."""
        used = self.used[id(relation)]
        sides = [stored_side(relation, port, used) for port in range(2)]
        ports = tuple(self.side(side, port) for port, side in enumerate(sides))
        width, (left, right) = len(relation.left.types), sides
        place = {o: i for i, o in enumerate((*left.shown, *(width + o for o in right.shown)))}
        # In the output of a mark join the mark follows the left columns.
        mark = {width: len(place)} if relation.kind == "mark" else {}
        out = place | mark
        node = Join(
            id=len(self.operators),
            inputs=ports,
            types=tuple(relation.types[o] for o in sorted(used)),
            weight=self.weight_of(tuple(b for port in ports for b in port.branches)),
            path=relation.path,
            kind=relation.kind,
            null_safe=tuple(key.null_safe for key in relation.keys),
            residual=None if relation.residual is None else renumber(relation.residual, place),
            columns_of_sides=(left.places, right.places),
            chosen=tuple(out[o] for o in sorted(used)),
            nested_loop=not (relation.keys or any(map(has_one_row, inputs_of(relation)))),
        )
        self.operators.append(node)
        return node

    def side(self, side: StoredSide, port: int) -> Port:
        """Return a port of a join; under a policy for early retractions, its input as rows."""
        ordinals = find_needed((*side.keys, *side.arguments))
        inputs = self.inputs(side.relation, ordinals)
        if self.policy(inputs) != "carry":
            inputs = self.as_rows(side.relation, inputs, ordinals)
        places = positions_of(ordinals)
        return Port(
            tuple(replace(branch, port=port) for branch in inputs),
            tuple(renumber(key, places) for key in side.keys),
            tuple((renumber(argument, places), None) for argument in side.arguments),
        )

    def as_rows(
        self, relation: BoundRelation, inputs: tuple[Branch, ...], ordinals: tuple[int, ...]
    ) -> tuple[Branch, ...]:
        """Add an operator that stores rows to detect early retractions, and read it."""
        node = self.distinct(inputs, tuple(relation.types[o] for o in ordinals), relation.path)
        return (Branch(OperatorOrigin(node.id, node.types), ()),)

    def rows(self, root: BoundRelation) -> Node:
        """Add the operator that keeps the rows of the view with their weights."""
        inputs = self.inputs(root, tuple(range(len(root.types))))
        return self.distinct(inputs, root.types, root.path)

    def distinct(self, inputs: tuple[Branch, ...], types: Schema, path: str) -> Node:
        """Add an operator that keeps rows with their weights."""
        node = Distinct(
            id=len(self.operators),
            inputs=(Port(inputs, columns(types)),),
            types=types,
            weight=self.weight_of(inputs),
            path=path,
            early=self.policy(inputs),
        )
        self.operators.append(node)
        return node

    def inputs(self, relation: BoundRelation, ordinals: tuple[int, ...]) -> tuple[Branch, ...]:
        """Return the branches of a relation, each with exactly its columns `ordinals`."""
        every = columns(relation.types)
        expressions: Exprs = tuple(every[o] for o in ordinals)
        return tuple(prune(raw, expressions) for raw in self.raw_branches(relation))

    def policy(self, inputs: tuple[Branch, ...]) -> EarlyRetraction:
        """Return what happens to early retractions in the branches.

        Changes of an operator never contain early retractions, and inserts are not retractions.
        """
        outside = tuple(b for b in inputs if not self.from_operator(b.origin))
        return "carry" if self.weight_of(outside) == "append_only" else self.early

    def input_properties(self, inputs: tuple[Branch, ...]) -> tuple[WeightKind, EarlyRetraction]:
        """Return what is known about the weights of branches, and the early-retraction policy."""
        return self.weight_of(inputs), self.policy(inputs)

    def from_operator(self, origin: Origin) -> bool:
        """Return whether rows come from an operator; those of upsert sources do after lowering."""
        if isinstance(origin, TableOrigin):
            return origin.table in self.upserts
        return isinstance(origin, OperatorOrigin)

    def weight_of(self, inputs: tuple[Branch, ...]) -> WeightKind:
        """Return the widest weight kind of the branches."""
        return max(
            (self.weight_from(b.origin) for b in inputs), key=WIDTH.index, default="append_only"
        )

    def weight_from(self, origin: Origin) -> WeightKind:
        """Return what is known about the weights of an origin."""
        match origin:
            case TableOrigin(table=table):
                return (
                    "changelog" if table in self.upserts else self.weights.get(table, "append_only")
                )
            case RowsOrigin():
                return "append_only"
            case OperatorOrigin(operator=operator):
                return self.operators[operator].output_weight
            case FeedbackOrigin():
                return "weighted"


def _feedback(origin: Origin) -> FeedbackOrigin:
    """Return an operator of the step of a recursion as the origin of its feedback."""
    if not isinstance(origin, OperatorOrigin):
        raise TypeError(origin)
    return FeedbackOrigin(origin.operator, origin.types)


def lower_relations(_flow: Flow, request: FlowRequest) -> Flow:
    """Build the dataflow of the plans alone, without upserts and event time.

    Returns:
        Operators in execution order. A view is a selection of the columns of one operator. If its
        plan computes rows above the last aggregate, that operator keeps those rows (`Distinct`).
    """
    return deep_call(_lower, request)


def _lower(request: FlowRequest) -> Flow:
    bound_views = request.plan.views
    roots = _share_equal(tuple(normal_form(view.plan.root) for view in bound_views))
    views = {
        view.name: ViewRoot(root, view.plan, view.stored)
        for view, root in zip(bound_views, roots, strict=True)
    }
    by_name = {name: view for name, view in views.items() if name}
    lowering = _Lowering(
        request.weights, request.early, columns_used(views.values(), by_name), request.upserts,
        views=by_name,
    )  # fmt: skip
    stored = {name: view for name, view in views.items() if view.stored}
    flow_views = {name: lowering.view(name, view) for name, view in stored.items()}
    timed = bool(request.events.columns or request.forget)
    shown = tuple(
        _apart(view, stored[view.name], flow_views.values(), lowering, timed=timed)
        for view in flow_views.values()
    )
    return Flow(tuple(lowering.operators), shown, request.plan.fingerprint)


def _apart(
    view: FlowView,
    source: ViewRoot,
    views: Iterable[FlowView],
    lowering: _Lowering,
    *,
    timed: bool,
) -> FlowView:
    """Return a view whose operator has other readers: over shared changes, or separate rows.

    Separate rows are needed if equal rows of different groups have to be consolidated, or if a
    version has two passes: readers of the changes need those of each pass.
    """
    node = lowering.operators[view.operator]
    read = any(node.id in operators_below(other) for other in lowering.operators)
    if not read and sum(other.operator == view.operator for other in views) == 1:
        return view
    if not timed and not hides_columns(node, view):
        return replace(view, shared=True)
    rows = lowering.rows(source.root)
    columns_of_rows, shown = tuple(range(len(rows.types))), len(view.output)
    return replace(
        view, operator=rows.id, output=columns_of_rows[:shown], hidden=columns_of_rows[shown:]
    )


def row_keys(keys: Sequence[Expr]) -> tuple[Expr, ...]:
    """Return values of a row that are equal for two rows exactly if they have the same keys.

    The windows of a row range from the first that has not ended to the last that has begun. The
    starts of two tumbling windows determine this range.
    """
    return tuple(part for key in keys for part in _row_values(key))


def _row_values(key: Expr) -> Iterator[Expr]:
    if not isinstance(key, Call) or key.function != "hop":
        yield key
        return
    size, slide, offset = (*call_durations(key.arguments), 0)[:3]
    time = key.arguments[0]
    offsets = (offset,) if size % slide == 0 else (offset, offset + size)
    for moved in offsets:
        durations = (Constant(DURATION, duration_value(micros)) for micros in (slide, moved))
        yield Call(time.type, "tumble_start", (time, *durations))


def _share_equal(roots: Sequence[BoundRelation]) -> tuple[BoundRelation, ...]:
    """Return relations that compute the same rows, in which equal relations are one object.

    Relations are equal if they compute the same rows. The first one's path is used. Lowering makes
    one operator of an object, for all its readers.
    """
    by_key: dict[str, BoundRelation] = {}
    done: dict[int, BoundRelation] = {}
    keys: dict[int, str] = {}

    def share(relation: BoundRelation) -> BoundRelation:
        """Return the one object for a relation, with shared inputs."""
        if id(relation) not in done:
            inputs = tuple(map(share, inputs_of(relation)))
            key = _key(relation, [keys[id(found)] for found in inputs])
            if key not in by_key:
                same = all(a is b for a, b in zip(inputs, inputs_of(relation), strict=True))
                by_key[key] = relation if same else with_inputs(relation, inputs)
                keys[id(by_key[key])] = key
            done[id(relation)] = by_key[key]
        return done[id(relation)]

    return tuple(map(share, roots))


def _key(relation: BoundRelation, inputs: Sequence[str]) -> str:
    """Return what identifies a relation over inputs that have these keys."""
    below = {id(read) for read in inputs_of(relation)}
    own = [
        None
        if id(part) in below or (isinstance(part, tuple) and any(id(p) in below for p in part))
        else canonical(part)
        for part in identity(relation)
    ]
    return digest([own, list(inputs)])
