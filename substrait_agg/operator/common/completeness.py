"""Detection of complete groups.

A group is complete when the watermark has passed the event time in its key, so no more rows are
expected for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.flow.graph.time_steps import EventKey
from substrait_agg.state.keys.rows import Mask, as_mask

Int64s = npt.NDArray[np.int64]
DAY = 86_400_000_000


@dataclass(frozen=True, slots=True)
class KeyBound:
    """An upper bound on the event time in a key column, below which groups are complete.

    Attributes:
        key: ordinal of the key column.
        end: True if the key is a window (a struct of start and end) and the bound applies to its
            end.
        value: the bound, in microseconds since 1970, UTC. Groups whose key is below it are
            complete.
    """

    key: int
    end: bool
    value: int


def key_bounds(events: Sequence[EventKey], watermark: int | None) -> tuple[KeyBound, ...]:
    """Return the bounds below which groups are complete, by their keys that follow event time."""
    if watermark is None:
        return ()
    keys = ((event.key, event) for event in events)
    return tuple(KeyBound(k, e.end, e.limit(watermark)) for k, e in keys if k is not None)


def instants(column: pa.Array) -> tuple[Int64s, Mask]:
    """Return dates or timestamps as microseconds since 1970, and a mask of the values not null."""
    valid = as_mask(pc.is_valid(column))
    if pa.types.is_date32(column.type):
        days = pc.fill_null(column.cast(pa.int32()), 0).to_numpy(zero_copy_only=False)
        return days.astype(np.int64) * DAY, valid
    micros = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
    return pc.fill_null(micros, 0).to_numpy(zero_copy_only=False), valid


def complete(keys: Sequence[pa.Array], limits: Sequence[KeyBound], count: int) -> Mask:
    """Return a mask of the groups whose event time is below at least one bound.

    A group whose event time is null is not complete.
    """
    result = np.zeros(count, np.bool_)
    for limit in limits:
        column = keys[limit.key]
        if limit.end:
            # A null window has null parts.
            column = pc.struct_field(column, [1])
        micros, valid = instants(column)
        result |= valid & (micros < limit.value)
    return result
