"""Execute the operators of a batch with Spark jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from substrait_agg.bind.bound import Expr
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.json_codec import from_line, to_line
from substrait_agg.commit.documents.snapshot import SideFile
from substrait_agg.commit.evolution.task import MigrationPlan, MigrationResult, migrate
from substrait_agg.commit.hash_ranges import sort_hash
from substrait_agg.commit.tasks.change_writer import write_changes
from substrait_agg.commit.tasks.consolidate import Consolidated, Consolidation
from substrait_agg.commit.tasks.difference import DifferencePlan, difference
from substrait_agg.errors import RunFailed
from substrait_agg.evaluation.expressions import ExpressionFailed
from substrait_agg.evaluation.hashes import key_hashes
from substrait_agg.files.locations import Location
from substrait_agg.flow.graph.graph import Branch
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.operator.common.spec import InputSpec
from substrait_agg.runtime.executor import BranchInput
from substrait_agg.runtime.in_process import difference_here
from substrait_agg.runtime.job import JobResult, OperatorJob, changes_of
from substrait_agg.runtime.left_out import Lateness, LeftOut, SideKind
from substrait_agg.spark.execution.consolidation import consolidate
from substrait_agg.spark.execution.driver import Driver, RowAccess, size_of
from substrait_agg.spark.execution.operator_job import run_job, run_rows, takes_rows
from substrait_agg.spark.execution.partial_aggregation import unplaced_rows
from substrait_agg.spark.execution.strategy import BatchStrategy
from substrait_agg.spark.execution.task_runner import run_on_partitions
from substrait_agg.spark.inputs.arrow_inputs import (
    can_prepare,
    prepared_rows,
    read_changes,
    with_hashes,
)
from substrait_agg.spark.inputs.inputs import operator_changes
from substrait_agg.spark.inputs.late_rows import BranchRows
from substrait_agg.spark.inputs.linear_steps import union_all
from substrait_agg.spark.inputs.side_files import write_side_files
from substrait_agg.spark.inputs.table_batch import Collect, TableRows
from substrait_agg.spark.session.errors import SPARK_ERRORS, batch_failed
from substrait_agg.spark.types.cached_transform import TransformCache

ROWS_AT_ONCE = 1 << 18
"""Rows of a batch in this process that an operator converts at once."""


class ArrowInput(Protocol):
    """Rows of a branch that the driver may have as Arrow."""

    @property
    def access(self) -> RowAccess:
        """Return how `arrow_rows` reads the rows."""

    def size(self, written: Mapping[str, int], /) -> int | None:
        """Return the bytes of the rows, given those of change files by name; None if unknown."""

    def arrow_rows(self, collect: Collect, /) -> pa.Table:
        """Return the input rows of the operator as Arrow."""


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """The rows of an operator in a batch, for the driver.

    Attributes:
        size: their bytes, before they are read.
        access: how the driver gets them.
        read: returns them with the hashes of their keys; None if Spark has to compute them.
    """

    size: int
    access: RowAccess
    read: Callable[[], list[pa.RecordBatch] | None]


class SparkExecutor:
    """The `Executor` that runs Spark jobs, and small batches on the driver.

    Attributes:
        session: the session in which jobs run.
        strategies: how the next batch is computed, by operator id.
        driver: what the driver computes itself.
        running: the operator that is computed, also after it has failed; None if it is not known.
        failed: the expression of its input that the driver could not compute; None if it is not
            known.
    """

    def __init__(self, session: SparkSession, driver: Driver = Driver()) -> None:  # noqa: B008 - frozen
        self.session = session
        self.strategies: dict[int, BatchStrategy] = {}
        self.driver = driver
        self.running: Node | None = None
        self.failed: Expr | None = None
        self._recipes: dict[int, TransformCache] = {}
        self._version = -1
        self._written: dict[int, dict[str, int]] = {}
        self._changes_in_memory: dict[int, dict[str, pa.Table]] = {}

    def initial_groups(self, spec: InputSpec) -> tuple[tuple[int, int], ...]:
        """Return (sort hash, grouping set index) of every group that always exists.

        Their keys are null except the set index. The hashes are those of Spark's exchange.
        """
        if spec.is_global:
            return ((0, 0),)
        indices = pa.array(spec.always, pa.int32())
        # The hash of null has no type.
        keys = [*(pa.nulls(len(indices), pa.int32()) for _ in spec.keys[:-1]), indices]
        hashes = sort_hash(*key_hashes(keys, len(indices)))
        return tuple((int(h), index) for h, index in zip(hashes, spec.always, strict=True))

    def changes(
        self,
        below: Node,
        node: Node,
        branch: Branch,
        paths: Sequence[Location],
        lateness: Lateness,
    ) -> OperatorChanges:
        """See `Executor`."""
        in_memory = self._changes_in_memory.get(below.id, {})
        return OperatorChanges(self.session, below, node, branch, paths, lateness, in_memory)

    def run(
        self,
        job: OperatorJob,
        inputs: Sequence[DataFrame],
        branches: Sequence[BranchInput[DataFrame]] = (),
    ) -> JobResult:
        """Run an operator over the prepared rows of a batch.

        Raises:
            RunFailed: a value does not fit, or Spark could not compute the batch.
        """
        self.running, self.failed = job.node, None
        node = job.node.id
        strategy = self.strategies.get(node, BatchStrategy())
        in_memory: dict[str, pa.Table] = {}
        rows = self._arrow_rows(job, inputs, branches)
        fits = rows is None or takes_rows(self.session, job, rows.size, self.driver, rows.access)
        done = None
        if rows is not None and fits:
            done = run_rows(job, rows.size, rows.read, strategy, self.driver, in_memory.__setitem__)
        if done is None:
            frames = [*inputs, *(part.prepared for part in branches)]
            frame = union_all(frames) if frames else None
            done = run_job(
                self.session, job, frame, strategy, self._cache(job), self.driver, rows_fit=fits
            )
        result, following = done
        if not job.watermark_pass:
            self.strategies[node] = following
        if job.version != self._version:
            self._version, self._changes_in_memory, self._written = job.version, {}, {}
        # Rounds and passes of a version run an operator more than once.
        self._changes_in_memory.setdefault(node, {}).update(in_memory)
        self._written.setdefault(node, {}).update({f.name: f.bytes for f in changes_of([result])})
        self.running = None
        return result

    def _cache(self, job: OperatorJob) -> TransformCache:
        return self._recipes.setdefault(job.node.id, TransformCache())

    def _arrow_rows(
        self,
        job: OperatorJob,
        inputs: Sequence[DataFrame],
        branches: Sequence[BranchInput[DataFrame]],
    ) -> ArrowRows | None:
        """Return rows of which Spark reads only those that Arrow cannot prepare; None if it is all."""
        parts: list[ArrowInput] = []
        frames = list(inputs)
        for branch in branches:
            if isinstance(branch, OperatorChanges | TableRows) and branch.fits_arrow(job.spec):
                parts.append(branch)
            else:
                frames.append(branch.prepared)
        written = {name: size for files in self._written.values() for name, size in files.items()}
        sizes = [part.size(written) for part in parts]
        arrow_sizes = [size for size in sizes if size is not None]
        if not parts or len(arrow_sizes) < len(parts):
            return None
        frame = union_all(frames) if frames else None
        size = sum(arrow_sizes) + (0 if frame is None else size_of(frame))
        access = max(part.access for part in parts) if frame is None else RowAccess.JOB

        def read() -> list[pa.RecordBatch] | None:
            """Return all rows with their hashes; None if Spark has to compute them."""
            try:
                tables = [part.arrow_rows(self.driver.collect_table) for part in parts]
                computed = with_hashes(tables, job.spec)
            except (RunFailed, OSError, pa.ArrowInvalid) as error:
                # Spark decides whether the batch fails, and reports it
                self.failed = error.expression if isinstance(error, ExpressionFailed) else None
                return None
            except SPARK_ERRORS:
                self.running = None  # one job collects the rows of all operators
                raise
            table = computed if frame is None else self._with_tables(job, frame, computed)
            return None if table is None else list(table.to_batches(ROWS_AT_ONCE))

        return ArrowRows(size, access, read)

    def _with_tables(
        self, job: OperatorJob, frame: DataFrame, computed: pa.Table
    ) -> pa.Table | None:
        """Return the rows of tables, then computed rows; None if they do not fit together."""
        hashed = self._cache(job).over(frame, "rows", lambda rows: unplaced_rows(rows, job.spec))
        collected = self.driver.collect_table(hashed)
        if collected is None:
            return None
        try:
            both = pa.concat_tables([collected, computed], promote_options="default")
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return None
        return both.combine_chunks()

    def consolidate(self, work: Consolidation, partitions: int) -> Consolidated | None:
        """See `Executor`."""
        return consolidate(self.session, work, partitions, self.driver)

    def migrate(self, plans: Sequence[MigrationPlan]) -> list[MigrationResult]:
        """See `Executor`: on Spark, or on the driver if the state is small."""
        if self.driver.takes_migration(plans):
            return [migrate(plan) for plan in plans]
        lines = self._one_task_each(len(plans), lambda task: to_line(migrate(plans[task])))
        return [from_line(MigrationResult, line) for line in lines]

    def difference(self, plans: Sequence[DifferencePlan]) -> list[Consolidated]:
        """See `Executor`: on Spark, or on the driver if the states are small."""
        if self.driver.takes_difference(plans):
            return [difference_here(plan) for plan in plans]
        lines = self._one_task_each(len(plans), lambda task: to_line(difference(plans[task])))
        return [from_line(Consolidated, line) for line in lines]

    def _one_task_each(self, count: int, work: Callable[[int], str]) -> list[str]:
        """Run a Spark task per number below `count`; return the results in order."""
        numbers = self.session.range(0, count, 1, count)
        return run_on_partitions(numbers, lambda partition, _: work(partition))

    def write_left_out(
        self,
        kind: SideKind,
        left_out: Sequence[LeftOut[DataFrame]],
        files: FolderFiles,
        version: int,
    ) -> tuple[SideFile, ...]:
        """See `Executor`."""
        return write_side_files(kind, left_out, files, version)


class OperatorChanges:
    """The changes that one branch brings to an operator in one batch.

    Spark reads them only if their rows are asked for as a DataFrame.

    Args:
        in_memory: changes by name of the file that they are kept instead of. They are written to it if
            Spark reads them.

    Attributes:
        table: the table that late rows come from; empty as long as no row is late.
    """

    def __init__(
        self,
        session: SparkSession,
        below: Node,
        node: Node,
        branch: Branch,
        paths: Sequence[Location],
        lateness: Lateness,
        in_memory: Mapping[str, pa.Table],
    ) -> None:
        self._session, self._changes_in_memory = session, in_memory
        self._below, self._node, self._branch = below, node, branch
        self._paths, self._lateness = paths, lateness
        self._spark: BranchRows | None = None
        self.table = ""

    @property
    def prepared(self) -> DataFrame:
        """Return the input rows of the operator as a DataFrame."""
        return self._rows.prepared

    def count(self) -> int:
        """Return the number of late rows, after the batch has been computed."""
        return 0 if self._spark is None else self._spark.count()

    def rows(self) -> DataFrame:
        """Return the late rows."""
        return self._rows.rows()

    @property
    def _rows(self) -> BranchRows:
        if self._spark is None:
            self._write_kept()
            self._spark = operator_changes(
                self._session, self._below, self._node, self._branch, self._paths, self._lateness
            )
            self.table = self._spark.table
        return self._spark

    def _write_kept(self) -> None:
        """Write the files that Spark reads.

        Raises:
            RunFailed: a file cannot be written.
        """
        for path in self._paths:
            files = FolderFiles(path.parent)
            if path.name in self._changes_in_memory and not files.exists(path.name):
                try:
                    write_changes(files, path.name, self._changes_in_memory[path.name])
                except OSError as error:
                    raise batch_failed(error) from error

    @property
    def access(self) -> RowAccess:
        """Return how `arrow_rows` reads the rows."""
        return RowAccess.FILES

    def size(self, written: Mapping[str, int]) -> int | None:
        """Return the bytes of the changes, given those of files by name; None if one is missing."""
        sizes = [written.get(path.name) for path in self._paths]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def fits_arrow(self, spec: InputSpec) -> bool:
        """Return whether `arrow_rows` gives the rows of `prepared`."""
        late = self._below.passes_late and self._lateness != Lateness()
        return not late and can_prepare(self._below.types, self._node, self._branch, spec)

    def arrow_rows(self, _collect: Collect) -> pa.Table:
        """Return the input rows of the operator as Arrow.

        Raises:
            RunFailed: a value cannot be computed, or Spark might fail to compute it.
            OSError: a file cannot be read.
        """
        changes = read_changes(self._below, self._paths, self._changes_in_memory)
        return prepared_rows(changes, self._node, self._branch)
