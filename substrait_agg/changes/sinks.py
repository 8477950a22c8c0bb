"""Outputs of a run: each takes the changes of committed versions, and the view when the run ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from substrait_agg.changes.encode import change_lines, csv_lines, table_lines
from substrait_agg.changes.event_lines import debezium_lines
from substrait_agg.changes.files import Record
from substrait_agg.changes.targets import SparkTarget
from substrait_agg.commit.fence import OPEN, Fence
from substrait_agg.disk import disk
from substrait_agg.errors import StateRefused, UsageError
from substrait_agg.locations import Location
from substrait_agg.published import Guard, sync_folder, write_text

Table = Any
"""A `pyarrow.Table`; one of changes is as `View.changes` returns it: retractions before insertions."""

Encoder = Callable[[Table], Iterator[str]]
"""A table as pieces of text."""

PIECE = 1 << 20
"""Characters that are written at once."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an output begins.

    Attributes:
        checkpoint: the folder that keeps its record.
        stdout: the stream called stdout.
        frame: makes a Spark DataFrame of a table, None where there is no Spark.
        writer: opens an output that Spark writes.
        fence: tells whether this run still owns the checkpoint.
    """

    checkpoint: Location
    stdout: TextIO
    frame: Callable[[Table], Any] | None = None
    writer: Callable[[SparkTarget, Place], Sink] | None = None
    fence: Fence = OPEN


class Sink:
    """One output; this one writes nothing, then the checkpoint is the result.

    A run calls `begin` from the thread that starts it, everything else from one thread of the sink's own, which runs beside
    the batches: a slow sink holds up nothing but itself. Versions come in order. What a method raises is told once, and the
    sink is called again with the same version after a while, and a last time when the run ends; so after an
    exception nothing of that version should be there, or it does not matter when it comes twice.

    Attributes:
        name: what it is called in messages and metrics; empty: by its class.
        stream: the stream that it writes to, where other sinks may write as well: they share a thread.
        takes_changes: whether `deliver` is to be called.
        takes_late: whether `deliver_late` is to be called.
        takes_view: whether `finish` is to be called.
        changes_columns: whether `replace` may be called: the output can go on with other columns. A run whose plan takes the place
            of another (`--evolve`) is refused where an output has had versions and cannot.
        keeps_position: the output remembers over runs how far it got; otherwise it starts with the first
            version that the run commits.
        shows_every_version: a run without an end calls `finish` after every version.
        live: every run does.
        each_version: of several versions that have come meanwhile it is shown each, unless they are too many, instead of
            the newest alone.
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

    def begin(self, place: Place) -> None:
        """Prepare, before `position` is asked for and before the run reads anything.

        Raises:
            UsageError, StateRefused: the run cannot start with it.
        """

    @property
    def position(self) -> int | None:
        """The last version delivered in earlier runs, or None: start with the first there is."""
        return None

    def deliver(self, changes: Table, version: int) -> None:
        """Take the changes of `version`."""

    def replace(self, old: Table, new: Table, version: int) -> None:
        """Take that the view has other columns from `version` on: `old` retracts all its rows as they were, `new` inserts all as they are."""
        self.deliver(old, version)
        self.deliver(new, version)

    def deliver_late(self, late: Mapping[str, Table], version: int) -> None:
        """Take the rows that were late in `version`, by table (`View.late`)."""

    def finish(self, view: Table, version: int) -> None:
        """Take the view as it is at `version`: the run ends here, or goes on if `shows_every_version`."""

    def note(self, progress: Any) -> None:
        """Take how far the run is, such as `Run.progress`, before the view of that version."""

    def close(self) -> None:
        """Let go of files."""


class Callback(Sink):
    """Calls a function with (changes, version), at least once for every version that changed anything.

    Args:
        call: the function; a version counts as delivered when it returns.
        record: where the position is kept over runs.
        since: the version after which deliveries begin if there is no record yet.
    """

    takes_changes = True
    keeps_position = True
    changes_columns = True

    def __init__(
        self, call: Callable[[Table, int], None], record: Record, since: int | None
    ) -> None:
        known = record.read()
        self._call = call
        self._record = record
        self._position = known[0] if known else since
        record.take_over(self._position)

    @property
    def position(self) -> int | None:
        """The last version for which the function has returned."""
        return self._position

    def deliver(self, changes: Table, version: int) -> None:
        """Call with the changes of every version that has some."""
        self._deliver((changes,), version)

    def replace(self, old: Table, new: Table, version: int) -> None:
        """Call with the retractions in the old columns, then with the insertions in the new ones."""
        self._deliver((old, new), version)

    def _deliver(self, tables: tuple[Table, ...], version: int) -> None:
        for changes in tables:
            if changes.num_rows:
                self._call(changes, version)
        self._record.write(version)


class BatchText(Sink):
    """The view as text when the run ends, on a stream or in a file that is replaced as a whole."""

    takes_view = True

    def __init__(self, encode: Encoder, target: TextIO | Path, guard: Guard = nullcontext) -> None:
        self._encode = encode
        self._target = target
        self._guard = guard
        self.stream = None if isinstance(target, Path) else target

    def finish(self, view: Table, version: int) -> None:
        """Write the view."""
        write_text(self._encode(view), self._target, self._guard)


class LiveText(Sink):
    """The view as text after every version: one below the other on a stream, or in a file that is replaced."""

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
        """Write the view, unless this version is there already."""
        if version == self._shown:
            return
        if self._shown is not None and not isinstance(self._target, Path):
            self._target.write("\n")
        write_text(self._encode(view), self._target, self._guard)
        self._shown = version


class StreamText(Sink):
    """Changes as lines of text on a stream; `owned` streams are closed with the sink."""

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
    """Changes as lines of text at the end of a file, every version exactly once.

    The record holds the size of the file after the last version that is surely in it; what a killed run left behind that
    point is cut off when the next one begins. A version is written at its place and never at the end that happens to be
    there: whoever writes it, again after a failure or late after a sleep, writes the same bytes to the same place.
    """

    takes_changes = True
    keeps_position = True
    changes_columns = True

    def __init__(self, encode: Encoder, path: Path, record: Record) -> None:
        known = self.check(path, record)
        self._encode = encode
        self._record = record
        self._position, self._end = known or (None, 0)
        self._path = path
        disk().make(path.parent)
        record.take_over(self._position, self._end)
        self._file: int | None = disk().open(path)
        try:
            self._cut(self._end)
            sync_folder(path.parent)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def check(path: Path, record: Record) -> tuple[int | None, int] | None:
        """What the record says, None without one; nothing is written.

        Raises:
            UsageError: OUTPUT_EXISTS.
            StateRefused: OUTPUT_DAMAGED, OUTPUT_RECORD_DAMAGED.
        """
        known = record.read()
        size = disk().size(path) if disk().exists(path) else 0
        if known is None and size:
            # What another run of this checkpoint has begun meanwhile is no stranger's.
            if record.read() is None:
                raise taken(path)
            return AppendText.check(path, record)
        if known is not None and size < known[1]:
            raise _shortened(path, size, known[1])
        return known

    @property
    def position(self) -> int | None:
        """The last version that is in the file."""
        return self._position

    def deliver(self, changes: Table, version: int) -> None:
        """Append the changes durably, then move the record."""
        self._append(self._encode(changes), version)

    def replace(self, old: Table, new: Table, version: int) -> None:
        """Append both at once."""
        self._append(chain(self._encode(old), self._encode(new)), version)

    def _append(self, texts: Iterator[str], version: int) -> None:
        if self._file is None:
            raise TypeError("the output is closed")
        end = self._end
        for piece in _pieces(texts):
            disk().write(self._file, piece, end)
            end += len(piece)
        self._cut(end)
        disk().flush(self._file)
        self._record.write(version, end)
        self._end = end

    def _cut(self, end: int) -> None:
        """Cut off what a failed attempt left behind the end; a newer run may have written on there, and then says so."""
        if self._file is not None and disk().size(self._path) > end:
            with self._record.fence.held():
                disk().cut(self._file, end)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
        self._file = None


def _pieces(texts: Iterator[str]) -> Iterator[bytes]:
    """Texts as bytes, in pieces that are worth a write."""
    held: list[str] = []
    length = 0
    for text in texts:
        held.append(text)
        length += len(text)
        if length > PIECE:
            yield "".join(held).encode()
            held, length = [], 0
    yield "".join(held).encode()


def taken(path: Path) -> UsageError:
    """OUTPUT_EXISTS: another checkpoint's output, or nobody's."""
    message = "the output already holds something that this checkpoint did not write"
    return UsageError(
        "OUTPUT_EXISTS", message, help="remove it, or give another location", path=str(path)
    )


def _shortened(path: Path, size: int, end: int) -> StateRefused:
    message = f"the output has {size} bytes but {end} had been written to it"
    help = "put the file back as it was, or give another location"
    return StateRefused("OUTPUT_DAMAGED", message, help=help, path=str(path))


VIEW_ENCODERS: dict[str, Encoder] = {
    "batch-table": table_lines,
    "batch-csv": csv_lines,
    "live-table": table_lines,
    "live-csv": csv_lines,
}
"""Output kind -> the view as text."""

CHANGE_ENCODERS: dict[str, Encoder] = {
    "stream-json": change_lines,
    "debezium-json": debezium_lines,
}
"""Output kind -> changes as text, a line each."""
