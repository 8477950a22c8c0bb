"""The dataflow as text: what each operator keeps, what feeds it, what runs per batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from substrait_agg.bind.bound import BoundMeasure
from substrait_agg.bind.deep import deep_call
from substrait_agg.bind.show import show
from substrait_agg.flow.graph import (
    AggregateNode,
    Branch,
    FilterStep,
    Flow,
    OperatorOrigin,
    Origin,
    RowsOrigin,
    Step,
    TableOrigin,
)
from substrait_agg.functions.accumulators import STATE_CLASS, Accumulator
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
"""Steps of every operator in every batch."""


def explain_text(flow: Flow) -> str:
    """A readable tree of the incremental operators, the linear steps that feed them, and the view.

    Args:
        flow: a lowered plan.
    """
    return deep_call(_explained, flow)


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
    for ordinal, measure in enumerate(node.measures):
        yield f"  measure {ordinal}: {_measure(measure, names)}"
        yield f"    from {_read(node, ordinal)}"
        if measure.filter is not None:
            yield f"    FILTER runs before the partial aggregation: {show(measure.filter, names)}"
    yield f"  state per group: total weight{'; accumulators:' if node.accumulators else ''}"
    for ordinal, accumulator in enumerate(node.accumulators):
        yield f"    a{ordinal} {_accumulator(accumulator, node, names)}"
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
    argument = "*" if measure.argument is None else show(measure.argument, names)
    return f"{measure.kind}({argument})"


def _measure(measure: BoundMeasure, names: Names) -> str:
    state = STATE_CLASS[measure.kind]
    call = _aggregated(measure, names)
    return f"{call} -> {measure.type}, {state}, overflow {measure.overflow}"


def _read(node: AggregateNode, ordinal: int) -> str:
    total, count = node.reads[ordinal]
    parts = [] if total < 0 else [f"a{total} (total)"]
    parts.append("total weight (count)" if count < 0 else f"a{count} (count)")
    return ", ".join(parts)


def _accumulator(accumulator: Accumulator, node: AggregateNode, names: Names) -> str:
    readers = [
        str(m) for m, pair in enumerate(node.reads) if node.accumulators.index(accumulator) in pair
    ]
    shared = "shared by measures" if len(readers) > 1 else "of measure"
    size = f"{accumulator.digits} digits" if accumulator.digits else "digits as values need"
    what = _argument(accumulator, node, names)
    return f"{accumulator.kind} of {what}, {size}, {shared} {', '.join(readers)}"


def _argument(accumulator: Accumulator, node: AggregateNode, names: Names) -> str:
    value, condition = node.arguments[accumulator.argument]
    text = "rows" if value is None else show(value, names)
    return text if condition is None else f"{text} where {show(condition, names)}"


def _physical(node: AggregateNode, names: Names) -> Iterator[str]:
    key = ", ".join(show(k, names) for k in node.keys)
    by = f"by {key}, if keys repeat" if key else "to one group"
    target = "their key" if key else "the one group"
    yield "  per batch:"
    for step, text in PHYSICAL:
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
        outputs.append((*keys, *(_aggregated(m, names) for m in node.measures)))
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
