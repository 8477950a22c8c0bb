"""Open the inputs of a flow: one stream of all streaming rows, and rows for the first version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from substrait_agg.files.locations import Location
from substrait_agg.flow.graph.graph import Branch, OperatorOrigin, RowsOrigin, TableOrigin
from substrait_agg.flow.graph.nodes import Flow, Node
from substrait_agg.flow.passes.upserts import output_names
from substrait_agg.operator.common.names import TIME, WEIGHT
from substrait_agg.spark.execution.change_files import read_changes
from substrait_agg.spark.expressions import to_column
from substrait_agg.spark.inputs.late_rows import BranchRows, Lateness, LateRowOrigin, micros
from substrait_agg.spark.inputs.linear_steps import apply_steps, prepare, union_all
from substrait_agg.spark.sources.open import SourceFrame, open_source
from substrait_agg.spark.sources.specs import SourceSpec, Table
from substrait_agg.spark.types.literals import literal
from substrait_agg.spark.types.schema import column_name
from substrait_agg.spark.types.source_columns import all_nullable

Source = str | SourceSpec | DataFrame
"""A source of a table: SPEC text, a parsed SPEC or a DataFrame."""

_OPERATOR = "__operator"

Frames = Mapping[int, DataFrame]
"""Prepared input rows by operator id."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The opened inputs of a flow.

    Attributes:
        first: the rows of the first version: those written in the plan and those of static
            DataFrames.
        stream: the streaming rows, tagged if they go to several operators; None if nothing streams.
        operators: ids of the operators that read the stream.
    """

    first: Frames
    stream: DataFrame | None
    operators: tuple[int, ...]


def table_origins(flow: Flow) -> tuple[TableOrigin, ...]:
    """Return all reads of tables in the flow."""
    return tuple(
        branch.origin
        for node in flow.operators
        for branch in node.branches
        if isinstance(branch.origin, TableOrigin)
    )


def open_inputs(spark: SparkSession, flow: Flow, sources: Mapping[Table, Source]) -> Inputs:
    """Open every source and apply the linear steps to its rows.

    Raises:
        InputRefused: a source does not exist or does not fit the plan.
    """
    opened = _OpenedSources(spark, sources)
    first: dict[int, DataFrame] = {}
    streams: dict[int, DataFrame] = {}
    for node in flow.operators:
        fixed: list[DataFrame] = []
        streaming: list[DataFrame] = []
        for branch in node.branches:
            if isinstance(branch.origin, OperatorOrigin):
                continue
            frame, is_streaming = opened.rows(branch)
            (streaming if is_streaming else fixed).append(
                prepare(apply_steps(frame, branch.steps), node, port=branch.port)
            )
        if fixed:
            first[node.id] = union_all(fixed)
        if streaming:
            streams[node.id] = union_all(streaming)
    return Inputs(first, tagged(streams), tuple(streams))


class _OpenedSources:
    """The sources opened so far.

    A table that is read twice with the same columns is opened once, so that both reads see the same
    offsets.
    """

    def __init__(self, spark: SparkSession, sources: Mapping[Table, Source]) -> None:
        self._spark = spark
        self._sources = sources
        self._frames: dict[TableOrigin, SourceFrame] = {}

    def rows(self, branch: Branch) -> tuple[DataFrame, bool]:
        origin = branch.origin
        if isinstance(origin, RowsOrigin):
            return written_rows(self._spark, origin), False
        if not isinstance(origin, TableOrigin):
            raise TypeError(origin)
        if origin not in self._frames:
            self._frames[origin] = open_source(self._spark, self._sources[origin.table], origin)
        source = self._frames[origin]
        frame = source.frame.drop(WEIGHT) if source.weight == "one" else source.frame
        return frame, source.streaming


def written_rows(spark: SparkSession, origin: RowsOrigin) -> DataFrame:
    """Return the rows written in a plan, as columns ``c0``, ``c1``, ..."""
    one = spark.range(1)
    names = [column_name(i) for i in range(len(origin.types))]
    rows = [
        one.select(*(to_column(e, ()).alias(n) for e, n in zip(row, names, strict=True)))
        for row in origin.rows
    ]
    if rows:
        return reduce(DataFrame.unionAll, rows)
    typed = zip(origin.types, names, strict=True)
    return one.where(F.lit(False)).select(
        *(literal(None, all_nullable(t)).alias(n) for t, n in typed)
    )


def tagged(streams: Mapping[int, DataFrame]) -> DataFrame | None:
    """Return several streams as one: a tag, and the columns of each as a struct ``o{tag}``.

    A single stream is returned unchanged, no stream as None.
    """
    if len(streams) < 2:
        return next(iter(streams.values()), None)
    parts = []
    for tag, frame in streams.items():
        own = F.struct(*(F.col(name) for name in frame.columns))
        columns = [
            (own if other == tag else F.lit(None).cast(streams[other].schema)).alias(f"o{other}")
            for other in streams
        ]
        parts.append(frame.select(F.lit(tag).alias(_OPERATOR), *columns))
    return reduce(DataFrame.unionAll, parts)


def untagged(batch: DataFrame, operators: Sequence[int]) -> Frames:
    """Return the prepared rows per operator in a batch of `Inputs.stream`."""
    if len(operators) == 1:
        return {operators[0]: batch}
    return {o: batch.where(F.col(_OPERATOR) == o).select(f"o{o}.*") for o in operators}


def operator_changes(
    spark: SparkSession,
    below: Node,
    node: Node,
    branch: Branch,
    paths: Sequence[Location],
    lateness: Lateness,
) -> BranchRows:
    """Return the changes of another operator in this batch as input rows of `node`.

    Args:
        spark: the session.
        below: the other operator.
        node: the operator that reads the changes.
        branch: the branch from `below` to `node`.
        paths: the change files.
        lateness: the tests for rows that are late for `node`. Only changes of upserts can be late.
            Other operators change no closed group, because they drop late rows themselves.
    """
    frame = read_changes(spark, below, paths)
    if below.time is not None:
        time = micros(F.col(column_name(below.time)), below.types[below.time])
        frame = frame.withColumn(TIME, time)
    if not below.is_source:
        return BranchRows(node, branch, frame, Lateness())
    origin = below.branches[0].origin
    table = ".".join(origin.table) if isinstance(origin, TableOrigin) else ""
    return BranchRows(
        node, branch, frame, lateness, LateRowOrigin(table, tuple(output_names(below)))
    )
