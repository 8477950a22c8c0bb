"""Write the page of a run as HTML: complete without a script, which only keeps it current."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from string import Template

from substrait_agg.page.content import HISTORY, LINE_HEIGHT, SHOWN_ROWS, Json, PageState
from substrait_agg.report.html.page import content_policy, escape, page


def page_html(title: str, state: PageState) -> str:
    """Return the page.

    Args:
        title: the checkpoint.
        state: what the page shows.
    """
    data = state.data
    body = Template(resource("page.html")).substitute(
        title=escape(title),
        run=escape(data["run"]),
        tag=escape(state.tag),
        version=escape(str(data["version"])),
        problem=escape(data["problem"]),
        no_problem="" if data["problem"] else " hidden",
        facts=_facts(data["facts"]),
        tabs=_tabs(data["views"]),
        views="".join(_view(number, view) for number, view in enumerate(data["views"])),
        versions=_table("versions", data["versions"]),
        outputs=_table("outputs", data["outputs"]),
        no_outputs="" if data["outputs"]["rows"] else " hidden",
    )
    style, script = resource("page.css"), resource("page.js")
    return page(f"{title} - substrait-agg", body, script, style, reads=True)


def page_policy() -> str:
    """Return the content security policy of the page, for the header of a response."""
    policy = content_policy(resource("page.js"), resource("page.css"), reads=True)
    return f"{policy}; frame-ancestors 'none'"


@cache
def resource(name: str) -> str:
    """Return the content of a file of this package."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    return "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in facts
    )


def _tabs(views: Sequence[Json]) -> str:
    """Return the tabs of several views; without a script they are not shown, and all views are."""
    if len(views) < 2:
        return ""
    tabs = "".join(
        f'<button type="button" role="tab" id="tab{number}" aria-controls="view{number}">'
        f"{escape(view['name'])}</button>"
        for number, view in enumerate(views)
    )
    return (
        f'<div class="tools tabs" role="tablist" aria-label="Views" data-script hidden>{tabs}</div>'
    )


def _view(number: int, view: Json) -> str:
    name = f"View {view['name']}" if view["name"] else "View"
    hidden = "" if view["more"] else " hidden"
    return (
        f'<section class="card view" id="view{number}"><h2>{escape(name)}</h2>'
        f"{_table(f'rows{number}', view)}"
        f'<p class="quiet" id="more{number}"{hidden}>The first {SHOWN_ROWS} rows.</p></section>'
    )


def _table(name: str, table: Json) -> str:
    columns, lines = table["columns"], table["lines"]
    kinds = [' class="number"' if column["number"] else "" for column in columns]
    heads = "".join(
        f'<th scope="col"{kind}>{escape(column["name"])}</th>'
        for kind, column in zip(kinds, columns, strict=True)
    )
    rows = "".join(
        _row(kinds, row, lines[number] if lines else [""] * len(row))
        for number, row in enumerate(table["rows"])
    )
    return (
        f'<div class="scroll" tabindex="0"><table id="{name}"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _row(kinds: Sequence[str], row: Sequence[str], lines: Sequence[str]) -> str:
    cells = (
        f"<td{kind}>{_line(points)}<span>{escape(text)}</span></td>"
        for kind, text, points in zip(kinds, row, lines, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"


def _line(points: str) -> str:
    if not points:
        return ""
    return (
        f'<svg viewBox="0 0 {HISTORY} {LINE_HEIGHT}" aria-hidden="true"><polyline points="{points}"/>'
        "</svg>"
    )
