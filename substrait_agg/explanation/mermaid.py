"""Write the explanation as a Mermaid flowchart: sources, Spark steps, operators, state and view.

Every line has one of a few forms. Labels are quoted, and only letters, digits and some punctuation
appear literally in them. All other characters are written as entities, so that no name of a plan is
Mermaid syntax. Node ids consist of numbers, never of names.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from substrait_agg.explanation.text import (
    accumulator_text,
    accumulators,
    columns_text,
    entry_text,
    groups_text,
    keys_text,
    measure_text,
    readings_text,
    rounding_text,
    size_text,
    step_text,
    stored_extras_text,
    tree_text,
)
from substrait_agg.explanation.tree import (
    ExplainedInput,
    ExplainedOperator,
    ExplainedPlan,
    ExplainedState,
    ExplainedView,
)

HEAD = '%%{init: {"flowchart": {"wrappingWidth": 480}}}%%'
"""Without this setting Mermaid wraps the wrapped lines again."""

WIDTH = 56
"""Characters per line of a label."""

MOST_LETTERS = 45_000
"""Limit of the flowchart in characters. Mermaid's default ``maxTextSize`` is 50000."""

LABEL_LENGTHS = (MOST_LETTERS, 1200, 400, 120, 60)
"""Maximum label lengths. The first that keeps the flowchart below `MOST_LETTERS` is used, or the
last."""

PLAIN = frozenset(" .,()=+/-_?!")
"""Characters besides letters and digits that appear literally in a label. A colon is not among
them: a line with ``style`` and a colon before an entity loses its last semicolon."""

MARKDOWN = re.compile(r"^([-+=])|^\d+([.)])|(?<![^\W_])(_)|(_)(?![^\W_])")
"""Characters of `PLAIN` that are Markdown syntax at their position."""

STYLES = (
    "classDef source fill:#eef1f5,stroke:#566072,color:#1a202c",
    "classDef spark fill:#e9f1fc,stroke:#1c5aa8,color:#1a202c",
    "classDef operator fill:#ffffff,stroke:#5b4bc4,color:#1a202c",
    "classDef state fill:#fff4e0,stroke:#8a5200,color:#1a202c",
    "classDef view fill:#e4f5ea,stroke:#12683a,color:#1a202c",
)

SHAPES = {"box": ('["', '"]'), "store": ('[("', '")]'), "hexagon": ('{{"', '"}}')}


@dataclass(frozen=True, slots=True)
class _Drawing:
    """Writes lines with labels of at most `longest` characters."""

    longest: int

    def node(self, name: str, lines: Iterable[str], kind: str, shape: str = "box") -> str:
        """Return the line of a node with a label in a shape."""
        left, right = SHAPES[shape]
        return f"  {name}{left}{self.label(lines)}{right}:::{kind}"

    def label(self, lines: Iterable[str]) -> str:
        """Return lines as one label, wrapped and escaped."""
        text = "\n".join(lines)
        if len(text) > self.longest:
            text = text[: self.longest].rstrip() + "..."
        wrapped = [
            w
            for line in text.split("\n")
            for w in textwrap.wrap(line, WIDTH, break_on_hyphens=False) or [""]
        ]
        return "<br/>".join(map(escape, wrapped))


def plan_mermaid(plan: ExplainedPlan) -> str:
    """Write the explanation as a Mermaid flowchart that ends with a line break.

    Labels are cut if the flowchart exceeds Mermaid's size limit. With some hundred operators or
    trees it still exceeds this limit and that of 500 edges. Such a flowchart needs ``maxTextSize``
    and ``maxEdges`` in the configuration of the page.
    """
    drawn = ""
    for longest in LABEL_LENGTHS:
        drawn = "\n".join(_lines(plan, _Drawing(longest))) + "\n"
        if len(drawn) <= MOST_LETTERS:
            break
    return drawn


def escape(text: str) -> str:
    """Escape a line inside a quoted label.

    Mermaid reads labels as Markdown, so marks of emphasis or of a list become entities too.
    """
    marks = {match.start(match.lastindex or 0) for match in MARKDOWN.finditer(text)}
    return "".join(
        c if (c.isalnum() or c in PLAIN) and i not in marks else f"#{ord(c)};"
        for i, c in enumerate(text)
    )


def _lines(plan: ExplainedPlan, drawing: _Drawing) -> Iterator[str]:
    yield HEAD
    yield "flowchart TD"
    yield from (f"  {style}" for style in STYLES)
    for operator in plan.operators:
        yield from _operator(operator, drawing)
    for number, view in enumerate(plan.views):
        name = f"view{number}" if len(plan.views) > 1 else "view"
        yield drawing.node(name, _view(plan, view), "view")
        yield f"  op{view.operator}_group --> {name}"


def _operator(operator: ExplainedOperator, drawing: _Drawing) -> Iterator[str]:
    me = f"op{operator.id}"
    for place, branch in enumerate(operator.inputs):
        yield from _branch(me, place, branch, drawing)
    yield drawing.node(f"{me}_exchange", _on_spark(operator), "spark", "hexagon")
    yield f'  subgraph {me}["{drawing.label([f"operator {operator.id}, {operator.kind}"])}"]'
    yield drawing.node(f"{me}_group", _group(operator), "operator")
    if operator.state.group_bytes:
        yield drawing.node(f"{me}_state", _state(operator.state), "state", "store")
        yield f"  {me}_group -.- {me}_state"
    for tree in operator.state.trees:
        lines = (f"tree {tree.ordinal}", tree_text(tree), entry_text(tree))
        yield drawing.node(f"{me}_tree{tree.ordinal}", lines, "state", "store")
        yield f"  {me}_group -.- {me}_tree{tree.ordinal}"
    yield "  end"
    yield f"  {me}_exchange --> {me}_group"


def _branch(me: str, place: int, branch: ExplainedInput, drawing: _Drawing) -> Iterator[str]:
    name = f"{me}_in{place}"
    last = name
    if branch.operator is not None:
        last = f"op{branch.operator}_group"
    else:
        yield drawing.node(name, _origin(branch), "source", "store")
    arrow = '-->|"changes"|'
    for i, step in enumerate(branch.steps):
        yield drawing.node(f"{name}_step{i}", [step_text(step)], "spark")
        yield f"  {last} {arrow} {name}_step{i}"
        last, arrow = f"{name}_step{i}", "-->"
    if branch.port is not None:
        arrow = f'-->|"input {branch.port}"|'
    yield f"  {last} {arrow} {me}_exchange"


def _origin(branch: ExplainedInput) -> tuple[str, ...]:
    columns = columns_text(branch.columns) or "no columns, rows only"
    if branch.kind == "table":
        return f"{'static ' if branch.static else ''}table {branch.table}", columns
    return f"{branch.rows} rows written in the plan", columns


def _on_spark(operator: ExplainedOperator) -> Iterator[str]:
    """Yield the Spark steps on the rows of all inputs, besides scan, filter and project."""
    yield operator.weights
    for step in operator.steps:
        if step.place == "spark" and step.name != "scan":
            yield f"{step.name} {step.what}"


def _group(operator: ExplainedOperator) -> Iterator[str]:
    yield f"keys {keys_text(operator)}"
    for one in operator.sets:
        yield f"grouping set {one.index} {', '.join(one.keys) or 'none'}"
    for measure in operator.measures:
        yield f"{measure.ordinal} {measure_text(measure)}"
        yield f"from {readings_text(measure)}"
        if measure.filter is not None:
            yield f"FILTER {measure.filter}"
    yield from map(rounding_text, operator.rounded)
    if operator.state.group_bytes:
        yield f"groups {groups_text(operator.groups)}"
    yield f"output {columns_text(operator.output) or 'no columns'}"
    yield from (f"{s.name} {s.what}" for s in operator.steps if s.name in ("guard", "emit"))


def _state(state: ExplainedState) -> Iterator[str]:
    yield f"state per group {size_text(state.group_bytes, state.varies)}"
    yield stored_extras_text(state)
    yield from map(accumulator_text, accumulators(state))


def _view(plan: ExplainedPlan, view: ExplainedView) -> Iterator[str]:
    yield f"view {view.name}" if view.name else "view"
    yield columns_text(view.columns)
    if view.order:
        yield f"order the view by {', '.join(key.name for key in view.order)}"
    if plan.assumed:
        yield f"assumed {plan.assumed}"
    yield from (f"source {changes}" for changes in plan.connected)
