"""List the catalogue rows of extremes, ranks, lists and values by order, other value or arrival."""

from __future__ import annotations

from substrait_agg.functions.aggregates.parts import (
    ACCURACY,
    ANY_DIRECTION,
    ANYTHING,
    ARITHMETIC,
    COMPARABLE,
    DATAFUSION,
    DATETIME,
    DECIMAL,
    DUCKDB,
    FLOWTIDE,
    FRACTION,
    GENERIC,
    IGNORE_NULLS,
    ISTHMUS,
    LIST,
    NUMBER,
    OCTOSQL,
    ORDER_FREE,
    PRECISION,
    ROUNDING,
    SAME_ONCE,
    SPARK,
    STRING,
    TIES,
    UNSIGNED_EXTENSION,
    preset,
    to_aliases,
)
from substrait_agg.functions.aggregates.row import (
    HONOURED,
    AggregateFunction,
    Alias,
    FunctionOption,
    FunctionParameter,
    no_op,
    refuse,
)
from substrait_agg.functions.aggregates.types import ALL_NUMBERS, ORDERED, POINTS
from substrait_agg.functions.signatures.derive import TEXTS

_BOUNDARIES = FunctionParameter(
    "boundaries", "enum", words=dict.fromkeys(("NEITHER", "MINIMUM", "MAXIMUM", "BOTH"), HONOURED)
)
_BINS = FunctionParameter("n", "constant", rule="count")
_SEPARATOR = FunctionParameter("separator", "constant", optional=True, rule="text", default=",")
_ORDER_VALUE = FunctionParameter("y", kinds=ORDERED)
_EITHER = no_op("any of the values may be returned; the result is null only if all values are null")
_PICKED_ONCE = no_op("a duplicate pair of values does not change which pair is selected")
_NULLS_SKIPPED = (("IGNORE_NULLS", "TRUE"),)
_ARRIVAL_DISTINCT = refuse(
    "equal values arrive at different times, and it is not defined which arrival counts; give an order"
)
_OWN_ORDER = "the values are ordered ascending"
_ARRIVAL = "the rows are ordered by their arrival"
_FIRST_ONCE = no_op("if the sort keys are among its arguments, equal values have the same position")

EXTREMES = (
    AggregateFunction(
        "min", "min", (COMPARABLE,), "first", (ARITHMETIC, DECIMAL, DATETIME, UNSIGNED_EXTENSION),
        distinct=SAME_ONCE, order_by=ORDER_FREE, intermediate="first",
    ),
    AggregateFunction(
        "max", "max", (COMPARABLE,), "first", (ARITHMETIC, DECIMAL, DATETIME, UNSIGNED_EXTENSION),
        distinct=SAME_ONCE, order_by=ORDER_FREE, intermediate="first",
    ),
    AggregateFunction(
        "any_value", "any_value", (ANYTHING,), "first", (GENERIC,),
        aliases=(*to_aliases("arbitrary"), *to_aliases("key", OCTOSQL)),
        options={"IGNORE_NULLS": FunctionOption({"TRUE": _EITHER, "FALSE": _EITHER})},
        distinct=SAME_ONCE, order_by=ANY_DIRECTION, intermediate="first",
    ),
    AggregateFunction(
        "min_by", "min_by", (ANYTHING, _ORDER_VALUE), "first", (ARITHMETIC,), (*FLOWTIDE, *DUCKDB),
        aliases=preset("arg_min argmin", _NULLS_SKIPPED, DUCKDB), options=IGNORE_NULLS, distinct=_PICKED_ONCE, order_by=ORDER_FREE,
        nulls="a row whose y is null is skipped; a null x is returned",
    ),
    AggregateFunction(
        "max_by", "max_by", (ANYTHING, _ORDER_VALUE), "first", (ARITHMETIC,), (*FLOWTIDE, *DUCKDB),
        aliases=preset("arg_max argmax", _NULLS_SKIPPED, DUCKDB), options=IGNORE_NULLS, distinct=_PICKED_ONCE, order_by=ORDER_FREE,
        nulls="a row whose y is null is skipped; a null x is returned",
    ),
)  # fmt: skip

RANKS = (
    AggregateFunction(
        "mode", "mode", (ANYTHING,), "first", (ARITHMETIC,), options=TIES,
        distinct=refuse("every distinct value occurs once, so no value is the most frequent"),
        order_by=no_op("of equally frequent values the least one is returned, or the greatest, in any order of rows"),
    ),
    AggregateFunction(
        "median", "median", (PRECISION, NUMBER), "first", (ARITHMETIC,),
        aliases=to_aliases("approx_median", DATAFUSION), options=ROUNDING, order_by=ORDER_FREE,
    ),
    AggregateFunction(
        "quantile", "quantile",
        (_BOUNDARIES, PRECISION, _BINS, FunctionParameter("distribution", kinds=(*ALL_NUMBERS, *POINTS))),
        "quantiles", (ARITHMETIC,), options=ROUNDING, order_on_argument=True, order_else=_OWN_ORDER,
        nulls="one null makes the result null", keep_nulls=True,
    ),
    AggregateFunction(
        "percentile_cont", "percentile_cont", (NUMBER, FRACTION), "continuous", (), DATAFUSION,
        aliases=to_aliases("quantile_cont", DUCKDB), order_on_argument=True,
    ),
    AggregateFunction(
        "approx_percentile_cont", "percentile_cont", (NUMBER, FRACTION, ACCURACY), "first", (), DATAFUSION,
        aliases=to_aliases("approx_quantile", DUCKDB), order_on_argument=True,
    ),
    AggregateFunction(
        "approx_percentile", "percentile_disc", (NUMBER, FRACTION, ACCURACY), "first", (), SPARK,
        aliases=to_aliases("percentile_approx", SPARK), order_on_argument=True,
    ),
    AggregateFunction(
        "percentile_disc", "percentile_disc", (COMPARABLE, FRACTION), "first", (), (*DUCKDB, *ISTHMUS),
        aliases=to_aliases("quantile_disc", DUCKDB), order_on_argument=True,
    ),
)  # fmt: skip

LISTS = (
    AggregateFunction(
        "array_agg", "list", (ANYTHING,), "list", (), (*DATAFUSION, *DUCKDB),
        aliases=to_aliases("list", DUCKDB), nulls="kept", keep_nulls=True,
        settings=(("EMPTY", "NULL"),), order_else=_OWN_ORDER,
    ),
    AggregateFunction(
        "list_agg", "list", (ANYTHING,), "collected", (LIST,), FLOWTIDE,
        aliases=(*to_aliases("collect_list", SPARK), Alias("collect_set", SPARK, distinct=True)),
        empty="an empty list", order_else=_OWN_ORDER,
    ),
    AggregateFunction(
        "string_agg", "string_agg", (FunctionParameter("input", kinds=TEXTS), _SEPARATOR), "text", (STRING,),
        aliases=(*to_aliases("listagg", ISTHMUS), *to_aliases("group_concat", DUCKDB)), order_else=_OWN_ORDER,
    ),
    AggregateFunction(
        "list_union_distinct_agg", "list_union_distinct", (FunctionParameter("x", kinds=("list",)),), "union",
        (LIST,), FLOWTIDE, distinct=SAME_ONCE,
        order_by=refuse("the elements come from many lists and are ordered by value"),
        nulls="a null list is skipped, a null element is kept", empty="an empty list",
    ),
)  # fmt: skip

PLACES = (
    AggregateFunction(
        "first_value", "first_value", (ANYTHING,), "first", (), DATAFUSION, options=IGNORE_NULLS,
        distinct=_FIRST_ONCE, nulls="kept", keep_nulls=True, unordered_form="first",
        order_else=_ARRIVAL,
    ),
    AggregateFunction(
        "last_value", "last_value", (ANYTHING,), "first", (), DATAFUSION, options=IGNORE_NULLS,
        distinct=_FIRST_ONCE, nulls="kept", keep_nulls=True, unordered_form="last",
        order_else=_ARRIVAL,
    ),
    AggregateFunction(
        "nth_value", "nth_value", (ANYTHING, FunctionParameter("n", "constant", rule="position")), "first",
        (), DATAFUSION, options=IGNORE_NULLS, nulls="kept", keep_nulls=True, order_else=_OWN_ORDER,
    ),
    AggregateFunction(
        "first", "first", (ANYTHING,), "first", (), (*OCTOSQL, *DUCKDB), options=IGNORE_NULLS,
        distinct=_ARRIVAL_DISTINCT, nulls="kept", keep_nulls=True, ordered_form="first_value",
    ),
    AggregateFunction(
        "last", "last", (ANYTHING,), "first", (), (*OCTOSQL, *DUCKDB), options=IGNORE_NULLS,
        distinct=_ARRIVAL_DISTINCT, nulls="kept", keep_nulls=True, ordered_form="last_value",
    ),
)  # fmt: skip
