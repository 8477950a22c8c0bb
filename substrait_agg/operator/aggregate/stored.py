"""Conversion of groups from and to rows of the group tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.functions.numbers import exact
from substrait_agg.functions.numbers.stored_digits import digits_at, pack_digits, unpack_digits
from substrait_agg.operator.aggregate.groups import BatchGroups, CollisionIds
from substrait_agg.operator.aggregate.trees import GroupExtremes
from substrait_agg.operator.common.spec import OperatorSpec
from substrait_agg.operator.measures.finalize import GroupState
from substrait_agg.operator.numeric.delta import FloatDigits, pack_floats, unpack_floats
from substrait_agg.required import require
from substrait_agg.state.keys.rows import Indices, Mask, take_or_null, whole
from substrait_agg.state.tree import LookupResult

Int64s = npt.NDArray[np.int64]
NEVER = -(1 << 63)
"""The event time of a group without rows."""


@dataclass(frozen=True, slots=True)
class StoredGroups:
    """Groups as stored.

    Attributes:
        exists: mask of the groups with a row in the tree.
        state: their accumulators.
        shown: the weights with which they were last emitted.
        values: the measures as last emitted.
        extremes: per stored extreme, its payload columns.
        time: the newest event time of their rows; None if idle groups are not evicted.
    """

    exists: Mask
    state: GroupState
    shown: Int64s
    values: list[pa.Array]
    extremes: list[tuple[pa.Array, ...]]
    time: Int64s | None = None


def restore(spec: OperatorSpec, count: int, lookup: LookupResult) -> StoredGroups:
    """Return `count` groups as stored in the group tree, from the result of a lookup."""
    layout = spec.layout
    at = lookup.positions
    shown = np.zeros(count, np.int64)
    floats: dict[int, FloatDigits] = {}
    rows = lookup.rows.combine_chunks()
    where = np.full(count, -1, np.int64)
    where[at] = np.arange(len(at))
    if len(at):
        fixed = unpack_digits(rows, layout.digits, where)
        shown[at] = rows.column("shown").to_numpy()
    else:
        fixed = np.zeros((layout.digits, count), np.int64)
    for i, accumulator in enumerate(spec.accumulators):
        if accumulator.floating:
            floats[i] = _restored_floats(rows, i, at, count)
    values = take_or_null([whole(rows, f"v{m}") for m in range(len(spec.measures))], where)
    ends = [
        tuple(
            take_or_null(
                [
                    whole(rows, f"e{end}_{c}")
                    for c in range(len(spec.trees[tree].layout.components))
                ],
                where,
            )
        )
        for end, (tree, _) in enumerate(spec.extremes)
    ]
    time = _restored_times(rows, at, count) if spec.forget else None
    return StoredGroups(where >= 0, GroupState(fixed, floats), shown, values, ends, time)


def _restored_times(rows: pa.Table, at: Indices, count: int) -> Int64s:
    time = np.full(count, NEVER, np.int64)
    time[at] = rows.column("time").to_numpy()
    return time


def _restored_floats(rows: pa.Table, ordinal: int, at: Indices, count: int) -> FloatDigits:
    if not len(at):
        return FloatDigits(0, exact.zeros(1, count))
    stored = unpack_floats(whole(rows, f"p{ordinal}"), whole(rows, f"f{ordinal}"))
    digits = exact.zeros(len(stored.digits), count)
    digits[:, at] = stored.digits
    if stored.registers is None:
        return FloatDigits(stored.base, digits)
    registers = exact.zeros(len(stored.registers), count)
    registers[:, at] = stored.registers
    return FloatDigits(stored.base, digits, registers)


def stored_rows(
    spec: OperatorSpec,
    groups: BatchGroups,
    collision_ids: CollisionIds,
    state: GroupState,
    shown: Int64s,
    values: Sequence[pa.Array],
    ends: Sequence[GroupExtremes],
    time: Int64s | None = None,
) -> pa.Table:
    """Return the rows of the group tree for current groups; one without state is dead."""
    dead = shown == 0
    hidden = np.flatnonzero(dead)
    numbers = [state.fixed]
    floats: list[pa.Array] = []
    for ordinal in sorted(state.floats):
        value = state.floats[ordinal]
        numbers += [value.digits, *([] if value.registers is None else [value.registers])]
        floats.extend(pack_floats(value))
    for digits in numbers:
        dead[hidden] &= ~digits[:, hidden].any(axis=0)
    field, fixed = pack_digits(state.fixed)
    schema = spec.layout.schema
    columns = [
        pa.array(groups.hashes), pa.array(dead), *groups.keys, fixed, *floats, pa.array(shown), *values,
        *([pa.array(collision_ids)] if spec.trees else []), *(p for end in ends for p in end.payload),
        # Reset the time of dead groups: it must not depend on whether a merge dropped the row.
        *([] if time is None else [pa.array(np.where(dead, NEVER, time))]),
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=schema.set(require(digits_at(schema)), field))
