"""The values a scanned measure is made of, group by group, and how to reach them by rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.errors import RunFailed
from substrait_agg.functions.aggregates.types import UNSIGNED
from substrait_agg.operator.common.spec import MeasureSpec
from substrait_agg.operator.numeric.numbers import limits, nearest
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import Type
from substrait_agg.state.keys.rows import Indices, Mask, as_mask
from substrait_agg.state.segments import Segments

Int64s = npt.NDArray[np.int64]

MOST_ITEMS = (1 << 31) - 1
"""How many elements, or bytes of text, one Arrow column of lists or text can hold."""
_MOST_WEIGHT = 1 << 62
_INT64_DIGITS = 19
_WIDEST = 76  # digits of a decimal, which hold what rounding or another scale makes of 38


@dataclass(frozen=True, slots=True)
class Contributors:
    """The values of n groups in order; value e occurs `weights[e]` times.

    Attributes:
        measure: whose.
        offsets: int64, one more than there are groups, from 0: values offsets[i]:offsets[i + 1] are those of group i.
        values: all values.
        weights: int64, above 0.
    """

    measure: MeasureSpec
    offsets: Indices
    values: pa.Array
    weights: Int64s

    @staticmethod
    def of(segments: Segments, measure: MeasureSpec, *, nulls: bool = False) -> Contributors:
        """The contributors of a measure among the live entries of its tree; nulls only when asked for."""
        first, last = int(segments.offsets[0]), int(segments.offsets[-1])
        values = segments.columns[measure.values[0]].slice(first, last - first)
        weights = np.asarray(segments.weights[first:last])
        if measure.distinct:
            weights = np.ones(len(values), np.int64)
        offsets = segments.offsets - first
        if values.null_count and not nulls:
            keep = as_mask(values.is_valid())
            offsets = np.concatenate([[0], np.cumsum(keep)])[offsets]
            values, weights = values.filter(pa.array(keep)), weights[keep]
        return Contributors(measure, offsets, values, weights)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Int64s:
        """Entries of each group."""
        return np.diff(self.offsets)

    @property
    def filled(self) -> Indices:
        """Groups that have contributors."""
        return np.flatnonzero(self.sizes)

    def reduced(self, ufunc: np.ufunc, items: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The items of each group of `filled` put together by `ufunc`."""
        filled = self.filled
        if not len(filled):
            return items[:0]
        return np.asarray(ufunc.reduceat(items, self.offsets[:-1][filled]))

    @property
    def totals(self) -> Int64s:
        """How many values each group has, counted with their weights.

        Raises:
            RunFailed: WEIGHT_OVERFLOW where that is more than 62 bits hold.
        """
        rough = self.reduced(np.add, self.weights.astype(np.float64))
        if len(rough) and float(rough.max()) >= _MOST_WEIGHT:
            raise RunFailed(
                "WEIGHT_OVERFLOW",
                f"measure {self.measure.label} has a group of more than 2^62 values",
                help="check the weight column of the source: weights of this size are hardly meant",
            )
        return np.asarray(np.diff(self._before()[self.offsets]))

    def _before(self) -> Int64s:
        # Over all groups the sum may pass 63 bits and wrap; differences within a group are right all the same.
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.weights)])

    def at(self, groups: Indices, ranks: Int64s) -> Indices:
        """The entries with these ranks in these groups.

        Args:
            groups: of any order and number.
            ranks: one per group asked for, from 0 to less than its total.
        """
        before = self._before()
        start = self.offsets[:-1][groups]
        low, high = start.copy(), self.offsets[1:][groups] - 1
        while (low < high).any():
            middle = (low + high + 1) >> 1
            beyond = before[middle] - before[start] > ranks
            low, high = np.where(beyond, low, middle), np.where(beyond, middle - 1, high)
        return low

    def repeated(self) -> tuple[Int64s, pa.Array]:
        """Totals per group, and all values, each as often as it occurs."""
        totals = self.totals
        if not len(self.weights) or int(self.weights.max()) == 1:
            return totals, self.values
        require_room(self.measure, float(totals.astype(np.float64).sum()), "values")
        require_room(self.measure, self._bytes(), "bytes of text")
        index = np.repeat(np.arange(len(self.weights)), self.weights)
        return totals, self.values.take(pa.array(index))

    def _bytes(self) -> float:
        if not (pa.types.is_string(self.values.type) or pa.types.is_binary(self.values.type)):
            return 0.0
        lengths = pc.fill_null(pc.binary_length(self.values), 0).to_numpy(zero_copy_only=False)
        return float(lengths.astype(np.float64) @ self.weights.astype(np.float64))


def require_room(measure: MeasureSpec, items: float, what: str) -> None:
    """Refuse lists or text that Arrow's 32-bit offsets cannot address.

    Raises:
        RunFailed: RESULT_TOO_LARGE.
    """
    if items > MOST_ITEMS:
        raise _too_large(measure, f"{items:.0f} {what}")


def _too_large(measure: MeasureSpec, size: str) -> RunFailed:
    return RunFailed(
        "RESULT_TOO_LARGE",
        f"the values of measure {measure.label} have {size} in one slice of groups,"
        f" more than {MOST_ITEMS} elements or bytes of text",
        help="filter what the measure collects, or group it finer",
    )


def concat(parts: Sequence[pa.Array], measure: MeasureSpec) -> pa.Array:
    """The values of several parts of the groups as one column.

    Raises:
        RunFailed: RESULT_TOO_LARGE.
    """
    try:
        return pa.concat_arrays(parts)
    except pa.ArrowInvalid as error:
        size = sum(part.nbytes for part in parts)
        raise _too_large(measure, f"{size} bytes") from error


def chosen(contributors: Contributors, entries: Indices, valid: Mask) -> pa.Array:
    """The values of these entries in the type of the measure, null where `valid` does not hold."""
    return converted(contributors.values.take(pa.array(entries, mask=~valid)), contributors.measure)


def converted(values: pa.Array, measure: MeasureSpec) -> pa.Array:
    """Values in the type of the measure: floats take the nearest, decimals round half away from zero, integers cut.

    Raises:
        RunFailed: RESULT_OVERFLOW where one does not fit it.
    """
    return _in_type(values, measure.type, measure)


def _in_type(values: pa.Array, type_: Type, measure: MeasureSpec) -> pa.Array:
    target = to_arrow(type_)
    try:
        result = values if values.type == target else _cast(values, target)
    except pa.ArrowInvalid as error:
        raise result_overflow(measure) from error
    if type_.kind in UNSIGNED and not _within(result, type_):
        raise result_overflow(measure)
    return result


def _cast(values: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_integer(values.type) and pa.types.is_decimal(target):
        values = values.cast(pa.decimal128(_INT64_DIGITS, 0))
    if not pa.types.is_decimal(values.type):
        return values.cast(target, safe=not pa.types.is_floating(target))
    if pa.types.is_floating(target):
        return nearest(values, target)
    values = values.cast(pa.decimal256(_WIDEST, values.type.scale))
    if pa.types.is_integer(target):
        values = pc.trunc(values)
    elif target.scale < values.type.scale:
        values = pc.round(values, target.scale, "half_towards_infinity")
    return values.cast(target)


def _within(values: pa.Array, type_: Type) -> bool:
    """Whether all values are in the range of an unsigned type; they travel in a wider one."""
    ends = pc.min_max(values)
    least, greatest = ends["min"].as_py(), ends["max"].as_py()
    return least is None or (least >= 0 and greatest <= limits(type_)[1])


def result_overflow(measure: MeasureSpec) -> RunFailed:
    """The error for a value that its type does not hold."""
    return RunFailed(
        "RESULT_OVERFLOW",
        f"a value of measure {measure.label} does not fit its type {measure.type}",
        help="declare a wider output type, or the option overflow with SATURATE or SILENT",
    )


def lists(measure: MeasureSpec, lengths: Int64s, values: pa.Array, valid: Mask) -> pa.Array:
    """Lists of these lengths over consecutive values; null, and then of length 0, where `valid` does not hold.

    Raises:
        RunFailed: RESULT_OVERFLOW or RESULT_TOO_LARGE.
    """
    target = to_arrow(measure.type)
    require_room(measure, float(len(values)), "values")
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    values = _in_type(values, measure.type.children[0], measure)
    mask = None if valid.all() else pa.array(~valid)
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=target, mask=mask)
