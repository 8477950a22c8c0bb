"""A simple implementation of the rounding of fractions, as a reference for the columns."""

from __future__ import annotations

import math
from fractions import Fraction

MODES = ["TIE_TO_EVEN", "TIE_AWAY_FROM_ZERO", "TRUNCATE", "CEILING", "FLOOR"]


def round_whole(value: Fraction, mode: str) -> int:
    """The nearest integer in a direction."""
    if mode == "TIE_TO_EVEN":
        return round(value)
    if mode == "TIE_AWAY_FROM_ZERO":
        size = math.floor(abs(value) + Fraction(1, 2))
        return -size if value < 0 else size
    if mode == "TRUNCATE":
        return math.trunc(value)
    return math.ceil(value) if mode == "CEILING" else math.floor(value)


def round_float(value: Fraction, mode: str, *, single: bool = False) -> float:
    """The fp64 (or fp32) number next to a fraction in a direction, rounded once."""
    if value == 0:
        return 0.0
    precision, lowest = (24, -126) if single else (53, -1022)
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, lowest) - precision + 1)
    rounded = round_whole(value / unit, mode) * unit
    largest = (2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** (1 - lowest)
    if abs(rounded) <= largest:
        return float(rounded) + 0.0
    inward = mode in ("TRUNCATE", "FLOOR" if value > 0 else "CEILING")
    end = float(largest) if inward else math.inf
    return end if value > 0 else -end
