"""Linear steps as Spark expressions: from the rows of an origin to the rows an operator takes in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from substrait_agg.bind.bound import Call, Expr
from substrait_agg.flow.graph.graph import FilterStep, Step
from substrait_agg.flow.graph.nodes import Node, Port
from substrait_agg.operator.common.names import PORT, TIME, WEIGHT
from substrait_agg.spark.expressions import to_column
from substrait_agg.spark.functions.windows import hopping
from substrait_agg.spark.types.schema import column_name, to_spark
from substrait_agg.spark.types.source_columns import all_nullable

ORIGINAL = "__row"
"""A row as its source gave it, where rows that are late are kept."""

TRAVELLING = (WEIGHT, TIME, ORIGINAL)
"""Columns that pass through linear steps unchanged."""

WindowFilters = Mapping[int, Callable[[Column], Column]]
"""Per key that is a hopping window, of which windows rows become part."""

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


def union_all(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all frames; where one has not the columns of another, these are null in its rows."""
    if all(frame.columns == frames[0].columns for frame in frames):
        return reduce(DataFrame.unionAll, frames)
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)


def prepare(
    frame: DataFrame, node: Node, still: WindowFilters | None = None, *, port: int = 0
) -> DataFrame:
    """Keys ``k*``, arguments ``x*`` (null where the filter does not hold), ``__weight`` and ``__time`` of an operator's rows.

    The weight is left out where all weights are 1, the time where the operator does not ask for it.

    Args:
        frame: the columns of the operator's input, and those that travel.
        node: the operator.
        still: of which windows rows become part, for keys that are hopping windows; of all when None.
        port: the input port of the operator. Where it has several, rows say in ``__port`` of which they are, and the arguments of
            a port are numbered behind those of the ports before it.
    """
    columns, into = columns_of(frame), node.inputs[port]
    before = sum(len(other.arguments) for other in node.inputs[:port])
    plain = bool(node.sets) and not any(map(is_hop, node.keys))
    keys = _unmasked(node, columns) if plain else _keys(node, into, columns, still or {})
    arguments = [
        _argument(value, condition, columns).alias(f"x{i}")
        for i, (value, condition) in enumerate(into.arguments, before)
    ]
    weights = []
    if node.weight != "one":
        weights = _weight(frame) or [F.lit(1).cast("bigint").alias(WEIGHT)]
    chosen = [*keys, *arguments, *weights, *([_time(frame)] if node.timed else [])]
    if len(node.inputs) > 1:
        chosen.append(F.lit(port).cast("tinyint").alias(PORT))
    # A frame without columns would lose its rows on the way: count(*) alone reads nothing.
    made = frame.select(*(chosen or [F.lit(True).alias("x")]))
    return _masked(made, node) if plain else made


def _unmasked(node: Node, columns: Sequence[Column]) -> list[Column]:
    """The key columns as in the set of all keys, and the index of each set, which makes a row for each."""
    keys = [to_column(e, columns).alias(f"k{i}") for i, e in enumerate(node.keys)]
    every = F.array(*(F.lit(index).cast("int") for index in range(len(node.sets))))
    return [*keys, F.explode(every).alias(f"k{len(node.keys)}")]


def _masked(frame: DataFrame, node: Node) -> DataFrame:
    """The rows without the keys that are not in their set: Spark is faster at this than at rows from an array of structs."""
    index = F.col(f"k{len(node.keys)}")
    masked = {}
    for ordinal in range(len(node.keys)):
        inside = [i for i, keys in enumerate(node.sets) if ordinal in keys]
        if len(inside) < len(node.sets):
            masked[f"k{ordinal}"] = F.when(index.isin(inside), F.col(f"k{ordinal}"))
    return frame.withColumns(masked)


def _keys(node: Node, into: Port, columns: Sequence[Column], still: WindowFilters) -> list[Column]:
    """The key columns; with a hopping window one column that makes several rows of each, for grouping sets as well."""
    windows = {i: hop_windows(e, columns) for i, e in enumerate(into.keys) if is_hop(e)}
    windows |= {i: F.filter(windows[i], keep) for i, keep in still.items()}
    plain = {i: to_column(e, columns) for i, e in enumerate(into.keys) if i not in windows}
    if not node.sets and not windows:
        return [key.alias(f"k{i}") for i, key in plain.items()]
    rows = []
    for index, ordinals in enumerate(node.sets or (range(len(into.keys)),)):
        last = [F.lit(index).cast("int").alias(f"k{len(into.keys)}")] if node.sets else []
        rows.append(_rows_of_set(plain, windows, frozenset(ordinals), last))
    # Several arrays of rows are put together before they become rows: a row may not be exploded twice.
    return [F.inline(rows[0] if len(rows) == 1 else F.flatten(F.array(*rows)))]


def _rows_of_set(
    plain: Mapping[int, Column],
    windows: Mapping[int, Column],
    ordinals: frozenset[int],
    last: Sequence[Column],
) -> Column:
    """The keys of one row in one grouping set, as an array of structs: one per window where the set has a hopping one.

    Args:
        plain: the keys that are values of the row.
        windows: an array of the windows of the row, for a key that is a hopping window.
        ordinals: keys of the set; the others are null.
        last: the index of the set, where there are several.
    """
    out = {i: F.when(F.lit(False), key) for i, key in plain.items() if i not in ordinals}
    out |= {i: F.get(w, F.lit(-1)) for i, w in windows.items() if i not in ordinals}
    held = {i: key for i, key in plain.items() if i in ordinals}

    def struct(keys: Mapping[int, Column]) -> Column:
        return F.struct(*(keys[i].alias(f"k{i}") for i in sorted(keys)), *last)

    inside = next((i for i in windows if i in ordinals), None)
    if inside is None:
        return F.array(struct({**out, **held}))
    return F.transform(windows[inside], lambda w: struct({**out, **held, inside: w}))


def is_hop(expression: Expr) -> bool:
    """Whether a key is a hopping window."""
    return isinstance(expression, Call) and expression.function == "hop"


def hop_windows(key: Expr, columns: Sequence[Column]) -> Column:
    """The windows of a row as an array, before they become rows: what is left out here is never multiplied."""
    if not isinstance(key, Call):
        raise TypeError(key)
    time = to_column(key.arguments[0], columns)
    return hopping(key, (time,)).cast(ArrayType(to_spark(all_nullable(key.type))))


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
