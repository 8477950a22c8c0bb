"""A small checkpoint with every kind of content: two operators, ordered trees, pending and closed
groups, quarantined rows, late rows, positions of sources, and the record of an output.

Real tasks write it, without Spark.
"""

from __future__ import annotations

import base64
import uuid
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from substrait_agg.changes.records import Record
from substrait_agg.commit import Checkpoint, open_view
from substrait_agg.commit.documents.plan_document import (
    EarlyRetractionSchema,
    PlanDocument,
    ViewColumn,
)
from substrait_agg.commit.documents.positions import (
    FilesPosition,
    Positions,
    ReadFile,
    StreamPosition,
)
from substrait_agg.commit.documents.snapshot import SideFile, Snapshot
from substrait_agg.commit.log import read_files as names_read
from substrait_agg.commit.log.read_files import with_files
from substrait_agg.commit.log.retention import RetentionState
from substrait_agg.commit.log.settings import CheckpointSettings
from substrait_agg.commit.tasks.side_writer import SideWriter
from substrait_agg.operator.common.completeness import KeyBound
from substrait_agg.operator.common.policy import EmitPolicy
from substrait_agg.required import require
from tests.operator.measures_build import gone, measure, row
from tests.operator.measures_columns import NAMES
from tests.operator.measures_draw import Stream, node_of
from tests.operator.measures_reference import Row
from tests.operator.measures_world import World, merging_soon
from tests.operator.tasks import Version
from tests.operator.test_early_retractions import guarded

STAMP, SECOND = NAMES.index("stamp"), 1_000_000
VERSIONS = 6
PLAN = "f" * 64

TOTALS = (measure("sum", "long"), measure("max", "text"), measure("count", "int", distinct=True))
LISTS = (measure("list", "long"), measure("min", "day"), measure("count"))


def b64(schema: pa.Schema) -> str:
    """A schema as documents contain it."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


@dataclass
class FullCheckpoint:
    """The checkpoint, and the run that continues it.

    Attributes:
        folder: of the checkpoint.
        lower: an operator that keeps early retractions aside.
        upper: the operator that the view shows; some of its groups wait, some are closed.
    """

    folder: Path
    lower: World
    upper: World

    @property
    def store(self) -> Checkpoint:
        """The checkpoint, opened."""
        return Checkpoint(self.folder)

    def load(self) -> Snapshot:
        """Load both operators from the state of the newest version."""
        snapshot = self.store.newest_snapshot()
        assert snapshot is not None
        for world, state in zip((self.lower, self.upper), snapshot.operators, strict=True):
            world.now = Version(snapshot.version, state)
            world.rows, world.log = [], Counter()
            world._apply = _ignored  # type: ignore[method-assign]
        return snapshot

    def go_on(self, random: Random, number: int) -> None:
        """Commit one more batch of both operators, with late rows."""
        lower = [
            *Stream(random, "changelog", early=True).batch(),
            *gone(row(long=number, k0=number)),
        ]
        upper = [
            _timed(random, r, number) for r in Stream(random, "append_only", early=False).batch()
        ]
        self.lower.batch(lower, 2)
        policy = EmitPolicy(batch=False, rows=2)
        self.upper.batch(upper, 2, emission=policy.at(number))
        changes = tuple(c for r in self.upper.results for c in r.changes)
        limits = (KeyBound(1, False, (number - 3) * SECOND),)
        rules = replace(policy.watermark_pass(number), limits=limits, complete=True, close=True)
        self.upper.batch([], 2, emission=rules, again=True)
        changes += tuple(c for r in self.upper.results for c in r.changes)
        states = tuple(w.now.state for w in (self.lower, self.upper))
        version = self.upper.now.number
        self.store.publish(
            Snapshot(
                version, PLAN, states, changes, {"touched": 1}, f"2026-01-0{version + 1}",
                late=self._late(version), bad=self._bad(version), positions=self._positions(version),
            )
        )  # fmt: skip

    def _positions(self, version: int) -> Positions:
        """Files of a table in lists and without, those of a stream of files, and offsets of streams."""
        read = [ReadFile(f"file:///in/{version}-{i}.json", version) for i in range(2)]
        before = self.store.snapshot(version - 1).positions if version else Positions()
        with patch.object(names_read, "MOST_RECENT", 2):
            tables, streams = (
                with_files(self.store.state, files.get(name, FilesPosition()), read, 0, version)
                for files, name in ((before.files, "events.t"), (before.streams.files, "0"))
            )
        starts = {"sources/1/0": "v1\n{}"}
        stream = StreamPosition(version, ("u", "v"), "v1\n{}\n{}\n{}", starts, {"0": streams})
        return Positions({"events.t": tables}, stream)

    def _late(self, version: int) -> tuple[SideFile, ...]:
        rows = pa.record_batch({"s0": [version, 7], "s1": [1, 1]})
        return self._aside("late", ("k", "__version", "__weight"), rows, version)

    def _bad(self, version: int) -> tuple[SideFile, ...]:
        names = ("source", "file", "position", "code", "reason", "row")
        rows = pa.record_batch({name: [f"{name}{version}", None] for name in names})
        return self._aside("bad", (*names, "__version"), rows, version)

    def _aside(
        self, kind: str, names: tuple[str, ...], rows: pa.RecordBatch, version: int
    ) -> tuple[SideFile, ...]:
        name = f"{version:012d}-{kind}-{uuid.uuid4().hex}.parquet"
        with SideWriter(self.store.changes, name, names, version) as writer:
            writer.write(rows)
        assert writer.file is not None
        return (SideFile("events", writer.file),)

    @property
    def record(self) -> Record:
        """How far an output got."""
        return Record.of(self.folder, "stream-json=/out.jsonl")


def _ignored(changes: pa.Table) -> None:
    """Replaces the bookkeeping of a world's changes: these tests read the checkpoint instead."""


def _timed(random: Random, row: Row, number: int) -> Row:
    stamp = datetime(1970, 1, 1) + timedelta(seconds=number + random.randint(-2, 2))
    return replace(row, values=(*row.values[:STAMP], stamp, *row.values[STAMP + 1 :]))


def made(folder: Path, seed: int = 1) -> FullCheckpoint:
    """The checkpoint with `VERSIONS` versions."""
    random = Random(seed)
    lower_node = guarded(node_of(("k0",), TOTALS, "weighted"), "quarantine")
    upper_node = node_of(("k0", "stamp"), LISTS, "append_only")
    store = Checkpoint(folder)
    names = World(upper_node, _empty(folder.parent / "scratch")).spec.output
    components = World(lower_node, folder.parent / "scratch").spec
    values = [c.type for c in components.trees[require(components.guard)].layout.components]
    kept = pa.schema([(f"c{i}", t) for i, t in enumerate((*components.keys, *values))])
    store.create(
        PlanDocument(
            PLAN,
            ("weighted", "append_only"),
            tuple(ViewColumn(n, n) for n in names.names),
            b64(names),
            (),
            2,
            2,
            ("quarantine", "carry"),
            (EarlyRetractionSchema(0, components.guard, 1, b64(kept)),),
            ("events.t",),
        )
    )
    sizes = {"page_rows": 3, "slice_rows": 20}
    full = FullCheckpoint(
        folder, World(lower_node, folder, **sizes), World(upper_node, folder, **sizes)
    )
    for world in (full.lower, full.upper):
        world.now = replace(world.now, number=-1)
        world._apply = _ignored  # type: ignore[method-assign]
    with merging_soon(8, 2):
        for number in range(VERSIONS):
            full.go_on(random, number)
    full.record.write(VERSIONS - 1, 100)
    full.store.keep(RetentionState())
    full.store.set(CheckpointSettings(4))
    return full


def _empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


def bag(table: pa.Table) -> Counter[str]:
    """The rows of a table, in any order."""
    return Counter(map(repr, table.to_pylist()))


def questions(full: FullCheckpoint) -> dict[str, Any]:
    """All queries of the checkpoint: name -> function that answers."""
    asked: dict[str, Any] = {
        "newest": lambda: open_view(full.folder).version,
        "versions": lambda: open_view(full.folder).versions(),
        "changes": lambda: bag(open_view(full.folder).changes()),
        "some changes": lambda: bag(open_view(full.folder).changes(1, 3)),
        "late": lambda: {t: bag(rows) for t, rows in open_view(full.folder).late().items()},
        "bad rows": lambda: bag(open_view(full.folder).bad_rows()),
        "record": full.record.read,
        "settings": full.store.settings,
        "go on": lambda: went_on(full),
    }
    for version in (*range(VERSIONS), None):
        asked[f"view {version}"] = lambda v=version: bag(open_view(full.folder).to_arrow(v))
        asked[f"aside {version}"] = lambda v=version: bag(open_view(full.folder).quarantined(v))
    return asked


def went_on(full: FullCheckpoint) -> tuple[Any, ...]:
    """Return the result of one more batch, which is undone afterwards."""
    before = {p for p in full.folder.rglob("*") if p.is_file()}
    try:
        full.load()
        full.go_on(Random(99), VERSIONS)
        view = open_view(full.folder)
        asked = view.to_arrow(), view.changes(VERSIONS - 1), view.quarantined()
        return tuple(map(bag, asked))
    finally:
        for path in {p for p in full.folder.rglob("*") if p.is_file()} - before:
            path.unlink()
