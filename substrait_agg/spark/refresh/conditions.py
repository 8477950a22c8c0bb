"""Say what of a run's sources and options decides whether its views can be computed again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark.sql import DataFrame

from substrait_agg.flow.graph.graph import TableOrigin
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.operator.registry import operator_of
from substrait_agg.refresh.checks import RunConditions, Table, check_policies
from substrait_agg.refresh.chooser import RefreshChooser
from substrait_agg.refresh.ownership import operators_with, tables_read
from substrait_agg.run_options import RunOptions
from substrait_agg.runtime.event_state import EventOptions
from substrait_agg.spark.execution.driver import DRIVER_BYTES, RowAccess, limit_times
from substrait_agg.spark.inputs.inputs import Source, table_origins
from substrait_agg.spark.sources.files import is_glob
from substrait_agg.spark.sources.open import is_static, sets_aside
from substrait_agg.spark.sources.readers import check_exists
from substrait_agg.spark.sources.specs import SourceSpec, as_spec


def refresh_chooser(
    flow: Flow,
    sources: Mapping[Table, Source],
    events: EventOptions,
    options: RunOptions,
) -> RefreshChooser | None:
    """Check the refresh policies of a run.

    Returns:
        What chooses for each batch; None if all batches are incremental.

    Raises:
        UsageError: as `check_policies`.
        InputRefused: SOURCE_NOT_FOUND: a table to compute again from does not exist.
    """
    policies = options.refresh_policies
    for table in tables_read(flow, operators_with(flow, policies, "full")):
        check_exists(sources[table], ".".join(table))
    conditions = RunConditions(
        bool(events.sources or events.ttl is not None),
        not options.emit_policy.batch,
        dict(_unreadable(flow, sources)),
    )
    check_policies(flow, policies, conditions)
    limit = DRIVER_BYTES * limit_times(RowAccess.FILES, map(operator_of, flow.operators))
    chooser = RefreshChooser(flow, policies, conditions, limit)
    return chooser if chooser.active else None


def _unreadable(flow: Flow, sources: Mapping[Table, Source]) -> Iterator[tuple[Table, str]]:
    """Yield the tables whose rows so far cannot be read again in a batch, and why."""
    for origin in table_origins(flow):
        if is_static(sources[origin.table]):
            yield origin.table, "it is a static table, which is read once"
    yield from unreadable_streams(flow, sources)


def unreadable_streams(flow: Flow, sources: Mapping[Table, Source]) -> Iterator[tuple[Table, str]]:
    """Yield the streaming tables whose rows so far cannot be read again, and why."""
    for origin in table_origins(flow):
        source = sources[origin.table]
        if is_static(source):
            continue
        if isinstance(source, DataFrame):
            yield origin.table, "it is a DataFrame"
        elif sets_aside(source):
            yield origin.table, "its bad rows are in the quarantine"
        elif not _has_plain_files(source, origin):
            yield origin.table, "it is not a local folder of Parquet files with rows or weights"
    if any(map(sets_aside, sources.values())):
        for origin in table_origins(flow):
            yield origin.table, "another table has bad rows in the quarantine"


def _has_plain_files(source: str | SourceSpec, origin: TableOrigin) -> bool:
    """Return whether a source is a local folder of Parquet files whose rows replace no others."""
    spec = as_spec(source)
    plain = spec.format == "parquet" and spec.change != "debezium" and origin.upsert is None
    return plain and not is_glob(spec.location) and Path(spec.location).is_dir()
