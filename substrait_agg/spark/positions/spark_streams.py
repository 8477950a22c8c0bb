"""Take batches from a streaming query of Spark, and keep its offsets in our versions.

The query reads all streams that are not files of a SPEC: message logs, tables, DataFrames. It hands a batch
to the run and waits until the run has committed it. Its own checkpoint is a folder of this run, made from
the position of the newest version. So a batch that was not committed has not happened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Condition
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from substrait_agg.commit.documents.envelope import refuse_damage
from substrait_agg.commit.documents.positions import ReadFile, StreamPosition
from substrait_agg.errors import InputRefused, RunFailed, StateRefused
from substrait_agg.spark.inputs.table_batch import tag_rows, untag_rows
from substrait_agg.spark.sources.specs import Table

_DONE = 'v1\n{"nextBatchWatermarkMs":0}'
"""What Spark logs for a finished batch of a query without state and watermark."""
_STATEFUL = re.compile(
    r"Aggregate|Deduplicate\w*|Distinct|GlobalLimit|\w*GroupsWithState|\w*GroupsInPandasWithState|TransformWithState\w*"
)
"""Names of the operators over a stream for which Spark keeps state between batches."""
_START = re.compile(r"sources/[0-9]+/[^./\0][^/\0]*")
"""What Spark writes once for a source, below the folder of the query."""
_WILDCARD = re.compile(r"[*?\[\]{}\\]")


@dataclass(frozen=True, slots=True)
class StreamedBatch:
    """A batch of the query, which waits for its commit.

    Attributes:
        rows: the rows of each table.
        batch: number of the batch.
        offsets: the entry of Spark's log of offsets.
        starts: what Spark has written once, as `StreamPosition.starts`.
        files: the files that streams of files read in the batch, by the ordinal of the stream.
    """

    rows: Mapping[Table, DataFrame]
    batch: int
    offsets: str
    starts: Mapping[str, str]
    files: Mapping[str, tuple[ReadFile, ...]]


class SparkStreams:
    """The streams of a run that one query of Spark reads.

    Args:
        frames: the rows of each table.
        position: where the streams continue.
        read: returns the files that a stream of files has read, by its ordinal.
        folder: an empty local folder for the checkpoint of the query.
        wake: called when a batch waits or the query has ended.

    Raises:
        InputRefused: STREAM_STATEFUL.
        StateRefused: OFFSETS_DIFFER: the position is of other tables. STATE_DAMAGED.
    """

    def __init__(
        self,
        frames: Mapping[Table, DataFrame],
        position: StreamPosition,
        read: Callable[[str], Sequence[ReadFile]],
        folder: Path,
        wake: Callable[[], None],
    ) -> None:
        self._tables, self._frames = tuple(frames), tuple(frames.values())
        self._folder, self._wake = folder, wake
        self._changed = Condition()
        self._offer: StreamedBatch | None = None
        self._is_ended = False
        self._error: Exception | None = None
        self._query: StreamingQuery | None = None
        self._before = _offsets(position.offsets)
        for table, frame in frames.items():
            _check_stateless(table, frame)
        self._restore(position, read)

    def _restore(self, position: StreamPosition, read: Callable[[str], Sequence[ReadFile]]) -> None:
        """Write the checkpoint of a query that has finished the last batch of a position."""
        if position.batch < 0:
            return
        sources, count = len(self._before), sum(map(_count_streams, self._frames))
        tables = tuple(map(".".join, self._tables))
        if position.tables != tables or sources != count:
            raise StateRefused(
                "OFFSETS_DIFFER",
                f"the plan streams the tables {', '.join(tables)} from {count} sources of Spark, but the offsets of the "
                f"checkpoint are those of {', '.join(position.tables)} from {sources}",
                help="give the same sources as before, or start a new checkpoint",
            )
        self._write("metadata", json.dumps({"id": str(uuid4())}))
        # Spark wants the batch before the last one, and reads what the last one has read after it.
        last = max(position.batch, 1)
        for batch in (last - 1, last):
            self._write(f"offsets/{batch}", position.offsets)
        self._write(f"commits/{last}", _DONE)
        for name, content in position.starts.items():
            if not _START.fullmatch(name):
                raise refuse_damage(
                    "snapshots", f"{name!r} is not the name of a file that Spark writes"
                )
            self._write(name, content)
        for source in range(sources):
            end = _log_entry(self._before[source])
            if end is not None and str(source) in position.files:
                entries = (_entry(file, end) for file in read(str(source)))
                self._write(f"sources/{source}/{end}.compact", "\n".join(["v1", *entries]))

    def _write(self, name: str, content: str) -> None:
        path = self._folder.joinpath(*name.split("/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def begin(self, trigger: Mapping[str, Any]) -> None:
        """Start the query.

        Args:
            trigger: the argument of Spark's ``trigger``.
        """
        writer = tag_rows(self._frames).writeStream.foreachBatch(self._take)
        writer = writer.option("checkpointLocation", self._folder.as_uri())
        self._query = writer.trigger(**trigger).start()

    def _take(self, rows: DataFrame, batch: int) -> None:
        """Offer a batch to the run, and wait until it is committed."""
        with self._changed:
            try:
                self._offer = self._make_batch(rows, batch)
            except Exception as error:
                self._error = error
                raise
            self._wake()
            self._changed.wait_for(lambda: self._offer is None or self._is_ended)
            if self._offer is not None:
                # Returning would tell Spark that the batch is done.
                raise RunFailed("RUN_STOPPED", "the run was stopped")

    def _make_batch(self, rows: DataFrame, batch: int) -> StreamedBatch:
        offsets = (self._folder / "offsets" / str(batch)).read_text()
        ends = _offsets(offsets)
        files: dict[str, tuple[ReadFile, ...]] = {}
        starts: dict[str, str] = {}
        for source, end in enumerate(ends):
            log, last = self._folder / "sources" / str(source), _log_entry(end)
            before = self._before[source] if source < len(self._before) else None
            if last is not None:
                first = -1 if before is None else _log_entry(before)
                files[str(source)] = tuple(_files(log, -1 if first is None else first, last))
            elif log.is_dir():
                starts |= {
                    f"sources/{source}/{p.name}": p.read_text()
                    for p in log.iterdir()
                    if p.is_file() and not p.name.startswith(".")
                }
        _check_names(files)
        self._before = ends
        by_table = zip(self._tables, untag_rows(rows, len(self._tables)), strict=True)
        return StreamedBatch(dict(by_table), batch, offsets, starts, files)

    @property
    def offer(self) -> StreamedBatch | None:
        """Return the batch that waits for its commit."""
        return self._offer

    @property
    def has_ended(self) -> bool:
        """Return whether no more batches come.

        Raises:
            InputRefused, StreamingQueryException: why the query failed.
        """
        if self._query is None or self._offer is not None or self._query.isActive:
            return False
        error = self._error or self._query.exception()
        if error is not None:
            raise error
        return self._offer is None

    def check_alive(self) -> None:
        """Check that the query runs.

        Raises:
            InputRefused, StreamingQueryException: why the query failed.
            RunFailed: it was stopped.
        """
        if self.has_ended:
            raise RunFailed(
                "RUN_STOPPED",
                "the query of Spark that reads the streams was stopped",
                help="run again; the next run continues after the last commit",
            )

    def commit(self) -> None:
        """Tell Spark that the batch that waits is committed."""
        with self._changed:
            self._offer = None
            self._changed.notify_all()

    def end(self) -> None:
        """Stop the query; a batch that waits is discarded."""
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()
        if self._query is not None:
            self._query.stop()


def _offsets(text: str) -> list[str | None]:
    """Return the offset of each source in an entry of Spark's log of offsets."""
    return [None if line == "-" else line for line in text.splitlines()[2:]]


def _log_entry(offset: str | None) -> int | None:
    """Return the last entry of a stream of files in its own log; None for another stream."""
    try:
        place = json.loads(offset or "null")
    except ValueError:
        return None
    return int(place["logOffset"]) if isinstance(place, dict) and "logOffset" in place else None


def _entry(file: ReadFile, number: int) -> str:
    return json.dumps({"path": file.uri, "timestamp": file.modified, "batchId": number})


def _files(log: Path, first: int, last: int) -> Iterator[ReadFile]:
    """Yield the files of the entries of a log after `first`, up to `last`."""
    for number in range(first + 1, last + 1):
        plain = log / str(number)
        path = plain if plain.exists() else log / f"{number}.compact"
        for line in path.read_text().splitlines()[1:]:
            entry = json.loads(line)
            if entry["batchId"] == number:
                yield ReadFile(entry["path"], int(entry["timestamp"]))


def _check_names(files: Mapping[str, Sequence[ReadFile]]) -> None:
    """Refuse a batch of which Spark's stream of files reads files more than once.

    For each file with a wildcard in its path, Spark 4 reads all files of its source in the batch.
    """
    for read in files.values():
        wild = [file.uri for file in read if _WILDCARD.search(unquote(urlsplit(file.uri).path))]
        if wild and len(read) > 1:
            raise InputRefused(
                "SOURCE_FILE_NAME",
                "Spark would read the files of the batch more than once, because the name of a file has a wildcard",
                help="give the table as a SPEC of files: its files are read once. Nothing of the batch was committed",
                path=wild[0],
            )


def _check_stateless(table: Table, frame: DataFrame) -> None:
    """Refuse a DataFrame for which Spark keeps state, which our versions do not have."""
    plan: Any = frame._jdf
    operator = next(_stateful(plan.queryExecution().analyzed()), None)
    if operator is not None:
        raise InputRefused(
            "STREAM_STATEFUL",
            f"the DataFrame of {'.'.join(table)} keeps state in Spark ({operator}), which a version of the checkpoint does "
            "not have",
            help="compute this part in the plan, over the stream without it",
        )


def _count_streams(frame: DataFrame) -> int:
    """Return the number of sources of Spark that a DataFrame streams from."""
    plan: Any = frame._jdf
    leaves = plan.queryExecution().analyzed().collectLeaves()
    return sum(bool(leaves.apply(i).isStreaming()) for i in range(leaves.size()))


def _stateful(node: Any) -> Iterator[str]:
    """Yield the names of the operators of a plan for which Spark keeps state."""
    children = [node.children().apply(i) for i in range(node.children().size())]
    streams = [child for child in children if child.isStreaming()]
    name = str(node.nodeName())
    if streams and (_STATEFUL.fullmatch(name) or (name == "Join" and len(streams) > 1)):
        yield name
    for child in streams:
        yield from _stateful(child)
