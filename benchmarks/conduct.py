"""Runs a workload: every engine in a process of its own, in turns, so that what disturbs the machine disturbs all of them."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.check import WrongView, check, check_answer
from benchmarks.data.data_sets import FOLDER, LOAD, DataFile, DataSet, make
from benchmarks.memory import Peak
from benchmarks.peers.conversion import LAYOUTS, converted, of_data_set
from benchmarks.process import EngineFailed, Process
from benchmarks.queries import QUERIES, plan_of
from benchmarks.results import LaneResult, MeasuredBatch, WorkloadResult
from benchmarks.workload import WARM, Lane, Workload

KEEPING = (
    "ours", "rocksdb", "default", "rocksdb-tuned", "default-tuned", "flink-rocksdb", "flink-heap",
)  # fmt: skip
"""Engines that keep state on disk."""

RECOMPUTING = ("spark", "duckdb")
"""Engines that compute an answer only for some of the batches."""

ANSWERING = (*LAYOUTS, "rocksdb", "default")
"""Engines whose answers go nowhere while they are measured. Afterwards they run the first batches
again with an answer, which is compared with DuckDB."""
CHECKED_BATCHES = 2
"""Measured batches among those."""

ALONE = ("pathway",)
"""Engines of which a process runs one lane."""


@dataclass(frozen=True)
class Turn:
    """Files that all lanes take one after another.

    Attributes:
        files: of the turn.
        round: its number; below zero where nothing is measured.
    """

    files: tuple[DataFile, ...]
    round: int


@dataclass
class LaneRun:
    """A lane as it runs."""

    lane: Lane
    data: DataSet
    folder: Path
    turns: list[Turn]
    batches: list[MeasuredBatch] = field(default_factory=list)
    loaded: float = 0.0
    written: int = 0
    read: int = 0
    known: set[int] = field(default_factory=set)
    cpu: list[float] = field(default_factory=list)
    converted: str = ""

    @property
    def checkpoint(self) -> Path:
        """State of the lane."""
        return self.folder / "checkpoint"


@dataclass(frozen=True)
class EngineSettings:
    """How engines are run.

    Attributes:
        root: folder of data sets, scratch files and logs, on the disk that is measured.
        pythons: engine -> the Python that runs it, where that is another one.
        memory: of each JVM.
    """

    root: Path = FOLDER
    pythons: Mapping[str, str] = field(default_factory=dict)
    memory: str = "3g"


def run(workload: Workload, setting: EngineSettings) -> WorkloadResult:
    """Run all lanes, then compare their answers with DuckDB.

    Raises:
        WrongView: an answer of ours is wrong.
        EngineFailed: ours could not run.
    """
    data = {
        name: make(source.name, source.generator, source.parameters, setting.root)
        for name, source in workload.data.items()
    }
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=setting.root) as scratch:
        return _run(workload, setting, data, Path(scratch))


def _run(
    workload: Workload, setting: EngineSettings, data: Mapping[str, DataSet], folder: Path
) -> WorkloadResult:
    tracks = [
        LaneRun(
            lane,
            data[lane.data],
            folder / lane.name,
            _turns(data[lane.data], workload.rounds),
            converted=_converted(lane, data[lane.data], setting),
        )
        for lane in workload.lanes
    ]
    taking_part = _Engines(workload, setting)
    try:
        for turn in range(max(len(track.turns) for track in tracks)):
            # Who is first changes, so that being first or last is nobody's advantage.
            for track in (*tracks[turn % len(tracks) :], *tracks[: turn % len(tracks)]):
                if turn < len(track.turns):
                    taking_part.take(track, track.turns[turn])
        answered = [track for track in tracks if taking_part.run_with_answer(track)]
    finally:
        taking_part.end()
    ours = [track for track in tracks if track.lane.engine == "ours"]
    for track in ours:
        names = [file.name for file in track.data.files]
        check(track.lane.query, track.data, names, track.checkpoint, folder)
    for track in list(answered):
        names = [file.name for file in _first_files(track)]
        answer = track.folder / "check" / "answer"
        try:
            check_answer(track.lane.query, track.data, names, answer, folder)
        except WrongView as error:  # of another engine: it is shown without times
            reason = str(error).rpartition(f"{answer}: ")[2]
            taking_part.failed[track.lane.name] = f"its answer is wrong: {reason[:200]}"
            track.batches.clear()
            answered.remove(track)
    return WorkloadResult(
        workload.id,
        workload.what,
        tuple(taking_part.result(track) for track in tracks if track.batches),
        {**workload.absent, **taking_part.failed},
        tuple(track.lane.name for track in (*ours, *answered)),
    )


def _converted(lane: Lane, data: DataSet, setting: EngineSettings) -> str:
    """Return the folder of the input of a peer; empty for other engines."""
    layout = LAYOUTS.get(lane.engine)
    if layout is None:
        return ""
    folder = setting.root / f"{data.folder.name}.{layout}"
    return str(converted(layout, of_data_set(data, QUERIES[lane.query].table), folder).folder)


def _first_files(track: LaneRun) -> tuple[DataFile, ...]:
    """Return the files of the load, the warm-up and the first `CHECKED_BATCHES` measured batches."""
    kinds = [_part(file) for file in track.data.files]
    before = sum(kind != "measured" for kind in kinds)
    return track.data.files[: before + CHECKED_BATCHES]


def _turns(data: DataSet, rounds: int) -> list[Turn]:
    """The load, the warm-up, and the measured batches divided into rounds."""
    parts = [(kind, tuple(files)) for kind, files in groupby(data.files, _part)]
    turns = [Turn(files, -1) for part, files in parts if part != "measured"]
    measured = next((files for part, files in parts if part == "measured"), ())
    size = -(-len(measured) // rounds)
    cut = [measured[i : i + size] for i in range(0, len(measured), size or 1)]
    return [*turns, *(Turn(files, number) for number, files in enumerate(cut))]


def _part(file: DataFile) -> str:
    return file.kind if file.kind in (LOAD, WARM) else "measured"


class _Engines:
    """The engines of a workload."""

    def __init__(self, workload: Workload, setting: EngineSettings) -> None:
        self._workload, self._setting = workload, setting
        self._processes: dict[str, Process] = {}
        self._peaks: dict[str, Peak] = {}
        self.failed: dict[str, str] = {}

    def take(self, track: LaneRun, turn: Turn) -> None:
        """Let a lane run the files of a turn."""
        lane = track.lane
        if lane.name in self.failed:
            return
        try:
            process = self._process(track)
            peak = self._peaks[_process_name(lane)]
            before = peak.cpu()
            with peak.followed():
                taken = process.run(_job(self._workload, track, turn))
            if turn.round >= 0:
                batches = -(-len(turn.files) // self._workload.batch_files)
                track.cpu.append((peak.cpu() - before) / batches)
        except EngineFailed as error:
            if lane.engine == "ours":
                raise
            self.failed[lane.name] = str(error)
            print(f"  {lane.name}: {error}", file=sys.stderr, flush=True)
            return
        _note(self._workload, track, turn, taken)

    def run_with_answer(self, track: LaneRun) -> bool:
        """Let a lane run its first batches again with an answer; return whether there is one."""
        lane = track.lane
        if lane.engine not in ANSWERING or not track.batches or lane.name in self.failed:
            return False
        again = replace(
            track, lane=replace(lane, name=f"{lane.name}-check"), folder=track.folder / "check"
        )
        job = _job(self._workload, again, Turn(_first_files(track), -1))
        try:
            self._process(again).run({**job, "answer": str(again.folder / "answer")})
        except EngineFailed as error:
            print(f"  {lane.name} has no answer: {error}", file=sys.stderr, flush=True)
            return False
        return True

    def _process(self, track: LaneRun) -> Process:
        engine, name = track.lane.engine, _process_name(track.lane)
        if name not in self._processes:
            python = self._setting.pythons.get(engine, sys.executable)
            log = self._setting.root / "logs" / f"{self._workload.id}-{name}.log"
            log.parent.mkdir(parents=True, exist_ok=True)
            started = Process(engine, log, python, self._setting.memory)
            self._processes[name], self._peaks[name] = started, Peak(started.pid)
        return self._processes[name]

    def end(self) -> None:
        """Let all engines end."""
        for process in self._processes.values():
            process.end()

    def result(self, track: LaneRun) -> LaneResult:
        """What was measured of a lane."""
        lane = track.lane
        keeps = lane.engine in KEEPING
        return LaneResult(
            lane.name, lane.engine, lane.query, tuple(track.batches), round(track.loaded, 4),
            track.written if keeps else None, track.read, dict(self._peaks[_process_name(lane)].bytes),
            sum(file.rows for file in track.data.files if file.kind == LOAD),
            round(sum(track.cpu) / len(track.cpu), 4) if track.cpu and lane.engine not in RECOMPUTING else None,
        )  # fmt: skip


def _process_name(lane: Lane) -> str:
    """Return what the process of a lane is called: lanes of an engine share one if they can."""
    return lane.name if lane.engine in ALONE else lane.engine


def _job(workload: Workload, track: LaneRun, turn: Turn) -> dict[str, Any]:
    lane, inputs = track.lane, track.folder / "in"
    inputs.mkdir(parents=True, exist_ok=True)
    for file in turn.files if not track.converted else ():
        (inputs / file.name).hardlink_to(track.data.folder / file.name)
    query, is_spark = QUERIES[lane.query], lane.engine not in ("ours", "duckdb", *LAYOUTS)
    return {
        "lane": lane.name,
        "table": query.table,
        "sql": query.for_spark(weighted=lane.weighted) if is_spark else query.sql,
        "plan": str(plan_of(lane.query)),
        "folder": str(inputs),
        "files": [file.name for file in turn.files],
        "batch_files": workload.batch_files,
        "changes": track.data.changes,
        "columns": {f.name: str(f.type) for f in track.data.table},
        "checkpoint": str(track.checkpoint),
        "samples": workload.samples if turn.round >= 0 else 0,
        "weighted": lane.weighted,
        "query": lane.query,
        "tables": [query.table],
        "converted": track.converted,
    }


def _note(
    workload: Workload, track: LaneRun, turn: Turn, taken: Sequence[Mapping[str, Any]]
) -> None:
    seconds = " ".join(f"{t['seconds']:.2f}" for t in taken)
    print(f"  {workload.id} {track.lane.name}: {seconds}", file=sys.stderr, flush=True)
    told = [t["written"] for t in taken if t["written"] is not None]
    fresh = _fresh_bytes(track.checkpoint, track.known)
    if turn.round < 0:
        if any(file.kind == LOAD for file in turn.files):
            track.loaded += sum(t["seconds"] for t in taken)
        return
    track.written += sum(told) if told else fresh
    track.read += sum(file.bytes for file in turn.files)
    starts = {file.name: i for i, file in enumerate(turn.files)}
    for batch in taken if workload.first else taken[1:]:
        first = starts[batch["file"]]
        files = turn.files[first : first + workload.batch_files]
        rows, spent = sum(f.rows for f in files), round(batch["seconds"], 4)
        parts = {name: round(part, 5) for name, part in batch["parts"].items()}
        track.batches.append(MeasuredBatch(turn.round, files[0].kind, rows, spent, parts))


def _fresh_bytes(folder: Path, known: set[int]) -> int:
    """Size of the files that were not there when this was last asked."""
    total = 0
    for path in folder.rglob("*") if folder.is_dir() else ():
        try:
            told = path.stat()
        except FileNotFoundError:  # it was swept
            continue
        if path.is_file() and told.st_ino not in known:
            known.add(told.st_ino)
            total += told.st_size
    return total
