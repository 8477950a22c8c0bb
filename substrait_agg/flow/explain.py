"""The dataflow as text: what each operator keeps, what feeds it, what runs per batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from substrait_agg.bind.bound import BoundMeasure, MeasureSort
from substrait_agg.bind.deep import deep_call
from substrait_agg.bind.show import show
from substrait_agg.flow.graph import (
    COMPUTED,
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
    ValueTree,
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
    for index, ordinals in enumerate(node.sets):
        grouped = ", ".join(show(node.keys[o], names) for o in ordinals)
        yield f"  grouping set {index}: {grouped or 'none (one group, always shown)'}"
    for ordinal, measure in enumerate(node.measures):
        yield f"  measure {ordinal}: {_measure(measure, node.reads[ordinal], names)}"
        yield f"    from {_read(node, ordinal) or 'the group itself'}"
        if measure.filter is not None:
            yield f"    FILTER runs before the partial aggregation: {show(measure.filter, names)}"
    yield f"  state per group: total weight{'; accumulators:' if node.accumulators else ''}"
    for ordinal, accumulator in enumerate(node.accumulators):
        yield f"    a{ordinal} {_accumulator(accumulator, ordinal, node, names)}"
    for ordinal, tree in enumerate(node.trees):
        yield f"  tree {ordinal}: {_tree(tree, ordinal, node, names)}"
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
    return (
        f"{measure.kind}({distinct}{arguments}{constants}{f' ORDER BY {order}' if order else ''})"
    )


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


_ROLES: dict[str, tuple[str, ...]] = {
    "count": ("count",),
    "sum": ("total", "count"),
    "sum0": ("total", "count"),
    "avg": ("total", "count"),
    "bool_and": ("true", "false"),
    "bool_or": ("true", "false"),
    "variance": ("count", "sum", "sum of squares"),
    "std_dev": ("count", "sum", "sum of squares"),
    "covar": ("count", "sum x", "sum y", "sum of products"),
    "corr": ("count", "sum x", "sum y", "sum of products", "sum xx", "sum yy"),
}
"""What the accumulators of a measure are to it."""


def _read(node: AggregateNode, ordinal: int) -> str:
    read, measure = node.reads[ordinal], node.measures[ordinal]
    roles = _ROLES.get(measure.kind, ("count", *("total" for _ in read.accumulators[1:])))
    parts = [
        f"{'total weight' if a < 0 else f'a{a}'} ({role})"
        for a, role in zip(read.accumulators, roles, strict=True)
    ]
    if read.tree >= 0 and read.side:
        parts.append(f"the {read.side} live entry of tree {read.tree}")
    elif read.tree >= 0 and not read.accumulators:
        parts.append(f"the live entries of tree {read.tree}, in order")
    return ", ".join(parts)


def _accumulator(accumulator: Accumulator, ordinal: int, node: AggregateNode, names: Names) -> str:
    readers = [str(m) for m, read in enumerate(node.reads) if ordinal in read.accumulators]
    shared = "shared by measures" if len(readers) > 1 else "of measure"
    size = f"{accumulator.digits} digits" if accumulator.digits else "digits as values need"
    if accumulator.kind in ("live", "entries"):
        what = f"{accumulator.kind if accumulator.kind == 'live' else 'number of'} entries"
        text = f"{what} of tree {accumulator.tree}, {size}"
    else:
        of = f", over the live entries of tree {accumulator.tree}" if accumulator.tree >= 0 else ""
        text = f"{accumulator.kind} of {_summed(accumulator, node, names)}{of}, {size}"
    return f"{text}, {shared} {', '.join(readers)}" if readers else text


def _summed(accumulator: Accumulator, node: AggregateNode, names: Names) -> str:
    text = _argument(accumulator.argument, node, names)
    if accumulator.other < 0:
        return text
    return f"{text} * {_argument(accumulator.other, node, names)}"


def _argument(ordinal: int, node: AggregateNode, names: Names) -> str:
    if ordinal >= COMPUTED:
        made = node.computed[ordinal - COMPUTED]
        given = ", ".join(_argument(a, node, names) for a in made.arguments)
        return f"{made.implementation}.{made.column}({given})"
    value, condition = node.arguments[ordinal]
    text = "rows" if value is None else show(value, names)
    return text if condition is None else f"{text} where {show(condition, names)}"


def _tree(tree: ValueTree, ordinal: int, node: AggregateNode, names: Names) -> str:
    keys = []
    for i, component in enumerate(tree.components):
        way = " DESC" if component.descending else ""
        nulls = (
            ""
            if i in tree.skipped
            else (" NULLS FIRST" if component.nulls_first else " NULLS LAST")
        )
        keys.append(f"{_argument(component.argument, node, names)}{way}{nulls}")
    what = "elements of " if tree.elements else ""
    only = "" if tree.present < 0 else f", only {_argument(tree.present, node, names)}"
    readers = [str(m) for m, read in enumerate(node.reads) if read.tree == ordinal]
    shared = "shared by measures" if len(readers) > 1 else "of measure"
    return f"ordered by {what}{', '.join(keys)}{only}, {shared} {', '.join(readers)}"


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
