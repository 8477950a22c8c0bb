"""Sinks: the interface of outputs, and the sinks that write text."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from substrait_agg.changes.formats.encode import change_lines, csv_lines, table_lines
from substrait_agg.changes.formats.event_lines import debezium_lines
from substrait_agg.changes.records import Record
from substrait_agg.changes.targets.spark import SparkTarget
from substrait_agg.commit.log.fence import NO_FENCE, Fence
from substrait_agg.errors import StateRefused, UsageError
from substrait_agg.files.atomic_files import Guard, sync_folder, write_text
from substrait_agg.files.filesystem import filesystem
from substrait_agg.files.locations import Location

Table = Any
"""A `pyarrow.Table`; for changes as returned by `View.changes`: retractions before insertions."""

Encoder = Callable[[Table], Iterator[str]]
"""Yields a table as pieces of text."""

PIECE = 1 << 20
"""Characters per write."""


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What an output needs to begin.

    Attributes:
        checkpoint: the folder that keeps the record of the output.
        stdout: the stream used as stdout.
        frame: converts a table to a Spark DataFrame; None without Spark.
        writer: opens an output that Spark writes.
        fence: checks whether this run still owns the checkpoint.
        view: name of the view; empty for the view of one plan without a name.
    """

    checkpoint: Location
    stdout: TextIO
    frame: Callable[[Table], Any] | None = None
    writer: Callable[[SparkTarget, SinkContext], Sink] | None = None
    fence: Fence = NO_FENCE
    view: str = ""


class Sink:
    """One output. This base class writes nothing: the checkpoint is the only result.

    A run calls `begin` from the thread that starts it, and all other methods from one thread of the
    sink, which runs beside the batches. So a slow sink delays only itself. Versions come in order.
    An exception is reported once; the sink is called again with the same version after a while, and
    a last time at the end of the run. After an exception either nothing of the version may remain
    in the output, or writing it twice must be harmless.

    Attributes:
        name: name in messages and metrics; if empty, the name of the class.
        stream: the stream that the sink writes to; sinks with the same stream share a thread.
        takes_changes: whether `deliver` is called.
        takes_late: whether `deliver_late` is called.
        takes_view: whether `finish` is called.
        changes_columns: whether `replace` may be called: the output can continue with other
            columns. A run with a new plan (`--evolve`) is refused if an output received earlier
            versions and cannot.
        keeps_position: whether the output stores its position across runs; otherwise it starts with
            the first version that the run commits.
        shows_every_version: whether a run without an end calls `finish` after every version.
        live: whether every run calls `finish` after every version.
        each_version: whether the sink is shown every version committed since the last call, unless
            they are too many, instead of only the newest.
    """

    name = ""
    stream: TextIO | None = None
    takes_changes = False
    takes_late = False
    takes_view = False
    changes_columns = False
    keeps_position = False
    shows_every_version = False
    live = False
    each_version = False

    def begin(self, place: SinkContext) -> None:
        """Prepare the sink; called before `position` is read and before the run reads any input.

        Raises:
            UsageError, StateRefused: the run cannot start with this output.
        """

    @property
    def position(self) -> int | None:
        """Return the last version delivered in earlier runs; None to start with the oldest."""
        return None

    def deliver(self, changes: Table, version: int) -> None:
        """Write the changes of `version`."""

    def replace(self, old: Table, new: Table, version: int) -> None:
        """Replace the columns of the view from `version` on.

        Args:
            old: retractions of all rows, in the old columns.
            new: insertions of all rows, in the new columns.
            version: the version with which the new columns begin.
        """
        self.deliver(old, version)
        self.deliver(new, version)

    def deliver_late(self, late: Mapping[str, Table], version: int) -> None:
        """Write the rows that were late in `version`, by table (`View.late`)."""

    def finish(self, view: Table, version: int) -> None:
        """Write the view at `version`.

        Called at the end of a run, and after versions if `shows_every_version`.
        """

    def note(self, progress: Any) -> None:
        """Store the progress of the run (`Run.progress`).

        Called before `finish` with that version.
        """

    def close(self) -> None:
        """Close files."""


class Callback(Sink):
    """Calls a function with (changes, version), at least once per version that changed the view.

    Args:
        call: the function; a version counts as delivered when the function returns.
        record: stores the position across runs.
        since: the version after which deliveries begin if there is no record.
    """

    takes_changes = True
    keeps_position = True
    changes_columns = True

    def __init__(
        self, call: Callable[[Table, int], None], record: Record, since: int | None
    ) -> None:
        position = record.read()
        self._call = call
        self._record = record
        self._position = position[0] if position else since
        record.take_over(self._position)

    @property
    def position(self) -> int | None:
        """Return the last version for which the function returned."""
        return self._position

    def deliver(self, changes: Table, version: int) -> None:
        """Call the function with the changes of a version, if there are any."""
        self._deliver((changes,), version)

    def replace(self, old: Table, new: Table, version: int) -> None:
        """Call the function with `old`, then with `new`."""
        self._deliver((old, new), version)

    def _deliver(self, tables: tuple[Table, ...], version: int) -> None:
        for changes in tables:
            if changes.num_rows:
                self._call(changes, version)
        self._record.write(version)


class BatchText(Sink):
    """Writes the view as text when the run ends, to a stream or a file that is replaced as a whole."""

    takes_view = True

    def __init__(
        self,
        encode: Encoder,
        target: TextIO | Path,
        guard: Guard = nullcontext,
        title: str = "",
    ) -> None:
        self._encode = encode
        self._target = target
        self._guard = guard
        self._title = title
        self.stream = None if isinstance(target, Path) else target

    def finish(self, view: Table, version: int) -> None:
        """Write the view."""
        texts = self._encode(view)
        if self._title:
            texts = chain((f"{self._title}\n",), texts, ("\n",))
        write_text(texts, self._target, self._guard)


class LiveText(Sink):
    """Writes the view as text after every version, appended to a stream or replacing a file."""

    takes_view = True
    shows_every_version = True
    live = True
    each_version = True

    def __init__(self, encode: Encoder, target: TextIO | Path, guard: Guard = nullcontext) -> None:
        self._encode = encode
        self._target = target
        self._guard = guard
        self.stream = None if isinstance(target, Path) else target
        self._shown: int | None = None

    def finish(self, view: Table, version: int) -> None:
        """Write the view, unless this version was written last."""
        if version == self._shown:
            return
        if self._shown is not None and not isinstance(self._target, Path):
            self._target.write("\n")
        write_text(self._encode(view), self._target, self._guard)
        self._shown = version


class StreamText(Sink):
    """Writes changes as lines of text to a stream.

    Closes the stream with the sink if it is `owned`.
    """

    takes_changes = True
    changes_columns = True

    def __init__(self, encode: Encoder, target: TextIO, *, owned: bool = False) -> None:
        self._encode = encode
        self._target = target
        self.stream = target
        self._owned = owned

    def deliver(self, changes: Table, version: int) -> None:
        """Write the changes and flush."""
        write_text(self._encode(changes), self._target)

    def close(self) -> None:
        """Close the stream if it is owned."""
        if self._owned:
            self._target.close()


class AppendText(Sink):
    """Appends changes as lines of text to a file, every version exactly once.

    The record stores the size of the file after the last complete version. At the start of a run,
    anything after that size is left from a killed run and is cut off. A version is written at its
    recorded offset, not at the current end of the file. So a repeated or delayed write puts the
    same bytes at the same offset.
    """

    takes_changes = True
    keeps_position = True
    changes_columns = True

    def __init__(self, encode: Encoder, path: Path, record: Record) -> None:
        position_and_size = self.check(path, record)
        self._encode = encode
        self._record = record
        self._position, self._end = position_and_size or (None, 0)
        self._path = path
        filesystem().make(path.parent)
        record.take_over(self._position, self._end)
        self._file: int | None = filesystem().open(path)
        try:
            self._cut(self._end)
            sync_folder(path.parent)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def check(path: Path, record: Record) -> tuple[int | None, int] | None:
        """Return the position from the record, or None without a record; write nothing.

        Raises:
            UsageError: OUTPUT_EXISTS.
            StateRefused: OUTPUT_DAMAGED, OUTPUT_RECORD_DAMAGED.
        """
        position_and_size = record.read()
        size = filesystem().size(path) if filesystem().exists(path) else 0
        if position_and_size is None and size:
            # A concurrent run of this checkpoint may have created both since the first read.
            if record.read() is None:
                raise refuse_taken(path)
            return AppendText.check(path, record)
        if position_and_size is not None and size < position_and_size[1]:
            raise _refuse_shortened(path, size, position_and_size[1])
        return position_and_size

    @property
    def position(self) -> int | None:
        """Return the last version in the file."""
        return self._position

    def deliver(self, changes: Table, version: int) -> None:
        """Append the changes durably, then update the record."""
        self._append(self._encode(changes), version)

    def replace(self, old: Table, new: Table, version: int) -> None:
        """Append both tables in one step."""
        self._append(chain(self._encode(old), self._encode(new)), version)

    def _append(self, texts: Iterator[str], version: int) -> None:
        if self._file is None:
            raise TypeError("the output is closed")
        end = self._end
        for piece in _pieces(texts):
            filesystem().write(self._file, piece, end)
            end += len(piece)
        self._cut(end)
        filesystem().flush(self._file)
        self._record.write(version, end)
        self._end = end

    def _cut(self, end: int) -> None:
        """Cut off what a failed attempt left after `end`.

        The fence raises if a newer run owns the file, which may have written there.
        """
        if self._file is not None and filesystem().size(self._path) > end:
            with self._record.fence.guard():
                filesystem().cut(self._file, end)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
        self._file = None


def _pieces(texts: Iterator[str]) -> Iterator[bytes]:
    """Yield texts as bytes, joined to pieces of at least `PIECE` characters."""
    buffer: list[str] = []
    length = 0
    for text in texts:
        buffer.append(text)
        length += len(text)
        if length > PIECE:
            yield "".join(buffer).encode()
            buffer, length = [], 0
    yield "".join(buffer).encode()


def refuse_taken(path: Path | str) -> UsageError:
    """Return the error OUTPUT_EXISTS: the output was not written by this checkpoint."""
    message = "the output contains data that this checkpoint did not write"
    return UsageError(
        "OUTPUT_EXISTS", message, help="remove the data, or use another location", path=str(path)
    )


def _refuse_shortened(path: Path, size: int, end: int) -> StateRefused:
    message = f"the output has {size} bytes, but {end} bytes were written to it"
    help = "restore the file, or use another location"
    return StateRefused("OUTPUT_DAMAGED", message, help=help, path=str(path))


VIEW_ENCODERS: dict[str, Encoder] = {
    "batch-table": table_lines,
    "batch-csv": csv_lines,
    "live-table": table_lines,
    "live-csv": csv_lines,
}
"""Output kind -> encoder of the view."""

CHANGE_ENCODERS: dict[str, Encoder] = {
    "stream-json": change_lines,
    "debezium-json": debezium_lines,
}
"""Output kind -> encoder of changes, one line each."""
