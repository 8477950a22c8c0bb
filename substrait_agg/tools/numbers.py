"""Format the exact numbers of groups as text, for the few groups that a tool shows."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa

from substrait_agg.explanation.tree import NumberColumns
from substrait_agg.functions.aggregates.accumulators import COUNT_DIGITS, DIGIT_BITS
from substrait_agg.functions.numbers.exact import Digits
from substrait_agg.functions.numbers.stored_digits import unpack_digits
from substrait_agg.operator.numeric.delta import split_registers, unpack_floats

LONGEST = 60
"""Greatest number of decimal places of an exact binary fraction.

Longer ones are rounded and marked by ``~``.
"""

_SPECIALS = ("NaN", "Infinity", "-Infinity")


def weights(rows: pa.Table) -> list[int]:
    """Return the total weight of each group, from rows of a group tree with digits."""
    return _integers(unpack_digits(rows, COUNT_DIGITS))


def numbers(rows: pa.Table, shapes: tuple[NumberColumns, ...]) -> list[list[str]]:
    """Return per accumulator its exact value in every group."""
    fixed = unpack_digits(rows, COUNT_DIGITS + sum(shape.digits for shape in shapes))
    start, columns = COUNT_DIGITS, []
    for ordinal, shape in enumerate(shapes):
        if shape.digits:
            whole = _integers(fixed[start : start + shape.digits])
            columns.append([_scale(value, shape.scale) for value in whole])
            start += shape.digits
        else:
            columns.append(_floats(rows, ordinal))
    return columns


def _integers(digits: Digits) -> list[int]:
    return [_whole(column) for column in digits.T.tolist()]


def _whole(digits: list[int]) -> int:
    return sum(digit << DIGIT_BITS * place for place, digit in enumerate(digits))


def _scale(value: int, scale: int) -> str:
    if not scale:
        return str(value)
    text = str(abs(value)).rjust(scale + 1, "0")
    return f"{'-' if value < 0 else ''}{text[:-scale]}.{text[-scale:]}"


def _floats(rows: pa.Table, ordinal: int) -> list[str]:
    if not rows.num_rows:
        return []
    positions, lists = (rows.column(f"{c}{ordinal}").combine_chunks() for c in "pf")
    finite, specials = split_registers(unpack_floats(positions, lists))
    wholes = _integers(finite.digits)
    unit = Fraction(2) ** (DIGIT_BITS * finite.base)
    texts = []
    for row, whole in enumerate(wholes):
        counted = [name for name, n in zip(_SPECIALS, specials, strict=True) if n[row]]
        texts.append(" and ".join([*counted, _binary(whole * unit)][: len(counted) or 1]))
    return texts


def _binary(value: Fraction) -> str:
    """Format a binary fraction in decimal: exact if it has at most `LONGEST` places."""
    places = value.denominator.bit_length() - 1
    if places <= LONGEST:
        return _trim(_scale(value.numerator * 5**places, places))
    try:
        return f"~{float(value)!r}"
    except OverflowError:
        return f"~2^{(abs(value.numerator) // value.denominator).bit_length() - 1}"


def _trim(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
