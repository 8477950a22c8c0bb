"""Values that contribute to a multiset measure, by group, and access to them by rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.errors import RunFailed
from substrait_agg.operator.common.spec import MeasureSpec
from substrait_agg.operator.numeric.numbers import limits, nearest
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import UNSIGNED, Type
from substrait_agg.state.keys.rows import Indices, Mask, as_mask
from substrait_agg.state.segments import Segments

Int64s = npt.NDArray[np.int64]

MOST_ITEMS = (1 << 31) - 1
"""The maximal number of list elements, or bytes of text, in one Arrow column."""
_MOST_WEIGHT = 1 << 62
_INT64_DIGITS = 19
_WIDEST = 76  # maximal digits of decimal256: room for rounding and rescaling 38 digits


@dataclass(frozen=True, slots=True)
class Contributors:
    """The values of n groups in order; value e occurs `weights[e]` times.

    Attributes:
        measure: the measure.
        offsets: int64, n + 1 offsets from 0 on: values offsets[i]:offsets[i + 1] belong to group i.
        values: all values.
        weights: int64, above 0.
    """

    measure: MeasureSpec
    offsets: Indices
    values: pa.Array
    weights: Int64s

    @staticmethod
    def of(segments: Segments, measure: MeasureSpec, *, nulls: bool = False) -> Contributors:
        """Return the contributors of a measure from the live entries of its tree.

        Args:
            segments: the live entries.
            measure: the measure.
            nulls: whether to include null values.
        """
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
        """Return the number of entries of each group."""
        return np.diff(self.offsets)

    @property
    def filled(self) -> Indices:
        """Return the groups that have contributors."""
        return np.flatnonzero(self.sizes)

    def reduce(self, ufunc: np.ufunc, items: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Reduce the items of each group of `filled` by `ufunc`."""
        filled = self.filled
        if not len(filled):
            return items[:0]
        return np.asarray(ufunc.reduceat(items, self.offsets[:-1][filled]))

    @property
    def totals(self) -> Int64s:
        """Return the number of values of each group, counted with their weights.

        Raises:
            RunFailed: WEIGHT_OVERFLOW if a number exceeds 62 bits.
        """
        rough = self.reduce(np.add, self.weights.astype(np.float64))
        if len(rough) and float(rough.max()) >= _MOST_WEIGHT:
            raise RunFailed(
                "WEIGHT_OVERFLOW",
                f"measure {self.measure.label} has a group of more than 2^62 values",
                help="check the weight column of the source: such large weights are usually a mistake",
            )
        return np.asarray(np.diff(self._before()[self.offsets]))

    def _before(self) -> Int64s:
        # The sum over all groups may wrap; differences within a group remain correct.
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.weights)])

    def at(self, groups: Indices, ranks: Int64s) -> Indices:
        """Return the entries with these ranks in these groups.

        Args:
            groups: the groups; any order, repetitions allowed.
            ranks: one per element of `groups`, from 0 to less than the group's total.
        """
        before = self._before()
        start = self.offsets[:-1][groups]
        low, high = start.copy(), self.offsets[1:][groups] - 1
        while (low < high).any():
            middle = (low + high + 1) >> 1
            beyond = before[middle] - before[start] > ranks
            low, high = np.where(beyond, low, middle), np.where(beyond, middle - 1, high)
        return low

    def repeat(self) -> tuple[Int64s, pa.Array]:
        """Return the totals per group, and all values, each repeated by its weight."""
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
        f"the values of measure {measure.label} have {size} in one slice of groups; the limit is {MOST_ITEMS} "
        "elements or bytes of text",
        help="filter the values that the measure collects, or group by more keys",
    )


def concat(parts: Sequence[pa.Array], measure: MeasureSpec) -> pa.Array:
    """Concatenate the values of several parts of the groups.

    Raises:
        RunFailed: RESULT_TOO_LARGE.
    """
    try:
        return pa.concat_arrays(parts)
    except pa.ArrowInvalid as error:
        size = sum(part.nbytes for part in parts)
        raise _too_large(measure, f"{size} bytes") from error


def choose(contributors: Contributors, entries: Indices, valid: Mask) -> pa.Array:
    """Return the values of entries in the type of the measure, null where `valid` is not set."""
    return convert(contributors.values.take(pa.array(entries, mask=~valid)), contributors.measure)


def convert(values: pa.Array, measure: MeasureSpec) -> pa.Array:
    """Convert values to the type of the measure.

    Floats are rounded to nearest, decimals half away from zero; integers are truncated.

    Raises:
        RunFailed: RESULT_OVERFLOW if a value does not fit.
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
    """Return whether all values are in the range of an unsigned type, stored in a wider one."""
    ends = pc.min_max(values)
    least, greatest = ends["min"].as_py(), ends["max"].as_py()
    return least is None or (least >= 0 and greatest <= limits(type_)[1])


def result_overflow(measure: MeasureSpec) -> RunFailed:
    """Return the error for a value that does not fit the measure's type."""
    return RunFailed(
        "RESULT_OVERFLOW",
        f"a value of measure {measure.label} does not fit its type {measure.type}",
        help="declare a wider output type, or the option overflow with SATURATE or SILENT",
    )


def lists(measure: MeasureSpec, lengths: Int64s, values: pa.Array, valid: Mask) -> pa.Array:
    """Return lists of these lengths over consecutive values.

    A list is null where `valid` is not set; its length is then 0.

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
