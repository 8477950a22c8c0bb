"""The row-wise half of the partial sums on columns: what each row of an operator's input adds to each partial sum.

It makes of raw rows (keys, arguments, weights) the same delta rows as summing on Spark does, one per input row: for batches whose
keys hardly repeat, where summing before the exchange costs more than it saves. Weights are 1 and -1 here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.functions.accumulators import Accumulator
from substrait_agg.operator.delta import MINUS_BIN, NAN_BIN, PLUS_BIN
from substrait_agg.operator.spec import OperatorSpec
from substrait_agg.operator.step import WEIGHT
from substrait_agg.state.rows import as_mask

_LIMB = 2.0**32
_MASK = np.int64((1 << 32) - 1)
_SHIFT = np.int64(32)

Int64s = npt.NDArray[np.int64]
Cells = dict[str, Any]


def split_rows(batch: pa.RecordBatch, spec: OperatorSpec) -> pa.RecordBatch:
    """The delta rows of raw rows.

    Args:
        batch: ``x*``, ``__weight`` unless all weights are 1, and any other columns.
        spec: the operator; its weights are of kind ``one`` or ``sign``.

    Returns:
        The other columns, then ``w_0``, ``b*`` and ``a*`` as described in `operator.delta`.
    """
    weight = np.ones(batch.num_rows, np.int64)
    if spec.weight != "one":
        weight = np.asarray(batch.column(WEIGHT).to_numpy())
    cells: Cells = {
        name: batch.column(name)
        for name in batch.schema.names
        if name != WEIGHT and not name.startswith("x")
    }
    cells["w_0"] = weight
    for i, accumulator in enumerate(spec.accumulators):
        values = batch.column(f"x{accumulator.argument}")
        cells |= _SPLITS[accumulator.kind](i, accumulator, values, weight)
    return pa.RecordBatch.from_pydict(cells)


def _count(ordinal: int, _: Accumulator, values: pa.Array, weight: Int64s) -> Cells:
    if not values.null_count:
        return {f"a{ordinal}_0": weight}
    return {f"a{ordinal}_0": np.where(as_mask(values.is_valid()), weight, 0)}


def _integer(ordinal: int, _: Accumulator, values: pa.Array, weight: Int64s) -> Cells:
    whole = _filled(values.cast(pa.int64()), 0)
    low, high = (whole & _MASK) * weight, (whole >> _SHIFT) * weight
    return {f"a{ordinal}_0": low, f"a{ordinal}_1": high}


def _filled(values: pa.Array, empty: float) -> npt.NDArray[Any]:
    if values.null_count:
        values = pc.fill_null(values, empty)
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _decimal(ordinal: int, _: Accumulator, values: pa.Array, weight: Int64s) -> Cells:
    raw = np.frombuffer(values.buffers()[1], np.int64, count=2 * (len(values) + values.offset))
    low, high = raw.reshape(-1, 2)[values.offset :].T
    if values.null_count:
        valid = as_mask(values.is_valid())
        low, high = np.where(valid, low, 0), np.where(valid, high, 0)
    unsigned = low.view(np.uint64) >> np.uint64(32)
    limbs = (low & _MASK, unsigned.view(np.int64), high & _MASK, high >> _SHIFT)
    return {f"a{ordinal}_0_{j}": limb * weight for j, limb in enumerate(limbs)}


def _float(ordinal: int, _: Accumulator, values: pa.Array, weight: Int64s) -> Cells:
    number = _filled(values.cast(pa.float64()), 0.0)
    bins, rest = _binned(number)
    cells: Cells = {f"b{ordinal}": bins}
    for j in (3, 2, 1, 0):
        limb = rest.astype(np.int64)  # cut towards zero
        cells[f"a{ordinal}_{j}"] = limb * weight
        rest = (rest - limb) * _LIMB
    return cells


def _binned(
    number: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """Bin of each value, and the value in units of its bin; 1 for values that are not finite."""
    size = np.abs(number)
    bins = np.zeros(len(number), np.int32)
    odd = np.flatnonzero(~(((size >= 2.0**-32) & (size < _LIMB)) | (size == 0)))
    if not len(odd):
        return bins, number
    scaled = number.copy()
    value = number[odd]
    finite = np.isfinite(value)
    exponent = np.frexp(np.where(finite, value, 1.0))[1].astype(np.int64) - 1
    place = (exponent + 32) // 64
    special = np.where(np.isnan(value), NAN_BIN, np.where(value > 0, PLUS_BIN, MINUS_BIN))
    bins[odd] = np.where(finite, place, special)
    half = np.where(finite, -32 * place, 0)  # twice, so that neither step overflows
    scaled[odd] = np.ldexp(np.ldexp(np.where(finite, value, 1.0), half), half)
    return bins, scaled


_SPLITS: dict[str, Callable[[int, Accumulator, pa.Array, Int64s], Cells]] = {
    "count": _count,
    "integer": _integer,
    "decimal": _decimal,
    "float": _float,
}
