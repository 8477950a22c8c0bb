"""Columns of random values, made whole: texts, decimals, dates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.tpcdi.sizes import SECONDS

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Random = np.random.Generator

MISSING = 0.05
"""Share of NULL in a column that may have it."""


def words(numbers: Ints, of: Sequence[str]) -> pa.Array:
    """Return the words at these places of a list."""
    return pa.array(list(of), pa.string()).take(pa.array(numbers))


def chosen(random: Random, count: int, of: Sequence[str]) -> pa.Array:
    """Return random words of a list."""
    return words(random.integers(0, len(of), count), of)


def text(*parts: Any, between: str = " ") -> pa.Array:
    """Return texts joined from columns and constants."""
    given = [part if isinstance(part, str) else _as_text(part) for part in parts]
    return pc.binary_join_element_wise(*given, between)


def _as_text(part: Any) -> pa.Array:
    return pa.array(part).cast(pa.string())


def digits(numbers: Ints, width: int) -> pa.Array:
    """Return numbers as texts with zeros at the left."""
    return pc.utf8_lpad(_as_text(numbers), width, "0")


def where(kept: Flags, values: Any) -> pa.Array:
    """Return the values, NULL where they are not kept."""
    values = pa.array(values)
    return pc.if_else(pa.array(kept), values, pa.scalar(None, values.type))


def sparse(random: Random, values: Any, missing: float = MISSING) -> pa.Array:
    """Return the values, of which some are NULL."""
    return where(random.random(len(values)) >= missing, values)


def decimals(units: Ints, precision: int, places: int = 2) -> pa.Array:
    """Return integers as decimals, with so many of their digits after the point."""
    wide = np.empty((len(units), 2), np.int64)
    wide[:, 0] = units
    wide[:, 1] = units >> 63
    type = pa.decimal128(precision, places)
    return pa.Array.from_buffers(type, len(units), [None, pa.py_buffer(wide)])


def dates(days: Ints) -> pa.Array:
    """Return days since 1970 as dates."""
    return pa.array(days.astype(np.int32)).cast(pa.date32())


def times(seconds: Ints) -> pa.Array:
    """Return seconds since 1970 as timestamps."""
    return pa.array(seconds * 1_000_000).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))


def in_office_hours(random: Random, days: Ints) -> Ints:
    """Return a second of each day."""
    return days * SECONDS + random.integers(8 * 3600, 18 * 3600, len(days))


def few(random: Random, count: int, share: float) -> Ints:
    """Return the places of a few rows: at least one, if there are any."""
    return random.choice(count, min(count, max(1, round(count * share))), replace=False)
