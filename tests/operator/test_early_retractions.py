"""Early retractions are refused, or quarantined until their insertion comes; the view is always a multiset."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.plan_document import EarlyRetractionSchema
from substrait_agg.commit.view.quarantine import waiting_rows
from substrait_agg.errors import RunFailed
from substrait_agg.flow.graph.aggregate import Aggregate, Distinct
from substrait_agg.flow.graph.measures import state_layout
from substrait_agg.flow.graph.nodes import Port
from substrait_agg.functions.aggregates.accumulators import EarlyRetraction, WeightKind
from substrait_agg.functions.aggregates.kinds import MeasureKind
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.plan.types import FP64
from substrait_agg.required import require
from tests.operator.measures_build import gone, measure
from tests.operator.measures_build import row as some_row
from tests.operator.measures_draw import DRAWS, KEYS, DrawnMeasures, Stream, node_of
from tests.operator.measures_reference import Row, Values, canonical, evaluate, value_of
from tests.operator.measures_world import Shown, World, merging_soon
from tests.sampling import sample

WEIGHTS: tuple[WeightKind, ...] = ("changelog", "weighted")
KINDS = tuple(k for k in DRAWS if k not in ("first", "last", "surrogate_key"))
"""What the rows of a group alone decide, whatever their order and history."""


def guarded(node: Aggregate, early: EarlyRetraction) -> Aggregate:
    """The operator under a policy."""
    weight: WeightKind = "weighted" if early == "quarantine" else node.weight
    keys = node.keys if node.sets else ()
    arguments, groups = state_layout(node.measures, weight, guarded=True, keys=keys)
    return replace(
        node,
        inputs=(Port((), node.keys, arguments, node.sets),),
        groups=groups,
        weight=weight,
        early=early,
    )


def random_node(random: Random, weight: WeightKind, early: EarlyRetraction) -> Aggregate:
    """Up to four measures over up to three keys, sometimes with grouping sets."""
    keys = KEYS[: random.choice((0, 1, 2, 3))]
    sets: tuple[tuple[int, ...], ...] = ()
    if keys and random.random() < 0.3:
        sets = ((), tuple(range(len(keys))), (0,))
    measures = tuple(
        DRAWS[random.choice(KINDS)](DrawnMeasures(random, f"m{i}"))
        for i in range(random.choice((0, 1, 2, 4)))
    )
    if not keys and not measures:
        keys = KEYS[:1]
    return guarded(node_of(keys, measures, weight, sets), early)


class Guard(World):
    """An operator under a policy; `rows` are all rows that were accepted, counted or not."""

    waiting = 0

    def take(self, rows: list[Row], partitions: int, *, emit: bool = True) -> bool:
        """Run a batch; whether it was accepted."""
        before = list(self.rows)
        try:
            self.batch(rows, partitions, emit=emit)
        except RunFailed as error:
            if error.code != "EARLY_RETRACTION":
                raise
            self.rows = before
            return False
        self.waiting += sum(r.counters["quarantined"] for r in self.results)
        return True

    def read(self, row: Row) -> Values:
        """The columns of a row that the operator reads besides the key."""
        return tuple(
            None
            if condition is not None and evaluate(condition, row.values) is not True
            else canonical(True if value is None else evaluate(value, row.values))
            for value, condition in self.node.arguments
        )

    def balance(self, rows: list[Row]) -> dict[tuple[Values, ...], tuple[Row, int]]:
        """Per key and over all keys, the columns that are read besides the key, with their total
        weight.
        """
        found: dict[tuple[Values, ...], tuple[Row, int]] = {}
        for row in rows:
            whole = canonical(tuple(evaluate(k, row.values) for k in self.node.keys))
            for key in self._keys(row):
                place = (canonical(key), whole, self.read(row))
                first, weight = found.get(place, (row, 0))
                found[place] = (first, weight + row.weight)
        return found

    def owed(self) -> Counter[Values]:
        """Key, values -> weight below zero, from all rows so far."""
        balance = self.balance(self.rows)
        return Counter({(*k, *v): w for (k, _, v), (_, w) in balance.items() if w < 0})

    def expected(self) -> Shown:
        """The view over the rows that were inserted more often than retracted."""
        members: dict[Values, list[Row]] = {}
        for (key, *_), (row, weight) in self.balance(self.rows).items():
            if weight > 0:
                members.setdefault(key, []).append(replace(row, weight=weight))
        nulls = (None,) * max(0, len(self.spec.keys) - 1)
        always = [()] if self.spec.is_global else [(*nulls, i) for i in self.spec.always]
        return {
            key: tuple(
                value_of(m, members.get(key, []), key[-1] if self.node.sets else 0)
                for m in self.node.measures
            )
            for key in {**members, **dict.fromkeys(always)}
        }

    def listed(self) -> Counter[Values]:
        """Key, values -> weight of the rows that wait, as the view lists them."""
        components = self.spec.trees[require(self.spec.guard)].layout.components
        types = [*self.spec.keys, *(c.type for c in components)]
        schema = pa.schema([pa.field(f"c{i}", t) for i, t in enumerate(types)])
        found = EarlyRetractionSchema(0, self.spec.guard, len(self.spec.keys), "")
        state = self.now.state
        table = waiting_rows(FolderFiles(self.folder / "state"), found, schema, state)
        rows = zip(*(c.to_pylist() for c in table.columns), strict=True)
        assert table.column_names[-1] == WEIGHT
        listed: Counter[Values] = Counter()
        for *values, weight in rows:
            listed[canonical(values)] += weight
        assert len(listed) == table.num_rows, "a row is listed twice"
        return listed


def world_of(random: Random, weight: WeightKind, early: EarlyRetraction, folder: Path) -> Guard:
    return Guard(
        random_node(random, weight, early),
        folder,
        random.choice((1, 2, 2**32)),
        page_rows=random.choice((1, 2, 5)),
        slice_rows=random.choice((2, 5, 1000)),
    )


# Other seeds below 4 come to no further line or branch.
@pytest.mark.parametrize(
    ("seed", "weight"),
    sample(product(range(14), WEIGHTS), (0, "changelog"), (1, "weighted"), (3, "weighted")),
)
def test_quarantine_shows_nothing_of_a_row_until_its_insertion_comes(
    seed: int, weight: WeightKind, tmp_path: Path
) -> None:
    """After every batch the view, the count and the list equal a recomputation, and no row is lost at the end."""
    random = Random(f"quarantine {weight} {seed}")
    with merging_soon(random.choice((1, 16_384)), 4):
        world = world_of(random, weight, "quarantine", tmp_path)
        stream = Stream(random, weight, early=True)
        for _ in range(6):
            assert world.take(stream.batch(), random.choice((1, 2, 4)))
            world.check()
            assert world.waiting == -sum(world.owed().values())
            assert world.listed() == world.owed()
        world.take(stream.missing_insertions(), 2)
        world.take(stream.clear(), 1)
        world.check()
        assert (world.waiting, world.listed(), world.entries_kept()) == (0, Counter(), 0)


@pytest.mark.parametrize(
    ("seed", "weight"), sample(product(range(8), WEIGHTS), (0, "changelog"), (2, "weighted"))
)
def test_refuse_accepts_exactly_the_batches_without_an_early_retraction(
    seed: int, weight: WeightKind, tmp_path: Path
) -> None:
    """A batch that takes rows below zero is refused as a whole, and the next batch finds the
    previous state.
    """
    random = Random(f"refuse {weight} {seed}")
    world = world_of(random, weight, "refuse", tmp_path)
    stream = Stream(random, weight, early=True)
    world.take([], 1)
    for _ in range(12):
        rows = stream.batch()
        fits = all(w >= 0 for _, w in world.balance([*world.rows, *rows]).values())
        assert world.take(rows, random.choice((1, 2, 4))) == fits
        world.check()
        assert not world.owed()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_measure_waits(kind: str, tmp_path: Path) -> None:
    """Every kind of measure, with weights of all sizes and groups that are not emitted at once."""
    random = Random(kind)
    measures = tuple(DRAWS[kind](DrawnMeasures(random, f"m{i}")) for i in range(5))  # type: ignore[index]
    node = guarded(node_of(("k0",), measures, "weighted"), "quarantine")
    with merging_soon(1, 4):
        world = Guard(node, tmp_path, 2, page_rows=2, slice_rows=7)
        stream = Stream(random, "weighted", early=True)
        for number in range(8):
            world.take(stream.batch(), 2, emit=number % 3 != 1)
            if number % 3 != 1:
                world.check()
            assert world.listed() == world.owed()


class Rows(World):
    """An operator that keeps rows with their weights; `log` adds up its changes."""

    def _apply(self, changes: pa.Table) -> None:
        for *values, _version, weight in zip(
            *(c.to_pylist() for c in changes.columns), strict=True
        ):
            self.log[tuple(values)] += weight


def rows_node(early: EarlyRetraction) -> Distinct:
    """The operator that keeps rows of two columns."""
    node = node_of(("k0", "k1"), (), "weighted")
    return Distinct(
        id=0, inputs=node.inputs, types=node.types, weight="weighted", path="", early=early
    )


def row(number: Any, text: str, weight: int) -> Row:
    values: list[Any] = [None] * 30
    values[:2] = number, text
    return Row(tuple(values), weight)


def waiting_of(world: Rows) -> list[tuple[Any, ...]]:
    schema = pa.schema([("k0", pa.int64()), ("k1", pa.string())])
    state = world.now.state
    found = waiting_rows(
        FolderFiles(world.folder / "state"), EarlyRetractionSchema(0, None, 2, ""), schema, state
    )
    return sorted(zip(*(c.to_pylist() for c in found.columns), strict=True))


def test_rows_of_a_view_wait_without_a_tree(tmp_path: Path) -> None:
    """A multiset never shows rows below zero; under quarantine they are counted and listed without
    a further tree.
    """
    world = Rows(rows_node("quarantine"), tmp_path)
    counts = []
    for rows in (
        [row(1, "a", -2), row(2, "b", 3)],
        [row(1, "a", 1), row(2, "b", -4)],
        [row(1, "a", 3), row(2, "b", 1)],
    ):
        world.batch(rows)
        counts.append(sum(r.counters["quarantined"] for r in world.results))
        if len(counts) == 2:
            assert waiting_of(world) == [(1, "a", -1), (2, "b", -1)]
    assert counts == [2, 0, -2]
    assert waiting_of(world) == []
    assert +world.log == Counter({(1, "a"): 2})


def test_a_multiset_refuses_a_row_below_zero_and_names_it(tmp_path: Path) -> None:
    world = Rows(rows_node("refuse"), tmp_path)
    world.batch([row(1, "a", 2)])
    with pytest.raises(
        RunFailed, match=r"^\[EARLY_RETRACTION\]: 1 rows .*; the first is \(1, a\)$"
    ) as caught:
        world.batch([row(1, "a", -3), row(2, "b", 1)])
    assert caught.value.code == "EARLY_RETRACTION"
    world.batch([row(1, "a", -2)])


def test_the_refused_row_is_named_with_its_group(tmp_path: Path) -> None:
    """The message has the key and the argument values, to find the row in the source."""
    measures = (DRAWS["sum"](DrawnMeasures(Random(0), "m0")),)
    node = guarded(node_of(("k1",), measures, "changelog"), "refuse")
    world = World(node, tmp_path)
    with pytest.raises(RunFailed, match=r"in the group \(a\)$"):
        world.batch([row(1, "a", -1)])


def test_an_insertion_and_its_retraction_in_one_batch_are_not_early(tmp_path: Path) -> None:
    """An insertion and its retraction in one batch are not early, in any order."""
    world = World(guarded(node_of(("k0",), (), "changelog"), "refuse"), tmp_path)
    world.batch([row(1, "a", -1), row(1, "a", 1), row(1, "b", 1)])
    assert world.view() == {(1,): ()}


@pytest.mark.parametrize("early", ["refuse", "quarantine"])
@pytest.mark.parametrize("kind", ["first", "last"])
def test_a_policy_changes_no_arrival(kind: str, early: EarlyRetraction, tmp_path: Path) -> None:
    """Without early retractions all policies give the same arrivals, also for equal rows in
    different parts of a batch.
    """
    node = node_of(("k0",), (measure(kind, "text"),), "changelog")  # type: ignore[arg-type]
    worlds: list[World] = []
    for policy in (node, guarded(node, early)):
        folder = tmp_path / str(len(worlds))
        folder.mkdir()
        worlds.append(World(policy, folder))
    random = Random(f"{kind} {early}")
    there: list[Row] = []
    for _ in range(12):
        fresh = [some_row(k0=random.choice((1, 2)), text=random.choice("abcd")) for _ in range(6)]
        dropped = random.sample(there, min(2, len(there)))
        for drop in dropped:
            there.remove(drop)
        there += fresh
        rows = [*fresh, *(replace(d, weight=-1) for d in dropped)]
        for world in worlds:
            world.batch(rows)
        assert worlds[0].view() == worlds[1].view()


@pytest.mark.parametrize("early", ["carry", "refuse", "quarantine"])
@pytest.mark.parametrize("kind", ["first", "last"])
def test_rows_that_come_and_go_in_a_batch_count_for_arrivals(
    tmp_path: Path, early: EarlyRetraction, kind: MeasureKind
) -> None:
    """A value arrives with its newest (oldest) row, also if that row is deleted in the same batch."""
    measures = (measure(kind, "double", type_=FP64, keep_nulls=True), measure("max", "long"))
    node = node_of((), measures, "changelog", ())
    world = World(node if early == "carry" else guarded(node, early), tmp_path)
    kept, passing, other = some_row(double=1.5, long=7), some_row(double=1.5, long=9), some_row(double=2.5, long=7)  # fmt: skip
    came = [passing, other, kept] if kind == "first" else [kept, other, passing]
    world.batch([*came, *gone(passing)], 1)
    world.check()
    ((values, _),) = world.log.items()
    assert values[:2] == (1.5, 7)


@pytest.mark.parametrize("kind", ["first", "last"])
def test_rows_that_cancel_while_their_row_waits_count_for_nothing(
    tmp_path: Path, kind: MeasureKind
) -> None:
    """An insertion cancels one earlier deletion of its row, and a new deletion waits."""
    measures = (measure(kind, "double", type_=FP64, keep_nulls=True), measure("max", "long"))
    node = guarded(node_of((), measures, "changelog", ()), "quarantine")
    world = World(node, tmp_path)
    waiting, kept, other = some_row(double=1.5, long=9), some_row(double=1.5, long=7), some_row(double=2.5, long=7)  # fmt: skip
    world.batch(gone(waiting), 1)
    came = [waiting, other, kept] if kind == "first" else [kept, other, waiting]
    world.batch([*came, *gone(waiting)], 1)
    ((values, _),) = (+world.log).items()
    assert values[:2] == (2.5, 7)
    # One insertion cancels the deletion that waits, the other one counts.
    world.batch([waiting, waiting], 1)
    ((values, _),) = (+world.log).items()
    assert values[:2] == ((2.5 if kind == "first" else 1.5), 9)
