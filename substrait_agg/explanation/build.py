"""Build the tree of the explanation from the dataflow.

Steps run on Spark before an operator, in its tasks, or after the last operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from substrait_agg.bind.bound import BoundMeasure, Constant, Expr
from substrait_agg.explanation.names import (
    Names,
    NodeNames,
    branch_names,
    call_text,
    column_name,
    names_of,
    say,
    show_text,
)
from substrait_agg.explanation.rounding import pair_names, roundings_of
from substrait_agg.explanation.state import readings, state_of
from substrait_agg.explanation.tree import (
    ExplainedColumn,
    ExplainedGroupingSet,
    ExplainedInput,
    ExplainedKey,
    ExplainedMeasure,
    ExplainedOperator,
    ExplainedOption,
    ExplainedPlan,
    ExplainedStep,
    ExplainedView,
    GroupCount,
    InputKind,
    Place,
    RunStep,
    ViewOrder,
)
from substrait_agg.flow.graph.graph import (
    Branch,
    FeedbackOrigin,
    FilterStep,
    MeasureState,
    OperatorOrigin,
    RowsOrigin,
    TableOrigin,
    UnnestStep,
)
from substrait_agg.flow.graph.nodes import Flow, FlowView, Node, shown_operators
from substrait_agg.functions.aggregates.kinds import KINDS
from substrait_agg.plan.types import INTEGER_BITS, Type
from substrait_agg.required import require

WEIGHTS = {"append_only": "inserts only", "changelog": "weights 1 and -1", "weighted": "any weight"}


def build(flow: Flow) -> ExplainedPlan:
    """Return the explanation of a dataflow, recursing as deep as expressions are nested."""
    names = names_of(flow)
    operators: list[ExplainedOperator] = []
    last = shown_operators(flow)
    for node in flow.operators:
        below = [
            replace(o.groups, bound=flow.operators[o.id].rows_out(o.groups.bound))
            for o in operators
        ]
        operators.append(_operator(node, names, below, by_policy=node.id in last))
    views = tuple(_view(view, names[view.operator].output) for view in flow.views)
    return ExplainedPlan(flow.fingerprint, views, tuple(operators), tuple(after(views)))


def _view(view: FlowView, output: Names) -> ExplainedView:
    columns = _columns(tuple(map(column_name, view.names)), view.types)
    sources = tuple(show_text(output[o]) for o in view.output)
    names = (*(column.name for column in columns), *(show_text(output[o]) for o in view.hidden))
    order = tuple(
        ViewOrder(
            key.ordinal if key.ordinal < len(columns) else None,
            names[key.ordinal],
            "descending" if key.descending else "ascending",
            "first" if key.nulls_first else "last",
        )
        for key in view.sorts
    )
    return ExplainedView(show_text(view.name), view.operator, columns, sources, order)


def _operator(
    node: Node, names: Sequence[NodeNames], below: Sequence[GroupCount], *, by_policy: bool
) -> ExplainedOperator:
    inputs, output = names[node.id].inputs, names[node.id].output
    keys = _keys(node, names[node.id])
    measured = output[len(keys) :]
    outputs = [n.output for n in names]
    several = len(node.inputs) > 1
    branches = tuple(
        replace(_input(branch, outputs), port=branch.port if several else None)
        for branch in node.branches
    )
    return ExplainedOperator(
        id=node.id,
        kind=node.describe().kind,
        path=node.path,
        keys=keys,
        sets=tuple(
            ExplainedGroupingSet(
                i, tuple(keys[o].name for o in ordinals), always_shown=not ordinals
            )
            for i, ordinals in enumerate(node.sets)
        ),
        measures=tuple(_measure(node, i, inputs, measured[i]) for i in range(len(node.measures))),
        state=state_of(node, names[node.id]),
        output=_columns(output, node.types),
        inputs=branches,
        weights=WEIGHTS[node.weight],
        early_retraction=node.early,
        row_multiple=node.rows_per_row,
        groups=groups_of(node, inputs, below),
        steps=steps_of(node, keys, branches, names[node.id].ports, by_policy=by_policy),
        rounded=roundings_of(node, names[node.id], outputs),
    )


def _keys(node: Node, names: NodeNames) -> tuple[ExplainedKey, ...]:
    if node.groups is not None:
        texts = [
            (name, say(k, names.inputs)) for k, name in zip(node.keys, names.output, strict=False)
        ]
    else:
        sides = zip(*(port.keys for port in node.inputs), strict=True)
        texts = [
            2 * (" = ".join(say(k, n) for k, n in zip(key, names.ports, strict=True)),)
            for key in sides
        ]
    return tuple(
        ExplainedKey(show_text(name), text, str(key.type), key.type.nullable)
        for key, (name, text) in zip(node.keys, texts, strict=False)
    )


def _measure(node: Node, ordinal: int, inputs: Names, name: str) -> ExplainedMeasure:
    measure = node.measures[ordinal]
    return ExplainedMeasure(
        ordinal=ordinal,
        name=show_text(name),
        call=show_text(call_text(measure, inputs)),
        function=show_text(measure.name),
        type=str(measure.type),
        nullable=measure.type.nullable,
        state=_state_class(measure, require(node.groups).reads[ordinal]),
        reads=tuple(readings(node, ordinal)),
        options=tuple(
            ExplainedOption(show_text(name), show_text(value)) for name, value in measure.options
        ),
        filter=None if measure.filter is None else say(measure.filter, inputs),
        path=measure.path,
    )


def _state_class(measure: BoundMeasure, read: MeasureState) -> str:
    usual = KINDS[measure.kind].state
    if read.tree is None:
        return usual
    if measure.order:
        return "own tree"
    return "shared tree" if usual == "additive" else usual


def _input(branch: Branch, outputs: Sequence[Names]) -> ExplainedInput:
    names = branch_names(branch, outputs)
    types = branch.origin.types
    origin = _columns(names[0], types)
    steps = []
    for step, before, columns in zip(branch.steps, names, names[1:], strict=False):
        if isinstance(step, FilterStep):
            steps.append(
                ExplainedStep("filter", (say(step.condition, before),), _columns(columns, types))
            )
            continue
        if isinstance(step, UnnestStep):
            types = (*types, step.element)
            steps.append(
                ExplainedStep("unnest", (say(step.values, before),), _columns(columns, types))
            )
            continue
        types = tuple(e.type for e in step.expressions)
        said = tuple(say(e, before) for e in step.expressions)
        steps.append(ExplainedStep("project", said, _columns(columns, types)))
    kind, table, operator, rows = _origin(branch)
    return ExplainedInput(kind, table, operator, rows, origin, tuple(steps), static=branch.static)


def _origin(branch: Branch) -> tuple[InputKind, str, int | None, int | None]:
    match branch.origin:
        case TableOrigin(table=table):
            return "table", show_text(".".join(table)), None, None
        case RowsOrigin(rows=rows):
            return "rows", "", None, len(rows)
        case OperatorOrigin(operator=operator) | FeedbackOrigin(operator=operator):
            return "operator", "", operator, None


def _columns(names: Names, types: tuple[Type, ...]) -> tuple[ExplainedColumn, ...]:
    return tuple(
        ExplainedColumn(show_text(name), show_text(str(type_)), type_.nullable)
        for name, type_ in zip(names, types, strict=True)
    )


Template = tuple[str, Place, str]

SUMMED: tuple[Template, ...] = (
    ("partial", "spark", "aggregate the batch {by}"),
    ("exchange", "spark", "{exchanged} to the partition of {target}"),
)
"""Spark steps if the state consists of sums."""

ROW_WISE: tuple[Template, ...] = (("exchange", "spark", "rows to the partition of {target}"),)
"""Spark steps otherwise."""

TASKS: tuple[Template, ...] = (
    ("restore", "operator", "read the stored state of the touched groups"),
    ("guard", "operator", "{guard}"),
    ("merge", "operator", "add the batch to it, exactly{looked_up}"),
    ("emit", "operator", "{emit}"),
    ("save", "operator", "write {saved}; merge some older runs"),
)
"""Steps in the tasks of an operator. A step without text is left out."""

JOIN_TASKS: tuple[Template, ...] = (
    ("emit", "operator", "{emit}"),
    ("save", "operator", "write the changed rows as new sorted runs; merge some older runs"),
)
"""Steps in the tasks of an operator whose state consists of the rows of its inputs."""

EARLY: dict[str, str] = {
    "carry": "",
    "refuse": "fail the batch where a row is retracted more often than inserted",
    "quarantine": "move rows that are retracted more often than inserted to the quarantine",
}
"""What happens to early retractions; empty if they count at once."""

REPLACE = "retract the row last emitted and insert the new row, if they differ"
BY_POLICY = f"for the groups that the emission policy selects, by default all: {REPLACE}"


def steps_of(
    node: Node,
    keys: tuple[ExplainedKey, ...],
    inputs: tuple[ExplainedInput, ...],
    ports: Sequence[Names],
    *,
    by_policy: bool,
) -> tuple[RunStep, ...]:
    """Return every step from the changes of the inputs to the changes of the operator.

    Args:
        node: the operator.
        keys: its keys.
        inputs: its inputs.
        ports: the names of the columns of each port.
        by_policy: whether the emission policy selects the groups that it emits, as for the groups
            that the view shows.
    """
    words = _words(node, keys, by_policy=by_policy)
    parts = [
        tuple(RunStep(name, place, text.format_map(words)) for name, place, text in templates)
        for templates in (
            ROW_WISE if node.row_wise else SUMMED,
            TASKS if node.groups is not None else JOIN_TASKS,
        )
    ]
    steps = (*_iter_prepared(node, inputs), *parts[0], *_probes(node, ports), *parts[1])
    return tuple(step for step in steps if step.what)


def _compared_rows(node: Node, port: int) -> str:
    """Return which rows of an input are compared if there are no keys."""
    range_ = node.range
    if range_ is None:
        return "all rows"
    return "the rows in range" if port == range_.point_port else "the intervals around them"


def _probes(node: Node, ports: Sequence[Names]) -> Iterator[RunStep]:
    """Yield the lookups in the stored rows of ports, in order."""
    for probe in node.probes:
        names = [say(key, ports[probe.changed]) for key in node.inputs[probe.changed].keys]
        what = f"look up {', '.join(names)} of" if names else "compare"
        rows = "rows" if names else _compared_rows(node, probe.stored)
        place = f"{'in the' if names else 'with'} {rows} of input {probe.stored}"
        text = f"{what} the changed rows of input {probe.changed} {place}, {probe.purpose}"
        yield RunStep("probe", "operator", text)
    if node.pair_condition is not None:
        condition = say(node.pair_condition, pair_names(node, ports))
        yield RunStep("check", "operator", f"a row matches only if {condition}")
    if node.probes and node.keys:
        yield RunStep(
            "probe",
            "operator",
            "a lookup is a binary search in each sorted run of the tree; only rows with the key are read, no tree "
            "is scanned",
        )


def _iter_prepared(node: Node, inputs: tuple[ExplainedInput, ...]) -> Iterator[RunStep]:
    done = list(dict.fromkeys(step.kind for branch in inputs for step in branch.steps))
    then = f", then {' and '.join(done)}" if done else ""
    yield RunStep("scan", "spark", f"the changes of this batch{then}, as listed under input")
    computed = [
        word
        for word, expressions in (("keys", node.keys), ("arguments", node.arguments))
        if expressions
    ]
    if computed:
        filtered = any(m.filter is not None for m in node.measures)
        nulls = "; null where the FILTER of a measure is not true" if filtered else ""
        yield RunStep("prepare", "spark", f"compute {' and '.join(computed)}{nulls}")
    if node.rows_per_row > 1:
        yield RunStep("expand", "spark", f"every row once per {_describe_copies(node)}")
    if len(inputs) > 1:
        tagged = ", each with the number of its port" if len(node.inputs) > 1 else ""
        yield RunStep("union", "spark", f"the rows of {len(inputs)} inputs{tagged}")


def _describe_copies(node: Node) -> str:
    windows = node.windows_per_row
    hopping = f"window it is in (at most {windows})" if windows > 1 else ""
    if not node.sets:
        return hopping
    sets = f"grouping set (x {len(node.sets)})"
    return f"{sets}, and for sets with the hopping window per {hopping}" if hopping else sets


def _words(node: Node, keys: tuple[ExplainedKey, ...], *, by_policy: bool) -> Mapping[str, str]:
    """Return the words for the templates of an operator."""
    named = ", ".join([*(key.name for key in keys), *(["grouping set"] if node.sets else [])])
    sums = not named  # a global aggregate always sums first
    trees = () if node.groups is None else node.groups.trees
    entries = not all(tree.extremes_only for tree in trees)
    return {
        "by": (f"by {named}" if named else "to one group")
        + ("" if sums else ", unless few of its keys repeat"),
        "exchanged": "partial groups" if sums else "partial groups, or otherwise rows,",
        "target": "their key" if node.key_types else "the one group",
        "guard": EARLY[node.early],
        "looked_up": "; look up the changed values in the trees" if entries else "",
        "saved": "touched groups and changed values as new sorted runs"
        if entries
        else "the touched groups as a new sorted run",
        "emit": _describe_emission(node, by_policy=by_policy),
    }


def _describe_emission(node: Node, *, by_policy: bool) -> str:
    return node.describe().emits or (BY_POLICY if by_policy else REPLACE)


def after(views: Sequence[ExplainedView]) -> Iterator[RunStep]:
    """Yield the steps after the last operator: in every batch, and on reading a view."""
    yield RunStep("commit", "driver", "publish all runs and changes as one version")
    yield RunStep("deliver", "driver", "outputs, from committed versions only")
    for view in views:
        if view.order:
            keys = ", ".join(o.name for o in view.order)
            which = f"the view {view.name}" if view.name else "the view"
            yield RunStep("order", "reader", f"{which} by {keys}")


SMALL_BITS = 16
"""Integer size in bits up to which the number of values gives a useful bound."""

NAMED, NAMED_LENGTH = 4, 40
"""Number of keys that a reason names, and characters of each."""


def groups_of(node: Node, inputs: Names, below: Sequence[GroupCount]) -> GroupCount:
    """Return how many groups can exist at one time."""
    if node.groups is None:
        return GroupCount(0, None, "one row per pair of rows that match")
    if not node.key_types:
        return GroupCount(1, 1, "one group for all rows")
    least = sum(not ordinals for ordinals in node.sets)
    rows = _rows(node, below)
    sets = node.sets or (tuple(range(len(node.keys))),)
    values = [_values(node, ordinals) for ordinals in sets]
    each_row = None if rows is None else rows * node.windows_per_row
    bounds = [_least(v, each_row) for v in values]
    total = None if None in bounds else sum(b or 0 for b in bounds)
    if total is not None and bounds != values:
        each = ", in each grouping set" if node.sets else ""
        what = "input row" if node.windows_per_row == 1 else "input row and window of it"
        return GroupCount(least, total, f"one per {what} at most{each}")
    return GroupCount(least, total, _reason(node, inputs, many=total is None))


def _least(values: int | None, rows: int | None) -> int | None:
    estimates = [n for n in (values, rows) if n is not None]
    # The group of an empty set exists without any row.
    return 1 if values == 1 else min(estimates, default=None)


def _rows(node: Node, below: Sequence[GroupCount]) -> int | None:
    by_branch = [_rows_from(branch, below) for branch in node.branches]
    return None if None in by_branch else sum(n or 0 for n in by_branch)


def _rows_from(branch: Branch, below: Sequence[GroupCount]) -> int | None:
    match branch.origin:
        case RowsOrigin(rows=rows):
            return len(rows)
        case OperatorOrigin(operator=operator):
            return below[operator].bound
        case _:
            return None


def _values(node: Node, ordinals: Sequence[int]) -> int | None:
    by_key = [values_of(node.keys[o]) for o in ordinals]
    return None if None in by_key else prod(n or 1 for n in by_key)


def values_of(expression: Expr) -> int | None:
    """Return the number of values of an expression, null included; None if unknown or large."""
    if isinstance(expression, Constant):
        return 1
    type_ = expression.type
    bits = 1 if type_.kind == "bool" else INTEGER_BITS.get(type_.kind, SMALL_BITS + 1)
    return (1 << bits) + type_.nullable if bits <= SMALL_BITS else None


def _reason(node: Node, inputs: Names, *, many: bool) -> str:
    keys = [k for k in node.keys if (values_of(k) is None) == many]
    named = [say(k, inputs) for k in keys[:NAMED]]
    named = [n if len(n) <= NAMED_LENGTH else f"{n[:NAMED_LENGTH]}..." for n in named]
    listed = ", ".join(named) + (", ..." if len(keys) > NAMED else "")
    if many:
        return f"one per distinct value of {listed}"
    return f"one per possible value of {listed}" if named else "one per grouping set"
