"""Base classes of outputs: one that writes each version by itself, and one that writes tables of lakes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar, Generic, TypeVar

import pyarrow as pa

from substrait_agg.changes.outputs.sinks import Sink, SinkContext, Table, refuse_taken
from substrait_agg.changes.records import Record
from substrait_agg.commit.documents.change_metadata import origin_of
from substrait_agg.commit.documents.plan_document import ViewSchema
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.fence import NO_FENCE, Fence
from substrait_agg.errors import RunFailed, StateRefused, UsageError
from substrait_agg.files.locations import Location
from substrait_agg.redaction import clean, safe_cause

LABEL = "substrait-agg"
T = TypeVar("T")


class VersionedSink(Sink):
    """Writes one version after another, and notes each in a record in the checkpoint.

    A table or topic also has the number of its newest version, which decides whether a version is
    written. The record serves tools that do not open it.

    Args:
        name: the output as text.
        identity: a text that two outputs to one place share, and that is the same in every run.
        place: what errors name; the name if it is not given.

    Attributes:
        noun: what the output writes.
    """

    takes_changes = True
    keeps_position = True
    noun: ClassVar[str] = "table"

    def __init__(self, name: str, identity: str, place: str = "") -> None:
        self.name = name
        self.identity = identity
        self._place = place or name
        self._record: Record | None = None
        self._position: int | None = None

    def record_in(self, checkpoint: Location, fence: Fence = NO_FENCE, view: str = "") -> Record:
        """Return the record of the output in a checkpoint."""
        return Record.of(checkpoint, self.identity, fence, view)

    def reach_version(self, checkpoint: Location, view: str = "") -> int | None:
        """Return the last version delivered from a checkpoint; write nothing."""
        return self.record_in(checkpoint, view=view).version

    def check(self, place: SinkContext) -> None:
        """Check that the output can be written; write nothing.

        Raises:
            UsageError: OUTPUT_EXISTS, OUTPUT_NOT_A_FOLDER, SPEC_OPTION_BAD.
            InputRefused: SOURCE_NOT_REACHABLE.
            StateRefused: OUTPUT_RECORD_DAMAGED.
        """
        self._check_output(place)
        self.record_in(place.checkpoint, view=place.view).read()

    def _check_output(self, place: SinkContext) -> None:
        """Check what the output has, before the record is read."""

    def begin(self, place: SinkContext) -> None:
        """Check the output, and read the position of earlier runs.

        Raises:
            UsageError, InputRefused, StateRefused: as `check`, and those of `_read_position`.
        """
        self.check(place)
        self._record = record = self.record_in(place.checkpoint, place.fence, place.view)
        self._position = self._read_position(place)
        record.take_over(self._position)

    def _read_position(self, _place: SinkContext) -> int | None:
        """Return the version after which the output continues."""
        return self.record.version

    @property
    def record(self) -> Record:
        """Return the record of the position; available after `begin`."""
        if self._record is None:
            raise TypeError("the sink has not started")
        return self._record

    @property
    def position(self) -> int | None:
        """Return the last version in the record. The output may have the next one."""
        return self._position

    def deliver(self, changes: Table, version: int) -> None:
        """Write the changes of a version, unless the output has them, then update the record.

        Raises:
            RunFailed: OUTPUT_NOT_REACHABLE, OUTPUT_NOT_WRITTEN, OUTPUT_VERSION_CONFLICT; the
                version can be tried again.
            StateRefused: OUTPUT_AHEAD, OUTPUT_DAMAGED, OUTPUT_KEY_MISSING.
            UsageError: OUTPUT_TYPE_REFUSED.
        """
        self._attempt(version, partial(self._deliver, changes, version))

    def _attempt(self, version: int, write: Callable[[], None]) -> None:
        record = self.record
        try:
            write()
        except self._errors as error:
            raise self._failure(version, error) from safe_cause(error)
        record.write(version)
        self._position = version

    def _deliver(self, changes: Table, version: int) -> None:
        raise NotImplementedError

    @property
    def _errors(self) -> tuple[type[Exception], ...]:
        """The errors of attempts that `_failure` describes."""
        return ()

    def _failure(self, version: int, error: Exception) -> RunFailed:
        """Return the error of a failed attempt, which another writer may have overtaken."""
        written = self._newest()
        if written is not None and written >= version:
            code, help = "OUTPUT_VERSION_CONFLICT", "run one process at a time on a checkpoint"
        else:
            code, help = "OUTPUT_NOT_WRITTEN", "see the reason; delivery is tried again"
        message = f"version {version} was not written to the {self.noun}: {clean(str(error))}"
        return RunFailed(code, message, help=help, path=self._place)

    def _newest(self) -> int | None:
        """Return the newest version that the output has at the moment; None if that is unknown."""
        return None

    def _has(
        self, version: int, written: int | None, committed: str, stored: Callable[[], str | None]
    ) -> bool:
        """Return whether an earlier attempt has written a version.

        Args:
            version: the version.
            written: the newest version that the output has.
            committed: when the checkpoint committed the version; empty if it does not say.
            stored: returns when the version in the output was committed; None if it no longer says.

        Raises:
            StateRefused: OUTPUT_AHEAD: the output has what the checkpoint does not have.
        """
        if written is None or written < version:
            return False
        if written == version and (not committed or stored() in (None, committed)):
            return True
        raise StateRefused(
            "OUTPUT_AHEAD",
            f"the {self.noun} has version {written} of this checkpoint from before a rollback, or of a newer copy of it",
            help=f"restore the newest copy of the checkpoint, or write to another {self.noun}",
            path=self._place,
        )

    def _origin(self, place: SinkContext) -> str:
        """Return the id of the checkpoint; before the first version one of its place."""
        owner = self.record_in(place.checkpoint).owner()
        return owner or hashlib.sha256(str(place.checkpoint).encode()).hexdigest()[:32]


class LakeSink(VersionedSink, Generic[T]):
    """Writes every version to a table in one commit, which also has the number of the version.

    A version that does not change the view writes no commit.

    Attributes:
        format: the format of the table, with its article.
    """

    format: ClassVar[str]

    def __init__(self, name: str, identity: str, place: str) -> None:
        super().__init__(name, identity, place)
        self._owner = ("", "")

    def _check_output(self, place: SinkContext) -> None:
        self._owner = self._origin(place), place.view
        table = self._open()
        if (table is None or self._read_version(table) is None) and self._has_data(table):
            raise refuse_taken(self._place)

    def _deliver(self, changes: Table, version: int) -> None:
        rows, existing = self._rows(changes), self._open()
        table = self._create(rows) if existing is None else existing
        committed = origin_of(changes).committed.get(version, "")
        stored = partial(self._read_commit_time, table, version)
        if self._has(version, self._read_version(table), committed, stored):
            return
        if rows.num_rows or existing is None:
            self._write(table, rows, version, committed)

    def _newest(self) -> int | None:
        try:
            table = self._open()
            return None if table is None else self._read_version(table)
        except self._errors:
            return None

    def _rows(self, changes: Table) -> Table:
        """Return changes as the table holds them.

        Raises:
            UsageError: OUTPUT_TYPE_REFUSED.
        """
        for field in changes.schema:
            if self._is_refused(field.type):
                message = (
                    f"{self.format} table cannot hold the column {field.name} of type {field.type}"
                )
                help = "cast it in the query to a number, text, date or a timestamp of microseconds"
                raise UsageError("OUTPUT_TYPE_REFUSED", message, help=help, path=self._place)
        return changes

    def _is_refused(self, type_: pa.DataType) -> bool:
        """Return whether a table would not keep a type as it is."""
        raise NotImplementedError

    def _open(self) -> T | None:
        """Return the table as it is now; None if it does not exist."""
        raise NotImplementedError

    def _create(self, rows: Table) -> T:
        """Create the table without rows, unless another run does, and open it."""
        raise NotImplementedError

    def _has_data(self, table: T | None) -> bool:
        """Return whether there is data in the place of the table."""
        raise NotImplementedError

    def _read_version(self, table: T) -> int | None:
        """Return the newest version that the table has from this checkpoint and view."""
        raise NotImplementedError

    def _read_commit_time(self, table: T, version: int) -> str | None:
        """Return when the version in the table was committed; None if its log no longer says."""
        raise NotImplementedError

    def _write(self, table: T, rows: Table, version: int, committed: str) -> None:
        """Write a version to the table as it was opened: a commit written meanwhile is a conflict."""
        raise NotImplementedError


def types_in(type_: pa.DataType) -> Iterator[pa.DataType]:
    """Yield a type and all types inside it."""
    yield type_
    for i in range(type_.num_fields):
        yield from types_in(type_.field(i).type)


def stored_view(place: SinkContext) -> ViewSchema | None:
    """Return the schema of the view of an output; None if the checkpoint does not have one yet."""
    try:
        return Checkpoint(place.checkpoint).document().view_schema(place.view)
    except StateRefused as error:
        if error.code != "NOT_A_CHECKPOINT":
            raise
        return None
