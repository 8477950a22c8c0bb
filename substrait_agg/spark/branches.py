"""Linear steps as Spark expressions: from the rows of an origin to the rows an operator takes in."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from substrait_agg.bind.bound import Expr
from substrait_agg.flow.graph import AggregateNode, FilterStep, Step
from substrait_agg.operator.names import TIME, WEIGHT
from substrait_agg.spark.expressions import to_column
from substrait_agg.spark.schema import column_name

ORIGINAL = "__row"
"""A row as its source gave it, where rows that are late are kept."""

TRAVELLING = (WEIGHT, TIME, ORIGINAL)
"""Columns that pass through linear steps unchanged."""

FOREVER = 1 << 62
"""The event time of rows that have none, where idle groups are forgotten: their groups never are."""


def apply_steps(frame: DataFrame, steps: Sequence[Step]) -> DataFrame:
    """Run the steps over a frame of columns ``c0``, ``c1``, ... and, possibly, `TRAVELLING` ones."""
    for step in steps:
        columns = columns_of(frame)
        if isinstance(step, FilterStep):
            frame = frame.where(to_column(step.condition, columns))
        else:
            chosen = [
                to_column(e, columns).alias(column_name(i)) for i, e in enumerate(step.expressions)
            ]
            frame = frame.select(*chosen, *(F.col(t) for t in TRAVELLING if t in frame.columns))
    return frame


def prepare(frame: DataFrame, node: AggregateNode) -> DataFrame:
    """Keys ``k*``, arguments ``x*`` (null where the filter does not hold), ``__weight`` and ``__time`` of an operator's rows.

    The weight is left out where all weights are 1, the time where the operator does not ask for it.
    """
    columns = columns_of(frame)
    keys = [to_column(e, columns).alias(f"k{i}") for i, e in enumerate(node.keys)]
    if node.sets:
        keys = [_in_sets(keys, node.sets)]
    arguments = [
        _argument(value, condition, columns).alias(f"x{i}")
        for i, (value, condition) in enumerate(node.arguments)
    ]
    weights = []
    if node.weight != "one":
        weights = _weight(frame) or [F.lit(1).cast("bigint").alias(WEIGHT)]
    chosen = [*keys, *arguments, *weights, *([_time(frame)] if node.timed else [])]
    # A frame without columns would lose its rows on the way: count(*) alone reads nothing.
    return frame.select(*(chosen or [F.lit(True).alias("x")]))


def _in_sets(keys: Sequence[Column], sets: Sequence[Sequence[int]]) -> Column:
    """The keys once per grouping set, null where the set leaves them out, and behind them the index of the set."""
    rows = []
    for index, ordinals in enumerate(sets):
        chosen = [
            key if i in ordinals else F.when(F.lit(False), key).alias(f"k{i}")
            for i, key in enumerate(keys)
        ]
        rows.append(F.struct(*chosen, F.lit(index).cast("int").alias(f"k{len(keys)}")))
    return F.inline(F.array(*rows))


def columns_of(frame: DataFrame) -> list[Column]:
    """The columns ``c0``, ``c1``, ... of a frame."""
    return [F.col(name) for name in frame.columns if name not in TRAVELLING]


def _time(frame: DataFrame) -> Column:
    none = F.lit(FOREVER).cast("bigint")
    return (F.coalesce(F.col(TIME), none) if TIME in frame.columns else none).alias(TIME)


def _weight(frame: DataFrame) -> list[Column]:
    return [F.col(WEIGHT)] if WEIGHT in frame.columns else []


def _argument(value: Expr | None, condition: Expr | None, columns: Sequence[Column]) -> Column:
    result = F.lit(True) if value is None else to_column(value, columns)
    if condition is None:
        return result
    return F.when(to_column(condition, columns), result)
