"""The interface between the batches of a run and the engine that computes them.

`batch.microbatch.MicroBatches` and `evolve` decide what is computed, in which order, and when it is
committed. An executor computes it. `SparkExecutor` runs Spark jobs, `LocalExecutor` of the tests runs
everything in this process. Both produce equal views, changes and snapshots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.snapshot import SideFile
from substrait_agg.commit.evolution.task import MigrationPlan, MigrationResult
from substrait_agg.commit.tasks.consolidate import Consolidated, Consolidation
from substrait_agg.commit.tasks.difference import DifferencePlan
from substrait_agg.files.locations import Location
from substrait_agg.flow.graph.graph import Branch
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.operator.common.spec import InputSpec
from substrait_agg.runtime.job import JobResult, OperatorJob
from substrait_agg.runtime.left_out import Lateness, LeftOut, Rows_co, SideKind

Rows = TypeVar("Rows")
"""How an executor represents rows: a Spark DataFrame, or an Arrow table."""


class BranchInput(LeftOut[Rows_co], Protocol[Rows_co]):
    """The rows of one branch in one batch; late rows are left out."""

    @property
    def prepared(self) -> Rows_co:
        """Return the input rows of the operator: keys, arguments, weight and time."""


class Executor(Protocol[Rows]):
    """Computes the operators of a batch. One thread uses it at a time."""

    def initial_groups(self, spec: InputSpec) -> tuple[tuple[int, int], ...]:
        """Return (sort hash, grouping set index) of every group of an operator that always exists.

        These are the global group and the groups of empty grouping sets.
        """

    def changes(
        self,
        below: Node,
        node: Node,
        branch: Branch,
        paths: Sequence[Location],
        lateness: Lateness,
    ) -> BranchInput[Rows]:
        """Return the changes of another operator in this batch as input rows of `node`.

        Args:
            below: the other operator.
            node: the operator that reads the changes.
            branch: the branch from `below` to `node`.
            paths: the change files.
            lateness: the tests for rows that are late for `node`.
        """

    def run(
        self,
        job: OperatorJob,
        inputs: Sequence[Rows],
        branches: Sequence[BranchInput[Rows]] = (),
    ) -> JobResult:
        """Run an operator over the prepared rows of a batch.

        Args:
            job: the operator in the batch.
            inputs: rows of tables.
            branches: rows that are prepared when they are needed: changes of other operators, and
                rows of tables. Without any rows the operator only emits or evicts groups.

        Raises:
            RunFailed: a value does not fit, or the engine could not compute the batch.
        """

    def consolidate(self, work: Consolidation, partitions: int) -> Consolidated | None:
        """Consolidate the changes of a version; None if no two rows are equal.

        Args:
            work: the changes.
            partitions: state partitions, a power of two.

        Raises:
            RunFailed: nothing was committed.
        """

    def migrate(self, plans: Sequence[MigrationPlan]) -> list[MigrationResult]:
        """Derive the state of an operator of a new plan from stored state, one task per range.

        Raises:
            RunFailed: a value does not fit.
        """

    def difference(self, plans: Sequence[DifferencePlan]) -> list[Consolidated]:
        """Compare two states of an operator, one task per hash range.

        Raises:
            RunFailed: a file cannot be read or written.
        """

    def write_left_out(
        self,
        kind: SideKind,
        left_out: Sequence[LeftOut[Rows]],
        files: FolderFiles,
        version: int,
    ) -> tuple[SideFile, ...]:
        """Write the rows that a batch leaves out to files beside the changes.

        Args:
            kind: why the rows are left out.
            left_out: the rows, by table.
            files: the folder of change files.
            version: the version that the batch makes.

        Raises:
            RunFailed: the rows cannot be read.
        """
