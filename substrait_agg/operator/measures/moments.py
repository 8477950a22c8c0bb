"""Variance, standard deviation, covariance and correlation from exact sums.

For n values, n * sum(xy) - sum(x) * sum(y) is n^2 times their covariance. It is computed in
integers. So the variance of equal values is 0 whatever their size, no variance is negative, and a
value that is added and later retracted has no effect.

- `variance`, `std_dev` and `covar` are correctly rounded, once, to the type of the measure.
- `corr` is accurate to two units in the last place and lies in [-1, 1]. It is exactly 1 or -1 if
  the points lie on a line. It is null if x or y does not vary (0 / 0), as in PostgreSQL and Spark;
  the Substrait specification does not define this case.
- Without values the result is null. With one value it is null for a sample and 0 for a population.
  With a NaN or an infinity among the values it is NaN. A variance, standard deviation or
  correlation is also NaN if no multiset has its sums, because rows were retracted before they were
  inserted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.functions.numbers import exact, roots
from substrait_agg.operator.common.spec import MeasureSpec
from substrait_agg.operator.numeric.delta import FloatDigits, split_registers
from substrait_agg.operator.numeric.numbers import FORMATS
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.state.keys.rows import Mask

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

CHUNK = 1 << 14
_DIVISOR_DIGITS = 6  # a quotient by two 63-bit numbers keeps more than 64 significant bits


@dataclass(frozen=True, slots=True)
class _CountsAndSums:
    """The counts (at least 1) of n groups, and their exact sums by name."""

    measure: MeasureSpec
    count: Int64s
    sums: Mapping[str, FloatDigits]

    def spread(self, x: str, y: str) -> tuple[Mask, exact.Magnitude, int]:
        """Return sign, magnitude and base of n * sum(xy) - sum(x) * sum(y)."""
        n = exact.from_words(self.count[:, None])
        products, left, right = (self.sums[name] for name in (x + y, x, y))
        first = exact.multiply(products.digits, n)
        second = exact.multiply(left.digits, right.digits)
        bases = products.base, left.base + right.base
        base = min(bases)
        length = max(bases[0] + len(first), bases[1] + len(second)) - base
        total = exact.zeros(length + 1, len(self.count))
        total[bases[0] - base :][: len(first)] += first
        total[bases[1] - base :][: len(second)] -= second
        below, mag = exact.magnitude(exact.carry(total))
        return below, *exact.trim(mag, base)

    @property
    def sample(self) -> bool:
        """Return whether the measure is that of a sample, not of a population."""
        return self.measure.option("DISTRIBUTION", "SAMPLE") == "SAMPLE"


def moment_value(measure: MeasureSpec, count: Int64s, sums: Mapping[str, FloatDigits]) -> pa.Array:
    """Return the values of a measure of kind variance, std_dev, covar or corr.

    Args:
        measure: the measure, with the options DISTRIBUTION (SAMPLE or POPULATION) and ROUNDING; its
            type is fp64 or fp32.
        count: per group, the number of rows whose x (and y) is not null.
        sums: carried sums over those rows, by name: ``x`` and ``xx``; for covar ``x``, ``y`` and
            ``xy``; for corr ``x``, ``y``, ``xy``, ``xx`` and ``yy``.

    Returns:
        An Arrow array with one value per group.
    """
    parts = {name: split_registers(value) for name, value in sums.items()}
    odd = np.zeros(len(count), np.bool_)
    for _, registers in parts.values():
        for register in registers:
            odd |= register != 0
    least = 2 if measure.kind != "corr" and _CountsAndSums(measure, count, {}).sample else 1
    valid = count >= least
    values = np.zeros(len(count), np.float64)
    # Each chunk trims its digits separately, so that one group with values of very different sizes
    # does not widen the digits of all groups.
    for start in range(0, len(count), CHUNK):
        rows = slice(start, start + CHUNK)
        finite = {name: _rows(value, rows) for name, (value, _) in parts.items()}
        chunk = _CountsAndSums(measure, np.where(valid[rows], count[rows], least), finite)
        values[rows], defined = _KINDS[measure.kind](chunk)
        valid[rows] &= defined | odd[rows]
    values[odd] = np.nan
    with np.errstate(over="ignore"):
        narrow = values.astype(FORMATS[measure.type.kind][2])
    return pa.array(narrow, to_arrow(measure.type), mask=~valid)


def _rows(value: FloatDigits, rows: slice) -> FloatDigits:
    digits = value.digits[:, rows]
    used = np.flatnonzero(digits.any(axis=1))
    if not len(used):
        return FloatDigits(0, digits[:1])
    return FloatDigits(value.base + int(used[0]), digits[used[0] : used[-1] + 1])


def _divide(groups: _CountsAndSums, y: str) -> tuple[Mask, exact.Magnitude, int, Mask]:
    """Return the covariance of x and `y`: sign, magnitude, base, and a mask of nonzero remainders."""
    below, mag, base = groups.spread("x", y)
    mag = np.concatenate([np.zeros((_DIVISOR_DIGITS, mag.shape[1]), np.uint64), mag])
    n = groups.count.astype(np.uint64)
    mag, lost = exact.divide(mag, n)
    mag, more = exact.divide(mag, n - np.uint64(groups.sample))
    return below, *exact.trim(mag, base - _DIVISOR_DIGITS), lost | more


def _round(
    groups: _CountsAndSums,
    mag: exact.Magnitude,
    below: Mask,
    lost: Mask,
    base: int,
    shift: Int64s | int = 0,
) -> Floats:
    precision, lowest, _ = FORMATS[groups.measure.type.kind]
    rounding = groups.measure.option("ROUNDING", exact.TIE_TO_EVEN)
    return exact.to_float(
        mag, below, lost, base, precision=precision, lowest=lowest, shift=shift, rounding=rounding
    )


def _covariance(groups: _CountsAndSums) -> tuple[Floats, Mask]:
    below, mag, base, lost = _divide(groups, "y")
    return _round(groups, mag, below, lost, base), np.ones_like(below)


def _variance(groups: _CountsAndSums) -> tuple[Floats, Mask]:
    below, mag, base, lost = _divide(groups, "x")
    values = _round(groups, mag, np.zeros_like(below), lost, base)
    return np.where(below, np.nan, values), np.ones_like(below)


def _deviation(groups: _CountsAndSums) -> tuple[Floats, Mask]:
    below, mag, base, lost = _divide(groups, "x")
    root, unit, more = roots.square_root(mag, lost, base)
    values = _round(groups, root, np.zeros_like(below), more, 0, unit)
    return np.where(below, np.nan, values), np.ones_like(below)


def _correlation(groups: _CountsAndSums) -> tuple[Floats, Mask]:
    negative, top, top_base = groups.spread("x", "y")
    below_x, left, left_base = groups.spread("x", "x")
    below_y, right, right_base = groups.spread("y", "y")
    square = exact.multiply(_digits(left), _digits(right))
    _, product = exact.magnitude(square)
    product, base = exact.trim(product, left_base + right_base)
    varies: Mask = np.asarray(product.any(axis=0))
    whole = np.zeros_like(varies)
    root, unit, lost = roots.square_root(product, whole, base)
    below, below_power = roots.scaled_floats(root, lost, 0, unit)
    above, above_power = roots.scaled_floats(top, whole, top_base)
    power = np.clip(above_power - below_power, -2000, 2000)
    size = np.minimum(np.ldexp(above / np.where(varies, below, 1.0), power), 1.0)
    values = np.where(negative & (size != 0), -size, size)
    impossible = below_x | below_y
    return np.where(impossible, np.nan, values), varies | impossible


def _digits(mag: exact.Magnitude) -> exact.Digits:
    return exact.carry(exact.widen(mag.view(np.int64), len(mag) + 1).copy())


_KINDS: Mapping[str, Callable[[_CountsAndSums], tuple[Floats, Mask]]] = {
    "variance": _variance,
    "std_dev": _deviation,
    "covar": _covariance,
    "corr": _correlation,
}
