"""The changes of an operator as input rows of another one: on Arrow, or as a DataFrame of Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.tasks.change_writer import write_changes
from substrait_agg.files.locations import Location
from substrait_agg.flow.graph.graph import Branch
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.operator.common.spec import InputSpec
from substrait_agg.runtime.left_out import Lateness
from substrait_agg.spark.execution.driver import RowAccess
from substrait_agg.spark.inputs.arrow_inputs import can_prepare, prepared_rows, read_changes
from substrait_agg.spark.inputs.inputs import operator_changes
from substrait_agg.spark.inputs.late_rows import BranchRows
from substrait_agg.spark.inputs.table_batch import Collect
from substrait_agg.spark.session.errors import batch_failed


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
