"""Encode changes as events in text: Debezium envelopes, and rows as in Spark's change feeds.

Weighted changes are retractions and insertions of rows. Consumers of change events expect an update
as one event with both rows. `pair_events` matches the retraction and the insertion of one group in one
version by the key of the group, provided the view shows the whole key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.changes.formats.encode import PIECE, lines, row_objects, unique_names
from substrait_agg.changes.formats.storage_types import to_shown
from substrait_agg.changes.formats.text import as_json, join, json_objects
from substrait_agg.commit.documents.change_metadata import ChangesOrigin, origin_of

Table = Any
"""A `pyarrow.Table`."""

FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")


def debezium_lines(changes: Table) -> Iterator[str]:
    """Yield changes as Debezium change events, one JSON object per line.

    Each event has ``before``, ``after``, ``source``, ``op`` and ``ts_ms``. If the view shows the
    whole key of a group, an update of the group is one event with both rows (``op`` is ``u``).
    Otherwise it is a delete and a create. The times are commit times, so a repeated delivery writes
    the same events.
    Source: https://debezium.io/documentation/reference/stable/connectors/postgresql.html, "Change
    event values".
    """
    for part in by_version(changes):
        events, origin = pair_events(part), origin_of(part)
        version = int(events.version[0])
        at = milliseconds(origin.committed.get(version, ""))
        middle = f',"source":{_source(origin, version, at)},"op":"'
        tail = f',"ts_ms":{json.dumps(at)}}}'
        for before, after in _event_pieces(part, events):
            op = np.where(before.is_null(), "c", np.where(after.is_null(), "d", "u"))
            sides = (pc.fill_null(side, "null") for side in (before, after))
            rows = join('{"before":', next(sides), ',"after":', next(sides))
            yield lines(join(rows, middle, pa.array(op), '"', tail))


def _source(origin: ChangesOrigin, version: int, at: int | None) -> str:
    source = {
        "connector": "substrait-agg",
        "name": origin.plan[:12],
        "ts_ms": at,
        "snapshot": "false",
        "sequence": str(version),
    }
    return json.dumps(source, separators=(",", ":"))


def spark_cdc_lines(changes: Table) -> Iterator[str]:
    """Yield changes as JSON lines with the columns of Spark's change feeds.

    ``_change_type`` is ``insert``, ``delete``, ``update_preimage`` or ``update_postimage``.
    ``_commit_version`` and ``_commit_timestamp`` follow. The two rows of an update are adjacent.
    """
    for part in by_version(changes):
        events, origin = pair_events(part), origin_of(part)
        version = int(events.version[0])
        at = json.dumps(origin.committed.get(version) or None)
        names = unique_names((*FEED_COLUMNS, *part.column_names[:-2]))[len(FEED_COLUMNS) :]
        tail = f',"_commit_version":{version},"_commit_timestamp":{at}}}'
        rows, kinds = _feed_rows(events)
        for start in range(0, len(rows), PIECE):
            piece = _take(part, rows[start : start + PIECE])
            body = pc.utf8_slice_codeunits(row_objects(names, piece), 0, -1)
            kind = pa.array(kinds[start : start + PIECE])
            yield lines(join(body, f'{"," if names else ""}"_change_type":"', kind, '"', tail))


def _feed_rows(events: Events) -> tuple[Any, Any]:
    """Return the row numbers of the changes in the order of their events, and their change types."""
    sides = np.stack([events.before, events.after], axis=1).ravel()
    update = np.repeat(events.updates, 2)
    later = np.tile([False, True], len(events))
    kinds = np.where(later, "insert", "delete").astype(object)
    kinds[update & ~later] = "update_preimage"
    kinds[update & later] = "update_postimage"
    present = sides != NOTHING
    return sides[present], kinds[present]


def _event_pieces(changes: Table, events: Events) -> Iterator[tuple[Any, Any]]:
    """Yield the rows before and after as JSON, null where absent, at most `PIECE` events a pair."""
    names = unique_names(changes.column_names[:-2])
    for start in range(0, len(events), PIECE):
        sides = (events.before[start : start + PIECE], events.after[start : start + PIECE])
        before, after = (
            pc.if_else(
                pa.array(side != NOTHING),
                row_objects(names, _take(changes, np.maximum(side, 0))),
                None,
            )
            for side in sides
        )
        yield before, after


def _take(table: Table, rows: Any) -> Any:
    batch = table.take(pa.array(rows)).combine_chunks()
    return pa.RecordBatch.from_arrays(
        [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in batch.columns],
        schema=batch.schema,
    )


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


def pair_events(changes: Table) -> Events:
    """Return the events of some changes; a row of weight 3 gives three events."""
    version, weight = (changes.column(i).to_numpy() for i in (-2, -1))
    retracted, inserted = np.flatnonzero(weight < 0), np.flatnonzero(weight > 0)
    match = _matches(changes, retracted, inserted)
    retracted, match = (np.repeat(a, -weight[retracted]) for a in (retracted, match))
    updated = match != NOTHING
    is_matched = np.zeros(len(weight), np.bool_)
    is_matched[match[updated]] = True
    created = inserted[~is_matched[inserted]]
    created = np.repeat(created, weight[created])
    before = np.concatenate([retracted, np.full(len(created), NOTHING)])
    after = np.concatenate([match, created])
    at = version[np.where(before == NOTHING, after, before)]
    rank = (after != NOTHING).astype(np.int8) + (before == NOTHING)
    order = np.lexsort([rank, at])
    return Events(before[order], after[order], at[order])


def _matches(changes: Table, retracted: Any, inserted: Any) -> Any:
    """Return, per retraction, the insertion of the same group in the same version, or `NOTHING`."""
    keys = origin_of(changes).keys
    if keys is None or not len(retracted) or not len(inserted):
        return np.full(len(retracted), NOTHING)
    texts = _key_texts(changes, keys)
    index = pc.index_in(texts.take(pa.array(retracted)), value_set=texts.take(pa.array(inserted)))
    position = pc.fill_null(index, NOTHING).to_numpy().astype(np.int64)
    return np.where(position == NOTHING, NOTHING, inserted[position])


def _key_texts(changes: Table, keys: tuple[int, ...]) -> Any:
    """Return a text per row that is equal for equal version and key: the JSON of both."""
    version_and_key = changes.select([*keys, changes.num_columns - 2])
    columns = [
        as_json(to_shown(column, field))
        for column, field in zip(version_and_key.columns, version_and_key.schema, strict=True)
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
