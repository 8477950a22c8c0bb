"""Conversion of partial sums to exact digits: what one batch adds to each accumulator of a group.

A delta table has the columns ``hash`` (uint64), keys ``k*``, and partial sums (int64). The partial
sums are coefficients at distances of 32 bits, lowest first: ``w_0``, ``w_1``, ... for the total
weight and ``a{i}_0``, ... for accumulator i. Rows of one table may have different numbers of
coefficients; the missing ones are null. Spark sums batches with large weights at distances of 16
bits; `from_halves` converts them.

- A decimal accumulator has either one column ``a{i}`` of type decimal(38, s), null if the sum did
  not fit, or parts ``a{i}_{part}_{j}``. Part p counts units of 10^(18 p).
- A tree whose extremes Spark computes (`TreeSpec.partial`) has ``lo{i}`` and ``hi{i}``, the least
  and greatest value of argument i, as far as measures read them, and ``__weight``, the number of
  rows that each row sums up.
- A float or product accumulator has a column ``b{i}`` (int32), the bin of the values added; null
  means bin 0. The coefficients of bin b count units of 2^(64 b - 96) for floats. For products of
  two floats, which have twice the bits, they count units of 2^(64 b - 160). Values that are not
  finite are counted in bins of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.functions.aggregates.accumulators import DIGIT_BITS, Accumulator
from substrait_agg.functions.numbers import exact
from substrait_agg.operator.common.spec import OperatorSpec
from substrait_agg.state.keys.rows import as_mask, fill_nulls, whole

BIN_DIGITS = 2  # a bin is 64 bits wide
BIN_BASE = {"float": -3, "product": -5}  # position of a bin's first coefficient, in digits
# Bins of NaN, +inf and -inf; no finite value has them.
NAN_BIN, PLUS_BIN, MINUS_BIN = 40, 42, 44
REGISTER_BINS = (NAN_BIN, PLUS_BIN, MINUS_BIN)
REGISTER_DIGITS = 4
_ALL_REGISTERS = len(REGISTER_BINS) * REGISTER_DIGITS
_WITH_REGISTERS = 1 << 12  # added to the stored position of groups with registers
PART_POWER = 18
HALVES = "h"
"""Behind the prefix of a number whose coefficients are at distances of 16 bits: ``a0h_0``, ..."""
_HALF_BITS = 16
ROOM = 1 << 61
"""Magnitude below which sums can be uncarried digits without leaving int64."""


@dataclass(frozen=True, slots=True)
class FloatDigits:
    """The digits of a float accumulator.

    Attributes:
        base: position of `digits[0]`.
        digits: digits of the sum of the finite values.
        registers: counts of NaN, +inf and -inf, four digits each; None if all are 0.
    """

    base: int
    digits: exact.Digits
    registers: exact.Digits | None = None

    def apply(self, function: Callable[[exact.Digits], exact.Digits]) -> FloatDigits:
        """Return the result of a function of the digits and of the registers."""
        registers = None if self.registers is None else function(self.registers)
        return FloatDigits(self.base, function(self.digits), registers)


def int64_column(table: pa.Table, name: str) -> npt.NDArray[np.int64]:
    """Return a column of partial sums with 0 for null (no row contributed)."""
    return np.asarray(fill_nulls(whole(table, name)), np.int64)


def from_halves(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Convert coefficients at distances of 16 bits to coefficients at distances of 32 bits."""
    counts = Counter(
        prefix[: -len(HALVES)]
        for prefix, _, _ in (name.rpartition("_") for name in rows.schema.names)
        if prefix.endswith(HALVES)
    )
    if not counts:
        return rows
    table = pa.Table.from_batches([rows])
    cells: dict[str, pa.Array | npt.NDArray[np.int64]] = {
        name: rows.column(name)
        for name in rows.schema.names
        if not name.rpartition("_")[0].endswith(HALVES)
    }
    for prefix, count in counts.items():
        digits = exact.zeros(((count - 1) * _HALF_BITS) // DIGIT_BITS + 4, rows.num_rows)
        for j in range(count):
            column = int64_column(table, f"{prefix}{HALVES}_{j}")
            exact.add_at(digits, column, j * _HALF_BITS)
        cells |= {f"{prefix}_{j}": digit for j, digit in enumerate(exact.carry(digits))}
    return pa.RecordBatch.from_pydict(cells)


def coefficients(table: pa.Table, prefix: str) -> exact.Digits:
    """Return a number as uncarried digits; its coefficients are ``prefix_0``, ``prefix_1``, ..."""
    names = set(table.column_names)
    count = next(j for j in range(len(names) + 1) if f"{prefix}_{j}" not in names)
    columns = [int64_column(table, f"{prefix}_{j}") for j in range(count)]
    digits = exact.zeros(count + 3, table.num_rows)
    if all(map(has_room, columns)):
        for j, column in enumerate(columns):
            digits[j] = column
        return digits
    for j, column in enumerate(columns):
        exact.add_at(digits, column, j * DIGIT_BITS)
    return digits


def has_room(column: npt.NDArray[np.int64], together: int = 1) -> bool:
    """Return whether sums of `together` values can be uncarried digits without leaving int64."""
    return largest(column) < ROOM // max(1, together)


def largest(column: npt.NDArray[np.int64]) -> int:
    """Return the greatest magnitude of a column; 0 without rows."""
    return max(int(column.max()), -int(column.min())) if len(column) else 0


def fixed_digits(table: pa.Table, ordinal: int, accumulator: Accumulator) -> exact.Digits:
    """Return what each row adds to an accumulator of fixed size, as uncarried digits."""
    if accumulator.kind != "decimal":
        return coefficients(table, f"a{ordinal}")
    if f"a{ordinal}" in table.column_names:
        return _from_decimals(table.column(f"a{ordinal}").combine_chunks())
    total = exact.zeros(accumulator.digits + 4, table.num_rows)
    for part in range(3):
        if f"a{ordinal}_{part}_0" not in table.column_names:
            break
        digits = exact.carry(coefficients(table, f"a{ordinal}_{part}"))
        scaled = exact.times_power_of_ten(digits, PART_POWER * part)
        total = exact.widen(total, len(scaled))
        total[: len(scaled)] += scaled
    return total


def decimal_overflow(table: pa.Table, spec: OperatorSpec) -> bool:
    """Return whether a decimal sum exceeds Spark's 38 digits, to be summed again in parts."""
    for i, accumulator in enumerate(spec.accumulators):
        if accumulator.kind != "decimal" or f"a{i}" not in table.column_names:
            continue
        lost = pc.and_(pc.is_null(table.column(f"a{i}")), pc.greater(table.column(f"c{i}"), 0))
        if pc.any(lost).as_py():
            return True
    return False


def _from_decimals(values: pa.Array) -> exact.Digits:
    raw = values.buffers()[1]
    words = np.frombuffer(raw, np.int64, count=2 * (len(values) + values.offset))
    words = words.reshape(-1, 2)[values.offset :]
    if values.null_count:
        words = np.where(as_mask(values.is_null())[:, None], np.int64(0), words)
    return exact.from_words(np.ascontiguousarray(words))


def float_digits(table: pa.Table, ordinal: int, accumulator: Accumulator) -> FloatDigits:
    """Return what each row adds to a float or product accumulator, at the position of its bin."""
    below = BIN_BASE[accumulator.kind]
    local = coefficients(table, f"a{ordinal}")
    bins = int64_column(table, f"b{ordinal}")
    if not len(bins):
        return FloatDigits(below, local)
    special = bins >= NAN_BIN
    if not special.any():
        return _at_bins(local, bins, below)
    registers = exact.zeros(_ALL_REGISTERS, len(bins))
    for register, bin_ in enumerate(REGISTER_BINS):
        rows = np.flatnonzero(bins == bin_)
        # A value that is not finite is encoded as 1 in units of its bin.
        counts = local[-below : REGISTER_DIGITS - below, rows]
        start = REGISTER_DIGITS * register
        registers[start : start + len(counts), rows] = counts
    local[:, special] = 0
    finite = _at_bins(local, np.where(special, 0, bins), below)
    return FloatDigits(finite.base, finite.digits, registers)


def _at_bins(local: exact.Digits, bins: npt.NDArray[np.int64], below: int) -> FloatDigits:
    """Return each row's digits at the position of its bin."""
    low, high = int(bins.min()), int(bins.max())
    base = BIN_DIGITS * low + below
    if low == high:
        return FloatDigits(base, local)
    digits = exact.zeros(len(local) + BIN_DIGITS * (high - low), len(bins))
    for bin_ in np.unique(bins):
        rows = np.flatnonzero(bins == bin_)
        start = BIN_DIGITS * (int(bin_) - low)
        digits[start : start + len(local), rows] = local[:, rows]
    return FloatDigits(base, digits)


def consolidate(
    digits: exact.Digits, starts: npt.NDArray[np.int64], order: npt.NDArray[np.int64]
) -> exact.Digits:
    """Sum uncarried digits per group; groups begin at `starts` of the row order `order`."""
    ordered = digits.take(order, axis=1)
    if len(starts) == len(order):
        return ordered
    return np.add.reduceat(exact.carry(ordered), starts, axis=1)


def add_floats(left: FloatDigits, right: FloatDigits) -> FloatDigits:
    """Return the carried sum of two columns of float digits, with one more digit for the carry."""
    base = min(left.base, right.base)
    top = max(left.base + len(left.digits), right.base + len(right.digits))
    digits = exact.zeros(top - base + 1, left.digits.shape[1])
    for part in (left, right):
        start = part.base - base
        digits[start : start + len(part.digits)] += part.digits
    return FloatDigits(base, exact.carry(digits), _add_registers(left.registers, right.registers))


def concat_floats(parts: Sequence[FloatDigits]) -> FloatDigits:
    """Return the numbers of all parts, one part after the other."""
    base = min(part.base for part in parts)
    top = max(part.base + len(part.digits) for part in parts)
    ends = np.cumsum([part.digits.shape[1] for part in parts])
    digits = exact.zeros(top - base, int(ends[-1]))
    counting = any(part.registers is not None for part in parts)
    registers = exact.zeros(_ALL_REGISTERS, int(ends[-1])) if counting else None
    for part, end in zip(parts, ends, strict=True):
        columns = slice(end - part.digits.shape[1], end)
        digits[part.base - base : part.base - base + len(part.digits), columns] = part.digits
        if registers is not None and part.registers is not None:
            registers[:, columns] = part.registers
    return FloatDigits(base, digits, registers)


def consolidate_floats(
    value: FloatDigits, owners: npt.NDArray[np.int64], count: int
) -> FloatDigits:
    """Return the uncarried sums of carried numbers per owner, of `count` owners."""
    order = np.argsort(owners, kind="stable")
    starts = np.flatnonzero(np.diff(owners[order], prepend=-1))

    def sums(digits: exact.Digits) -> exact.Digits:
        """Add up the digits of each owner."""
        total = exact.zeros(len(digits), count)
        total[:, owners[order[starts]]] = np.add.reduceat(digits[:, order], starts, axis=1)
        return total

    return value.apply(sums)


def trim(value: FloatDigits, *, carries: int = 0) -> FloatDigits:
    """Return the same numbers without the highest and lowest digits that are 0 in all of them.

    Args:
        value: the numbers.
        carries: digits of 0 to keep above the others, for carries if they are not carried.
    """
    used = np.flatnonzero(value.digits.any(axis=1))
    first, end = (int(used[0]), int(used[-1]) + 1 + carries) if len(used) else (0, 1)
    if first == 0 and end >= len(value.digits):
        return value
    return FloatDigits(value.base + first, value.digits[first:end], value.registers)


def _add_registers(left: exact.Digits | None, right: exact.Digits | None) -> exact.Digits | None:
    if left is None or right is None:
        total = left if right is None else right
        if total is None:
            return None
        total = total.copy()
    else:
        total = left + right
    for start in range(0, _ALL_REGISTERS, REGISTER_DIGITS):
        exact.carry(total[start : start + REGISTER_DIGITS])
    return total if total.any() else None


def pack_floats(value: FloatDigits) -> tuple[pa.Array, pa.Array]:
    """Return carried digits in stored form.

    The registers of a group, if any, follow its digits. Its position is then increased by
    `_WITH_REGISTERS`.

    Returns:
        The position of the lowest nonzero digit (int16), and the list of digits up to the highest
        nonzero one (list of int32).
    """
    value = trim(value)
    nonzero = value.digits != 0
    length, rows = value.digits.shape
    some = nonzero.any(axis=0)
    first = np.where(some, np.argmax(nonzero, axis=0), 0)
    last = np.where(some, length - np.argmax(nonzero[::-1], axis=0), 0)
    depth = np.arange(length)
    inside = (depth >= first[:, None]) & (depth < last[:, None])
    stored, position = value.digits, first + value.base
    if value.registers is not None:
        counting = np.asarray(value.registers.any(axis=0))
        position = position + np.where(counting, _WITH_REGISTERS, 0)
        tails = np.broadcast_to(counting[:, None], (rows, _ALL_REGISTERS))
        inside = np.concatenate([inside, tails], axis=1)
        stored = np.concatenate([stored, value.registers])
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(inside.sum(axis=1), out=offsets[1:])
    digits = stored.T[inside].astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(digits))
    return pa.array(position.astype(np.int16)), lists


def unpack_floats(positions: pa.Array, lists: pa.ListArray) -> FloatDigits:
    """Return float digits from their stored form (`pack_floats`)."""
    offsets = lists.offsets.to_numpy().astype(np.int64)
    lengths = np.diff(offsets)
    start = positions.to_numpy().astype(np.int64)
    counting = start >= _WITH_REGISTERS // 2
    start = start - np.where(counting, _WITH_REGISTERS, 0)
    finite = lengths - np.where(counting, _ALL_REGISTERS, 0)
    stored = lists.values.to_numpy()
    some = finite > 0
    base = int(start[some].min()) if some.any() else 0
    top = int((start + finite)[some].max()) if some.any() else 1
    digits = exact.zeros(top - base, len(lengths))
    for depth in range(int(finite.max(initial=0))):
        rows = np.flatnonzero(finite > depth)
        digits[start[rows] - base + depth, rows] = stored[offsets[rows] + depth]
    if not counting.any():
        return FloatDigits(base, digits)
    rows = np.flatnonzero(counting)
    registers = exact.zeros(_ALL_REGISTERS, len(lengths))
    behind = offsets[rows] + finite[rows]
    registers[:, rows] = stored[behind + np.arange(_ALL_REGISTERS)[:, None]]
    return FloatDigits(base, digits, registers)


def split_registers(value: FloatDigits) -> tuple[FloatDigits, list[npt.NDArray[np.int64]]]:
    """Split carried float digits into the finite part and the counts of NaN, +inf and -inf.

    Only the sign of each count is meaningful.
    """
    rows = value.digits.shape[1]
    finite = FloatDigits(value.base, value.digits)
    if value.registers is None:
        return finite, [np.zeros(rows, np.int64) for _ in REGISTER_BINS]
    counts = []
    for start in range(0, _ALL_REGISTERS, REGISTER_DIGITS):
        sign = np.zeros(rows, np.int64)
        for digit in value.registers[start : start + REGISTER_DIGITS]:
            sign = np.where(digit != 0, np.sign(digit), sign)
        counts.append(sign)
    return finite, counts
