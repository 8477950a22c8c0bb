"""The frame of every HTML page: one file without external resources, which runs only its own script."""

from __future__ import annotations

import base64
import hashlib
import html
from functools import cache
from importlib import resources

from substrait_agg.escape import printable

SELF = "'self'"

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


def page(title: str, body: str, script: str = "", style: str = "", *, reads: bool = False) -> str:
    """Return a complete HTML document that needs no other file and no network.

    Args:
        title: any text; it is escaped here.
        body: HTML whose texts went through `escape`; its main part has ``id="main"``. Inline styles
            and event handlers are not possible, because the page's content security policy forbids
            them.
        script: more JavaScript, run after ``page.js``; it must not contain ``</script``.
        style: more CSS, after ``page.css``; it must not contain ``</style``.
        reads: whether the script may read from the server of the page.
    """
    return _SHELL.format(
        policy=content_policy(script, style, reads=reads),
        title=escape(title),
        style=asset("page.css") + style,
        body=body,
        script=asset("page.js") + script,
    )


def content_policy(script: str = "", style: str = "", *, reads: bool = False) -> str:
    """Return the content security policy of `page` with the same arguments."""
    code, look = _digest(asset("page.js") + script), _digest(asset("page.css") + style)
    return (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src '{look}'; script-src '{code}'{'; connect-src ' + SELF if reads else ''}"
    )


def escape(text: str) -> str:
    r"""Return a text escaped for HTML elements and quoted attributes.

    Invisible characters and those that change the text direction are written as ``\u202e``.

    >>> escape("a < b")
    'a &lt; b'
    """
    return html.escape(printable(text), quote=True)


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
