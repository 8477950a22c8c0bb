"""How many rows each table has at a scale, and the days that the tables span."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date

_EPOCH = date(1970, 1, 1).toordinal()


def day(year: int, month: int, number: int) -> int:
    """Return a date as days since 1970."""
    return date(year, month, number).toordinal() - _EPOCH


SECONDS = 86_400
"""Of a day."""
BATCHES = 3
LOADED = day(2017, 7, 7)
"""The day of batch 1. Each further batch is the next day."""
END = LOADED + 1
"""The first day after the historical load."""
LAST = LOADED + BATCHES
"""The first day after all batches."""
CUSTOMERS_BEGIN = LOADED - 3652
TRADES_BEGIN = LOADED - 1826
MARKET_BEGIN = day(2015, 7, 6)
FIRST_YEAR = 1967
QUARTERS = 202
"""Quarters of FINWIRE, from the first of 1967 on."""


@dataclass(frozen=True)
class Sizes:
    """Numbers of rows.

    Attributes:
        scale: the scale factor; below 1 for tests.
    """

    scale: float

    def of(self, per_scale: float, least: int = 1) -> int:
        """Return so many rows per scale factor, but not fewer than these."""
        return max(least, math.ceil(per_scale * self.scale))

    @property
    def employees(self) -> int:
        """Rows of hr."""
        return self.of(5000, 20)

    @property
    def actions(self) -> int:
        """Rows of customer_mgmt, about."""
        return self.of(5000, 40)

    @property
    def companies(self) -> int:
        """Companies; some have more than one row in finwire_cmp."""
        return self.of(444, 4)

    @property
    def securities(self) -> int:
        """Securities; some have more than one row in finwire_sec."""
        return self.of(730, 6)

    @property
    def prospects(self) -> int:
        """Rows of prospect in a batch."""
        return self.of(5000, 20)

    @property
    def trades(self) -> int:
        """Trades of all batches, about."""
        return self.of(130_000, 200)

    @property
    def watches(self) -> int:
        """Securities that customers begin to watch before the end of batch 1."""
        return self.of(240_000, 100)
