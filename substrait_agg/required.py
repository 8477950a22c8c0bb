"""Unwrap optional values that must exist."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def require(value: T | None) -> T:
    """Return a value that must not be None.

    Raises:
        ValueError: it is None, which is a bug of the caller.
    """
    if value is None:
        raise ValueError("a value that must exist is missing")
    return value
