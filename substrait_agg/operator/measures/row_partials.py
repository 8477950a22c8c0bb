"""Partial sums of single rows, computed on columns.

A product of two floats is exact: 106 bits in a bin of 64 powers of two, as int64 coefficients.

The module converts raw rows (keys, arguments, weights) to the same delta rows as summing on Spark
produces, one per input row. It is used for batches whose keys rarely repeat, where summing before
the exchange costs more than it saves.

Values are limbs of 32 bits. As long as all weights of a batch are small (`SMALL_WEIGHT`), a limb
times a weight fits int64, so each limb has one coefficient. In a batch with a larger weight, limbs
and weights are both split into pieces of 16 bits and convolved. A coefficient then stays below 2^52
per row, and there are two more of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.flow.graph.graph import COMPUTED
from substrait_agg.functions.aggregates.accumulators import Accumulator
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.operator.common.spec import OperatorSpec
from substrait_agg.operator.measures.user_aggregates import with_computed
from substrait_agg.operator.numeric.delta import MINUS_BIN, NAN_BIN, PLUS_BIN
from substrait_agg.operator.numeric.numbers import floats
from substrait_agg.required import require
from substrait_agg.state.keys.rows import fill_nulls, is_present

Int64s = npt.NDArray[np.int64]
Cells = dict[str, Any]

SMALL_WEIGHT = 1 << 28
"""Magnitude up to which a weight times a limb of 33 bits with sign stays below 2^61."""
_HALF = np.int64(16)
_HALF_MASK = np.int64((1 << 16) - 1)
_LIMB = 2.0**32
_MASK = np.int64((1 << 32) - 1)
_SHIFT = np.int64(32)


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of rows.

    Attributes:
        small: whether all magnitudes are at most `SMALL_WEIGHT`.
        ones: whether all weights are known to be 1.
    """

    values: Int64s
    small: bool = True
    ones: bool = False

    @staticmethod
    def of(values: Int64s) -> Weights:
        """Return the weights of rows; they are small if the rows say so."""
        if not len(values):
            return Weights(values)
        low, high = int(values.min()), int(values.max())
        return Weights(values, low >= -SMALL_WEIGHT and high <= SMALL_WEIGHT, low == high == 1)

    def mask(self, valid: npt.NDArray[np.bool_]) -> Weights:
        """Return the weights where `valid` is set, and 0 elsewhere."""
        values = valid.astype(np.int64)
        return Weights(values if self.ones else values * self.values, self.small)

    def counts(self, prefix: str) -> Cells:
        """Return the coefficients ``{prefix}_{j}`` of the weights themselves."""
        if self.small:
            return {f"{prefix}_0": self.values}
        return {f"{prefix}_0": self.values & _MASK, f"{prefix}_1": self.values >> _SHIFT}

    def times(self, prefix: str, limbs: Sequence[Int64s]) -> Cells:
        """Return the coefficients ``{prefix}_{j}`` of values times weights, at distances of 32 bits.

        Args:
            prefix: prefix of the column names.
            limbs: limbs of the values at distances of 32 bits, lowest first, at most 33 bits each
                with sign.
        """
        columns: Sequence[Int64s] = limbs
        if not self.small:
            columns = self._convolve(limbs)
        elif not self.ones:
            columns = [limb * self.values for limb in limbs]
        return {f"{prefix}_{j}": column for j, column in enumerate(columns)}

    def _convolve(self, limbs: Sequence[Int64s]) -> list[Int64s]:
        low = [(self.values >> np.int64(16 * j)) & _HALF_MASK for j in range(3)]
        pieces = (*low, self.values >> np.int64(48))  # the highest piece carries the sign
        halves = [half for limb in limbs for half in (limb & _HALF_MASK, limb >> _HALF)]
        sums = np.zeros((len(halves) + len(pieces), len(self.values)), np.int64)
        for i, half in enumerate(halves):
            for j, piece in enumerate(pieces):
                sums[i + j] += half * piece
        return [low + (high << _HALF) for low, high in zip(sums[::2], sums[1::2], strict=True)]


def split_rows(batch: pa.RecordBatch, spec: OperatorSpec) -> pa.RecordBatch:
    """Convert raw rows to delta rows.

    Args:
        batch: ``x*``, ``__weight`` unless all weights are 1, and any other columns.
        spec: the operator. Accumulators over the entries of a tree are left out, because rows alone
            do not determine their change. So are those over the rows of a port.

    Returns:
        The other columns, then ``w_*``, ``b*`` and ``a*`` as described in `operator.numeric.delta`.
        For an operator with trees also the arguments ``x*`` that its trees read, and ``__weight``.
    """
    weight = np.ones(batch.num_rows, np.int64)
    if spec.weight != "append_only":
        weight = np.asarray(batch.column(WEIGHT).to_numpy())
    weights = Weights.of(weight)
    by_argument = {int(n[1:]): batch.column(n) for n in batch.schema.names if _is_argument(n)}
    arguments = with_computed(by_argument, spec.computed)
    cells: Cells = {
        name: batch.column(name)
        for name in batch.schema.names
        if name != WEIGHT and not _is_argument(name)
    }
    if spec.trees:
        read = {
            a
            for tree in spec.trees
            for a in (*tree.arguments, tree.present)
            if a is not None and a < COMPUTED and not tree.follows
        }
        cells |= {f"x{a}": arguments[a] for a in sorted(read)} | {WEIGHT: weight}
    cells |= weights.counts("w")
    for i, accumulator in enumerate(spec.accumulators):
        if accumulator.tree is None and accumulator.port is None:
            cells |= split_accumulator(i, accumulator, arguments, weights)
    return pa.RecordBatch.from_pydict(cells)


def _is_argument(name: str) -> bool:
    return name.startswith("x") and name[1:].isdigit()


def split_accumulator(
    ordinal: int,
    accumulator: Accumulator,
    arguments: Mapping[int, pa.Array],
    weights: Weights,
) -> Cells:
    """Return what each row adds to one accumulator.

    Args:
        ordinal: ordinal of the accumulator, part of the column names.
        accumulator: an accumulator that sums or counts values.
        arguments: argument columns by number.
        weights: the weights of the rows.

    Returns:
        ``a{ordinal}_*``, and for float and product accumulators ``b{ordinal}``, as described in
        `operator.numeric.delta`.
    """
    values = arguments[require(accumulator.argument)]
    if accumulator.kind == "product":
        return product_cells(ordinal, values, arguments[require(accumulator.other)], weights)
    return _SPLITS[accumulator.kind](ordinal, values, weights)


def _count(ordinal: int, values: pa.Array, weights: Weights) -> Cells:
    if values.null_count:
        weights = weights.mask(is_present(values))
    return weights.counts(f"a{ordinal}")


def _integer(ordinal: int, values: pa.Array, weights: Weights) -> Cells:
    whole = fill_nulls(values.cast(pa.int64()))
    if len(whole) and int(whole.min()) >= -_LIMB and int(whole.max()) < _LIMB:
        return weights.times(f"a{ordinal}", (whole,))
    return weights.times(f"a{ordinal}", (whole & _MASK, whole >> _SHIFT))


def _decimal(ordinal: int, values: pa.Array, weights: Weights) -> Cells:
    raw = np.frombuffer(values.buffers()[1], np.int64, count=2 * (len(values) + values.offset))
    low, high = raw.reshape(-1, 2)[values.offset :].T
    if values.null_count:
        valid = is_present(values)
        low, high = np.where(valid, low, 0), np.where(valid, high, 0)
    unsigned = np.ascontiguousarray(low).view(np.uint64) >> np.uint64(32)
    limbs = (low & _MASK, unsigned.view(np.int64), high & _MASK, high >> _SHIFT)
    return weights.times(f"a{ordinal}_0", limbs)


def _float(ordinal: int, values: pa.Array, weights: Weights) -> Cells:
    number = fill_nulls(values.cast(pa.float64()))
    bins, rest = _bin(number)
    limbs: list[Int64s] = []
    for below in reversed(range(4)):
        limb = rest.astype(np.int64)  # truncates towards zero
        limbs.insert(0, limb)
        rest = (rest - limb) * _LIMB
        if not rest.any():
            limbs = [np.zeros_like(limb)] * below + limbs
            break
    return {f"b{ordinal}": bins, **weights.times(f"a{ordinal}", limbs)}


def _bin(
    number: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """Return the bin of each value, and the value in units of its bin (1 if it is not finite)."""
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
    half = np.where(finite, -32 * place, 0)  # applied twice, so that neither step overflows
    scaled[odd] = np.ldexp(np.ldexp(np.where(finite, value, 1.0), half), half)
    return bins, scaled


_SPLITS: dict[str, Callable[[int, pa.Array, Weights], Cells]] = {
    "count": _count,
    "integer": _integer,
    "decimal": _decimal,
    "float": _float,
}


Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]

_MANTISSA = 53
_HALF_BITS = 27
_LIMBS = 6  # 192 bits from 2^(64 b - 160) up
_U32 = np.uint64(32)
_U27 = np.uint64(_HALF_BITS)
_MASK32 = np.uint64((1 << 32) - 1)
_MASK27 = np.uint64((1 << _HALF_BITS) - 1)


def product_cells(ordinal: int, x: pa.Array, y: pa.Array, weights: Weights) -> Cells:
    """Return what each row adds to a product accumulator: weight * x * y.

    Args:
        ordinal: ordinal of the accumulator.
        x: fp32 or fp64 column.
        y: fp32 or fp64 column; it may be `x`. Rows with a null in either column add nothing.
        weights: the weights of the rows.

    Returns:
        ``b{ordinal}`` (bins) and ``a{ordinal}_*``, as described in `operator.numeric.delta`.
        Products that are not finite are counted in the bins of NaN, +inf and -inf; finite factors
        never produce one.
    """
    left, right = floats(x), floats(y)
    valid = np.isfinite(left) & np.isfinite(right)
    sign, mantissas, top = _mantissas(left, right, valid)
    bins = (top + 32) // 64
    limbs = _shifted_limbs(mantissas, top - 64 * bins + 54)
    if not valid.all():
        bins, limbs = _with_specials(left, right, valid, bins, limbs)
    if x.null_count or y.null_count:
        present = pc.and_(x.is_valid(), y.is_valid())
        weights = weights.mask(np.asarray(present.to_numpy(zero_copy_only=False), np.bool_))
    signed = [limb * sign for limb in limbs]
    return {f"b{ordinal}": bins.astype(np.int32), **weights.times(f"a{ordinal}", signed)}


def _mantissas(
    left: Floats, right: Floats, valid: npt.NDArray[np.bool_]
) -> tuple[Int64s, tuple[Words, Words], Int64s]:
    """Return sign, 106-bit magnitude, and exponent of the products.

    Returns:
        The sign (1 or -1), the magnitude as (high, low 54 bits), and the exponent of the power of
        two just above the product, 0 if the product is 0.
    """
    fraction, power = np.frexp(np.where(valid, left, 0.0))
    other, more = np.frexp(np.where(valid, right, 0.0))
    a = np.ldexp(np.abs(fraction), _MANTISSA).astype(np.uint64)
    b = np.ldexp(np.abs(other), _MANTISSA).astype(np.uint64)
    a1, a0, b1, b0 = a >> _U27, a & _MASK27, b >> _U27, b & _MASK27
    cross = a1 * b0 + a0 * b1
    low = a0 * b0 + ((cross & _MASK27) << _U27)
    high = a1 * b1 + (cross >> _U27) + (low >> np.uint64(54))
    sign = np.where((fraction < 0) ^ (other < 0), np.int64(-1), np.int64(1))
    top = np.where((a == 0) | (b == 0), 0, power.astype(np.int64) + more.astype(np.int64))
    return sign, (high, low & np.uint64((1 << 54) - 1)), top


def _shifted_limbs(mantissas: tuple[Words, Words], shift: Int64s) -> list[Int64s]:
    """Return the limbs of ``(high * 2^54 + low) * 2^shift``, for shifts of 22 to 85 bits."""
    high, low = mantissas
    words = [
        low & _MASK32,
        (low >> _U32) | ((high & np.uint64((1 << 10) - 1)) << np.uint64(22)),
        (high >> np.uint64(10)) & _MASK32,
        high >> np.uint64(42),
    ]
    within, digit = (shift & 31).astype(np.uint64), shift >> 5
    shifted: list[Words] = []
    carried = np.zeros_like(low)
    for word in words:
        moved = word << within
        shifted.append((moved & _MASK32) | carried)
        carried = moved >> _U32
    shifted.append(carried)
    limbs = np.zeros((_LIMBS, len(low)), np.uint64)
    for step in range(3):
        here = digit == step
        for j, part in enumerate(shifted):
            if step + j < _LIMBS:
                limbs[step + j] += np.where(here, part, np.uint64(0))
    return list(limbs.view(np.int64))


def _with_specials(
    left: Floats,
    right: Floats,
    valid: npt.NDArray[np.bool_],
    bins: Int64s,
    limbs: list[Int64s],
) -> tuple[Int64s, list[Int64s]]:
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        product = left * right
    special = np.where(np.isnan(product), NAN_BIN, np.where(product > 0, PLUS_BIN, MINUS_BIN))
    one = [*([np.int64(0)] * (_LIMBS - 1)), np.int64(1)]
    counted = [np.where(valid, limb, unit) for limb, unit in zip(limbs, one, strict=True)]
    return np.where(valid, bins, special), counted
