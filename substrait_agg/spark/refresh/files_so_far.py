"""Find the files that a checkpoint has read so far, to read them again for another plan.

A position lists the files of a table, each with the time of modification that it had. The rows are those
that the checkpoint has read only if every file is still there with that time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from substrait_agg.commit.documents.positions import Positions, ReadFile
from substrait_agg.commit.documents.snapshot import Snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.read_files import read_files
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.notices import notice
from substrait_agg.recompute.whole_input import RowsByOperator, local_path
from substrait_agg.spark.inputs.inputs import Inputs, Source, table_origins
from substrait_agg.spark.refresh.conditions import unreadable_streams
from substrait_agg.spark.sources.files import FoundFile, is_local
from substrait_agg.spark.sources.open import is_static
from substrait_agg.spark.sources.specs import SourceSpec, Table, as_spec


@dataclass(frozen=True, slots=True)
class FilesSoFar:
    """The files of the streaming tables up to the newest version of a checkpoint.

    Attributes:
        store: the checkpoint.
        flow: the plan that is to read them; its tables are those of the plan of the checkpoint.
        sources: the source of each table.
        version: the version that has read them; None for the newest.
    """

    store: Checkpoint
    flow: Flow
    sources: Mapping[Table, Source]
    version: Snapshot | None = None

    @property
    def _tables(self) -> tuple[Table, ...]:
        """Return the streaming tables."""
        tables = dict.fromkeys(origin.table for origin in table_origins(self.flow))
        return tuple(table for table in tables if not is_static(self.sources[table]))

    def unreadable(self) -> dict[str, str]:
        """Return the tables whose rows so far cannot be read again, and why."""
        reasons = {
            ".".join(table): why for table, why in unreadable_streams(self.flow, self.sources)
        }
        for table, files in self.read().items() if not reasons else ():
            source = self.sources[table]
            why = "" if isinstance(source, DataFrame) else changed_file(files, as_spec(source))
            if why:
                reasons[".".join(table)] = why
        return reasons

    def read(self) -> dict[Table, tuple[ReadFile, ...]]:
        """Return the files of each streaming table that have been read.

        Raises:
            StateRefused: STATE_DAMAGED.
        """
        last = self.version
        if last is None and self.store.exists():
            last = self.store.newest_snapshot()
        positions = Positions() if last is None else last.positions
        return {
            table: tuple(read_files(self.store.state, positions.of(table)))
            for table in self._tables
        }

    def warn_of_modified(self) -> None:
        """Warn of local files that have been modified since they were read.

        Spark reads a file once. It does not read rows that are added to the file later.
        """
        for table, files in self.read().items():
            modified = [path for file in files if (path := _find_modified(file))]
            if modified:
                more = f" and {len(modified) - 1} more" if len(modified) > 1 else ""
                notice(
                    "SOURCE_FILE_CHANGED",
                    f"{modified[0]}{more}, read for the table {'.'.join(table)}, has been modified since; a file is "
                    "read only once",
                    help="write new rows to new files, and give a file its name when it is complete",
                )


@dataclass(frozen=True, slots=True)
class SparkTables:
    """Reads the rows of the files so far with Spark, for an evolution (`query.evolve.RereadTables`).

    Attributes:
        inputs: the opened inputs of the new plan.
        prepare: prepares the session of the run for jobs.
    """

    files: FilesSoFar
    inputs: Inputs
    prepare: Callable[[], object]

    def unreadable(self) -> dict[str, str]:
        """Return the tables whose rows cannot be read again, and why."""
        return self.files.unreadable()

    def read(self, operators: Collection[int]) -> RowsByOperator[DataFrame]:
        """Return the rows that operators have from tables, and those written in the plan."""
        self.prepare()
        files = {table: with_sizes(read) for table, read in self.files.read().items()}
        return self.inputs.rows_of_files(files, operators)


def _find_modified(file: ReadFile) -> str:
    """Return the path of a local file that has been modified since it was read; else empty."""
    path = Path(local_path(file.uri))
    try:
        now = path.stat().st_mtime_ns // 1_000_000 if is_local(file.uri) else file.modified
    except OSError:
        return ""
    return "" if now == file.modified else str(path)


def changed_file(files: Sequence[ReadFile], spec: SourceSpec) -> str:
    """Return why files cannot be read again as they were; empty if they can."""
    folder = Path(spec.location).resolve()
    for file in files:
        path = Path(local_path(file.uri))
        if not path.resolve().is_relative_to(folder):
            return f"{path} is not in {spec.location}"
        try:
            modified = path.stat().st_mtime_ns // 1_000_000
        except OSError:
            return f"{path} is gone"
        if modified != file.modified:
            return f"{path} has been modified since it was read"
    return ""


def with_sizes(files: Iterable[ReadFile]) -> tuple[FoundFile, ...]:
    """Return local files with their sizes as they are now; 0 for one that is gone, which fails when it is read."""
    return tuple(FoundFile(f.uri, f.modified, _size(local_path(f.uri))) for f in files)


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0
