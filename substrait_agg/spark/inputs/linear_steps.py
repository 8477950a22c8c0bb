"""Apply linear steps as Spark expressions, and prepare the input rows of an operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TypeGuard

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from substrait_agg.bind.bound import Call, Expr
from substrait_agg.flow.graph.graph import FilterStep, Step, UnnestStep
from substrait_agg.flow.graph.nodes import Node, Port
from substrait_agg.operator.common.names import PORT, TIME, WEIGHT
from substrait_agg.spark.expressions import to_column
from substrait_agg.spark.functions.windows import hop
from substrait_agg.spark.types.schema import column_name, to_spark
from substrait_agg.spark.types.source_columns import all_nullable

ORIGINAL = "__row"
"""The unchanged row of the source, as a struct. It is present where late rows are written."""

TRAVELLING = (WEIGHT, TIME, ORIGINAL)
"""Columns that pass through linear steps unchanged."""

WindowFilters = Mapping[int, Callable[[Column], Column]]
"""Ordinal of a key that is a hopping window -> whether a row is added to a window."""

FOREVER = 1 << 62
"""The event time of rows without one, if idle groups expire. Groups of such rows never expire."""


def apply_steps(frame: DataFrame, steps: Sequence[Step]) -> DataFrame:
    """Return the frame (``c0``, ``c1``, ..., and any of `TRAVELLING`) after the steps."""
    for step in steps:
        columns = columns_of(frame)
        if isinstance(step, FilterStep):
            frame = frame.where(to_column(step.condition, columns))
        elif isinstance(step, UnnestStep):
            element = F.explode(to_column(step.values, columns)).alias(column_name(len(columns)))
            passed = (F.col(t) for t in TRAVELLING if t in frame.columns)
            frame = frame.select(*columns, element, *passed)
        else:
            step_columns = [
                to_column(e, columns).alias(column_name(i)) for i, e in enumerate(step.expressions)
            ]
            frame = frame.select(
                *step_columns, *(F.col(t) for t in TRAVELLING if t in frame.columns)
            )
    return frame


def union_all(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all frames; a column that a frame lacks is null in its rows."""
    if all(frame.columns == frames[0].columns for frame in frames):
        return reduce(DataFrame.unionAll, frames)
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)


def prepare(
    frame: DataFrame, node: Node, still: WindowFilters | None = None, *, port: int = 0
) -> DataFrame:
    """Return keys ``k*``, arguments ``x*``, ``__weight`` and ``__time`` of an operator's rows.

    Without hopping windows, a row of an operator with grouping sets has all keys and no index of a
    set: `grouping_sets.with_sets` makes a row per set of it, before the exchange. An argument is null if its filter is not true. The weight is left out if all weights are 1, the
    time if the operator does not need it.

    Args:
        frame: the columns of the operator's input, and those of `TRAVELLING`.
        node: the operator.
        still: for keys that are hopping windows, whether a row is added to a window; None adds it
            to all windows.
        port: the input port of the operator. If the operator has several ports, ``__port`` contains
            the port of each row, and arguments are numbered across the ports in order.
    """
    columns, input_port = columns_of(frame), node.inputs[port]
    before = sum(len(other.arguments) for other in node.inputs[:port])
    plain = bool(node.sets) and not any(map(is_hop, node.keys))
    if plain:
        keys = [to_column(e, columns).alias(f"k{i}") for i, e in enumerate(node.keys)]
    else:
        keys = _keys(node, input_port, columns, still or {})
    arguments = [
        _argument(value, condition, columns).alias(f"x{i}")
        for i, (value, condition) in enumerate(input_port.arguments, before)
    ]
    weights = []
    if node.weight != "append_only":
        weights = _weight(frame) or [F.lit(1).cast("bigint").alias(WEIGHT)]
    prepared = [*keys, *arguments, *weights, *([_time(frame)] if node.timed else [])]
    if len(node.inputs) > 1:
        prepared.append(F.lit(port).cast("tinyint").alias(PORT))
    # A frame needs at least one column to keep its rows; count(*) alone reads no column.
    return frame.select(*(prepared or [F.lit(True).alias("x")]))


def _keys(
    node: Node, input_port: Port, columns: Sequence[Column], still: WindowFilters
) -> list[Column]:
    """Return the key columns of an operator with hopping windows or grouping sets, or with neither.

    With windows or sets the result is one generator column. It turns each row into one row per
    grouping set and window.
    """
    windows = {i: hop_windows(e, columns) for i, e in enumerate(input_port.keys) if is_hop(e)}
    windows |= {i: F.filter(windows[i], keep) for i, keep in still.items()}
    plain = {i: to_column(e, columns) for i, e in enumerate(input_port.keys) if i not in windows}
    if not node.sets and not windows:
        return [key.alias(f"k{i}") for i, key in plain.items()]
    rows = []
    for index, ordinals in enumerate(node.sets or (range(len(input_port.keys)),)):
        last = [F.lit(index).cast("int").alias(f"k{len(input_port.keys)}")] if node.sets else []
        rows.append(_rows_of_set(plain, windows, frozenset(ordinals), last))
    # Spark allows one generator per select, so the arrays are concatenated before they become rows.
    return [F.inline(rows[0] if len(rows) == 1 else F.flatten(F.array(*rows)))]


def _rows_of_set(
    plain: Mapping[int, Column],
    windows: Mapping[int, Column],
    ordinals: frozenset[int],
    last: Sequence[Column],
) -> Column:
    """Return the keys of one row in one grouping set as an array of structs.

    The array has one struct per window if the set contains a hopping window, and one struct
    otherwise.

    Args:
        plain: the keys that are values of the row.
        windows: the keys that are hopping windows: an array of the windows of the row.
        ordinals: the keys of the set; the other keys are null.
        last: the index of the set; empty without grouping sets.
    """
    out = {i: F.when(F.lit(False), key) for i, key in plain.items() if i not in ordinals}
    out |= {i: F.get(w, F.lit(-1)) for i, w in windows.items() if i not in ordinals}
    set_keys = {i: key for i, key in plain.items() if i in ordinals}

    def struct(keys: Mapping[int, Column]) -> Column:
        return F.struct(*(keys[i].alias(f"k{i}") for i in sorted(keys)), *last)

    inside = next((i for i in windows if i in ordinals), None)
    if inside is None:
        return F.array(struct({**out, **set_keys}))
    return F.transform(windows[inside], lambda w: struct({**out, **set_keys, inside: w}))


def is_hop(expression: Expr) -> TypeGuard[Call]:
    """Return whether a key is a hopping window."""
    return isinstance(expression, Call) and expression.function == "hop"


def hop_windows(key: Expr, columns: Sequence[Column]) -> Column:
    """Return the windows of a row as an array, which filters apply to before it is exploded."""
    if not is_hop(key):
        raise TypeError(key)
    time = to_column(key.arguments[0], columns)
    return hop(key, (time,)).cast(ArrayType(to_spark(all_nullable(key.type))))


def columns_of(frame: DataFrame) -> list[Column]:
    """Return the columns ``c0``, ``c1``, ... of a frame."""
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
