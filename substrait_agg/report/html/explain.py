"""Write an explanation as one HTML page: the view, then the operators down to the sources.

All elements are limited in size by `PageLimits`.

The page has at most `MAX_PAGE` bytes for any plan. First long texts and tables are cut, then
operators are left out. Each place says how much is missing. The JSON format is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

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
    ExplainedPlan,
    ExplainedTree,
    ExplainedView,
    RunStep,
    ViewOrder,
)
from substrait_agg.report.html.page import asset, page, size, template
from substrait_agg.report.tree.tree import count_noun

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


class CellTable:
    """A table of the page; `columns` has the titles, and how the template writes the cells."""

    def __init__(self, columns: dict[str, str], rows: Iterable[Sequence[Any]]) -> None:
        self.heads, self.kinds = [*columns], [*columns.values()]
        self.rows = list(rows)

    def filled(self, rows: int) -> list[int]:
        """Return the columns that are not empty in the first rows."""
        return [at for at in range(len(self.heads)) if any(row[at] for row in self.rows[:rows])]


_COLUMN = {"column": "code", "type": "code", "nulls": "text"}


def _column(column: ExplainedColumn) -> tuple[str, str, str]:
    return column.name, column.type, "yes" if column.nullable else "no"


def schema_table(columns: Sequence[ExplainedColumn]) -> CellTable:
    """Return columns with their types."""
    return CellTable(_COLUMN, map(_column, columns))


def view_table(view: ExplainedView) -> CellTable:
    """Return the columns of a view, and where they come from."""
    pairs = zip(view.columns, view.sources, strict=True)
    return CellTable(
        {**_COLUMN, "from": "code"}, ((*_column(column), source) for column, source in pairs)
    )


def steps_table(steps: Sequence[RunStep]) -> CellTable:
    """Return steps and the place where each runs."""
    columns = dict.fromkeys(("step", "where", "what"), "text")
    return CellTable(columns, ((s.name, WHERE[s.place], s.what) for s in steps))


def measures_table(measures: Sequence[ExplainedMeasure]) -> CellTable:
    """Return the measures of an operator."""
    kinds = {"measure": "numbered", "type": "code", "state": "badge", "from": "text"}
    return CellTable(
        {**kinds, "options": "text", "filter": "code"},
        (
            (
                (m.ordinal, with_name(m.call, m.name)),
                m.type,
                m.state,
                readings_text(m),
                ", ".join(f"{o.name} {o.value}" for o in m.options),
                m.filter,
            )
            for m in measures
        ),
    )


def numbers_table(numbers: Sequence[ExplainedAccumulator]) -> CellTable:
    """Return the numbers that a group has in the state."""
    return CellTable(
        {"number": "code", "what": "text", "size": "text", "measures": "names"},
        ((a.name, a.what, bytes_text(a), [*map(str, a.measures)]) for a in numbers),
    )


def trees_table(trees: Sequence[ExplainedTree]) -> CellTable:
    """Return the trees of an operator."""
    return CellTable(
        {"tree": "code", "what": "text", "use": "text", "bytes per entry": "text"},
        ((f"tree {t.ordinal}", t.what, t.use, _entry(t)) for t in trees),
    )


def _entry(tree: ExplainedTree) -> str:
    if tree.ends_alone:
        return "only its extremes are stored"
    if tree.within is not None:
        return f"a weight in the entries of tree {tree.within}"
    return size_text(tree.entry_bytes, tree.varies) if tree.stored else NOT_STORED


def source_name(branch: ExplainedInput) -> str:
    """Return a short name of the source of an input."""
    port = port_text(branch)
    if branch.kind == "table":
        return f"{port}{'static ' if branch.static else ''}table {branch.table}"
    if branch.kind == "rows":
        return f"{port}{count_noun(branch.rows or 0, 'row')} in the plan"
    return f"{port}operator {branch.operator}"


def order_text(key: ViewOrder) -> str:
    """Return a key of the order of a view."""
    return f"{key.name} {key.direction}, nulls {key.nulls}"


_FUNCTIONS = (
    accumulators, groups_text, key_text, measures_table, no_keys, numbers_table, order_text, rounding_text,
    schema_table, size_text, source_name, steps_table, stored_extras_text, trees_table, view_table,
)  # fmt: skip
"""What the template calls."""

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
    calls = {function.__name__: function for function in _FUNCTIONS}
    source = template("report/html/templates/explain.html.j2")
    html: Any = source.make_module({**calls, "plan": plan, "limits": limits})
    head = html.header(title)
    # The path nearest to the view is the first.
    paths = [
        (operator, branch) for operator in reversed(plan.operators) for branch in operator.inputs
    ]
    cards = [html.map(paths, _OPEN_PATHS), *map(html.view, range(len(plan.views)))]
    left = room - size(head) - sum(map(size, cards))
    shown = 0
    for operator in reversed(plan.operators):
        card = html.operator(operator, len(plan.operators) < 4)
        left -= size(card)
        if left < 0:
            break
        cards.append(card)
        shown += 1
    missing = len(plan.operators) - shown
    if missing:
        cards.append(html.missing(missing))
    return html.body(head, cards), not missing
