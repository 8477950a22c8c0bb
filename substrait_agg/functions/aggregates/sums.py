"""List the catalogue rows of counts, sums and functions of sums, conditions and bits."""

from __future__ import annotations

from substrait_agg.functions.aggregates.parts import (
    APPROX,
    ARITHMETIC,
    BOOLEAN,
    CONDITION,
    DATAFUSION,
    DECIMAL,
    DISTRIBUTION,
    DUCKDB,
    FACTOR,
    FLOATING,
    FLOATING_Y,
    FLOWTIDE,
    GENERIC,
    INTEGER,
    ISTHMUS,
    NUMBER,
    ORDER_FREE,
    OVERFLOW,
    POPULATION,
    PRODUCT,
    ROUNDING,
    SAME_ONCE,
    SAMPLE,
    SPARK,
    SPREAD,
    UNSIGNED_EXTENSION,
    preset,
    to_aliases,
)
from substrait_agg.functions.aggregates.row import (
    AggregateFunction,
    FunctionParameter,
    no_op,
    refuse,
)
from substrait_agg.functions.aggregates.types import DECIMAL_OUTPUT, HASHED
from substrait_agg.plan.types import SIGNED

_COUNTED = FunctionParameter("x", optional=True, repeats=True)
_VALUES = FunctionParameter("x", repeats=True)
_HASHED = FunctionParameter("x", kinds=HASHED)
_SKETCHED = FunctionParameter("x", kinds=(*SIGNED, "string", "binary"))
_DEPTH = FunctionParameter("depth", "constant", rule="size")
_WIDTH = FunctionParameter("width", "constant", rule="size")
_SEED = FunctionParameter("seed", "constant")
_DEVIATION = FunctionParameter("deviation", "constant", rule="deviation")
_DUCKDB_SUMS = to_aliases("fsum sumkahan kahan_sum sum_no_overflow", DUCKDB)

COUNTS = (
    AggregateFunction(
        "count", "count", (_COUNTED,), "count", (GENERIC, DECIMAL_OUTPUT),
        aliases=to_aliases("count_star", DUCKDB), options=OVERFLOW, order_by=ORDER_FREE,
        distinct_rows=refuse("without an argument there are no values to compare"),
        nulls="skipped; without an argument all rows count", empty="0", intermediate="count",
    ),
    AggregateFunction(
        "count_distinct", "count", (_VALUES,), "count", (GENERIC,), FLOWTIDE,
        options=OVERFLOW, order_by=ORDER_FREE, always_distinct=True, empty="0",
        distinct=no_op("it already counts distinct values"),
    ),
    AggregateFunction(
        "approx_count_distinct", "count", (_VALUES,), "approximate count", (APPROX, DECIMAL_OUTPUT),
        aliases=to_aliases("approx_distinct", DATAFUSION), order_by=ORDER_FREE, always_distinct=True,
        distinct=no_op("it already counts distinct values"), empty="0",
    ),
    AggregateFunction(
        "hyperloglog_count", "estimated_count", (_HASHED, _DEVIATION), "count", (), SPARK,
        order_by=ORDER_FREE, always_distinct=True,
        distinct=no_op("it already counts distinct values"), empty="0",
    ),
    AggregateFunction(
        "count_min_sketch", "count_min_sketch",
        (_SKETCHED, _DEPTH, _WIDTH, _SEED), "bytes", (), SPARK, order_by=ORDER_FREE, empty="a sketch of no values",
    ),
    AggregateFunction(
        "count_if", "count", (CONDITION,), "count", (), (*DUCKDB, *SPARK),
        aliases=to_aliases("countif"), order_by=ORDER_FREE, empty="0",
        distinct=refuse("it counts the rows for which a condition is true, not values"),
    ),
)  # fmt: skip

SUMS = (
    AggregateFunction(
        "sum", "sum", (NUMBER,), "sum", (ARITHMETIC, DECIMAL, UNSIGNED_EXTENSION),
        aliases=_DUCKDB_SUMS, options=OVERFLOW, order_by=ORDER_FREE, intermediate="sum",
    ),
    AggregateFunction(
        "sum0", "sum0", (NUMBER,), "sum0", (ARITHMETIC, DECIMAL), aliases=to_aliases("sum_zero"),
        options=OVERFLOW, order_by=ORDER_FREE, empty="0", intermediate="sum0",
    ),
    AggregateFunction(
        "avg", "avg", (NUMBER,), "avg", (ARITHMETIC, DECIMAL),
        aliases=(*to_aliases("mean"), *to_aliases("favg", DUCKDB)), options=OVERFLOW, order_by=ORDER_FREE,
        intermediate="sum and count",
    ),
    AggregateFunction(
        "product", "product", (FACTOR,), "mirror", (ARITHMETIC,),
        options=PRODUCT, order_by=ORDER_FREE, empty="1", intermediate="product",
    ),
    AggregateFunction(
        "variance", "variance", (DISTRIBUTION, FLOATING), "float", (ARITHMETIC,),
        aliases=(
            *to_aliases("var", DATAFUSION),
            *preset("var_samp var_sample variance_samp", SAMPLE),
            *preset("var_pop variance_pop", POPULATION),
            *preset("var_population", POPULATION, DATAFUSION),
        ),
        options=SPREAD, order_by=ORDER_FREE,
    ),
    AggregateFunction(
        "std_dev", "std_dev", (DISTRIBUTION, FLOATING), "float", (ARITHMETIC,),
        aliases=(
            *to_aliases("stddev", DATAFUSION),
            *to_aliases("stdev"),
            *preset("stddev_samp std_dev_samp", SAMPLE),
            *preset("stddev_pop std_dev_pop", POPULATION),
        ),
        options=SPREAD, order_by=ORDER_FREE,
    ),
    AggregateFunction(
        "population_skewness", "skewness", (FLOATING,), "float", (), SPARK, order_by=ORDER_FREE,
    ),
    AggregateFunction(
        "population_kurtosis", "kurtosis", (FLOATING,), "float", (), SPARK, order_by=ORDER_FREE,
    ),
    AggregateFunction(
        "covar", "covar", (DISTRIBUTION, FLOATING, FLOATING_Y), "float", (), DATAFUSION,
        aliases=(
            *to_aliases("covariance"),
            *preset("covar_samp", SAMPLE, DATAFUSION),
            *preset("covar_pop", POPULATION, DATAFUSION),
        ),
        options=SPREAD, order_by=ORDER_FREE, nulls="a pair with a null is skipped",
    ),
    AggregateFunction(
        "corr", "corr", (FLOATING, FLOATING_Y), "float", (ARITHMETIC,), options=ROUNDING,
        order_by=ORDER_FREE, nulls="a pair with a null is skipped",
    ),
)  # fmt: skip

CONDITIONS = (
    AggregateFunction(
        "bool_and", "bool_and", (CONDITION,), "bool", (BOOLEAN,), aliases=to_aliases("every"),
        distinct=SAME_ONCE, order_by=ORDER_FREE,
    ),
    AggregateFunction(
        "bool_or", "bool_or", (CONDITION,), "bool", (BOOLEAN,), aliases=to_aliases("some any"),
        distinct=SAME_ONCE, order_by=ORDER_FREE,
    ),
    AggregateFunction(
        "bit_and", "bit_and", (INTEGER,), "first", (), (*DATAFUSION, *DUCKDB),
        distinct=SAME_ONCE, order_by=ORDER_FREE,
    ),
    AggregateFunction(
        "bit_or", "bit_or", (INTEGER,), "first", (), (*DATAFUSION, *DUCKDB),
        distinct=SAME_ONCE, order_by=ORDER_FREE,
    ),
    AggregateFunction(
        "bit_xor", "bit_xor", (INTEGER,), "first", (), (*DATAFUSION, *DUCKDB), order_by=ORDER_FREE,
    ),
)  # fmt: skip

_OF_THE_GROUP = "it depends on the group, not on its rows"

GROUPS = (
    AggregateFunction(
        "surrogate_key_int64", "surrogate_key", (), "key", (GENERIC,), FLOWTIDE,
        distinct=refuse(_OF_THE_GROUP), order_by=refuse(_OF_THE_GROUP),
        filter=refuse(_OF_THE_GROUP), nulls="no argument", empty="a key, as for every group",
    ),
    AggregateFunction(
        "grouping", "grouping", (_VALUES,), "ordinal", (), (*DUCKDB, *ISTHMUS),
        aliases=to_aliases("grouping_id"), distinct=refuse(_OF_THE_GROUP),
        order_by=no_op("it depends on the grouping set alone"), filter=refuse(_OF_THE_GROUP),
        nulls="it depends only on whether the argument is a key of the grouping set", empty="as for every group",
    ),
)  # fmt: skip
