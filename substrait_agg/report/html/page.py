"""The frame of every HTML page, and the templates of pages.

A page is one file without external resources, which runs only its own script. Python prepares values; the templates
make the markup.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from substrait_agg.escape import clip, cut, printable
from substrait_agg.problem_kinds import LEVELS
from substrait_agg.report.tree.tree import count_noun

if TYPE_CHECKING:
    from jinja2 import Environment, Template

SELF = "'self'"

MAX_MESSAGE = 700
"""Longest message, help text or name of a problem that is shown, in characters."""

MAX_PATH = 360
"""Longest path that is shown, in characters; longer ones are cut in the middle."""


def page(title: str, body: str, script: str = "", style: str = "", *, reads: bool = False) -> str:
    """Return a complete HTML document that needs no other file and no network.

    Args:
        title: any text.
        body: HTML of a template; its main part has ``id="main"``. Inline styles and event
            handlers are not possible, because the page's content security policy forbids them.
        script: more JavaScript, run after ``page.js``; it must not contain ``</script``.
        style: more CSS, after ``page.css``; it must not contain ``</style``.
        reads: whether the script may read from the server of the page.
    """
    html = template("report/html/templates/page.html.j2").render(
        policy=content_policy(script, style, reads=reads),
        title=title,
        style=asset("page.css") + style,
        body=body,
        script=asset("page.js") + script,
    )
    return html + "\n"


def template(name: str) -> Template:
    """Return a template by its path in this package of Python."""
    return _environment().get_template(name)


def write(name: str, *values: object) -> str:
    """Return the HTML of a macro, such as ``tree.row`` of the template of trees."""
    source, _, macro = name.partition(".")
    html: str = getattr(_macros(source), macro)(*values)
    return html


@cache
def _macros(name: str) -> object:
    return template(f"report/html/templates/{name}.html.j2").module


@cache
def _environment() -> Environment:
    """Return the templates: all texts in them are escaped, and show what is invisible."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # noqa: PLC0415 - for pages only

    templates = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    templates.filters |= {
        "count": count_noun,
        "number": "{:,}".format,
        "cut": cut,
        "clip": lambda text: clip(text, MAX_MESSAGE),
        "cut_middle": _cut_middle,
    }
    templates.globals["levels"] = LEVELS
    return templates


def _source(name: str) -> str:
    """Return a template without the indentation and the ends of its lines, which pages do not need."""
    lines = resources.files("substrait_agg").joinpath(name).read_text(encoding="utf-8").splitlines()
    return "".join(line.strip() for line in lines)


def _cut_middle(path: str) -> str:
    if len(path) <= MAX_PATH + 20:
        return path
    half = MAX_PATH // 2
    return f"{path[:half]} … {len(path) - 2 * half:,} characters … {path[-half:]}"


def content_policy(script: str = "", style: str = "", *, reads: bool = False) -> str:
    """Return the content security policy of `page` with the same arguments."""
    code, look = _digest(asset("page.js") + script), _digest(asset("page.css") + style)
    return (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src '{look}'; script-src '{code}'{'; connect-src ' + SELF if reads else ''}"
    )


def size(text: str) -> int:
    """Return the size of a text in UTF-8, in bytes."""
    return len(text.encode())


@cache
def asset(name: str) -> str:
    """Return the content of a file of this package."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    """Return the hash that identifies an inline style or script in the content security policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"
