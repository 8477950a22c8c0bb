"""THE table of how scalar functions run on Spark: canonical name -> builder of a Column."""

from __future__ import annotations

from pyspark.sql import Column

from substrait_agg.spark.functions_lists import LISTS
from substrait_agg.spark.functions_logic import LOGIC
from substrait_agg.spark.functions_numbers import NUMBERS
from substrait_agg.spark.functions_text import TEXT
from substrait_agg.spark.functions_time import MOVES, TIME
from substrait_agg.spark.parts import Arguments, Builder

_POINTS_IN_TIME = frozenset({"date", "precision_timestamp", "precision_timestamp_tz"})


def _number_or_time(name: str) -> Builder:
    """Numbers and points in time share a name; the first argument tells which it is."""

    def build(a: Arguments) -> Column:
        return (MOVES if a.type(0).kind in _POINTS_IN_TIME else NUMBERS)[name](a)

    return build


BUILDERS: dict[str, Builder] = {
    **LOGIC,
    **NUMBERS,
    **TEXT,
    **TIME,
    **LISTS,
    **{name: _number_or_time(name) for name in MOVES},
}
"""One row for each row of `functions.scalars.SCALARS`."""
