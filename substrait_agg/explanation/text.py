"""Write the explanation as text, or as JSON with the tree's attributes as keys."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict

from substrait_agg.explanation.state import measures_text
from substrait_agg.explanation.tree import (
    ExplainedAccumulator,
    ExplainedColumn,
    ExplainedInput,
    ExplainedKey,
    ExplainedMeasure,
    ExplainedOperator,
    ExplainedPlan,
    ExplainedRounding,
    ExplainedState,
    ExplainedStep,
    ExplainedTree,
    ExplainedView,
    GroupCount,
    RunStep,
)
from substrait_agg.functions.aggregates.accumulators import TREE_COUNTERS


def plan_json(plan: ExplainedPlan) -> str:
    """Write the explanation as JSON (docs/formats.md) that ends with a line break."""
    document = asdict(plan)
    if len(plan.views) == 1 and not plan.views[0].name:
        (view,) = document.pop("views")
        del view["name"]
        document = {"plan": document.pop("plan"), "view": view, **document}
    for name in ("refresh", "batches"):
        if not document[name]:
            del document[name]
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


NOT_STORED = "no rows"
"""The size of an entry of a tree that is not stored."""

HANGING = 4
"""Columns by which the continuation of a folded line is indented."""


def plan_text(plan: ExplainedPlan) -> str:
    """Write the explanation as text that ends with a line break."""
    lines = [line for view in plan.views for line in _view(view, plan.plan)]
    if plan.assumed:
        lines.append(f"  assumed: {plan.assumed}")
    lines += (f"  source {changes}" for changes in plan.connected)
    for operator in reversed(plan.operators):
        lines += ["", *_operator(operator, plan.shared_by(operator.id))]
    lines += ["", "after the operators:", *(f"  {_run_step(s)}" for s in plan.after)]
    lines += _refresh(plan)
    return "\n".join(lines) + "\n"


_POLICIES: Mapping[str, str] = {
    "incremental": "batches apply changes",
    "incremental_strict": "batches apply changes, and never read stored rows again",
    "full": "every batch computes the view again from all rows",
    "auto": "a batch applies changes or computes the view again, whichever past batches say is cheaper",
}
"""Refresh policy -> what it means."""


def _refresh(plan: ExplainedPlan) -> Iterator[str]:
    """Yield the lines about refresh policies; none unless they are asked for."""
    if plan.refresh:
        yield ""
        yield "refresh policies:"
    for one in plan.refresh:
        view = f"view {one.view}" if one.view else "view"
        operators = ", ".join(map(str, one.operators)) or "none"
        yield f"  {view}: {one.policy}, for operators {operators}"
        yield f"    {_POLICIES[one.policy]}"
        outcome = "no batch is full" if one.policy == "auto" else "refused"
        yield from (f"    {outcome}: {obstacle}" for obstacle in one.obstacles)
    if plan.batches:
        yield ""
        yield "past batches, newest first:"
    for batch in plan.batches:
        views = ", ".join(filter(None, batch.full))
        yield f"  version {batch.version}: {batch.reason}{f' (views {views})' if views else ''}"


def wrap(text: str, width: int) -> str:
    """Fold the text at word boundaries to lines of at most `width` columns.

    Continuation lines are indented. A longer word keeps its line.
    """
    return "".join(
        f"{part}\n" for line in text.splitlines() for part in _wrapped_lines(line, width)
    )


def _wrapped_lines(line: str, width: int) -> list[str]:
    hanging = " " * (len(line) - len(line.lstrip()) + HANGING)
    wrapper = textwrap.TextWrapper(
        width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
    )
    return wrapper.wrap(line) or [""]


def _view(view: ExplainedView, plan: str) -> Iterator[str]:
    name = f"view {view.name}" if view.name else "view"
    yield f"{name} from operator {view.operator}, plan {plan[:12]}"
    for column, source in zip(view.columns, view.sources, strict=True):
        origin = f", from {source}" if source != column.name else ""
        yield f"  {column.name}: {column.type}{origin}"
    for key in view.order:
        hidden = ", which the view does not show" if key.column is None else ""
        yield f"  order by {key.name} {key.direction}, nulls {key.nulls}{hidden}"


def _operator(operator: ExplainedOperator, views: tuple[str, ...]) -> Iterator[str]:
    yield f"operator {operator.id}: {operator.kind}  at {operator.path}"
    if views:
        yield f"  for view{'s' if len(views) > 1 else ''} {', '.join(views)}"
    yield f"  keys: {keys_text(operator)}"
    for one in operator.sets:
        grouped = ", ".join(one.keys) or "none (one group, which is always in the view)"
        yield f"  grouping set {one.index}: {grouped}"
    for measure in operator.measures:
        yield from _measure(measure)
    yield from (f"  {rounding_text(rounding)}" for rounding in operator.rounded)
    yield from _state(operator.state, operator.groups)
    yield f"  output: {columns_text(operator.output) or 'no columns'}"
    yield "  per batch, on Spark and then in the operator's tasks:"
    yield from (f"    {_run_step(step)}" for step in operator.steps)
    yield f"  input ({operator.weights}):"
    for branch in operator.inputs:
        yield from _input(branch)


def keys_text(operator: ExplainedOperator) -> str:
    """Return the keys of an operator, or the text for no keys."""
    return ", ".join(map(key_text, operator.keys)) or no_keys(operator)


def key_text(key: ExplainedKey) -> str:
    """Return a key and the name of its column."""
    return with_name(key.expression, key.name)


def no_keys(operator: ExplainedOperator) -> str:
    """Return the text for an operator without keys."""
    if operator.kind == "join":
        return "none (rows match by their condition alone)"
    return f"none (one {'group per grouping set' if operator.sets else 'global group'})"


def with_name(text: str, name: str) -> str:
    """Return an expression, with its name if that differs."""
    return text if text == name else f"{text} AS {name}"


def _measure(measure: ExplainedMeasure) -> Iterator[str]:
    yield f"  measure {measure.ordinal}: {measure_text(measure)}"
    yield f"    from {readings_text(measure)}"
    if measure.filter is not None:
        yield f"    FILTER runs on Spark, row by row: {measure.filter}"


def measure_text(measure: ExplainedMeasure) -> str:
    """Return a measure with its type, its class of state and its options."""
    options = "".join(f", {o.name.lower()} {o.value}" for o in measure.options)
    call = with_name(measure.call, measure.name)
    return f"{call} -> {measure.type}, {measure.state}{options}"


def readings_text(measure: ExplainedMeasure) -> str:
    """Return the state that a measure is computed from."""
    return ", ".join(f"{r.source} ({r.role})" for r in measure.reads) or "the group itself"


def rounding_text(rounding: ExplainedRounding) -> str:
    """Return which expression is rounded, and to how many digits."""
    digits = f"{rounding.digits} digit{'' if rounding.digits == 1 else 's'}"
    return f"rounded to {digits}: {rounding.expression}"


def _state(state: ExplainedState, groups: GroupCount) -> Iterator[str]:
    if state.group_bytes:
        yield f"  groups: {groups_text(groups)}"
        yield f"  state per group: {size_text(state.group_bytes, state.varies)}"
        yield f"    {stored_extras_text(state)}"
    yield from (f"    {accumulator_text(a)}" for a in accumulators(state))
    for tree in state.trees:
        yield f"  tree {tree.ordinal}: {tree_text(tree)}"
        yield f"    {entry_text(tree)}"


def accumulators(state: ExplainedState) -> list[ExplainedAccumulator]:
    """Return the accumulators to list: counters of trees only where a measure reads them."""
    return [a for a in state.accumulators if a.measures or a.kind not in TREE_COUNTERS]


def stored_extras_text(state: ExplainedState) -> str:
    """Return what every group stores besides its accumulators."""
    entries = not all(tree.ends_alone for tree in state.trees)
    counts = "the number of entries, the number of live entries, and " if entries else ""
    trees = f"; for each tree {counts}the extremes that measures read" if state.trees else ""
    return f"its keys and their hash, its total weight, the row last emitted{trees}"


def groups_text(groups: GroupCount) -> str:
    """Return how many groups there can be."""
    if groups.bound is None:
        return f"unknown, {groups.reason}"
    at_most = "" if groups.bound == groups.least else "at most "
    return f"{at_most}{groups.bound}, {groups.reason}"


def size_text(size: int, varies: Iterable[str]) -> str:
    """Return a number of bytes, and the parts that take more."""
    listed = ", ".join(varies)
    return f"{size} bytes + the sizes of {listed}" if listed else f"{size} bytes"


def entry_text(tree: ExplainedTree) -> str:
    """Return the size of an entry of a tree."""
    if not tree.stored:
        return NOT_STORED
    if tree.ends_alone:
        return "no entries: rows are never retracted, so only the extremes are stored"
    if tree.within is not None:
        return f"a further weight in the entries of tree {tree.within}"
    return f"per entry {size_text(tree.entry_bytes, tree.varies)}"


def accumulator_text(accumulator: ExplainedAccumulator) -> str:
    """Return an accumulator, its size and the measures that read it."""
    text = f"{accumulator.name} {accumulator.what}, {bytes_text(accumulator)}"
    readers = accumulator.measures
    return f"{text}, {measures_text(readers)}" if readers else text


def bytes_text(accumulator: ExplainedAccumulator) -> str:
    """Return the size of an accumulator."""
    return "as its values need" if accumulator.bytes is None else f"{accumulator.bytes} bytes"


def tree_text(tree: ExplainedTree) -> str:
    """Return a tree and its use."""
    return f"{tree.what}, {tree.use}"


def _run_step(step: RunStep) -> str:
    return f"{step.place:<8} {step.name:<8} {step.what}"


def _input(branch: ExplainedInput) -> Iterator[str]:
    yield f"    - {origin_text(branch)}"
    for step in branch.steps:
        yield f"      {step_text(step)}"


def origin_text(branch: ExplainedInput) -> str:
    """Return the origin of an input, with its columns unless an operator provides them."""
    columns = columns_text(branch.columns) or "no columns, rows only"
    port = port_text(branch)
    if branch.kind == "table":
        what = f"rows of the static table {branch.table} ({columns}), read once"
        return port + (what if branch.static else f"changes of table {branch.table} ({columns})")
    if branch.kind == "rows":
        return f"{port}{branch.rows} rows written in the plan ({columns}), inserted once"
    once = ", which is static: in the first version only" if branch.static else ""
    return f"{port}changes of operator {branch.operator}{once}"


def port_text(branch: ExplainedInput) -> str:
    """Return the port of an input and a colon; nothing if the operator has one port."""
    return "" if branch.port is None else f"input {branch.port}: "


def step_text(step: ExplainedStep) -> str:
    """Return a step, with the types of its output columns."""
    if step.kind == "filter":
        return f"filter {step.expressions[0]}"
    if step.kind == "unnest":
        return f"a row per element of {step.expressions[0]} {step.columns[-1].type}"
    columns = zip(step.expressions, step.columns, strict=True)
    return "project " + ", ".join(f"{with_name(e, c.name)} {c.type}" for e, c in columns)


def columns_text(columns: Iterable[ExplainedColumn]) -> str:
    """Return columns with their types."""
    return ", ".join(f"{c.name} {c.type}" for c in columns)
