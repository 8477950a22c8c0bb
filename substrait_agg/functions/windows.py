"""Windows over time as functions of an extension of this program: names, URN, limits, and its published file.

A window is a struct of its start (inclusive) and its end (exclusive), in the type of the time. Windows of `tumble` and
`hop` begin at offset + k * size (k * slide), counted from 1970-01-01T00:00:00 (UTC); all arithmetic is in whole microseconds.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

WINDOWS_URN = "substrait_agg:functions_windows"
"""The URN of the extension as plans are decoded, without ``extension:`` before it."""

WINDOWS_FILE = "functions_windows.yaml"

WINDOWS: dict[str, tuple[str, ...]] = {
    "tumble": ("size", "offset"),
    "tumble_start": ("size", "offset"),
    "tumble_end": ("size", "offset"),
    "hop": ("size", "slide", "offset"),
    "session": ("gap",),
}
"""Name -> what its arguments behind the time are, all of them constant durations; an offset may be left out."""

GROUPING_WINDOWS = frozenset({"hop", "session"})
"""Functions that are no values of a row alone: only a whole grouping expression of an aggregate can call them."""

MOST_WINDOWS = 10_000
"""Windows of `hop` that one row may fall in."""

MICROS_PER_DAY = 86_400_000_000
MOST_MICROS = 2**63 - 1


def windows_text() -> str:
    """The published extension file, as YAML."""
    folder = files("substrait_agg").joinpath("extensions")
    return folder.joinpath(WINDOWS_FILE).read_text(encoding="utf-8")


def duration_micros(value: tuple[int, int]) -> int:
    """Microseconds of a duration of a bound window function: a constant (days, microseconds)."""
    days, micros = value
    return days * MICROS_PER_DAY + micros


def duration_value(micros: int) -> tuple[int, int]:
    """Microseconds as such a constant; both parts have the sign of the whole."""
    days, rest = divmod(abs(micros), MICROS_PER_DAY)
    return (days, rest) if micros >= 0 else (-days, -rest)


def windows_per_row(size: int, slide: int) -> int:
    """In how many windows of `hop` a row falls at most."""
    return -(-size // slide)


def durations_of(values: tuple[Any, ...]) -> tuple[int, ...]:
    """Microseconds of the constants behind the time of a bound window function."""
    return tuple(duration_micros(value) for value in values)
