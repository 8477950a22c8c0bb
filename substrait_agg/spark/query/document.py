"""Describe a flow for the plan document of a checkpoint."""

from __future__ import annotations

import base64

import pyarrow as pa

from substrait_agg.commit.documents.flow_document import flow_text
from substrait_agg.commit.documents.plan_document import (
    EarlyRetractionSchema,
    OperatorText,
    PlanDocument,
    ViewColumn,
    ViewSchema,
    ViewSort,
)
from substrait_agg.commit.documents.state_schema import readings, state_schemas
from substrait_agg.explanation.explain import explain_flow, row_names
from substrait_agg.explanation.state import state_columns
from substrait_agg.explanation.text import key_text, measure_text, port_text, step_text
from substrait_agg.explanation.tree import ExplainedInput, ExplainedMeasure, ExplainedOperator
from substrait_agg.flow.graph.identity import identities
from substrait_agg.flow.graph.nodes import Flow, FlowView, Node
from substrait_agg.flow.passes.static import static_tables
from substrait_agg.flow.passes.upserts import upserts_of
from substrait_agg.plan.arrow import arrow_schema
from substrait_agg.plan.types import BOOL
from substrait_agg.required import require
from substrait_agg.runtime.event_state import EventOptions


def plan_document(flow: Flow, events: EventOptions = EventOptions()) -> PlanDocument:  # noqa: B008 - frozen
    """Return the plan document of a flow.

    Args:
        flow: the lowered plan.
        events: the sources with a watermark, and the TTL of idle groups.
    """
    views = tuple(_view(flow, view) for view in flow.views)
    one = views[0] if len(views) == 1 and not views[0].name else None
    return PlanDocument(
        plan=flow.fingerprint,
        layout=tuple(node.weight for node in flow.operators),
        columns=one.columns if one else (),
        types=one.types if one else "",
        sorts=one.sorts if one else (),
        keys=one.keys if one else 0,
        operators=len(flow.operators),
        early=tuple(node.early for node in flow.operators),
        guarded=tuple(_guard(flow, node) for node in flow.operators if node.early == "quarantine"),
        watermarks=tuple(source.label for source in events.sources),
        forget=next((node.forget for node in flow.operators if node.forget), ""),
        upserts=upserts_of(flow),
        state_columns=state_columns(flow),
        operator_texts=describe_operators(flow),
        state_schemas=state_schemas(flow),
        inputs=readings(flow),
        static=static_tables(flow),
        views=() if one else views,
        flow=flow_text(flow),
        hidden=one.hidden if one else (),
        repeats=one.repeats if one else False,
    )


def _view(flow: Flow, view: FlowView) -> ViewSchema:
    node = flow.view_node(view)
    return ViewSchema(
        name=view.name,
        operator=view.operator,
        columns=tuple(
            ViewColumn(node.columns[o], name)
            for o, name in zip(view.output, view.names, strict=True)
        ),
        types=_types(arrow_schema(view.names, view.types, view.fields)),
        sorts=tuple(ViewSort(s.ordinal, s.descending, s.nulls_first) for s in view.sorts),
        keys=len(node.key_types),
        positions=view.output if view.shared else (),
        hidden=tuple(node.columns[o] for o in view.hidden),
        repeats=node.output_weight == "weighted",
    )


def _types(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _guard(flow: Flow, node: Node) -> EarlyRetractionSchema:
    values = [BOOL if value is None else value.type for value, _ in node.arguments]
    types = [t.as_nullable() for t in (*node.key_types, *values)]
    schema = arrow_schema(row_names(flow, node), types)
    keys, ports = len(node.key_types), len(node.inputs)
    return EarlyRetractionSchema(node.id, require(node.groups).guard, keys, _types(schema), ports)


def describe_operators(flow: Flow) -> tuple[OperatorText, ...]:
    """Describe every operator in the words of `explain`."""
    plan = explain_flow(flow)
    return tuple(
        OperatorText(
            tuple(map(_input, operator.inputs)),
            (*map(key_text, operator.keys), *_sets(operator), *_by_order(node, operator)),
            tuple(map(_measure, operator.measures)),
            identity.measures,
        )
        for node, operator, identity in zip(
            flow.operators, plan.operators, identities(flow), strict=True
        )
    )


def _sets(operator: ExplainedOperator) -> list[str]:
    return [f"grouping set ({', '.join(s.keys)})" for s in operator.sets]


def _by_order(node: Node, operator: ExplainedOperator) -> list[str]:
    by_order = node.describe().by_order
    return [f"{by_order} {operator.state.trees[0].what}"] if by_order else []


def _measure(measure: ExplainedMeasure) -> str:
    condition = "" if measure.filter is None else f" FILTER {measure.filter}"
    return measure_text(measure) + condition


def _input(branch: ExplainedInput) -> str:
    """Describe the origin and the filters of a branch.

    Columns that a branch only passes on are left out: they change with the measures.
    """
    place = {
        "table": f"table {branch.table}",
        "rows": f"{branch.rows} rows written in the plan",
        "operator": f"operator {branch.operator}",
    }[branch.kind]
    filters = [step_text(step) for step in branch.steps if step.kind == "filter"]
    return ", ".join([port_text(branch) + place, *filters])
