"""One step of an upsert operator: the newest row of a key replaces the stored one.

A value that a row omits, because it did not change, is that of the previous row of the same key.

A row of weight 1 sets the row of its key; a row of weight -1 deletes it. The output is exact
changes, so downstream operators receive retractions of exactly the rows that were emitted. Applying
the same rows again changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.errors import RunFailed
from substrait_agg.operator.aggregate.groups import BatchGroups, collect_groups
from substrait_agg.operator.aggregate.operator import with_key_types
from substrait_agg.operator.common.emission import Emission
from substrait_agg.operator.common.names import GROUP, POSITION, WEIGHT
from substrait_agg.operator.common.protocol import (
    Layouts,
    OperatorResult,
    StatefulOperator,
    StateReader,
)
from substrait_agg.operator.upsert.spec import THERE, UpsertSpec
from substrait_agg.state.keys.keys import before, encode, sort_order
from substrait_agg.state.keys.rows import Indices, Mask, as_mask, rows_equal, take, whole
from substrait_agg.state.tree import KeyedLayout, LookupResult


@dataclass(frozen=True, slots=True)
class _RowsByKey:
    """At most one row per key.

    Attributes:
        values: columns of the row; null if there is none.
        order: ordering columns of the row; also set for keys whose row was deleted.
    """

    there: Mask
    values: list[pa.Array]
    order: list[pa.Array]


@dataclass(frozen=True, slots=True)
class UpsertOperator(StatefulOperator):
    """The operator that keeps the newest row of each key."""

    spec: UpsertSpec

    def state_schema(self, *, final: bool = True) -> Layouts:
        """Return the layout of the only tree: one row per key."""
        return {GROUP: KeyedLayout(self.spec.stored, len(self.spec.keys))}

    def receive(
        self, batch: pa.RecordBatch, *, raw: bool, emission: Emission
    ) -> tuple[pa.RecordBatch, int]:
        """Cast the keys to the types of the state; each row counts as one input row."""
        return with_key_types(batch, self.spec), batch.num_rows

    def apply(
        self, ports: Sequence[pa.Table], state: StateReader, emission: Emission
    ) -> OperatorResult:
        """Apply a slice; see `upsert_step`."""
        (rows,) = ports
        return upsert_step(self.spec, rows, state)


def upsert_step(spec: UpsertSpec, slice_: pa.Table, state: StateReader) -> OperatorResult:
    """Replace the stored row of each key of a slice by the newest one.

    Args:
        spec: the operator.
        slice_: ``hash``, ``k*``, ``x*`` (the row, then the ordering columns), ``__weight`` (1 or
            -1) and ``__at``; all rows of a key in the batch.
        state: the operator's state before this batch.
    """
    slice_ = slice_.combine_chunks()
    groups = collect_groups(spec, slice_)
    lookup = state.open_keyed(GROUP).lookup(groups.hashes, groups.keys)
    old = _look_up(spec, lookup, groups.count)
    arrived = _find_arrived(spec, slice_, groups, old)
    is_stored = np.zeros(groups.count, np.bool_)
    is_stored[lookup.positions] = True
    counts = ~(is_stored & _older(spec, arrived, old, is_stored))
    now = _merge(arrived, old, counts)
    same = old.there & now.there & rows_equal(old.values, now.values, groups.count)
    # Keep the stored values if they compare equal: a later retraction must match the emitted row
    # exactly, even inside lists.
    newest = _RowsByKey(now.there, _choose(same, old.values, now.values), now.order)
    stored = _to_store(spec, groups, newest, counts, changed=(old.there | now.there) & ~same)
    changes = _changes(spec, groups, old, now, same)
    return OperatorResult({GROUP: stored}, changes, {"touched": groups.count})


def _by_age(spec: UpsertSpec, slice_: pa.Table, groups: BatchGroups) -> Indices:
    """Return the order of the rows by group, then by ordering columns, then by arrival."""
    arrival = slice_.column(POSITION).to_numpy()
    if not spec.order:
        return np.lexsort((arrival, groups.of_row))
    arrived = np.argsort(arrival, kind="stable")
    keys = encode(_order_of(spec, slice_), spec.order).take(arrived)
    within, _ = sort_order([groups.of_row[arrived]], keys)
    return np.asarray(arrived[within])


def _order_of(spec: UpsertSpec, slice_: pa.Table) -> list[pa.Array]:
    columns = zip(spec.order_columns, spec.order, strict=True)
    return [whole(slice_, name).cast(component.type) for name, component in columns]


def _find_arrived(
    spec: UpsertSpec, slice_: pa.Table, groups: BatchGroups, old: _RowsByKey
) -> _RowsByKey:
    """Return the last row of each group in the slice; the values of a deletion are ignored."""
    order = _by_age(spec, slice_, groups)
    ends = np.flatnonzero(np.diff(groups.of_row[order], append=-1))
    rows = order[ends]
    exists = slice_.column(WEIGHT).to_numpy()[rows] > 0
    values = fill_unchanged(spec, slice_, order, ends, old.there, old.values)
    return _RowsByKey(
        exists, [_where(exists, v) for v in values], take(_order_of(spec, slice_), rows)
    )


def _where(mask: Mask, column: pa.Array) -> pa.Array:
    if mask.all():
        return column
    return column.take(pa.array(np.arange(len(mask)), mask=~mask))


def _look_up(spec: UpsertSpec, lookup: LookupResult, count: int) -> _RowsByKey:
    """Return the stored rows of `count` keys."""
    at = np.full(count, -1, np.int64)
    at[lookup.positions] = np.arange(len(lookup.positions))
    index = pa.array(at, mask=at < 0)
    rows = lookup.rows.combine_chunks()
    exists = np.zeros(count, np.bool_)
    if len(lookup.positions):
        exists[lookup.positions] = as_mask(whole(rows, THERE))
    return _RowsByKey(
        exists,
        [whole(rows, f"v{i}").take(index) for i in range(len(spec.values))],
        [whole(rows, f"o{i}").take(index) for i in range(len(spec.order))],
    )


def _older(spec: UpsertSpec, arrived: _RowsByKey, old: _RowsByKey, is_stored: Mask) -> Mask:
    """Return a mask of the new rows that are older than the stored row; equal age is not older."""
    result = np.zeros(len(is_stored), np.bool_)
    at = np.flatnonzero(is_stored)
    if not spec.order or not len(at):
        return result
    left, right = (encode(take(rows.order, at), spec.order) for rows in (arrived, old))
    every = np.arange(len(at))
    result[at] = before(left, every, right, every)
    return result


def _merge(arrived: _RowsByKey, old: _RowsByKey, counts: Mask) -> _RowsByKey:
    return _RowsByKey(
        np.where(counts, arrived.there, old.there),
        _choose(counts, arrived.values, old.values),
        _choose(counts, arrived.order, old.order),
    )


def _choose(mask: Mask, these: Sequence[pa.Array], others: Sequence[pa.Array]) -> list[pa.Array]:
    """Select row by row from `these` where the mask is set, else from `others`."""
    if mask.all():
        return list(these)
    index = pa.array(np.where(mask, 0, len(mask)) + np.arange(len(mask)))
    return [pa.concat_arrays([a, b]).take(index) for a, b in zip(these, others, strict=True)]


def _to_store(
    spec: UpsertSpec, groups: BatchGroups, rows: _RowsByKey, counts: Mask, *, changed: Mask
) -> pa.Table:
    """Return the changed rows of the tree.

    A key without a row is dead, unless rows have an order. Then its ordering columns stay stored,
    because they identify later rows as outdated.
    """
    ordered = bool(spec.order)
    dead = ~rows.there & (not ordered)
    columns = [
        pa.array(groups.hashes), pa.array(dead), *groups.keys, pa.array(rows.there), *rows.values, *rows.order,
    ]  # fmt: skip
    table = pa.Table.from_arrays(columns, schema=spec.stored)
    written = changed | (counts & ordered)
    return table if written.all() else table.filter(pa.array(written))


def _changes(
    spec: UpsertSpec, groups: BatchGroups, old: _RowsByKey, now: _RowsByKey, same: Mask
) -> pa.Table:
    retracted, inserted = np.flatnonzero(old.there & ~same), np.flatnonzero(now.there & ~same)
    schema = spec.output.append(pa.field(WEIGHT, pa.int64()))
    parts = []
    for rows, at, weight in ((old, retracted, -1), (now, inserted, 1)):
        weights: npt.NDArray[np.int64] = np.full(len(at), weight, np.int64)
        columns = [*take(groups.keys, at), *take(rows.values, at), pa.array(weights)]
        parts.append(pa.Table.from_arrays(columns, schema=schema))
    return pa.concat_tables(parts)


Int64s = npt.NDArray[np.int64]


def fill_unchanged(
    spec: UpsertSpec,
    slice_: pa.Table,
    by_age: Indices,
    ends: Indices,
    exists: Mask,
    stored: list[pa.Array],
) -> list[pa.Array]:
    """Return the values of the newest row of each key.

    Omitted values are looked up in the previous rows of the slice, then in the state.

    Args:
        spec: defines which values can be omitted.
        slice_: the rows.
        by_age: their order by key, then by age.
        ends: position in that order of the newest row of each key.
        exists: mask of the keys with a row in the state.
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
        source = _find_newest(left_out, ends)
        here = (source >= 0) & ~deleted[source]
        unknown = (source < 0) & exists
        lost = ~(here | unknown | deleted[ends])
        if lost.any():
            raise _unavailable(spec, place, int(lost.sum()))
        new = columns[place].cast(spec.values[place])
        index = np.where(here, by_age[source], len(new) + np.arange(len(ends)))
        values[place] = pa.concat_arrays([new, stored[place]]).take(pa.array(index))
    return values


def _find_newest(left_out: Mask, ends: Indices) -> Int64s:
    """Return the place of each key's newest row that has the value, -1 if there is none."""
    places = np.where(left_out, -1, np.arange(len(left_out)))
    newest = np.maximum.accumulate(places)[ends]
    starts = np.concatenate([[0], ends[:-1] + 1])
    return np.where(newest >= starts, newest, -1)


def _unavailable(spec: UpsertSpec, place: int, count: int) -> RunFailed:
    return RunFailed(
        "VALUE_UNAVAILABLE",
        f"{count} rows omit {spec.labels[spec.partial.index(place)]} because it did not change, but no earlier row "
        "of their key contains it",
        help="nothing of the batch was committed; start the stream with a snapshot, or configure the database to "
        "write whole rows (PostgreSQL: REPLICA IDENTITY FULL)",
    )
