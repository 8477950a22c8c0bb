"""Check that static tables have the rows that the first version read, or take in the difference.

The rows of a static table are read once. A join may keep no rows of the other side, so rows that
come later can change the view only where an operator stores the rows of both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from substrait_agg.commit.documents.snapshot import InputPlace, Snapshot
from substrait_agg.commit.hash_ranges import partition_range
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.tasks.stored_rows import StoredRows
from substrait_agg.errors import StateRefused
from substrait_agg.flow.graph.graph import Branch, OperatorOrigin, TableOrigin
from substrait_agg.flow.graph.nodes import Flow, Node
from substrait_agg.operator.common.names import PORT, WEIGHT, arrangement_tree
from substrait_agg.operator.registry import operator_of
from substrait_agg.redaction import safe_cause
from substrait_agg.runtime.left_out import BatchFunction
from substrait_agg.spark.execution.task_runner import HANDED_OVER
from substrait_agg.spark.inputs.inputs import Inputs, Source, whole_origins
from substrait_agg.spark.inputs.linear_steps import union_all
from substrait_agg.spark.inputs.static_content import files_content, rows_contents
from substrait_agg.spark.session.errors import SPARK_ERRORS, batch_failed
from substrait_agg.spark.session.session import default_partitions
from substrait_agg.spark.sources.open import is_static
from substrait_agg.spark.sources.specs import SourceSpec, Table, as_spec
from substrait_agg.state.arrangement import ArrangementLayout


def with_contents(
    places: Sequence[InputPlace],
    sources: Mapping[Table, Source],
    flow: Flow,
    store: Checkpoint,
    spark: SparkSession | None,
) -> tuple[InputPlace, ...]:
    """Return the places of all tables, those of static tables with the checksums of their content.

    Args:
        places: the places of the tables.
        sources: their sources.
        flow: the lowered plan.
        store: the checkpoint; its newest version has the checksums to compare with.
        spark: the session; None if all static tables are local folders of files.

    Raises:
        InputRefused: a source cannot be read.
        RunFailed: Spark could not read the rows of a source.
    """
    static = {".".join(t): (t, s) for t, s in sources.items() if is_static(s)}
    before = {place.table: place for place in _read_recorded(store)} if static else {}
    by_table: dict[str, InputPlace] = {}
    rows: dict[InputPlace, tuple[SourceSpec | DataFrame, TableOrigin]] = {}
    origins = whole_origins(flow, {})
    for place in places:
        if place.table not in static:
            continue
        table, source = static[place.table]
        spec = source if isinstance(source, DataFrame) else as_spec(source)
        if isinstance(spec, SourceSpec) and spec.is_files:
            by_table[place.table] = files_content(spec, place, before.get(place.table), spark)
        elif spark is not None and table in origins:
            rows[place] = spec, origins[table]
    if spark is not None and rows:
        try:
            by_table |= {place.table: place for place in rows_contents(spark, rows)}
        except SPARK_ERRORS as error:
            raise batch_failed(error) from safe_cause(error)
    return tuple(by_table.get(place.table, place) for place in places)


def _read_recorded(store: Checkpoint) -> tuple[InputPlace, ...]:
    last = store.newest_snapshot() if store.exists() else None
    return () if last is None else last.inputs


def changed_tables(
    store: Checkpoint, places: Sequence[InputPlace], flow: Flow, *, accept: bool, evolves: bool
) -> frozenset[str]:
    """Return the static tables whose content differs from that of the newest version.

    Args:
        store: the checkpoint.
        places: the tables with their checksums, from `with_contents`.
        flow: the lowered plan.
        accept: whether the difference is to be taken in as changes.
        evolves: whether the checkpoint has to evolve to this plan first.

    Returns:
        The tables whose new rows have to be taken in; none without `accept`.

    Raises:
        StateRefused: STATIC_TABLE_CHANGED; STATIC_CHANGE_REFUSED if an operator cannot take in the
            difference.
    """
    now = {place.table: place for place in places}
    changed = [
        before.table
        for before in _read_recorded(store)
        if before.table in now
        and (before.listing or before.content)
        and not before.same_content(now[before.table])
    ]
    if not changed:
        return frozenset()
    named = ", ".join(changed)
    if not accept:
        # The checksum of rows is over the columns that the plan reads.
        other = ", or the plan reads other columns of it" if evolves else ""
        raise StateRefused(
            "STATIC_TABLE_CHANGED",
            f"the static table {named} does not have the rows that the first version read{other}",
            help="restore its files or rows, or start a new --checkpoint, which reads all input again; "
            "--accept-source-change takes the difference in as changes where the rows of the other side of every "
            "join with the table are stored",
            path=str(store.folder),
        )
    reasons = list(_reasons(flow, frozenset(changed)))
    if evolves:
        reasons.append("the plan differs too: run the old plan once with --accept-source-change")
    if reasons:
        raise StateRefused(
            "STATIC_CHANGE_REFUSED",
            f"the changes of the static table {named} cannot be taken in: {'; '.join(reasons)}",
            help="restore its files or rows, or start a new --checkpoint, which reads all input again",
            path=str(store.folder),
        )
    return frozenset(changed)


def _reasons(flow: Flow, changed: frozenset[str]) -> Iterator[str]:
    """Yield why operators cannot take in other rows of static tables."""
    for node in flow.operators:
        for branch in node.branches:
            table = _table(branch)
            if table not in changed:
                continue
            if node.port_columns is None:
                yield f"operator {node.id} does not store the rows of {table}"
            elif any(_is_derived(other) for other in node.inputs[branch.port].branches):
                yield f"operator {node.id} stores the rows of {table} together with other rows"
            elif not node.stored_ports[1 - branch.port]:
                yield (
                    f"operator {node.id}, a join, does not store the rows of input {1 - branch.port}, which "
                    f"match rows of {table}"
                )
            elif not node.stored_ports[branch.port]:
                yield f"operator {node.id}, a join, does not store the rows of {table}"


def _table(branch: Branch) -> str:
    return ".".join(branch.origin.table) if isinstance(branch.origin, TableOrigin) else ""


def _is_derived(branch: Branch) -> bool:
    """Return whether the rows of a branch cannot be read again."""
    return not branch.static or isinstance(branch.origin, OperatorOrigin)


def stored_inputs(
    flow: Flow, last: Snapshot, checkpoint: str, changed: frozenset[str]
) -> Iterator[tuple[Node, StoredRows]]:
    """Yield the stored rows of each input that reads a changed table, with its operator."""
    for node in flow.operators:
        ports = dict.fromkeys(b.port for b in node.branches if _table(b) in changed)
        for port in ports:
            name = arrangement_tree(port)
            layout = operator_of(node).state_schema()[name]
            if not isinstance(layout, ArrangementLayout):
                raise TypeError(name)
            first = sum(len(other.arguments) for other in node.inputs[:port])
            runs = last.operators[node.id][name]
            yield node, StoredRows(checkpoint, runs, layout, port, first)


def difference(
    inputs: Inputs, spark: SparkSession, stored: Iterable[tuple[Node, StoredRows]]
) -> dict[int, DataFrame]:
    """Return, by operator, the rows of changed inputs and retractions of their stored rows."""
    frames: dict[int, list[DataFrame]] = {}
    for node, rows in stored:
        present = inputs.first_rows(node, rows.port)
        frames.setdefault(node.id, []).extend([present, _retractions(spark, rows, present)])
    return {node: union_all(parts) for node, parts in frames.items()}


def _retractions(spark: SparkSession, stored: StoredRows, present: DataFrame) -> DataFrame:
    """Return the stored rows with opposite weights, in the types of the present rows."""
    added = {WEIGHT: st.LongType(), PORT: st.ByteType()}
    fields = [field for field in present.schema.fields if field.name not in added]
    schema = st.StructType([*fields, *(st.StructField(n, t) for n, t in added.items())])
    partitions = default_partitions(spark)
    return spark.range(0, partitions, 1, partitions).mapInArrow(
        _reader(stored, partitions, to_arrow_schema(schema, timezone="UTC")), schema
    )


def _reader(stored: StoredRows, partitions: int, schema: pa.Schema) -> BatchFunction:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that retract the stored ones, by partition of their hashes."""
        for batch in batches:
            for partition in batch.column(0).to_pylist():
                for rows in stored.retract(*partition_range(partition, partitions)):
                    yield from rows.select(schema.names).cast(schema).to_batches(HANDED_OVER)

    return read
