"""Write an explanation as one HTML page: the view, then the operators down to the sources.

All elements are limited in size by `PageLimits`.


The page has at most `MAX_PAGE` bytes for any plan. First long texts and tables are cut, then
operators are left out. Each place says how much is missing. The JSON format is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from substrait_agg.explanation.text import (
    NOT_STORED,
    accumulators,
    bytes_text,
    groups_text,
    key_text,
    no_keys,
    port_text,
    readings_text,
    rounding_text,
    size_text,
    stored_extras_text,
    with_name,
)
from substrait_agg.explanation.tree import (
    ExplainedAccumulator,
    ExplainedColumn,
    ExplainedInput,
    ExplainedMeasure,
    ExplainedOperator,
    ExplainedPlan,
    ExplainedStep,
    ExplainedTree,
    ExplainedView,
    RunStep,
)
from substrait_agg.report.html.page import asset, escape, page, size
from substrait_agg.report.tree.tree import count_noun

_Item = TypeVar("_Item")
Row = tuple[str, ...]

WHERE = {
    "spark": "Spark",
    "operator": "task of the operator",
    "driver": "driver",
    "reader": "reader of the view",
}


@dataclass(frozen=True, slots=True)
class PageLimits:
    """The limits of the page: rows per table or list, characters per text."""

    rows: int
    letters: int

    def text(self, text: str) -> str:
        """Return a text, cut and escaped."""
        cut = text if len(text) <= self.letters else text[: self.letters] + "…"
        return escape(cut)

    def code(self, text: str) -> str:
        """Return a text of the plan as code, cut and escaped."""
        return f"<code>{self.text(text)}</code>" if text else ""

    def some(self, items: Sequence[_Item]) -> Sequence[_Item]:
        """Return the items that are shown."""
        return items[: self.rows]

    def more(self, items: Sequence[object]) -> str:
        """Return a note that says how many items are left out; empty if none."""
        left = len(items) - self.rows
        return f'<p class="quiet">… and {left:,} more</p>' if left > 0 else ""

    def join(self, items: Sequence[str]) -> str:
        """Return names separated by commas, cut after the limit."""
        left = len(items) - self.rows
        shown = ", ".join(self.code(i) for i in self.some(items))
        return f"{shown}, … and {left:,} more" if left > 0 else shown

    def table(
        self,
        heads: Row,
        items: Sequence[_Item],
        row: Callable[[_Item], Iterable[str]],
        *,
        stacked: bool = True,
    ) -> str:
        """Return a table without its empty columns.

        Args:
            heads: titles of the columns.
            items: one per row.
            row: returns the cells of an item as HTML.
            stacked: whether rows become blocks on a narrow screen.
        """
        cells = [tuple(row(item)) for item in self.some(items)]
        columns = [i for i in range(len(heads)) if any(c[i] for c in cells)]
        head = "".join(f"<th>{heads[i]}</th>" for i in columns)
        body = "".join(
            f"<tr>{''.join(_cell(heads[i] if i else '', c[i]) for i in columns)}</tr>"
            for c in cells
        )
        css = ' class="stack"' if stacked else ""
        return (
            f"<table{css}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"{self.more(items)}"
        )


def _cell(label: str, content: str) -> str:
    return f'<td data-label="{label}">{content}</td>' if label else f"<td>{content}</td>"


def section(summary: str, body: str, *, opened: bool = False) -> str:
    """Return a collapsible section."""
    return f"<details{' open' if opened else ''}><summary>{summary}</summary>{body}</details>"


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Return terms and their values as an HTML list, without those that have no value."""
    items = "".join(f"<dt>{term}</dt><dd>{said}</dd>" for term, said in pairs if said)
    return f'<dl class="facts">{items}</dl>'


def schema(columns: Sequence[ExplainedColumn], limits: PageLimits) -> str:
    """Return a table of columns with their types."""
    if not columns:
        return '<p class="quiet">no columns, rows only</p>'
    heads = ("column", "type", "nulls")
    return limits.table(
        heads,
        columns,
        lambda c: cells(c, limits),
        stacked=False,
    )


def cells(column: ExplainedColumn, limits: PageLimits) -> Row:
    """Return the cells of a column: name, type, whether it is nullable."""
    return limits.code(column.name), limits.code(column.type), "yes" if column.nullable else "no"


def run_steps(steps: Sequence[RunStep], limits: PageLimits) -> str:
    """Return a table of steps and the place where each runs."""
    return limits.table(
        ("step", "where", "what"),
        steps,
        lambda s: (escape(s.name), WHERE[s.place], limits.text(s.what)),
    )


def source_name(branch: ExplainedInput) -> str:
    """Return a short name of the source of an input."""
    port = port_text(branch)
    if branch.kind == "table":
        return f"{port}{'static ' if branch.static else ''}table {branch.table}"
    if branch.kind == "rows":
        return f"{port}{count_noun(branch.rows or 0, 'row')} in the plan"
    return f"{port}operator {branch.operator}"


def source(branch: ExplainedInput, limits: PageLimits) -> str:
    """Return an input with its steps, and the schema after each."""
    return (
        f'<div class="origin"><p><b>{limits.text(source_name(branch))}</b></p>'
        + section(count_noun(len(branch.columns), "column"), schema(branch.columns, limits))
        + f'<ol class="steps">{"".join(_steps(branch.steps, limits))}</ol>'
        + limits.more(branch.steps)
        + "</div>"
    )


def _steps(steps: Sequence[ExplainedStep], limits: PageLimits) -> Iterator[str]:
    for step in limits.some(steps):
        after = section(
            f"{count_noun(len(step.columns), 'column')} after it", schema(step.columns, limits)
        )
        if step.kind == "filter":
            said = limits.code(step.expressions[0])
        else:
            said = limits.join(step.expressions)
        yield f'<li><span class="chip spark">{step.kind}</span> {said}{after}</li>'


MAX_PAGE = 300_000
"""Upper bound of the size of a page, in bytes."""

_ROOM = 290_000
_FRAME = 4_000

_LIMITS = (
    PageLimits(400, 4_000),
    PageLimits(60, 600),
    PageLimits(20, 200),
    PageLimits(8, 100),
    PageLimits(3, 60),
)
"""Limits to try in order: the first with which all operators fit.

With the last limits, as many operators are shown as fit.
"""

_OPEN_PATHS = 12
"""Paths of the graph that are visible before it is expanded."""

_LEGEND = """<p class="key"><span><span class="chip source">source</span> rows come from here</span>
<span><span class="chip spark">step</span> runs on Spark, on the changes of a batch</span>
<span><span class="chip operator">operator</span> keeps state</span>
<span><span class="chip view">view</span> what is asked for</span></p>"""

_ARROW = '<span class="arrow" aria-label="to">→</span>'


def plan_html(plan: ExplainedPlan, name: str = "") -> str:
    """Return the explanation as a self-contained HTML document."""
    style = asset("explain.css")
    title = f"How {name or 'the plan'} runs" if len(name) <= 200 else "How the plan runs"
    room = _ROOM - _FRAME - size(page(title, "", style=style))
    body = ""
    for limits in _LIMITS:
        body, whole = _body(plan, title, limits, room)
        if whole:
            break
    return page(title, body, style=style)


def _body(plan: ExplainedPlan, title: str, limits: PageLimits, room: int) -> tuple[str, bool]:
    """Return the body of the page, and whether it has all operators."""
    parts = [_header(plan, title), '<main id="main" tabindex="-1">']
    parts += [
        _map(plan, limits),
        *(_view(plan, number, limits) for number in range(len(plan.views))),
    ]
    left = room - sum(map(size, parts))
    shown = 0
    for operator in reversed(plan.operators):
        card = _operator(operator, limits, opened=len(plan.operators) < 4)
        left -= size(card)
        if left < 0:
            break
        parts.append(card)
        shown += 1
    missing = len(plan.operators) - shown
    if missing:
        parts.append(f'<p class="card">… and {count_noun(missing, "more operator")}</p>')
    parts.append("</main>")
    return "".join(parts), not missing


def _header(plan: ExplainedPlan, title: str) -> str:
    return (
        f"<header><h1>{escape(title)}</h1>"
        f"<p>{count_noun(len(plan.operators), 'operator')}, plan <code>{escape(plan.plan[:12])}</code></p></header>"
    )


def _map(plan: ExplainedPlan, limits: PageLimits) -> str:
    """Return the graph: one path per input, from its source to its operator, nearest to the view first."""
    paths = [(o, i) for o in reversed(plan.operators) for i in o.inputs]
    rows = [f"<li>{_path(operator, i, limits)}</li>" for operator, i in limits.some(paths)]
    view = "".join(
        f'<li><div class="path">{_chip(view.operator)}{_ARROW}<a class="chip view" href="#{_anchor(plan, number)}">'
        f"{limits.text(_title(view))}</a></div></li>"
        for number, view in enumerate(plan.views)
    )
    near, far = rows[:_OPEN_PATHS], rows[_OPEN_PATHS:]
    more = f'<ul class="flow">{"".join(far)}</ul>{limits.more(paths)}'
    folded = (
        section(f"{count_noun(len(paths) - len(near), 'more path')}", more)
        if len(paths) > len(near)
        else ""
    )
    return (
        f'<section class="card op"><h2>From the sources to the view</h2>'
        f'<ul class="flow">{view}{"".join(near)}</ul>{folded}{_LEGEND}</section>'
    )


def _path(operator: ExplainedOperator, branch: ExplainedInput, limits: PageLimits) -> str:
    chips = [_source_chip(branch, limits)]
    chips += [f'<span class="chip spark">{s.kind}</span>' for s in limits.some(branch.steps)]
    left = len(branch.steps) - limits.rows
    chips += [f'<span class="quiet">{left:,} more steps</span>'] if left > 0 else []
    for step in operator.steps:
        if step.place == "spark" and step.name not in ("scan", "union"):
            chips.append(f'<span class="chip spark">{escape(step.name)}</span>')
    return f'<div class="path">{_ARROW.join([*chips, _chip(operator.id)])}</div>'


def _chip(operator: int) -> str:
    return f'<a class="chip operator" href="#op{operator}">operator {operator}</a>'


def _source_chip(branch: ExplainedInput, limits: PageLimits) -> str:
    if branch.operator is not None:
        return _chip(branch.operator)
    return f'<span class="chip source">{limits.text(source_name(branch))}</span>'


def _title(view: ExplainedView) -> str:
    return f"view {view.name}" if view.name else "view"


def _anchor(plan: ExplainedPlan, number: int) -> str:
    """Return the fragment of the page that describes a view."""
    return f"view{number}" if len(plan.views) > 1 else "view"


def _view(plan: ExplainedPlan, number: int, limits: PageLimits) -> str:
    view = plan.views[number]
    body = _view_columns(view, limits)
    last = number == len(plan.views) - 1
    after = section("After the operators", run_steps(plan.after, limits)) if last else ""
    assumed = f"<p>Assumed: {escape(plan.assumed)}.</p>" if plan.assumed else ""
    assumed += "".join(f"<p>Source {escape(changes)}.</p>" for changes in plan.connected)
    title = limits.text(f"V{_title(view)[1:]}")
    return (
        f'<section class="card op" id="{_anchor(plan, number)}"><h2>{title}</h2>'
        f"<p>of {_chip(view.operator)}</p>{assumed}{_order(view, limits)}{body}{after}</section>"
    )


def _view_columns(view: ExplainedView, limits: PageLimits) -> str:
    columns = tuple(zip(view.columns, view.sources, strict=True))
    return limits.table(
        ("column", "type", "nulls", "from"),
        columns,
        lambda pair: (*cells(pair[0], limits), limits.code(pair[1])),
    )


def _order(view: ExplainedView, limits: PageLimits) -> str:
    keys = [f"{key.name} {key.direction}, nulls {key.nulls}" for key in view.order]
    return f"<p>in the order of {limits.join(keys)}</p>" if keys else ""


def _operator(operator: ExplainedOperator, limits: PageLimits, *, opened: bool) -> str:
    output = f"Output: {count_noun(len(operator.output), 'column')}"
    parts = (
        f'<section class="card op" id="op{operator.id}">',
        f"<h2>Operator {operator.id}: {operator.kind}</h2>",
        f'<p class="pathname">{limits.code(operator.path)}</p>',
        facts(_facts(operator, limits)),
        _measures(operator, limits),
        section(_state_title(operator), _state(operator, limits), opened=opened),
        section(output, schema(operator.output, limits)),
        section("In every batch", run_steps(operator.steps, limits)),
        f"<h3>Input: {escape(operator.weights)}</h3>",
        *(source(branch, limits) for branch in limits.some(operator.inputs)),
        limits.more(operator.inputs),
        "</section>",
    )
    return "".join(parts)


def _facts(operator: ExplainedOperator, limits: PageLimits) -> Iterator[tuple[str, str]]:
    yield "keys", limits.join(tuple(map(key_text, operator.keys))) or no_keys(operator)
    sets = "".join(
        f"<li>{limits.join(s.keys) or 'none (one group, which is always in the view)'}</li>"
        for s in limits.some(operator.sets)
    )
    yield (
        "grouping sets",
        f'<ul class="plain">{sets}</ul>{limits.more(operator.sets)}' if sets else "",
    )
    state = operator.state
    if state.group_bytes:
        yield "groups", limits.text(groups_text(operator.groups))
        yield "bytes per group", limits.text(size_text(state.group_bytes, state.varies))
    if operator.row_multiple > 1:
        yield "input rows", f"times {operator.row_multiple}, once per grouping set or window"
    yield "rounded", limits.join(tuple(map(rounding_text, operator.rounded)))
    written = [i.rows for i in operator.inputs if i.rows is not None]
    yield "rows in the plan", f"{sum(written):,}" if written else ""
    if operator.early_retraction != "carry":
        yield "early retractions", escape(operator.early_retraction)


def _measures(operator: ExplainedOperator, limits: PageLimits) -> str:
    if not operator.measures:
        return ""
    heads = ("measure", "type", "state", "from", "options", "filter")
    return limits.table(heads, operator.measures, lambda m: _measure(m, limits))


def _measure(measure: ExplainedMeasure, limits: PageLimits) -> Iterator[str]:
    yield f"{measure.ordinal}. {limits.code(with_name(measure.call, measure.name))}"
    yield limits.code(measure.type)
    yield f'<span class="badge info">{escape(measure.state)}</span>'
    yield limits.text(readings_text(measure))
    yield limits.text(", ".join(f"{o.name} {o.value}" for o in measure.options))
    yield limits.code(measure.filter or "")


def _state_title(operator: ExplainedOperator) -> str:
    state = operator.state
    trees = count_noun(len(state.trees), "tree")
    if not state.group_bytes:
        return f"State: {trees}"
    return f"State: {count_noun(len(accumulators(state)), 'accumulator')}, {trees}"


def _state(operator: ExplainedOperator, limits: PageLimits) -> str:
    state = operator.state
    entries = accumulators(state)
    numbers = limits.table(
        ("number", "what", "size", "measures"), entries, lambda a: _accumulator(a, limits)
    )
    trees = limits.table(
        ("tree", "what", "use", "bytes per entry"), state.trees, lambda t: _tree(t, limits)
    )
    if not state.group_bytes:
        return trees
    return (
        f"<p>Of every group: {stored_extras_text(state)}{'; and these numbers' if entries else ''}.</p>"
        f"{numbers if entries else ''}{trees if state.trees else ''}"
    )


def _accumulator(accumulator: ExplainedAccumulator, limits: PageLimits) -> Iterator[str]:
    yield f"<code>{accumulator.name}</code>"
    yield limits.text(accumulator.what)
    yield bytes_text(accumulator)
    yield limits.join(tuple(map(str, accumulator.measures)))


def _tree(tree: ExplainedTree, limits: PageLimits) -> Iterator[str]:
    yield f"<code>tree {tree.ordinal}</code>"
    yield limits.text(tree.what)
    yield limits.text(tree.use)
    size = size_text(tree.entry_bytes, tree.varies) if tree.stored else NOT_STORED
    size = size if tree.within is None else f"a weight in the entries of tree {tree.within}"
    yield limits.text("only its extremes are stored" if tree.ends_alone else size)
