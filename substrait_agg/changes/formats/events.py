"""Convert weighted changes to change events.

Weighted changes are retractions and insertions of rows. Consumers of change events expect an update
as one event with both rows. `paired` matches the retraction and the insertion of one group in one
version by the key of the group, provided the view shows the whole key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.changes.formats.storage_types import shown
from substrait_agg.changes.formats.text import as_json, json_objects
from substrait_agg.commit.documents.change_metadata import origin_of

Table = Any
"""A `pyarrow.Table`.

For changes as returned by `View.changes`: the last columns are version and weight.
"""

NOTHING = -1


@dataclass(frozen=True, slots=True)
class Events:
    """Events in order of version; within a version deletes, then updates, then creates.

    Attributes:
        before: index of the retracted row in the changes, or `NOTHING`; int64 per event.
        after: index of the inserted row in the changes, or `NOTHING`; int64 per event.
        version: int64 per event.
    """

    before: Any
    after: Any
    version: Any

    def __len__(self) -> int:
        return len(self.version)

    @property
    def updates(self) -> Any:
        """Return which events have both rows; bool per event."""
        return (self.before != NOTHING) & (self.after != NOTHING)


def paired(changes: Table) -> Events:
    """Return the events of some changes; a row of weight 3 gives three events."""
    version, weight = (changes.column(i).to_numpy() for i in (-2, -1))
    gone, come = np.flatnonzero(weight < 0), np.flatnonzero(weight > 0)
    match = _matches(changes, gone, come)
    gone, match = (np.repeat(a, -weight[gone]) for a in (gone, match))
    updated = match != NOTHING
    taken = np.zeros(len(weight), np.bool_)
    taken[match[updated]] = True
    created = come[~taken[come]]
    created = np.repeat(created, weight[created])
    before = np.concatenate([gone, np.full(len(created), NOTHING)])
    after = np.concatenate([match, created])
    at = version[np.where(before == NOTHING, after, before)]
    rank = (after != NOTHING).astype(np.int8) + (before == NOTHING)
    order = np.lexsort([rank, at])
    return Events(before[order], after[order], at[order])


def _matches(changes: Table, gone: Any, come: Any) -> Any:
    """Return, per retraction, the insertion of the same group in the same version, or `NOTHING`."""
    keys = origin_of(changes).keys
    if keys is None or not len(gone) or not len(come):
        return np.full(len(gone), NOTHING)
    texts = _key_texts(changes, keys)
    index = pc.index_in(texts.take(pa.array(gone)), value_set=texts.take(pa.array(come)))
    position = pc.fill_null(index, NOTHING).to_numpy().astype(np.int64)
    return np.where(position == NOTHING, NOTHING, come[position])


def _key_texts(changes: Table, keys: tuple[int, ...]) -> Any:
    """Return a text per row that is equal for equal version and key: the JSON of both."""
    chosen = changes.select([*keys, changes.num_columns - 2])
    columns = [
        as_json(shown(column, field))
        for column, field in zip(chosen.columns, chosen.schema, strict=True)
    ]
    return json_objects(tuple(str(i) for i in range(len(columns))), tuple(columns), len(changes))


def by_version(changes: Table) -> Iterator[Table]:
    """Yield the changes of each version; rows of different versions are never paired."""
    version = changes.column(changes.num_columns - 2).to_numpy()
    starts = np.flatnonzero(np.diff(version, prepend=-1))
    for start, end in pairwise((*starts, len(version))):
        yield changes.slice(start, end - start)


def milliseconds(at: str) -> int | None:
    """Return an ISO 8601 time as milliseconds since 1970; None for an empty text.

    >>> milliseconds("1970-01-01T00:00:01+00:00")
    1000
    """
    return round(datetime.fromisoformat(at).timestamp() * 1000) if at else None
