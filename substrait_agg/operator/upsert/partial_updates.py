"""Partial updates: values that a row omits because they did not change.

An omitted value is that of the previous row of the same key.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.errors import RunFailed
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.operator.common.spec import UpsertSpec
from substrait_agg.state.keys.rows import Indices, Mask, as_mask, take, whole

Int64s = npt.NDArray[np.int64]


def fill_unchanged(
    spec: UpsertSpec,
    slice_: pa.Table,
    by_age: Indices,
    ends: Indices,
    there: Mask,
    stored: list[pa.Array],
) -> list[pa.Array]:
    """Return the values of the newest row of each key.

    Omitted values are looked up in the previous rows of the slice, then in the state.

    Args:
        spec: defines which values can be omitted.
        slice_: the rows.
        by_age: their order by key, then by age.
        ends: position in that order of the newest row of each key.
        there: mask of the keys with a row in the state.
        stored: values of these rows.

    Raises:
        RunFailed: VALUE_UNAVAILABLE if no previous row has the value.
    """
    rows = by_age[ends]
    columns = [whole(slice_, f"x{i}") for i in range(len(spec.values))]
    values = [
        column.cast(type_) for column, type_ in zip(take(columns, rows), spec.values, strict=True)
    ]
    deleted = slice_.column(WEIGHT).to_numpy()[by_age] < 0
    for place, name in zip(spec.partial, spec.partial_columns, strict=True):
        left_out = as_mask(whole(slice_, name))[by_age]
        if not left_out[ends].any():
            continue
        source = _telling(left_out, ends)
        here = (source >= 0) & ~deleted[source]
        held = (source < 0) & there
        lost = ~(here | held | deleted[ends])
        if lost.any():
            raise _unavailable(spec, place, int(lost.sum()))
        told = columns[place].cast(spec.values[place])
        index = np.where(here, by_age[source], len(told) + np.arange(len(ends)))
        values[place] = pa.concat_arrays([told, stored[place]]).take(pa.array(index))
    return values


def _telling(left_out: Mask, ends: Indices) -> Int64s:
    """Return the place of each key's newest row that has the value, -1 if there is none."""
    places = np.where(left_out, -1, np.arange(len(left_out)))
    newest = np.maximum.accumulate(places)[ends]
    starts = np.concatenate([[0], ends[:-1] + 1])
    return np.where(newest >= starts, newest, -1)


def _unavailable(spec: UpsertSpec, place: int, count: int) -> RunFailed:
    return RunFailed(
        "VALUE_UNAVAILABLE",
        f"{count} rows say that their {spec.labels[spec.partial.index(place)]} did not change,"
        " and no row before them told what it is",
        help="nothing of the batch was committed; let the stream begin with a snapshot,"
        " or have the database write whole rows (PostgreSQL: REPLICA IDENTITY FULL)",
    )
