"""The shell of every HTML page that is written: one file that asks for nothing and runs nothing but its own script."""

from __future__ import annotations

import base64
import hashlib
import html
from functools import cache
from importlib import resources

from substrait_agg.report.visible import visible

_SHELL = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
{body}
<script>{script}</script>
</body>
</html>
"""


def page(title: str, body: str, script: str = "", style: str = "") -> str:
    """A whole HTML document that needs no other file and no network.

    Args:
        title: any text; it is escaped here.
        body: HTML whose texts went through `escape`; its main part has ``id="main"``. It has no inline
            styles and no handlers, for the policy of the page forbids both.
        script: more JavaScript, run after ``page.js``; it may not contain ``</script``.
        style: more CSS, after ``page.css``; it may not contain ``</style``.
    """
    style = asset("page.css") + style
    code = asset("page.js") + script
    policy = (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src '{_digest(style)}'; script-src '{_digest(code)}'"
    )
    return _SHELL.format(policy=policy, title=escape(title), style=style, body=body, script=code)


def escape(text: str) -> str:
    r"""A text of a plan for use in HTML, inside elements and quoted attributes.

    Characters that cannot be seen, or turn the text around, are written as ``\u202e``.
    """
    return html.escape(visible(text), quote=True)


def size(text: str) -> int:
    """Bytes of a text in UTF-8, which pages are written in."""
    return len(text.encode())


@cache
def asset(name: str) -> str:
    """A file of this package that goes into pages."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    """What the policy names an inline style or script by."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"
