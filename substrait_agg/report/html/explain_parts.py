"""Elements of the page of an explanation, all limited in size by `PageLimits`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from substrait_agg.explanation.tree import ExplainedColumn, ExplainedInput, ExplainedStep, RunStep
from substrait_agg.report.html.page import escape

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
    """The limits for what a page shows: rows per table or list, characters per text."""

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

    def joined(self, items: Sequence[str]) -> str:
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
        kept = [i for i in range(len(heads)) if any(c[i] for c in cells)]
        head = "".join(f"<th>{heads[i]}</th>" for i in kept)
        body = "".join(
            f"<tr>{''.join(_cell(heads[i] if i else '', c[i]) for i in kept)}</tr>" for c in cells
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


def counted(number: int, word: str) -> str:
    """Return a number with its noun, such as ``2 keys``.

    >>> counted(2, "key"), counted(1, "key")
    ('2 keys', '1 key')
    """
    return f"{number:,} {word}{'' if number == 1 else 's'}"


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
    if branch.kind == "table":
        return f"table {branch.table}"
    if branch.kind == "rows":
        return f"{counted(branch.rows or 0, 'row')} in the plan"
    return f"operator {branch.operator}"


def source(branch: ExplainedInput, limits: PageLimits) -> str:
    """Return an input with its steps, and the schema after each."""
    return (
        f'<div class="origin"><p><b>{limits.text(source_name(branch))}</b></p>'
        + section(counted(len(branch.columns), "column"), schema(branch.columns, limits))
        + f'<ol class="steps">{"".join(_steps(branch.steps, limits))}</ol>'
        + limits.more(branch.steps)
        + "</div>"
    )


def _steps(steps: Sequence[ExplainedStep], limits: PageLimits) -> Iterator[str]:
    for step in limits.some(steps):
        after = section(
            f"{counted(len(step.columns), 'column')} after it", schema(step.columns, limits)
        )
        if step.kind == "filter":
            said = limits.code(step.expressions[0])
        else:
            said = limits.joined(step.expressions)
        yield f'<li><span class="chip spark">{step.kind}</span> {said}{after}</li>'
