"""One step of an upsert operator: of the rows of a key the newest counts, and takes the place of the one before it.

A row of weight 1 sets the row of its key, one of weight -1 takes it away. What comes out are exact changes, so everything
above sees retractions of the very rows that were emitted. The same rows once more change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.operator.aggregate.groups import BatchGroups, collect_groups
from substrait_agg.operator.aggregate.operator import with_key_types
from substrait_agg.operator.common.emission import Emission
from substrait_agg.operator.common.names import GROUP, POSITION, WEIGHT
from substrait_agg.operator.common.protocol import OperatorResult, State, StatefulOperator
from substrait_agg.operator.common.spec import THERE, UpsertSpec
from substrait_agg.operator.upsert.partial_updates import with_unchanged
from substrait_agg.state.entries import TreeLayout
from substrait_agg.state.keys.keys import before, encode, sort_order
from substrait_agg.state.keys.rows import Indices, Mask, as_mask, rows_equal, take, whole
from substrait_agg.state.tree import Found, KeyedLayout


@dataclass(frozen=True, slots=True)
class _Rows:
    """One row per key, or none.

    Attributes:
        there: which keys have one.
        values: its columns; null where there is none.
        order: what orders it; also of keys whose row was taken away.
    """

    there: Mask
    values: list[pa.Array]
    order: list[pa.Array]


@dataclass(frozen=True, slots=True)
class UpsertOperator(StatefulOperator):
    """Keeps the newest row of each key."""

    spec: UpsertSpec

    def state_schema(self, *, final: bool = True) -> Mapping[str, KeyedLayout | TreeLayout]:
        """See `StatefulOperator`: one row per key."""
        return {GROUP: KeyedLayout(self.spec.stored, len(self.spec.keys))}

    def receive(
        self, batch: pa.RecordBatch, *, raw: bool, emission: Emission
    ) -> tuple[pa.RecordBatch, int]:
        """See `StatefulOperator`."""
        return with_key_types(batch, self.spec), batch.num_rows

    def apply(self, ports: Sequence[pa.Table], state: State, emission: Emission) -> OperatorResult:
        """See `StatefulOperator`."""
        (rows,) = ports
        return latest_step(self.spec, rows, state)


def latest_step(spec: UpsertSpec, slice_: pa.Table, state: State) -> OperatorResult:
    """Put the newest row of each key of a slice in the place of the one that is stored.

    Args:
        spec: the operator.
        slice_: ``hash``, ``k*``, ``x*`` (the row, then what orders it), ``__weight`` (1 or -1) and ``__at``; all rows
            that a key has in the batch.
        state: the operator's state before this batch.
    """
    slice_ = slice_.combine_chunks()
    groups = collect_groups(spec, slice_)
    found = state.keyed(GROUP).lookup(groups.hashes, groups.keys)
    old = _stored(spec, found, groups.count)
    came = _arrived(spec, slice_, groups, old)
    known = np.zeros(groups.count, np.bool_)
    known[found.positions] = True
    counts = ~(known & _older(spec, came, old, known))
    now = _merged(came, old, counts)
    same = old.there & now.there & rows_equal(old.values, now.values, groups.count)
    # What was emitted is what has to be retracted, to the last bit of a value inside a list.
    kept = _Rows(now.there, _chosen(same, old.values, now.values), now.order)
    stored = _to_store(spec, groups, kept, counts, changed=(old.there | now.there) & ~same)
    changes = _changes(spec, groups, old, now, same)
    return OperatorResult({GROUP: stored}, changes, {"touched": groups.count})


def _by_age(spec: UpsertSpec, slice_: pa.Table, groups: BatchGroups) -> Indices:
    """The rows of a slice by group, in it by order, those that are equal in that by arrival."""
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


def _arrived(spec: UpsertSpec, slice_: pa.Table, groups: BatchGroups, old: _Rows) -> _Rows:
    """Per group the row of the slice that counts, the last; what a deletion says besides its key is of no account."""
    order = _by_age(spec, slice_, groups)
    ends = np.flatnonzero(np.diff(groups.of_row[order], append=-1))
    rows = order[ends]
    there = slice_.column(WEIGHT).to_numpy()[rows] > 0
    values = with_unchanged(spec, slice_, order, ends, old.there, old.values)
    return _Rows(there, [_where(there, v) for v in values], take(_order_of(spec, slice_), rows))


def _where(there: Mask, column: pa.Array) -> pa.Array:
    if there.all():
        return column
    return column.take(pa.array(np.arange(len(there)), mask=~there))


def _stored(spec: UpsertSpec, found: Found, count: int) -> _Rows:
    """What the tree holds of `count` keys."""
    at = np.full(count, -1, np.int64)
    at[found.positions] = np.arange(len(found.positions))
    index = pa.array(at, mask=at < 0)
    rows = found.rows.combine_chunks()
    there = np.zeros(count, np.bool_)
    if len(found.positions):
        there[found.positions] = as_mask(whole(rows, THERE))
    return _Rows(
        there,
        [whole(rows, f"v{i}").take(index) for i in range(len(spec.values))],
        [whole(rows, f"o{i}").take(index) for i in range(len(spec.order))],
    )


def _older(spec: UpsertSpec, came: _Rows, old: _Rows, known: Mask) -> Mask:
    """Which of the rows that came are older than what is known of their key; equally old ones are not."""
    result = np.zeros(len(known), np.bool_)
    at = np.flatnonzero(known)
    if not spec.order or not len(at):
        return result
    left, right = (encode(take(rows.order, at), spec.order) for rows in (came, old))
    every = np.arange(len(at))
    result[at] = before(left, every, right, every)
    return result


def _merged(came: _Rows, old: _Rows, counts: Mask) -> _Rows:
    return _Rows(
        np.where(counts, came.there, old.there),
        _chosen(counts, came.values, old.values),
        _chosen(counts, came.order, old.order),
    )


def _chosen(mask: Mask, these: Sequence[pa.Array], others: Sequence[pa.Array]) -> list[pa.Array]:
    """Row by row those of `these` where the mask holds, else those of `others`."""
    if mask.all():
        return list(these)
    index = pa.array(np.where(mask, 0, len(mask)) + np.arange(len(mask)))
    return [pa.concat_arrays([a, b]).take(index) for a, b in zip(these, others, strict=True)]


def _to_store(
    spec: UpsertSpec, groups: BatchGroups, rows: _Rows, counts: Mask, *, changed: Mask
) -> pa.Table:
    """The rows of the tree that are not what they were.

    A key without a row is dead, unless rows come by an order: then what is stored tells those that are too old.
    """
    ordered = bool(spec.order)
    dead = ~rows.there & (not ordered)
    columns = [
        pa.array(groups.hashes), pa.array(dead), *groups.keys, pa.array(rows.there), *rows.values, *rows.order,
    ]  # fmt: skip
    table = pa.Table.from_arrays(columns, schema=spec.stored)
    written = changed | (counts & ordered)
    return table if written.all() else table.filter(pa.array(written))


def _changes(spec: UpsertSpec, groups: BatchGroups, old: _Rows, now: _Rows, same: Mask) -> pa.Table:
    gone, come = np.flatnonzero(old.there & ~same), np.flatnonzero(now.there & ~same)
    schema = spec.output.append(pa.field(WEIGHT, pa.int64()))
    parts = []
    for rows, at, weight in ((old, gone, -1), (now, come, 1)):
        weights: npt.NDArray[np.int64] = np.full(len(at), weight, np.int64)
        columns = [*take(groups.keys, at), *take(rows.values, at), pa.array(weights)]
        parts.append(pa.Table.from_arrays(columns, schema=schema))
    return pa.concat_tables(parts)
