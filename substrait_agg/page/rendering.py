"""Write the page of a run as HTML: complete without a script, which only keeps it current."""

from __future__ import annotations

from functools import cache
from importlib import resources

from substrait_agg.page.content import HISTORY, LINE_HEIGHT, SHOWN_ROWS, PageState
from substrait_agg.report.html.page import content_policy, page, template


def page_html(title: str, state: PageState) -> str:
    """Return the page.

    Args:
        title: the checkpoint.
        state: what the page shows.
    """
    body = template("page/page.html.j2").render(
        title=title,
        tag=state.tag,
        data=state.data,
        shown_rows=SHOWN_ROWS,
        history=HISTORY,
        line_height=LINE_HEIGHT,
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
