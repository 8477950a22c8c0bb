"""Texts of a plan made fit for a terminal: nothing in them is obeyed, hidden or turned around."""

from __future__ import annotations

import re

_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufe00-\ufe0f\ufeff\ufff0-\ufffb\ufffe\uffff\U000e0000-\U000e0fff]"
)
ELIDED = "…"


def visible(text: str) -> str:
    """The text with escapes, as Python has them, for control characters, line ends, and what shows nothing."""
    return _UNSEEN.sub(_escaped, text)


def cut(text: str, room: int) -> str:
    """The text, or where it is longer than `room` its beginning with a sign that there is more."""
    return text if len(text) <= room else text[: max(room - 1, 0)] + ELIDED


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
