"""What an engine is asked for, and what it answers. Free of every engine, so that a process with few packages can read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class EngineJob:
    """Some batches of a lane.

    Attributes:
        lane: name; an engine keeps what it needs from one job to the next under it.
        table: name of the table.
        sql: the query, in the engine's words.
        plan: file of its Substrait plan.
        folder: of all files so far; `files` are new.
        files: names of the new files, in order.
        batch_files: files per batch.
        changes: whether rows have an operation, so that some leave.
        columns: of the table: name -> Arrow type as text.
        checkpoint: folder for state.
        samples: number of last batches for which recomputing engines compute everything; 0 for none.
        partitions: of the state.
        weighted: whether rows leave by their weight instead of their operation.
        query: name of the query.
        tables: the tables that a peer reads.
        converted: folder of the input of a peer (`benchmarks.peers.peer_input`); else empty.
        answer: folder that the changes of the answer are written to; empty: they go nowhere.
        script: of a peer: statements that create the tables over ``{folder}`` and the view ``answer``, in its own words.
            Without them they are made of `sql`.
        bounded: whether a peer reads all batches at once and ends.
        last: whether no batches follow on a lane of a peer, so that it ends.
    """

    lane: str
    table: str
    sql: str
    plan: str
    folder: str
    files: tuple[str, ...]
    batch_files: int
    changes: bool
    columns: dict[str, str]
    checkpoint: str
    samples: int
    partitions: int = 2
    weighted: bool = False
    query: str = ""
    tables: tuple[str, ...] = ()
    converted: str = ""
    answer: str = ""
    script: tuple[str, ...] = ()
    bounded: bool = False
    last: bool = False

    @property
    def batches(self) -> list[tuple[str, ...]]:
        """The new files by batch."""
        size = self.batch_files
        return [self.files[i : i + size] for i in range(0, len(self.files), size)]

    def paths(self, names: Sequence[str]) -> list[str]:
        """Files by their full names."""
        return [str(Path(self.folder) / name) for name in names]


@dataclass(frozen=True)
class TimedBatch:
    """A batch: its first file, how long it took, and what is known of the parts of that time.

    Attributes:
        file: name of the batch's first file.
        seconds: from the trigger to the commit.
        parts: seconds by phase; see `benchmarks.phases`.
        written: bytes of state, changes and snapshots; None where it is not known batch by batch.
        since: seconds from the call of the engine to the end of the batch; 0 where that is not measured.
    """

    file: str
    seconds: float
    parts: dict[str, float] = field(default_factory=dict)
    written: int | None = None
    since: float = 0.0


class Engine(Protocol):
    """Runs jobs one after another; made in a process of its own."""

    def run(self, job: EngineJob) -> list[TimedBatch]:
        """The batches that were timed."""
        ...


def to_json(value: EngineJob | TimedBatch) -> dict[str, Any]:
    """As JSON."""
    return asdict(value)


def job_of(body: dict[str, Any]) -> EngineJob:
    """From JSON."""
    optional = {name: tuple(body.get(name, ())) for name in ("tables", "script")}
    return EngineJob(**{**body, **optional, "files": tuple(body["files"])})
