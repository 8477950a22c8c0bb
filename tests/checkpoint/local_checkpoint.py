"""Checkpoints without Spark: the operator's own tasks write the files, and every batch is committed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from substrait_agg.bind.bound import BoundMeasure
from substrait_agg.commit.documents.positions import FilesPosition, Positions, ReadFile
from substrait_agg.commit.documents.snapshot import Snapshot
from substrait_agg.commit.log import read_files as names_read
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.read_files import with_files
from substrait_agg.commit.log.retention import DEFAULT, Retention
from substrait_agg.commit.log.sweep import sweep
from substrait_agg.flow.graph.nodes import Flow, FlowView, Node
from substrait_agg.operator.common.emission import Emission
from substrait_agg.spark.query.document import plan_document
from substrait_agg.state import merging
from tests.operator.measures_build import EVERYTHING, gone, row
from tests.operator.measures_draw import node_of
from tests.operator.measures_reference import Row
from tests.operator.measures_world import World


class Made:
    """A checkpoint that is made batch by batch.

    Args:
        folder: of the checkpoint.
        measures: of its one operator.
        retention: which versions keep their state.
        node: an operator instead of one with `measures`.
    """

    def __init__(
        self,
        folder: Path,
        measures: Sequence[BoundMeasure] = EVERYTHING,
        retention: Retention = DEFAULT,
        node: Node | None = None,
    ) -> None:
        node = node or node_of(("k0",), tuple(measures), "changelog", ())
        # As the operator's own columns are: keys, the index of the grouping set, measures.
        last = len(node.types) - 1
        index = (last,) if node.sets else ()
        measured = range(len(node.keys), last + 1 - len(index))
        output = (*range(len(node.keys)), *index, *measured)
        names = tuple(f"c{i}" for i in output)
        types = tuple(node.types[i] for i in output)
        flow = Flow((node,), (FlowView("", 0, output, names, types, ()),), "f" * 64)
        self.folder = folder
        self.checkpoint = Checkpoint(folder)
        self.checkpoint.create(plan_document(flow))
        self.world = World(node, folder)
        self._retention = retention
        self._levels = {"waiting": 0, "quarantined": 0}
        self.commit()

    def batch(
        self, rows: Sequence[Row], partitions: int = 1, emission: Emission | None = None
    ) -> None:
        """Compute a batch and commit it."""
        self.world.batch(rows, partitions, emission=emission)
        for level in self._levels:
            self._levels[level] += sum(r.counters[level] for r in self.world.results)
        self.commit()

    def commit(self) -> None:
        """Publish the state of the operator; its first version is empty."""
        now, results = self.world.now, self.world.results
        snapshot = Snapshot(
            version=now.number,
            plan="f" * 64,
            operators=(now.state,),
            changes=tuple(change for result in results for change in result.changes),
            counters={"input_rows": sum(r.counters["input_rows"] for r in results), **self._levels},
            created=datetime.now(UTC).isoformat(timespec="milliseconds"),
            positions=self._positions(now.number),
        )
        self.checkpoint.publish(snapshot)
        if self._retention.due(snapshot.version):
            sweep(self.checkpoint, snapshot, self._retention)

    def _positions(self, version: int) -> Positions:
        """Return the positions of a version that has read as many files as its number."""
        newest = self.checkpoint.newest_snapshot()
        if newest is None:
            return Positions({"t": FilesPosition()})
        read = [ReadFile(f"file:///in/{version}.parquet", version)]
        # A few versions write lists.
        with patch.object(names_read, "MOST_RECENT", 2):
            before, state = newest.positions.files["t"], self.checkpoint.state
            return Positions({"t": with_files(state, before, read, 0, version)})


def some_rows(random: Random, count: int, groups: int = 12) -> list[Row]:
    """Random insertions."""
    return [
        row(
            k0=random.randrange(groups),
            long=random.randrange(-50, 50),
            text=random.choice("abcdefgh"),
            double=random.choice((0.5, 0.25, -3.0)),
        )
        for _ in range(count)
    ]


def filled(folder: Path, versions: int = 6, seed: int = 1, **options: Any) -> Made:
    """A checkpoint of some versions, with insertions and deletions, in one partition and in four."""
    made, random = Made(folder, **options), Random(seed)
    there: list[Row] = []
    for version in range(1, versions + 1):
        random.shuffle(there)
        doomed = [there.pop() for _ in range(len(there) // 4)]
        new = some_rows(random, 20)
        there += new
        # A few versions have merges in them, so that there are files which only older ones name.
        with patch.object(merging, "SMALL_WIDTH", 4):
            made.batch([*gone(*doomed), *new], 4 if version % 3 == 0 else 1)
    return made
