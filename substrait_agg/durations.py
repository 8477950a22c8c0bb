"""Durations as users write them."""

from __future__ import annotations

import re

_UNITS = {"ms": 10**3, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}
_MOST = 10**6 * _UNITS["d"]
"""No run lasts so long, and instants less or plus a duration fit 64 bits."""

_DURATION = re.compile(r"([0-9]{1,12})\s*(ms|s|m|h|d)")


def microseconds(text: str) -> int | None:
    """The duration that a text such as ``500ms``, ``5s``, ``1m``, ``1h`` or ``2d`` says; None where it says none, or more than a million days."""
    found = _DURATION.fullmatch(text)
    micros = int(found[1]) * _UNITS[found[2]] if found else None
    return None if micros is None or micros > _MOST else micros
