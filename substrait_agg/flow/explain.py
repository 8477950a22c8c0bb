"""The dataflow as text: what each operator keeps, what feeds it, what runs per batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from substrait_agg.bind.bound import BoundMeasure, MeasureSort
from substrait_agg.bind.deep import deep_call
from substrait_agg.bind.show import show
from substrait_agg.flow.explain_state import argument_text, read_text, state_lines
from substrait_agg.flow.graph import (
    AggregateNode,
    Branch,
    FilterStep,
    Flow,
    OperatorOrigin,
    Origin,
    Read,
    RowsOrigin,
    Step,
    TableOrigin,
)
from substrait_agg.functions.accumulators import STATE_CLASS
from substrait_agg.plan.types import Type

Names = tuple[str, ...]
Outputs = Sequence[Names]

WEIGHTS = {"one": "inserts only", "sign": "weights 1 and -1", "any": "any weight"}

PHYSICAL: tuple[tuple[str, str], ...] = (
    ("partial", "aggregate the batch {by}"),
    ("exchange", "partial groups to the partition of {target}"),
    ("restore", "read what the touched groups hold"),
    ("merge", "add the batch to it, exactly"),
    ("save", "write the touched groups as a new sorted run"),
    ("emit", "retract the row last emitted, insert the new one, where they differ"),
)
"""Steps of an operator in every batch."""

ROW_WISE: tuple[tuple[str, str], ...] = (
    ("exchange", "rows to the partition of {target}"),
    ("restore", "read what the touched groups hold"),
    ("merge", "add the batch to it, exactly; look up the changed values in the trees"),
    ("save", "write touched groups and changed values as new sorted runs"),
    ("emit", "retract the row last emitted, insert the new one, where they differ"),
)
"""Steps of an operator whose state is not made of sums alone."""


def explain_text(flow: Flow) -> str:
    """A readable tree of the incremental operators, the linear steps that feed them, and the view.

    Args:
        flow: a lowered plan.
    """
    return deep_call(_explained, flow)


def row_names(flow: Flow, node: AggregateNode) -> tuple[str, ...]:
    """What to call the keys of an operator, the index of its grouping set, and its arguments; each name once."""
    return deep_call(_row_names, flow, node)


def _row_names(flow: Flow, node: AggregateNode) -> tuple[str, ...]:
    names = _input_names(node, _outputs(flow))
    found = [show(key, names) for key in node.keys]
    found += ["grouping set"] if node.sets else []
    found += [argument_text(ordinal, node, names) for ordinal in range(len(node.arguments))]
    unique: list[str] = []
    for name in found:
        again = sum(u == name or u.startswith(f"{name} (") for u in unique)
        unique.append(f"{name} ({again + 1})" if name in unique else name)
    return tuple(unique)


def _explained(flow: Flow) -> str:
    lines = list(_view(flow))
    outputs = _outputs(flow)
    for node in reversed(flow.operators):
        lines.append("")
        lines += _operator(node, outputs)
    return "\n".join(lines) + "\n"


def _view(flow: Flow) -> Iterator[str]:
    yield f"view from operator {flow.operators[-1].id}, plan {flow.fingerprint[:12]}"
    for name, type_ in zip(flow.names, flow.types, strict=True):
        yield f"  {name}: {type_}"
    for key in flow.sorts:
        direction = "descending" if key.descending else "ascending"
        place = "first" if key.nulls_first else "last"
        yield f"  order by {flow.names[key.ordinal]} {direction}, nulls {place}"


def _operator(node: AggregateNode, outputs: Outputs) -> Iterator[str]:
    names = _input_names(node, outputs)
    yield f"operator {node.id}: {_title(node)}  at {node.path}"
    keys = ", ".join(show(k, names) for k in node.keys) or "none (one global group)"
    yield f"  keys: {keys}"
    for index, ordinals in enumerate(node.sets):
        grouped = ", ".join(show(node.keys[o], names) for o in ordinals)
        yield f"  grouping set {index}: {grouped or 'none (one group, always shown)'}"
    for ordinal, measure in enumerate(node.measures):
        yield f"  measure {ordinal}: {_measure(measure, node.reads[ordinal], names)}"
        yield f"    from {read_text(node, ordinal) or 'the group itself'}"
        if measure.filter is not None:
            yield f"    FILTER runs on Spark, row by row: {show(measure.filter, names)}"
    yield from state_lines(node, names)
    yield f"  output: {', '.join(map(str, node.types)) or 'no columns'}"
    yield from _physical(node, names)
    yield f"  input ({WEIGHTS[node.weight]}):"
    for branch in node.inputs:
        yield from _branch(branch, outputs)


def _title(node: AggregateNode) -> str:
    if node.multiset:
        return "rows of the view"
    return "aggregate" if node.measures else "distinct rows"


def _aggregated(measure: BoundMeasure, names: Names) -> str:
    arguments = ", ".join(show(a, names) for a in measure.arguments) or "*"
    if not measure.arguments and measure.kind != "count":
        arguments = ""
    constants = "".join(f", {c!r}" for c in measure.constants)
    distinct = "DISTINCT " if measure.distinct else ""
    order = ", ".join(_sorted(s, names) for s in measure.order)
    return f"{_function(measure)}({distinct}{arguments}{constants}{f' ORDER BY {order}' if order else ''})"


def _function(measure: BoundMeasure) -> str:
    """The name of what is maintained; of a measure of the embedding program, its own."""
    return measure.implementation.rpartition(":")[2] or measure.kind


def _sorted(sort: MeasureSort, names: Names) -> str:
    direction = " DESC" if sort.descending else ""
    nulls = " NULLS FIRST" if sort.nulls_first else ""
    return f"{show(sort.expression, names)}{direction}{nulls}"


def _measure(measure: BoundMeasure, read: Read, names: Names) -> str:
    call = _aggregated(measure, names)
    options = "".join(f", {name.lower()} {value}" for name, value in measure.options)
    return f"{call} -> {measure.type}, {_class(measure, read)}{options}"


def _class(measure: BoundMeasure, read: Read) -> str:
    if read.tree >= 0 and STATE_CLASS[measure.kind] == "additive":
        return "shared tree"
    return "own tree" if measure.order else STATE_CLASS[measure.kind]


def _physical(node: AggregateNode, names: Names) -> Iterator[str]:
    key = ", ".join(show(k, names) for k in node.keys)
    by = f"by {key}, if keys repeat" if key else "to one group"
    target = "their key" if key else "the one group"
    yield "  per batch:"
    for step, text in ROW_WISE if node.row_wise else PHYSICAL:
        yield f"    {step:<8} {text.format(by=by, target=target)}"


def _branch(branch: Branch, outputs: Outputs) -> Iterator[str]:
    yield f"    - {_origin(branch.origin)}"
    names = _origin_names(branch.origin, outputs)
    for step in branch.steps:
        yield f"      {_step(step, names)}"
        names = _after(step, names)


def _origin(origin: Origin) -> str:
    if isinstance(origin, TableOrigin):
        columns = ", ".join(map(_column, origin.names, origin.types))
        return f"changes of table {'.'.join(origin.table)} ({columns or 'no columns, rows only'})"
    if isinstance(origin, RowsOrigin):
        return f"{len(origin.rows)} rows written in the plan, inserted once"
    return f"changes of operator {origin.operator}"


def _column(name: str, type_: Type) -> str:
    return f"{name} {type_}"


def _origin_names(origin: Origin, outputs: Outputs) -> Names:
    if isinstance(origin, OperatorOrigin):
        return outputs[origin.operator]
    return origin.names if isinstance(origin, TableOrigin) else ()


def _outputs(flow: Flow) -> Outputs:
    """What to call the output columns of each operator, in their order."""
    outputs: list[Names] = []
    for node in flow.operators:
        names = _input_names(node, outputs)
        keys = [show(key, names) for key in node.keys]
        index = ["grouping set"] if node.sets else []
        outputs.append((*keys, *(_aggregated(m, names) for m in node.measures), *index))
    return outputs


def _step(step: Step, names: Names) -> str:
    if isinstance(step, FilterStep):
        return f"filter {show(step.condition, names)}"
    return "project " + ", ".join(show(e, names) for e in step.expressions)


def _after(step: Step, names: Names) -> Names:
    if isinstance(step, FilterStep):
        return names
    return tuple(show(e, names) for e in step.expressions)


def _input_names(node: AggregateNode, outputs: Outputs) -> Names:
    """Names of an operator's input columns, where all its branches agree on them."""
    found = set()
    for branch in node.inputs:
        names = _origin_names(branch.origin, outputs)
        for step in branch.steps:
            names = _after(step, names)
        found.add(names)
    return found.pop() if len(found) == 1 else ()
