"""Escape and cut texts of a plan, so that no character is executed, invisible or reordering."""

from __future__ import annotations

import re

_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufe00-\ufe0f\ufeff\ufff0-\ufffb\ufffe\uffff\U000e0000-\U000e0fff]"
)
ELIDED = "…"


def printable(text: str) -> str:
    """Return the text with control characters, line ends and invisible characters escaped as in Python."""
    return _UNSEEN.sub(_escape, text)


def cut(text: str, room: int) -> str:
    """Return the text, cut with an ellipsis if it is longer than `room` characters.

    >>> cut("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= room else text[: max(room - 1, 0)] + ELIDED


def clip(text: str, limit: int) -> str:
    """Return a text of about `limit` characters; a cut one says how many are missing."""
    if len(text) <= limit + 20:
        return text
    return f"{text[:limit]}{ELIDED} {len(text) - limit:,} more characters"


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()
