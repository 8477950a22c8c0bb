"""The table of scalar functions on Spark: canonical name -> builder of a column."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.functions.scalars.catalogue import SCALARS
from substrait_agg.plan.types import UNSIGNED
from substrait_agg.spark.functions.integers import BITS, UNSIGNED_CALLS
from substrait_agg.spark.functions.logic import LOGIC
from substrait_agg.spark.functions.numbers import NUMBERS
from substrait_agg.spark.functions.parts import Arguments, Builder, plain
from substrait_agg.spark.functions.regex import REGEX
from substrait_agg.spark.functions.text import LISTS, TEXT
from substrait_agg.spark.functions.time import MOVES, TIME, TIME_ROUNDING
from substrait_agg.spark.functions.time_formats import FORMATS
from substrait_agg.spark.functions.windows import WINDOWS

_INTERVALS = frozenset({"interval_year", "interval_day", "interval_compound"})


def _by_first_type(args: Arguments, *, name: str) -> Column:
    """Select the builder of a name by the types of the arguments.

    Unsigned integers, intervals and other numbers share names such as `add`.
    """
    kind = args.type(0).kind
    if kind in UNSIGNED:
        return UNSIGNED_CALLS[name](args)
    if args.type(1).kind in _INTERVALS:
        return MOVES[name](args)
    return NUMBERS[name](args)


HIGHER_ORDER: dict[str, Callable[[Column, Callable[[Column], Column]], Column]] = {
    "transform": F.transform,
    "filter": F.filter,
    "any_match": F.exists,
    "all_match": F.forall,
}
"""Functions of a list and a lambda over its elements. Spark's follow three-valued logic."""

BUILDERS: dict[str, Builder] = {
    **LOGIC,
    **NUMBERS,
    **TEXT,
    **REGEX,
    **TIME,
    **FORMATS,
    **TIME_ROUNDING,
    **LISTS,
    **WINDOWS,
    **BITS,
    **{name: partial(_by_first_type, name=name) for name in UNSIGNED_CALLS},
    **{
        name: plain(partial(F.call_function, row.spark))
        for name, row in SCALARS.items()
        if row.spark
    },
}
"""Function -> its builder.

Each row of `functions.scalars.catalogue.SCALARS` has one entry here or in `HIGHER_ORDER`.
"""
