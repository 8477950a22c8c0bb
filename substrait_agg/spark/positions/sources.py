"""All sources of a run: what the next batch reads, and the positions after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event

from pyspark.sql import DataFrame, SparkSession

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.positions import FilesPosition, Positions, ReadFile
from substrait_agg.commit.log.read_files import read_files, with_files
from substrait_agg.files.download_cache import work_folder
from substrait_agg.metrics.progress import SourceProgress
from substrait_agg.spark.inputs.inputs import Inputs, Source
from substrait_agg.spark.positions.connectors import ConnectedBatch, Connectors
from substrait_agg.spark.positions.file_source import FileSource, file_source
from substrait_agg.spark.positions.spark_streams import SparkStreams, StreamedBatch
from substrait_agg.spark.sources.files import FoundFile
from substrait_agg.spark.sources.specs import Table, as_spec

_MILLISECOND = 1e-3


@dataclass(frozen=True, slots=True)
class BatchRead:
    """What a batch reads.

    Attributes:
        files: the files of each table that has some.
        streamed: the batch of the query of Spark; None without one.
        connected: what connectors have read.
    """

    files: Mapping[Table, tuple[FoundFile, ...]] = field(default_factory=dict)
    streamed: StreamedBatch | None = None
    connected: ConnectedBatch = field(default_factory=ConnectedBatch)

    @property
    def frames(self) -> Mapping[Table, DataFrame]:
        """Return the rows of each table that the query of Spark reads."""
        return {} if self.streamed is None else self.streamed.rows

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to read."""
        return not self.files and self.streamed is None and not self.connected.positions


class Sources:
    """The sources of the streaming tables of a run.

    Args:
        spark: the session.
        inputs: the opened inputs.
        sources: the source of each table.
        positions: how far the newest version has read them.
        storage: the folder of state.
        checkpoint: id of the checkpoint.
        closing: gets what has to be released at the end.

    Raises:
        StateRefused: STATE_DAMAGED, OFFSETS_DIFFER.
        InputRefused: STREAM_STATEFUL.
    """

    def __init__(
        self,
        spark: SparkSession,
        inputs: Inputs,
        sources: Mapping[Table, Source],
        positions: Positions,
        storage: FolderFiles,
        checkpoint: str,
        closing: ExitStack,
    ) -> None:
        self._storage, self._woken = storage, Event()
        self._files: dict[Table, FileSource] = {}
        streams: dict[Table, DataFrame] = {}
        columns: dict[Table, Sequence[str]] = {}
        for table, opened in inputs.tables.items():
            source = sources[table]
            if opened.of_given is not None:
                columns[table] = inputs.column_names(table)
                continue
            if opened.of_files is None or isinstance(source, DataFrame):
                streams[table] = opened.frame
                continue
            read = self._read(positions, table)
            self._files[table] = file_source(spark, as_spec(source), read)
        self._connectors = Connectors(sources, columns, checkpoint, positions.connected, closing)
        self._streams: SparkStreams | None = None
        if streams:
            folder = closing.enter_context(work_folder())
            read_by_stream = partial(self._read_by_stream, positions)
            self._streams = SparkStreams(
                streams, positions.streams, read_by_stream, folder, self._woken.set
            )
            closing.callback(self._streams.end)

    def _read(self, positions: Positions, table: Table) -> Iterator[ReadFile]:
        """Yield the files of a table that have been read, also by a stream that the table was before."""
        yield from read_files(self._storage, positions.of(table))
        if ".".join(table) in positions.streams.tables:
            for source in positions.streams.files:
                yield from self._read_by_stream(positions, source)

    def _read_by_stream(self, positions: Positions, source: str) -> Sequence[ReadFile]:
        return tuple(read_files(self._storage, positions.streams.files[source]))

    def __bool__(self) -> bool:
        """Return whether anything streams."""
        return bool(self._files or self._connectors) or self._streams is not None

    @property
    def bounds(self) -> list[float]:
        """Return the limit that the user gives for each table of files and each connector, in bytes."""
        of_files = [source.most_bytes for source in self._files.values()]
        return of_files + [float("inf")] * len(self._connectors.groups)

    def begin(self, interval: str | None) -> None:
        """Begin to read.

        Args:
            interval: the interval between batches of the query of Spark; None: all that is there now.
        """
        if self._streams is not None:
            trigger = {"availableNow": True} if interval is None else {"processingTime": interval}
            self._streams.begin(trigger)
        if interval is None:
            self._connectors.end_at_latest()

    def look(self) -> None:
        """Look for new files.

        Raises:
            InputRefused: SOURCE_UNREADABLE, SOURCE_FILES_UNREAD.
        """
        for source in self._files.values():
            source.look()

    def next(self, limits: Sequence[float]) -> BatchRead:
        """Return what the next batch reads.

        Args:
            limits: the limit of each table of files and of each connector, in bytes.
        """
        files = {
            table: source.take(most)
            for (table, source), most in zip(self._files.items(), limits, strict=False)
            if source.has_waiting
        }
        connected = self._connectors.next(limits[len(self._files) :])
        return BatchRead(files, None if self._streams is None else self._streams.offer, connected)

    def sizes(self, batch: BatchRead) -> tuple[float, ...]:
        """Return the bytes that a batch read from each table of files and each connector."""
        of_files = [sum(file.size for file in batch.files.get(t, ())) for t in self._files]
        # The rows of several connectors are not told apart.
        connected_bytes = sum(int(rows.nbytes) for rows in batch.connected.rows.values())
        count = len(self._connectors.groups)
        return tuple(map(float, [*of_files, *([connected_bytes / count] * count if count else [])]))

    @property
    def has_ended(self) -> bool:
        """Return whether there is nothing more to read, if no new files are looked for."""
        waiting = any(source.has_waiting for source in self._files.values())
        streams = self._streams is None or self._streams.has_ended
        return not waiting and streams and (not self._connectors or self._connectors.has_ended)

    def check_alive(self) -> None:
        """Raise the reason why the query of Spark has ended, if it has."""
        if self._streams is not None:
            self._streams.check_alive()

    def positions(self, before: Positions, batch: BatchRead, version: int) -> Positions:
        """Return the positions after a batch.

        Args:
            before: those of the newest version.
            batch: what the batch reads.
            version: the version that it makes.

        Raises:
            StateRefused, OSError: see `with_files`.
        """
        files = dict(before.files)
        for ordinal, (table, added) in enumerate(batch.files.items()):
            read = (ReadFile(file.uri, file.modified) for file in added)
            position = before.of(table)
            files[".".join(table)] = with_files(self._storage, position, read, ordinal, version)
        connected = {**before.connected, **batch.connected.positions}
        if batch.streamed is None:
            return replace(before, files=files, connected=connected)
        of_streams = dict(before.streams.files)
        for source, streamed in batch.streamed.files.items():
            position = of_streams.get(source, FilesPosition())
            ordinal = len(self._files) + int(source)
            of_streams[source] = with_files(self._storage, position, streamed, ordinal, version)
        streams = replace(
            before.streams,
            batch=batch.streamed.batch,
            tables=tuple(map(".".join, batch.streamed.rows)),
            offsets=batch.streamed.offsets,
            starts=batch.streamed.starts,
            files=of_streams,
        )
        return Positions(files, streams, connected)

    def commit(self, batch: BatchRead) -> None:
        """Go on after a batch that a version contains."""
        self._connectors.commit(batch.connected)
        if batch.streamed is not None and self._streams is not None:
            self._streams.commit()

    @property
    def lag(self) -> tuple[SourceProgress, ...]:
        """Return how far each connector is behind its source."""
        return self._connectors.lag

    def wake(self) -> None:
        """End `wait`."""
        self._woken.set()

    def wait(self, seconds: float) -> bool:
        """Wait until a batch of the query of Spark comes or `wake` is called, at most this long.

        Returns:
            Whether something came.
        """
        came = self._woken.wait(max(seconds, _MILLISECOND))
        self._woken.clear()
        return came
