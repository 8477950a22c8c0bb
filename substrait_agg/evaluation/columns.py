"""Define rows as evaluators see them, and helpers between Arrow arrays and numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.errors import RunFailed

Numbers = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


class Rows:
    """Rows of Arrow columns, or some of them. A column is only copied when it is read."""

    def __init__(self, columns: Sequence[pa.Array], count: int) -> None:
        self._columns = columns
        self.count = count
        self._chosen: pa.Array | None = None
        self._taken: dict[int, pa.Array] = {}

    def column(self, ordinal: int) -> pa.Array:
        """Return a column."""
        if self._chosen is None:
            return self._columns[ordinal]
        if ordinal not in self._taken:
            self._taken[ordinal] = self._columns[ordinal].take(self._chosen)
        return self._taken[ordinal]

    def at(self, ordinals: pa.Array) -> Rows:
        """Return the rows with these ordinals (int64)."""
        rows = Rows(self._columns, len(ordinals))
        rows._chosen = ordinals if self._chosen is None else self._chosen.take(ordinals)
        return rows


def refuse_value(what: str, reason: str) -> RunFailed:
    """Return the error for a value that cannot be computed."""
    return RunFailed(
        "BATCH_FAILED",
        f"the batch could not be computed: {what}: {reason}",
        help="nothing of the batch was committed; correct the input or the plan and run again",
    )


def numbers(column: pa.Array) -> Numbers:
    """Return the values of a column of numbers, dates or timestamps; nulls become zero.

    Dates become int32 days, timestamps and durations int64 units.
    """
    plain = INTEGERS_OF.get(column.type.id)
    if plain is not None:
        column = column.view(plain)
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(0, column.type))
    values: Numbers = column.to_numpy(zero_copy_only=False)
    return values


INTEGERS_OF: dict[int, pa.DataType] = {
    pa.date32().id: pa.int32(),
    pa.timestamp("us").id: pa.int64(),
    pa.duration("us").id: pa.int64(),
    pa.time64("ns").id: pa.int64(),
}
"""Arrow type id -> the integers that its values are stored as."""


def valid(*columns: pa.Array) -> Mask | None:
    """Return where all columns have a value; None if they have values everywhere."""
    masks = [pc.is_valid(c).to_numpy(zero_copy_only=False) for c in columns if c.null_count]
    return reduce(np.logical_and, masks) if masks else None


def array(values: Numbers, type_: pa.DataType, where: Mask | None = None) -> pa.Array:
    """Return values as an Arrow array of `type_`, null where `where` is false.

    For dates, timestamps and durations the values are their integers.
    """
    plain = INTEGERS_OF.get(type_.id)
    built = pa.array(values, plain or type_, mask=None if where is None else ~where)
    return built if plain is None else built.view(type_)


def per_value(function: Callable[..., Numbers], type_: pa.DataType, *columns: pa.Array) -> pa.Array:
    """Apply a numpy function to columns; the result is null where any of them is null."""
    with np.errstate(all="ignore"):
        values = function(*map(numbers, columns))
    return array(values, type_, valid(*columns))


def retype(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return the same bytes as values of another type of the same width."""
    return pa.Array.from_buffers(
        type_, len(column), column.buffers(), column.null_count, column.offset
    )


def null_unless(condition: pa.Array, column: pa.Array) -> pa.Array:
    """Return the column, null where the condition is false or null."""
    return pc.if_else(condition, column, pa.scalar(None, column.type))


def scatter(part: pa.Array, ordinals: pa.Array, count: int) -> pa.Array:
    """Return `count` values: those of `part` at `ordinals`, null elsewhere."""
    places = np.zeros(count, np.int64)
    inside = np.zeros(count, np.bool_)
    at = ordinals.to_numpy()
    places[at], inside[at] = np.arange(len(at)), True
    return part.take(pa.array(places, mask=~inside))
