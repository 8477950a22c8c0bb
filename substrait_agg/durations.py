"""Parse durations as users write them."""

from __future__ import annotations

import re

_UNITS = {"ms": 10**3, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}
_MOST = 10**6 * _UNITS["d"]
"""Longest duration, in microseconds: an instant plus or minus a duration must fit into 64 bits."""

_DURATION = re.compile(r"([0-9]{1,12})\s*(ms|s|m|h|d)")


def microseconds(text: str) -> int | None:
    """Return the microseconds of a duration in ``ms``, ``s``, ``m``, ``h`` or ``d``.

    Returns:
        None if the text is not a duration or exceeds a million days.

    >>> microseconds("1m")
    60000000
    >>> microseconds("1 week") is None
    True
    """
    match = _DURATION.fullmatch(text)
    micros = int(match[1]) * _UNITS[match[2]] if match else None
    return None if micros is None or micros > _MOST else micros
