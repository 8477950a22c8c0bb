"""Write outputs with Spark's DataFrameWriter in append mode."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from substrait_agg.changes.outputs.outputs import OutputSpec, parse_output
from substrait_agg.changes.outputs.sinks import Sink, SinkContext
from substrait_agg.changes.outputs.spark_sink import SparkSink
from substrait_agg.changes.targets.spark import DELTA, KAFKA, TABLE, SparkTarget
from substrait_agg.commit.documents.change_metadata import origin_of
from substrait_agg.errors import RunFailed, UsageError
from substrait_agg.files.atomic_files import write_atomically
from substrait_agg.files.filesystem import filesystem
from substrait_agg.redaction import SECRET, scrub
from substrait_agg.spark.session.errors import SPARK_ERRORS, reason_of
from substrait_agg.spark.sources.files import absolute

ROW = "__row"
"""Number of a row within its version. With ``__version`` it is the key of a change, equal in every
attempt."""

ROWS_PER_FILE = 1_000_000


class SparkWriter(SparkSink):
    """A sink that appends the changes of every version with Spark's DataFrameWriter.

    Rows have ``__version``, ``__weight`` and ``__row``. Each version is one write. If the format
    writes atomically, each version is stored exactly once; Delta transactions name the version.
    Otherwise, a version whose write was interrupted may be stored twice, and ``__version`` with
    ``__row`` identifies the copies.

    Args:
        target: the format, location and options.
    """

    def __init__(self, target: SparkTarget) -> None:
        super().__init__(_never_called, f"spark={target}")
        self._target = target
        self.identity = f"spark={target.identity}"
        self._application = ""

    def begin(self, place: SinkContext) -> None:
        """Take the function that makes DataFrames, and read the position of an earlier run."""
        super().begin(place)
        if self._target.format == DELTA:
            self._application = f"substrait-agg {self._own_id()}"

    def _own_id(self) -> str:
        """Return an id that is unique to this checkpoint, also among later ones in the same folder.

        Delta skips versions that it already has from the same id.
        """
        path = self.record.path.with_suffix(".id")
        if self.position is None or not filesystem().exists(path):
            with write_atomically(path, private=True) as file:
                file.write(uuid.uuid4().hex.encode())
        return filesystem().read(path).decode()

    def _take(
        self, frame: Callable[[pa.Table], DataFrame], changes: pa.Table, version: int
    ) -> None:
        keys = [changes.schema.names[i] for i in origin_of(changes).keys or ()]
        numbers = pa.array(np.arange(changes.num_rows, dtype=np.int64))
        numbered = frame(changes.append_column(ROW, numbers))
        try:
            self._append(numbered, keys, changes.num_rows, version)
        except SPARK_ERRORS as error:
            message = scrub(reason_of(error), self._target.options)
            secret = any(SECRET.search(key) for key, _ in self._target.options)
            help = "correct the target; nothing is lost"
            raise RunFailed("OUTPUT_NOT_WRITTEN", message, help=help) from (
                None if secret else error
            )

    def _append(self, frame: DataFrame, keys: list[str], rows: int, version: int) -> None:
        target = self._target
        if target.format == KAFKA:
            # One task keeps the order: a row must not overtake its retraction.
            frame = frame.coalesce(1).selectExpr(*_messages(keys))
        else:
            frame = frame.coalesce(1 + rows // ROWS_PER_FILE)
        writer = frame.write.mode("append").options(**self._options(version))
        if target.format == TABLE:
            writer.saveAsTable(target.location)
        else:
            _save(writer.format(target.format), target)

    def _options(self, version: int) -> dict[str, str]:
        options = dict(self._target.options)
        if self._target.format == DELTA:
            transaction = {"txnAppId": self._application, "txnVersion": str(version)}
            return {**transaction, **options}
        if self._target.format == KAFKA and self._target.location:
            return {"topic": self._target.location, **options}
        return options


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Convert a table to a DataFrame with the types of the plan, in any session.

    Timestamps without a zone stay without one.
    """
    return spark.createDataFrame(table, from_arrow_schema(table.schema, prefer_timestamp_ntz=True))


def _never_called(_frame: DataFrame, _version: int) -> None:
    raise TypeError("a writer writes by itself")


def _messages(keys: Iterable[str]) -> list[str]:
    """Return the columns of a Kafka message as JSON: the key, if the view shows it, and the row."""
    nulls = "map('ignoreNullFields', 'false')"
    quoted = ", ".join(f"`{name.replace('`', '``')}`" for name in keys)
    key = [f"to_json(struct({quoted}), {nulls}) AS key"] if quoted else []
    return [*key, f"to_json(struct(*), {nulls}) AS value"]


def _save(writer: DataFrameWriter, target: SparkTarget) -> None:
    if target.format != KAFKA and target.location:
        writer.save(target.location)
    else:
        writer.save()


def open_writer(spark: SparkSession, target: SparkTarget, _place: SinkContext) -> Sink:
    """Return the sink of an output ``spark=...``."""
    if target.local_path is not None:
        target = replace(target, location=absolute(spark, target.location))
    return SparkWriter(target)


def check_writers(spark: SparkSession, outputs: Iterable[Any]) -> None:
    """Check that Spark knows the formats and that no two outputs share a position.

    Raises:
        UsageError: OUTPUT_FORMAT_UNKNOWN, OPTION_CONFLICT.
    """
    positions: set[str] = set()
    for output in outputs:
        spec = parse_output(output) if isinstance(output, str) else output
        target = spec.target if isinstance(spec, OutputSpec) else None
        name = spec.name if isinstance(spec, SparkSink) else target.identity if target else ""
        if name in positions:
            message = f"two outputs have the name {name}"
            help = "give each SparkSink its own name, and each target once"
            raise UsageError("OPTION_CONFLICT", message, help=help, path="--output")
        if name:
            positions.add(name)
        if target is not None and target.format != TABLE:
            _check_format(spark, target.format)


def _check_format(spark: SparkSession, name: str) -> None:
    # Typed as Any: PySpark has no public access to the lookup of formats.
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    state = session.sessionState()
    if state.dataSourceManager().dataSourceExists(name):
        return
    source = getattr(jvm, "org.apache.spark.sql.execution.datasources.DataSource")
    try:
        source.lookupDataSource(name, state.conf())
    except SPARK_ERRORS as error:
        raise UsageError(
            "OUTPUT_FORMAT_UNKNOWN",
            f"Spark does not know the format {name}: {reason_of(error)}",
            help="correct the name, or add its package with --conf spark.jars.packages=...",
            path="--output",
        ) from error
