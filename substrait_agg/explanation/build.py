"""Build the tree of the explanation from the dataflow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from substrait_agg.bind.bound import BoundMeasure
from substrait_agg.explanation.group_bounds import groups_of
from substrait_agg.explanation.names import (
    Names,
    NodeNames,
    branch_names,
    call_text,
    column_name,
    names_of,
    say,
    shown,
)
from substrait_agg.explanation.state import readings, state_of
from substrait_agg.explanation.steps import after, steps_of
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
    ViewOrder,
)
from substrait_agg.flow.graph.graph import (
    Branch,
    FilterStep,
    MeasureState,
    OperatorOrigin,
    RowsOrigin,
    TableOrigin,
)
from substrait_agg.flow.graph.nodes import Flow, Node, shown_operators
from substrait_agg.functions.aggregates.kinds import KINDS
from substrait_agg.plan.types import Type

WEIGHTS = {"append_only": "inserts only", "changelog": "weights 1 and -1", "weighted": "any weight"}


def build(flow: Flow) -> ExplainedPlan:
    """Return the explanation of a dataflow.

    The function recurses as deep as expressions are nested.
    """
    names = names_of(flow)
    operators: list[ExplainedOperator] = []
    last = shown_operators(flow)
    for node in flow.operators:
        below = [
            replace(o.groups, bound=flow.operators[o.id].rows_out(o.groups.bound))
            for o in operators
        ]
        operators.append(_operator(node, names, below, by_policy=node.id in last))
    view = _view(flow, names[-1].output)
    return ExplainedPlan(flow.fingerprint, view, tuple(operators), tuple(after(view)))


def _view(flow: Flow, output: Names) -> ExplainedView:
    columns = _columns(tuple(map(column_name, flow.names)), flow.types)
    order = tuple(
        ViewOrder(
            key.ordinal,
            columns[key.ordinal].name,
            "descending" if key.descending else "ascending",
            "first" if key.nulls_first else "last",
        )
        for key in flow.sorts
    )
    sources = tuple(shown(output[o]) for o in flow.output)
    return ExplainedView(flow.operators[-1].id, columns, sources, order)


def _operator(
    node: Node, names: Sequence[NodeNames], below: Sequence[GroupCount], *, by_policy: bool
) -> ExplainedOperator:
    inputs, output = names[node.id].inputs, names[node.id].output
    keys = tuple(
        ExplainedKey(shown(name), say(key, inputs), str(key.type), key.type.nullable)
        for key, name in zip(node.keys, output, strict=False)
    )
    measured = output[len(keys) :]
    outputs = [n.output for n in names]
    branches = tuple(_input(branch, outputs) for branch in node.branches)
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
        state=state_of(node, inputs, output),
        output=_columns(output, node.types),
        inputs=branches,
        weights=WEIGHTS[node.weight],
        early_retraction=node.early,
        row_multiple=node.rows_per_row,
        groups=groups_of(node, inputs, below),
        steps=steps_of(node, keys, branches, by_policy=by_policy),
    )


def _measure(node: Node, ordinal: int, inputs: Names, name: str) -> ExplainedMeasure:
    measure = node.measures[ordinal]
    return ExplainedMeasure(
        ordinal=ordinal,
        name=shown(name),
        call=shown(call_text(measure, inputs)),
        function=shown(measure.name),
        type=str(measure.type),
        nullable=measure.type.nullable,
        state=_state_class(measure, node.reads[ordinal]),
        reads=tuple(readings(node, ordinal)),
        options=tuple(
            ExplainedOption(shown(name), shown(value)) for name, value in measure.options
        ),
        filter=None if measure.filter is None else say(measure.filter, inputs),
        path=measure.path,
    )


def _state_class(measure: BoundMeasure, read: MeasureState) -> str:
    usual = KINDS[measure.kind].state
    if read.tree < 0:
        return usual
    if measure.order:
        return "own tree"
    return "shared tree" if usual == "additive" else usual


def _input(branch: Branch, outputs: Sequence[Names]) -> ExplainedInput:
    names = branch_names(branch, outputs)
    types = branch.origin.types
    origin = _columns(names[0], types)
    steps = []
    for step, before, made in zip(branch.steps, names, names[1:], strict=False):
        if isinstance(step, FilterStep):
            steps.append(
                ExplainedStep("filter", (say(step.condition, before),), _columns(made, types))
            )
            continue
        types = tuple(e.type for e in step.expressions)
        said = tuple(say(e, before) for e in step.expressions)
        steps.append(ExplainedStep("project", said, _columns(made, types)))
    kind, table, operator, rows = _origin(branch)
    return ExplainedInput(kind, table, operator, rows, origin, tuple(steps))


def _origin(branch: Branch) -> tuple[InputKind, str, int | None, int | None]:
    match branch.origin:
        case TableOrigin(table=table):
            return "table", shown(".".join(table)), None, None
        case RowsOrigin(rows=rows):
            return "rows", "", None, len(rows)
        case OperatorOrigin(operator=operator):
            return "operator", "", operator, None


def _columns(names: Names, types: tuple[Type, ...]) -> tuple[ExplainedColumn, ...]:
    return tuple(
        ExplainedColumn(shown(name), shown(str(type_)), type_.nullable)
        for name, type_ in zip(names, types, strict=True)
    )
