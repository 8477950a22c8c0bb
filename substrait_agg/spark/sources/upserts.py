"""Check upsert sources: the order of their rows, and the columns that must not be null."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from substrait_agg.errors import InputRefused
from substrait_agg.flow.graph.graph import TableOrigin, UpsertSource
from substrait_agg.flow.passes.upserts import ENVELOPE_FIELDS, Upserts
from substrait_agg.spark.sources.files import InputFiles, look_up
from substrait_agg.spark.sources.specs import SourceSpec, Table, as_spec
from substrait_agg.spark.types.bad_rows import Fault, error_text
from substrait_agg.spark.types.schema import to_spark
from substrait_agg.spark.types.source_columns import required_paths

PREIMAGES = ("update_preimage", "-U")
"""Operations that carry the old row. The state of an upsert operator already contains it."""

IN_ORDER = frozenset({"kafka"})
"""Formats other than files that order the rows of a key.

Kafka writes all events of a key to one partition, which Spark reads in order.
"""


def upserts_in(sources: Mapping[Table, object]) -> Upserts:
    """Return the upserts that SPECs declare, by table. A DataFrame declares none."""
    specs = {t: as_spec(s) for t, s in sources.items() if isinstance(s, (str, SourceSpec))}
    return {table: spec.upsert for table, spec in specs.items() if spec.upsert is not None}


def order_column(place: int) -> str:
    """Return the name of the column with the envelope field number `place`."""
    return f"__order{place}"


def unchanged_column(place: int) -> str:
    """Return the name of the boolean column that is true where an event omits a value.

    `place` is the position of the column in ``UpsertSource.partial``.
    """
    return f"__unchanged{place}"


def further_columns(keyed: UpsertSource) -> list[str]:
    """Return the columns that follow those of the table: order columns, then omission flags."""
    order = [order_column(i) for i in range(len(keyed.paths))]
    return [*order, *(unchanged_column(i) for i in range(len(keyed.partial)))]


def checked_order(spark: SparkSession, spec: SourceSpec, table: str) -> SourceSpec:
    """Return the specification if its rows of one key have a known order.

    Spark packs the files of a batch by size, so rows of several files have no order. If Spark
    splits a single file, it reads the pieces in order. The result of a single-file source reads one
    file per batch.

    Raises:
        InputRefused: ORDER_UNKNOWN.
    """
    if spec.upsert is None or spec.upsert.order or spec.format in IN_ORDER:
        return spec
    if not spec.is_files:
        raise _refuse_unknown(spec, table, f"the format {spec.format} has no guaranteed order")
    newest_first = [v for k, v in spec.options if k.lower() == "latestfirst"]
    if newest_first and newest_first[-1].lower() != "false":
        raise _refuse_unknown(spec, table, "the option latestFirst reads the newest files first")
    place = look_up(spark, spec.location, spec.file_rules)
    if place is not None and place.only_file:
        return replace(spec, batch_files=1)
    if spec.batch_files != 1:
        reason = "the rows of several files in one batch have no order"
        raise _refuse_unknown(spec, table, reason, "batch-files=1, or ")
    _check_times(spec, table, place)
    return spec


def _check_times(spec: SourceSpec, table: str, place: InputFiles | None) -> None:
    """Refuse files that were modified in the same millisecond.

    Files of equal time are read in the order of their names, which may not be that of their rows.
    """
    files = sorted(zip(place.modified, place.files, strict=True)) if place is not None else []
    for (before, one), (after, other) in pairwise(files):
        if before == after:
            reason = f"{one} and {other} were modified in the same millisecond"
            raise _refuse_unknown(
                spec, table, reason, "", "; or give every file its own modification time (touch)"
            )


def _refuse_unknown(
    spec: SourceSpec, table: str, reason: str, instead: str = "", besides: str = ""
) -> InputRefused:
    return InputRefused(
        "ORDER_UNKNOWN",
        f"the source of {table} ({spec.redact()}) does not say which row of a key is the newest: {reason}",
        help=f"add {instead}order=COLUMN, a column that grows with every change of a row{besides}",
    )


def without_preimages(frame: DataFrame, operation: Column) -> DataFrame:
    """Return the rows without those that carry the old values of an update."""
    return frame.where(~F.coalesce(operation.isin(*PREIMAGES), F.lit(False)))


def order_types(keyed: UpsertSource) -> list[tuple[str, str]]:
    """Return column name and Spark type of each envelope field that is read."""
    return [
        (order_column(i), to_spark(ENVELOPE_FIELDS[path]).simpleString())
        for i, path in enumerate(keyed.paths)
    ]


def null_faults(
    origin: TableOrigin, table: str, columns: Sequence[Column], weight: Column
) -> list[Fault]:
    """Return the faults of columns that must not be null: condition and error message."""
    keyed = origin.upsert
    faults = [] if keyed is None else _key_faults(origin, keyed, table, columns)
    for value, name, type_ in zip(columns, origin.names, origin.types, strict=False):
        for place, is_null in required_paths(value, type_, name):
            text = error_text(
                "NULL_IN_REQUIRED_COLUMN",
                f"column {place} of table {table} is null, but the plan declares it as required",
            )
            # A deletion has values for its key only.
            faults.append((is_null if keyed is None else (weight > 0) & is_null, text))
    return faults


def _key_faults(
    origin: TableOrigin, keyed: UpsertSource, table: str, columns: Sequence[Column]
) -> list[Fault]:
    names = (*origin.names, *keyed.paths)
    texts: tuple[tuple[Sequence[int], Callable[[str], Column]], ...] = (
        (keyed.keys, lambda n: error_text("KEY_IS_NULL", f"column {n} of table {table}, part of its key, is null")),
        (keyed.order, lambda n: error_text("ORDER_IS_NULL", f"{n} of table {table}, which orders the rows of a key, is null")),
    )  # fmt: skip
    return [
        (columns[place].isNull(), text(names[place])) for places, text in texts for place in places
    ]
