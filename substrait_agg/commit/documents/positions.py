"""How far the sources of a run have been read, as a version records it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from substrait_agg.document_fields import DOCUMENT_OMITTED


@dataclass(frozen=True, slots=True, order=True)
class ReadFile:
    """A file of a source that has been read.

    Attributes:
        uri: its location, with percent signs for characters that a URI cannot have.
        modified: its time of modification, in milliseconds since 1970.
    """

    uri: str
    modified: int


@dataclass(frozen=True, slots=True)
class FileList:
    """A file in the folder of state with names of files that were read, sorted by URI.

    Columns: ``uri`` (string), ``modified`` (int64, milliseconds since 1970).
    """

    name: str
    rows: int
    bytes: int
    crc: int


@dataclass(frozen=True, slots=True)
class FilesPosition:
    """The files of a table that have been read.

    Attributes:
        lists: files with their names, longest first.
        recent: the files that no list has yet, in the order in which they were read.
    """

    lists: tuple[FileList, ...] = ()
    recent: tuple[ReadFile, ...] = ()

    @property
    def count(self) -> int:
        """Return the number of files."""
        return sum(names.rows for names in self.lists) + len(self.recent)


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Where the streams of Spark continue, which one query of Spark reads.

    Attributes:
        batch: number of the last batch of the query; -1 before the first.
        tables: the tables of the streams, in their order.
        offsets: the entry of Spark's log of offsets for that batch.
        starts: what Spark has written once for a source: path below the folder of the query -> content.
        files: files that streams of files have read, by the ordinal of the stream.
    """

    batch: int = -1
    tables: tuple[str, ...] = ()
    offsets: str = ""
    starts: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, FilesPosition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Positions:
    """How far all sources have been read.

    Attributes:
        files: the position of each table of files, by name.
        streams: the position of the streams of Spark.
        connected: the position of each connector, by the name of its group.
    """

    files: Mapping[str, FilesPosition] = field(default_factory=dict)
    streams: StreamPosition = field(default_factory=StreamPosition)
    connected: Mapping[str, str] = field(default_factory=dict, metadata={DOCUMENT_OMITTED: True})

    def of(self, table: Iterable[str]) -> FilesPosition:
        """Return the position of a table of files, by the parts of its name."""
        return self.files.get(".".join(table), FilesPosition())

    @property
    def lists(self) -> tuple[FileList, ...]:
        """Return all files with names."""
        every = (*self.files.values(), *self.streams.files.values())
        return tuple(names for position in every for names in position.lists)
