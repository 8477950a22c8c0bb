"""THE table of how scalar functions run on Spark: canonical name -> builder of a Column."""

from __future__ import annotations

from pyspark.sql import Column

from substrait_agg.spark.functions_bits import BITS
from substrait_agg.spark.functions_lists import LISTS
from substrait_agg.spark.functions_logic import LOGIC
from substrait_agg.spark.functions_numbers import NUMBERS
from substrait_agg.spark.functions_text import TEXT
from substrait_agg.spark.functions_time import MOVES, TIME
from substrait_agg.spark.functions_unsigned import UNSIGNED
from substrait_agg.spark.parts import Arguments, Builder
from substrait_agg.spark.windows import WINDOWS

_POINTS_IN_TIME = frozenset({"date", "precision_timestamp", "precision_timestamp_tz"})
_UNSIGNED_KINDS = frozenset({"u8", "u16", "u32", "u64"})


def _by_first_type(name: str) -> Builder:
    """Numbers, unsigned integers and points in time share a name; the first argument tells which it is."""

    def build(a: Arguments) -> Column:
        kind = a.type(0).kind
        if kind in _UNSIGNED_KINDS:
            return UNSIGNED[name](a)
        return (MOVES if kind in _POINTS_IN_TIME else NUMBERS)[name](a)

    return build


BUILDERS: dict[str, Builder] = {
    **LOGIC,
    **NUMBERS,
    **TEXT,
    **TIME,
    **LISTS,
    **WINDOWS,
    **BITS,
    **{name: _by_first_type(name) for name in UNSIGNED},
}
"""One row for each row of `functions.scalars.SCALARS`."""
