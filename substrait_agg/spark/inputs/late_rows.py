"""Find late rows: rows for closed groups, and rows older than the time to live of groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from substrait_agg.flow.graph.graph import Branch
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.operator.common.completeness import KeyBound
from substrait_agg.operator.common.names import TIME, WEIGHT
from substrait_agg.plan.types import Type
from substrait_agg.runtime.left_out import Lateness
from substrait_agg.spark.expressions import to_column
from substrait_agg.spark.inputs.linear_steps import (
    ORIGINAL,
    apply_steps,
    columns_of,
    hop_windows,
    is_hop,
    prepare,
)
from substrait_agg.spark.types.schema import column_name

_COUNT = "late"
_DAY = 86_400_000_000
_EPOCH = "timestamp_ntz'1970-01-01 00:00:00'"


def micros(column: Column, type_: Type) -> Column:
    """Convert a date or timestamp to microseconds since 1970 in UTC, for any session time zone."""
    if type_.kind == "date":
        return F.unix_date(column).cast("bigint") * _DAY
    if type_.kind == "precision_timestamp_tz":
        return F.unix_micros(column)
    return F.timestamp_diff("MICROSECOND", F.expr(_EPOCH), column)


def _late(node: Node, frame: DataFrame, lateness: Lateness) -> Column | None:
    """Return whether a row is late, as a column; None if no row can be late."""
    columns = columns_of(frame)
    tests = [_below(node, limit, columns) for limit in lateness.limits]
    if lateness.idle is not None and TIME in frame.columns:
        tests.append(F.col(TIME) <= lateness.idle)
    if lateness.ended is not None:
        time = node.timed_by[0]
        tests.append(micros(to_column(time, columns), time.type) < lateness.ended)
    if not tests:
        return None
    late = tests[0]
    for test in tests[1:]:
        late = late | test
    return F.coalesce(late, F.lit(False))


def _below(node: Node, limit: KeyBound, columns: Sequence[Column]) -> Column:
    key, type_ = node.keys[limit.key], node.types[limit.key]
    if is_hop(key):
        windows = hop_windows(key, columns)
        return (F.size(windows) > 0) & ~F.exists(windows, _still(node, limit))
    value = to_column(key, columns)
    if limit.end:
        value, type_ = value["f1"], type_.children[1]
    return micros(value, type_) < limit.value


def _still(node: Node, limit: KeyBound) -> Callable[[Column], Column]:
    """Return a test whether a hopping window is open; the null window of no time always is."""
    type_ = node.types[limit.key].children[1]
    return lambda window: F.coalesce(micros(window["f1"], type_) >= limit.value, F.lit(True))


@dataclass(frozen=True, slots=True)
class LateRowOrigin:
    """The table that rows come from.

    Attributes:
        table: the name of the table.
        names: the names of the columns ``c0``, ``c1``, ... of its rows.
    """

    table: str
    names: tuple[str, ...]


class BranchRows:
    """The rows of one branch in one batch, without late rows.

    Args:
        node: the operator that reads the rows.
        branch: the branch to the operator.
        frame: the columns of the branch's origin, and those of `linear_steps.TRAVELLING`.
        lateness: the tests for rows that are late for the operator.
        origin: the table that the rows come from.
    """

    def __init__(
        self,
        node: Node,
        branch: Branch,
        frame: DataFrame,
        lateness: Lateness,
        origin: LateRowOrigin | None = None,
    ) -> None:
        self.node = node
        self.table = origin.table if origin else ""
        self._branch, self._frame, self._origin = branch, frame, origin
        self._lateness = lateness
        stepped = apply_steps(frame, branch.steps)
        self._observed: Observation | None = None
        is_late = _late(node, stepped, lateness)
        if is_late is not None:
            self._observed = Observation()
            stepped = stepped.observe(self._observed, F.count_if(is_late).alias(_COUNT))
            stepped = stepped.where(~is_late)
        hops = {m.key: _still(node, m) for m in lateness.limits if is_hop(node.keys[m.key])}
        self.prepared = prepare(stepped, node, hops, port=branch.port)

    def count(self) -> int:
        """Return the number of late rows, after the rows have been read."""
        return 0 if self._observed is None else int(self._observed.get[_COUNT])

    def rows(self) -> DataFrame:
        """Return the late rows with the columns of their source, and their weights."""
        names = self._origin.names if self._origin else ()
        row = F.struct(*(F.col(column_name(i)).alias(f"s{i}") for i in range(len(names))))
        stepped = apply_steps(self._frame.withColumn(ORIGINAL, row), self._branch.steps)
        is_late = _late(self.node, stepped, self._lateness)
        late = stepped.where(F.lit(False) if is_late is None else is_late)
        weight = F.col(WEIGHT) if WEIGHT in late.columns else F.lit(1).cast("bigint")
        columns = (F.col(ORIGINAL)[f"s{i}"].alias(name) for i, name in enumerate(names))
        return late.select(*columns, weight.alias(WEIGHT))
