"""The session operator against brute force: rows of any weight in any order, over real runs with
tiny pages.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.errors import RunFailed
from substrait_agg.flow.passes.lower import lower
from substrait_agg.functions.aggregates.accumulators import EarlyRetraction
from substrait_agg.operator.common.emission import ALL, Emission
from substrait_agg.operator.common.names import GROUP, WEIGHT
from substrait_agg.operator.sessionize.spec import SessionSpec
from substrait_agg.operator.sessionize.step import SessionOperator, Spans, sessions
from substrait_agg.state import ordered
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.run import RunFile
from tests.operator.specs import operator_spec
from tests.operator.tasks import SPREAD, TaskRunner, hash_of
from tests.sampling import seeds
from tests.windowed import grouped, interval

GAP = 10
Row = tuple[str | None, int | None, int | None]
"""Team, microseconds, number."""
Told = tuple[str | None, tuple[int, int] | None, int | None]
"""Team, session, number."""
Runs = tuple[RunFile, ...]


# --- brute force -------------------------------------------------------------------------------


def expected_sessions(rows: Counter[Row], gap: int = GAP) -> Counter[Told]:
    """Every row with its session, by the definition."""
    found: Counter[Told] = Counter()
    for team in {row[0] for row in rows}:
        mine = {row: w for row, w in rows.items() if row[0] == team and w}
        total: Counter[int] = Counter()
        for (_, time, _), weight in mine.items():
            if time is not None:
                total[time] += weight
        live = sorted(time for time, weight in total.items() if weight > 0)
        for (_, time, n), weight in mine.items():
            found[team, None if time is None else session_of(time, live, gap), n] += weight
    return Counter({row: w for row, w in found.items() if w})


def session_of(time: int, live: Sequence[int], gap: int) -> tuple[int, int]:
    """Return the session of a time, else a separate window."""
    spans: list[list[int]] = []
    for t in live:
        if spans and t - spans[-1][1] < gap:
            spans[-1][1] = t
        else:
            spans.append([t, t])
    return next(((a, b + gap) for a, b in spans if a <= time < b + gap), (time, time + gap))


# --- the operator ------------------------------------------------------------------------------


class World(TaskRunner):
    """The operator: batches in, the sum of its changes out."""

    def __init__(
        self,
        folder: Path,
        *,
        early: EarlyRetraction = "carry",
        spread: int = SPREAD,
        page_rows: int = 4,
        slice_rows: int = 50,
    ) -> None:
        plan = sa.load(grouped("session", interval(micros=GAP))).bind()
        node = lower(plan, {("goals",): "weighted"}, early).operators[0]
        spec = operator_spec(node)
        assert isinstance(spec, SessionSpec)
        self.spec = replace(spec, page_rows=page_rows, slice_rows=slice_rows)
        super().__init__(SessionOperator(self.spec), folder, node.columns, final=False, cut=7)
        self.spread = spread
        self.log: Counter[Told] = Counter()
        self.changes: list[tuple[Told, int]] = []
        self.kept_aside = 0

    def batch(
        self, rows: Sequence[tuple[Row, int]], partitions: int = 1, emission: Emission = ALL
    ) -> None:
        """Take up rows with their weights."""
        results = self.run(self._raw(rows) if rows else None, partitions, emission=emission)
        self.changes = []
        self.kept_aside += sum(result.counters["quarantined"] for result in results)
        for changes in self.changes_of(results):
            self._apply(changes)
        self.log = Counter({row: w for row, w in self.log.items() if w})

    def _raw(self, rows: Sequence[tuple[Row, int]]) -> pa.RecordBatch:
        hashes = [hash_of(team, self.spread) for (team, _, _), _ in rows]
        return pa.RecordBatch.from_pydict(
            {
                "__m": pa.array(hashes, pa.int32()),
                "__x": pa.array([7] * len(rows), pa.int32()),
                "k0": pa.array([row[0] for row, _ in rows], pa.string()),
                "x0": pa.array([row[1] for row, _ in rows], pa.timestamp("us")),
                "x1": pa.array([row[2] for row, _ in rows], pa.int64()),
                WEIGHT: pa.array([weight for _, weight in rows], pa.int64()),
            }
        )

    def _apply(self, changes: pa.Table) -> None:
        window = changes.column("v0").combine_chunks()
        start, end = (window.field(i).cast(pa.int64()).to_pylist() for i in range(2))
        spans = zip(start, end, window.is_valid().to_pylist(), strict=True)
        rows = zip(
            changes.column("k0").to_pylist(),
            [(a, b) if valid else None for a, b, valid in spans],
            changes.column("v1").to_pylist(),
            changes.column(WEIGHT).to_pylist(),
            strict=True,
        )
        for team, at, n, weight in rows:
            self.log[team, at, n] += weight
            self.changes.append(((team, at, n), weight))

    def entries(self) -> int:
        """Entries kept."""
        layout = self.spec.trees[0].layout
        tree = OrderedTree(self.files, self.state["tree0"], layout)
        return sum(part.num_rows for part in tree.scan())

    def groups(self) -> int:
        """Groups kept."""
        parts = self.scan(GROUP, self.spec.layout.schema, len(self.spec.keys))
        return sum(part.num_rows for part in parts)


def drawn(pick: random.Random, there: list[Row], *, early: bool) -> list[tuple[Row, int]]:
    """A batch: insertions, deletions of existing rows, and early deletions."""
    batch: list[tuple[Row, int]] = []
    for _ in range(pick.choice((1, 3, 20))):
        time = None if pick.random() < 0.05 else pick.randrange(-150, 150)
        row = (pick.choice(("a", "b", "c", None)), time, pick.choice((1, 2, None)))
        chance = pick.random()
        if chance < 0.4 and there:
            batch.append((there.pop(pick.randrange(len(there))), -1))
        elif chance < 0.5 and early:
            batch.append((row, -pick.choice((1, 2))))
        else:
            weight = pick.choice((1, 1, 1, 3))
            batch.append((row, weight))
            there += [row] * weight
    return batch


@pytest.mark.parametrize("seed", seeds(3, 12))
def test_every_version_of_random_changes(seed: int, tmp_path: Path) -> None:
    """Insertions merge sessions and deletions split them; the sum of the changes is always every row with its session."""
    pick = random.Random(seed)
    world = World(
        tmp_path,
        spread=pick.choice((2, 2**32)),
        page_rows=pick.choice((2, 5, 64)),
        slice_rows=pick.choice((9, 1000)),
    )
    rows: Counter[Row] = Counter()
    there: list[Row] = []
    for _ in range(25):
        batch = drawn(pick, there, early=seed % 2 == 1)
        for row, weight in batch:
            rows[row] += weight
        world.batch(batch, partitions=pick.choice((1, 2, 4)))
        assert world.log == expected_sessions(rows)
    assert world.entries() == sum(w != 0 for w in rows.values())
    world.batch([(row, -w) for row, w in rows.items() if w])
    assert (world.log, world.entries(), world.groups()) == (Counter(), 0, 0), "nothing is left"


@pytest.mark.parametrize("seed", seeds(2, 4))
def test_quarantined_rows_count_once_they_are_inserted(seed: int, tmp_path: Path) -> None:
    pick = random.Random(seed)
    world = World(tmp_path, early="quarantine")
    rows: Counter[Row] = Counter()
    there: list[Row] = []
    for _ in range(20):
        batch = drawn(pick, there, early=True)
        for row, weight in batch:
            rows[row] += weight
        world.batch(batch)
        assert world.log == expected_sessions(+rows)
        assert world.kept_aside == -sum(w for w in rows.values() if w < 0)


def test_an_early_retraction_can_be_refused(tmp_path: Path) -> None:
    world = World(tmp_path, early="refuse")
    world.batch([(("a", 0, 1), 1)])
    with pytest.raises(RunFailed, match="EARLY_RETRACTION"):
        world.batch([(("a", 5, 1), -1)])


def test_a_row_just_at_the_end_begins_a_new_session(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.batch([(("a", 0, 1), 1), (("a", GAP, 2), 1)])
    assert set(world.log) == {("a", (0, 10), 1), ("a", (10, 20), 2)}
    world.batch([(("a", 1, 3), 1)])
    assert {row[1] for row in world.log} == {(0, 20)}, "all three are one"
    world.batch([(("a", 1, 3), -1)])
    assert set(world.log) == {("a", (0, 10), 1), ("a", (10, 20), 2)}, "and two again"


def test_a_row_inside_a_session_moves_no_other(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.batch([(("a", t, 1), 1) for t in range(0, 100, 4)])
    world.batch([(("a", 50, 7), 1)])
    assert world.changes == [(("a", (0, 106), 7), 1)]


def test_reading_goes_no_further_than_the_session(tmp_path: Path) -> None:
    """In a group with many sessions a batch reads only the session that it changes."""
    world = World(tmp_path, page_rows=64, slice_rows=10_000)
    world.batch([(("a", 100 * t, 1), 1) for t in range(5_000)])
    read: list[int] = []
    before = OrderedTree.between

    def between(self: OrderedTree, *arguments: Any) -> Any:
        found = before(self, *arguments)
        read.append(self.rows_read)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordered.OrderedTree, "between", between)
        world.batch([(("a", 250_003, 1), 1)])
    assert world.log["a", (250_000, 250_013), 1] == 2
    assert sum(read) < 20


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_finished_sessions_are_dropped_without_a_word(seed: int, tmp_path: Path) -> None:
    """The remaining state behaves as if closed sessions had no rows; emitted rows stay."""
    pick = random.Random(seed)
    world = World(tmp_path, spread=pick.choice((2, 2**32)), slice_rows=pick.choice((9, 1000)))
    rows: Counter[Row] = Counter()
    emitted: Counter[Told] = Counter()
    watermark = -150
    for _ in range(12):
        watermark += pick.choice((0, 5, 40))
        batch = [
            (
                (team, watermark + pick.randrange(0, 60), pick.choice((1, 2))),
                pick.choice((1, 1, -1)),
            )
            for team in pick.choices(("a", "b", None), k=8)
        ]
        for row, weight in batch:
            rows[row] += weight
        world.batch(batch)
        emission = replace(ALL, watermark=watermark)
        world.batch([], partitions=2, emission=emission)
        assert not world.changes
        now = expected_sessions(rows)
        ends = {row: session_at(row, rows) for row in rows if rows[row]}
        finished = [row for row, end in ends.items() if end <= watermark]
        assert world.log == emitted + now or world.log == plus(emitted, now)
        gone = Counter({row: rows.pop(row) for row in finished})
        emitted = plus(emitted, minus(now, expected_sessions(rows)))
        assert world.entries() == sum(w != 0 for w in rows.values()), gone
    world.batch([], emission=replace(ALL, watermark=10_000))
    assert (world.entries(), world.groups()) == (0, 0)


def session_at(row: Row, rows: Counter[Row]) -> int:
    """Where the session of a row ends."""
    total: Counter[int] = Counter()
    for (team, time, _), weight in rows.items():
        if team == row[0] and time is not None:
            total[time] += weight
    live = sorted(time for time, weight in total.items() if weight > 0)
    assert row[1] is not None
    return session_of(row[1], live, GAP)[1]


def plus(left: Counter[Told], right: Counter[Told]) -> Counter[Told]:
    total = Counter(left)
    for row, weight in right.items():
        total[row] += weight
    return Counter({row: w for row, w in total.items() if w})


def minus(left: Counter[Told], right: Counter[Told]) -> Counter[Told]:
    return plus(left, Counter({row: -w for row, w in right.items()}))


def test_rows_without_a_time_are_kept(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.batch([(("a", None, 1), 2), (("a", 0, 1), 1)])
    world.batch([], emission=replace(ALL, watermark=100))
    assert world.entries() == 1
    world.batch([(("a", None, 1), -2)])
    assert world.log == Counter({("a", (0, 10), 1): 1})
    assert (world.entries(), world.groups()) == (0, 0)


def test_spans_that_touch_are_joined() -> None:
    groups, low, high = (np.array(v) for v in ([0, 0, 0, 1], [20, 0, 9, 9], [30, 0, 9, 9]))
    found = Spans(groups, low, high).join(GAP)
    assert found.groups.tolist() == [0, 0, 1]
    assert found.low.tolist() == [0, 20, 9]
    assert found.high.tolist() == [9, 30, 9]


def test_times_at_the_ends_of_64_bits_tell_sessions() -> None:
    edge = 2**62
    times = np.array([-edge, 0, edge])
    found = sessions(np.zeros(3, np.int64), times, np.ones(3, np.int64), GAP)
    assert found.start.tolist() == times.tolist()
