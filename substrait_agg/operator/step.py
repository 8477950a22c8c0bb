"""One step of the incremental aggregate: a slice of partial sums against the group tree gives new rows and changes.

Pure: Arrow in, Arrow out; no Spark, no clock, no files of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.errors import RunFailed
from substrait_agg.functions import exact
from substrait_agg.operator.delta import (
    FloatDigits,
    add_floats,
    add_up,
    coefficients,
    fixed_digits,
    float_digits,
    pack_floats,
    unpack_floats,
)
from substrait_agg.operator.finalize import GroupState, measure_values
from substrait_agg.operator.spec import COUNT_DIGITS, OperatorSpec
from substrait_agg.state.rows import Hashes, Indices, Mask, as_mask, equal, group_rows, take
from substrait_agg.state.tree import Found, Tree

WEIGHT = "__weight"
"""Name of the int64 weight column: of inputs (a DataFrame that has it is read as weighted rows) and of changes."""


@dataclass(frozen=True, slots=True)
class Touched:
    """The groups of a slice: ascending hashes, keys, and what the slice adds to each.

    Digits are uncarried: `fixed` holds those of the total weight, then those of each accumulator of fixed size.
    """

    hashes: Hashes
    keys: list[pa.Array]
    fixed: list[exact.Digits]
    floats: dict[int, FloatDigits]

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.hashes)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a slice did.

    Attributes:
        rows: new rows of the group tree, in order of hash.
        changes: output columns and ``__weight``; retractions first.
        touched: groups touched.
        pending: keys touched and not emitted: ``hash``, ``dead`` and key columns.
    """

    rows: pa.Table
    changes: pa.Table
    touched: int
    pending: pa.Table


def step(spec: OperatorSpec, slice_: pa.Table, tree: Tree, *, emit: bool = True) -> StepResult:
    """Fold a slice into the groups it touches and, when `emit`, say how their rows changed.

    Args:
        spec: the operator.
        slice_: delta rows, as described in `operator.delta`; several rows of one key are added up.
        tree: the group tree before this batch.
        emit: whether touched groups are emitted now or stay pending.

    Raises:
        RunFailed: RESULT_OVERFLOW, WEIGHT_OVERFLOW or TOTAL_OVERFLOW.
    """
    groups = _gather(spec, slice_)
    found = tree.lookup(groups.hashes, groups.keys)
    old = _restore(spec, groups.count, found)
    state = _add(spec, groups, old.state)
    shown, values = old.shown, old.values
    changes = spec.output.append(pa.field(WEIGHT, pa.int64())).empty_table()
    if emit:
        shown = _shown(spec, state)
        values = measure_values(spec, state, shown > 0)
        values = [_masked(v, shown > 0) for v in values]
        changes = _changes(spec, groups, old, shown, values)
    rows = _rows(spec, groups, state, shown, values)
    known = np.zeros(groups.count, np.bool_)
    known[found.positions] = True
    gone = as_mask(rows.column("dead")) & ~known
    pending = rows.select(["hash", "dead", *(f"k{i}" for i in range(len(spec.keys)))])
    if gone.any():
        rows = rows.filter(pa.array(~gone))
    return StepResult(rows, changes, groups.count, pending.slice(0, 0) if emit else pending)


def _gather(spec: OperatorSpec, slice_: pa.Table) -> Touched:
    whole = slice_.combine_chunks()
    hashes = whole.column("hash").to_numpy()
    keys = [whole.column(f"k{i}").combine_chunks() for i in range(len(spec.keys))]
    order, first = group_rows(hashes, keys)
    starts = np.flatnonzero(first)
    chosen = order[starts]
    weight = coefficients(whole, "w", spec.limb_bits)
    fixed = [add_up(weight, starts, order)]
    floats: dict[int, FloatDigits] = {}
    for i, accumulator in enumerate(spec.accumulators):
        if accumulator.kind == "float":
            value = float_digits(whole, i, spec.limb_bits)
            floats[i] = FloatDigits(value.base, add_up(value.digits, starts, order))
        else:
            digits = fixed_digits(whole, i, accumulator, spec.limb_bits)
            fixed.append(add_up(digits, starts, order))
    return Touched(hashes[chosen], take(keys, chosen), fixed, floats)


def _sum(delta: exact.Digits, old: exact.Digits) -> exact.Digits:
    keep = len(old)
    total = exact.widen(delta, keep + 1)
    total[:keep] += old
    kept, lost = exact.narrow(exact.carry(total), keep)
    if lost.any():
        raise RunFailed(
            "TOTAL_OVERFLOW",
            f"{int(lost.sum())} groups have a total or a weight that exceeds {32 * keep} bits",
            help="check the weight column of the source: weights of this size are hardly meant",
        )
    return kept


@dataclass(frozen=True, slots=True)
class _Old:
    state: GroupState
    shown: npt.NDArray[np.int64]
    values: list[pa.Array]


def _restore(spec: OperatorSpec, count: int, found: Found) -> _Old:
    layout = spec.layout
    at = found.positions
    fixed = np.zeros((layout.digits, count), np.int64)
    shown = np.zeros(count, np.int64)
    floats: dict[int, FloatDigits] = {}
    rows = found.rows.combine_chunks()
    if len(at):
        fixed[:, at] = _unpack_fixed(rows.column("fixed").combine_chunks(), layout.digits)
        shown[at] = rows.column("shown").to_numpy()
    for i, accumulator in enumerate(spec.accumulators):
        if accumulator.kind != "float":
            continue
        if len(at):
            stored = unpack_floats(_chunk(rows, f"p{i}"), _chunk(rows, f"f{i}"))
            digits = np.zeros((len(stored.digits), count), np.int64)
            digits[:, at] = stored.digits
            floats[i] = FloatDigits(stored.base, digits)
        else:
            floats[i] = FloatDigits(0, exact.zeros(1, count))
    where = np.full(count, -1, np.int64)
    where[at] = np.arange(len(at))
    index = pa.array(where, mask=where < 0)
    values = [_chunk(rows, f"v{m}").take(index) for m in range(len(spec.measures))]
    return _Old(GroupState(fixed, floats), shown, values)


def _chunk(table: pa.Table, name: str) -> pa.Array:
    return table.column(name).combine_chunks()


def _unpack_fixed(values: pa.Array, digits: int) -> exact.Digits:
    raw = np.frombuffer(values.buffers()[1], np.int32, count=digits * (len(values) + values.offset))
    return raw.reshape(-1, digits)[values.offset :].T.astype(np.int64)


def _add(spec: OperatorSpec, groups: Touched, old: GroupState) -> GroupState:
    sizes = [COUNT_DIGITS, *(a.digits for a in spec.accumulators if a.kind != "float")]
    starts = np.cumsum([0, *sizes[:-1]])
    fixed = np.concatenate(
        [
            _sum(delta, old.fixed[start : start + size])
            for delta, start, size in zip(groups.fixed, starts, sizes, strict=True)
        ]
    )
    floats = {i: add_floats(old.floats[i], delta) for i, delta in groups.floats.items()}
    return GroupState(fixed, floats)


def _shown(spec: OperatorSpec, state: GroupState) -> npt.NDArray[np.int64]:
    weight = state.weight()
    if spec.multiset:
        return np.maximum(weight, 0)
    if spec.is_global:
        return np.ones(len(weight), np.int64)
    return (weight > 0).astype(np.int64)


def _masked(values: pa.Array, keep: Mask) -> pa.Array:
    if keep.all():
        return values
    index = np.arange(len(keep))
    return values.take(pa.array(index, mask=~keep))


def _changes(
    spec: OperatorSpec,
    groups: Touched,
    old: _Old,
    shown: npt.NDArray[np.int64],
    values: Sequence[pa.Array],
) -> pa.Table:
    same = (old.shown > 0) & (shown > 0)
    for before, after in zip(old.values, values, strict=True):
        same &= equal(before, after)
    delta = shown - old.shown
    if spec.multiset:
        parts = [_emitted(spec, groups, values, delta, np.flatnonzero(delta < 0))]
        parts.append(_emitted(spec, groups, values, delta, np.flatnonzero(delta > 0)))
        return pa.concat_tables(parts)
    gone = np.flatnonzero((old.shown > 0) & ~same)
    come = np.flatnonzero((shown > 0) & ~same)
    return pa.concat_tables(
        [
            _emitted(spec, groups, old.values, -old.shown, gone),
            _emitted(spec, groups, values, shown, come),
        ]
    )


def _emitted(
    spec: OperatorSpec,
    groups: Touched,
    values: Sequence[pa.Array],
    weights: npt.NDArray[np.int64],
    rows: Indices,
) -> pa.Table:
    columns = [*take(groups.keys, rows), *take(values, rows), pa.array(weights[rows])]
    schema = spec.output.append(pa.field(WEIGHT, pa.int64()))
    return pa.Table.from_arrays(columns, schema=schema)


def _rows(
    spec: OperatorSpec,
    groups: Touched,
    state: GroupState,
    shown: npt.NDArray[np.int64],
    values: Sequence[pa.Array],
) -> pa.Table:
    dead = (state.fixed == 0).all(axis=0) & (shown == 0)
    floats: list[pa.Array] = []
    for value in state.floats.values():
        dead &= (value.digits == 0).all(axis=0)
        floats.extend(pack_floats(value))
    digits = spec.layout.digits
    packed = np.ascontiguousarray(state.fixed.T.astype(np.int32))
    fixed = pa.Array.from_buffers(pa.binary(4 * digits), groups.count, [None, pa.py_buffer(packed)])
    columns = [
        pa.array(groups.hashes), pa.array(dead), *groups.keys, fixed, *floats, pa.array(shown), *values
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=spec.layout.schema)
