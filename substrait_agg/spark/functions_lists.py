"""Functions of lists, and those that make a list of a text."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.spark.parts import Arguments, Builder, plain
from substrait_agg.spark.patterns import quoted


def _sort(a: Arguments) -> Column:
    """Elements in Spark's order of values: NaN is the greatest float, text goes by its bytes in UTF-8."""
    direction = a.option("DIRECTION", "ASC_NULLS_LAST")
    if direction == "ASC_NULLS_FIRST":
        return F.sort_array(a[0], asc=True)
    if direction == "DESC_NULLS_LAST":
        return F.sort_array(a[0], asc=False)
    ascending = F.array_sort(a[0])
    return F.reverse(ascending) if direction == "DESC_NULLS_FIRST" else ascending


def _string_split(a: Arguments) -> Column:
    """Parts between separators; without a separator (null or empty) the whole text is the only part."""
    parts = F.split(a[0], quoted(a[1]), -1)
    whole = F.array(a[0])
    return F.when(a[0].isNotNull(), F.when(F.length(a[1]) > 0, parts).otherwise(whole))


def _index_in(a: Arguments) -> Column:
    """The place of the first equal element, from 0; null where there is none. NaN equals NaN, -0.0 equals 0.0."""
    place = F.array_position(a[1], a[0])
    found = F.when(place > 0, place - 1)
    floats = a.type(0).kind in ("fp32", "fp64")
    if floats and a.option("NAN_EQUALITY") == "NAN_IS_NOT_NAN":
        return F.when(~F.isnan(a[0]), found)
    return found


LISTS: dict[str, Builder] = {
    "cardinality": plain(F.cardinality),
    "sort": _sort,
    "string_split": _string_split,
    "index_in": _index_in,
}
