"""Define windows over time as functions of an extension: names, URN, limits and extension file.

A window is a struct of its start (inclusive) and its end (exclusive), in the type of the time.
Windows of `tumble` begin at offset + k * size, windows of `hop` at offset + k * slide, counted from
1970-01-01T00:00:00 (UTC). All arithmetic is in whole microseconds.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

WINDOWS_URN = "substrait_agg:functions_windows"
"""The URN of the extension in decoded plans, without ``extension:`` in front."""

WINDOWS_FILE = "functions_windows.yaml"

MOST_WINDOWS = 10_000
"""Maximum number of windows of `hop` that contain one row."""

MICROS_PER_DAY = 86_400_000_000


def windows_text() -> str:
    """Return the published extension file, as YAML."""
    folder = files("substrait_agg").joinpath("extensions")
    return folder.joinpath(WINDOWS_FILE).read_text(encoding="utf-8")


def duration_micros(value: tuple[int, int]) -> int:
    """Return the microseconds of a duration (days, microseconds) of a bound window function."""
    days, micros = value
    return days * MICROS_PER_DAY + micros


def duration_value(micros: int) -> tuple[int, int]:
    """Return a duration as a constant (days, microseconds). Both parts have its sign."""
    days, rest = divmod(abs(micros), MICROS_PER_DAY)
    return (days, rest) if micros >= 0 else (-days, -rest)


def windows_per_row(size: int, slide: int) -> int:
    """Return the maximum number of windows of `hop` that contain one row."""
    return -(-size // slide)


def durations_of(values: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the durations of a bound window function in microseconds."""
    return tuple(duration_micros(value) for value in values)
