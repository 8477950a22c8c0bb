"""The upsert operator against a dict: the newest row of every key, and changes that are exactly what differs.

Rows come in random order of their positions, in many slices, pages and merges, over another number of partitions in every batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from substrait_agg.errors import RunFailed
from substrait_agg.operator.common.names import GROUP, POSITION, WEIGHT
from substrait_agg.operator.upsert.spec import THERE, UpsertSpec
from substrait_agg.operator.upsert.step import UpsertOperator
from substrait_agg.state.keys.keys import Component
from tests.operator.measures_world import merging_soon, small_parts
from tests.operator.tasks import SPREAD, TaskRunner, hash_of
from tests.sampling import seeds

Values = tuple[Any, ...]

KEYS: tuple[tuple[pa.DataType, ...], ...] = (
    (pa.int64(),),
    (pa.string(),),
    (pa.int64(), pa.string()),
    (pa.struct([pa.field("f0", pa.int64()), pa.field("f1", pa.string())]),),
)
ROWS: tuple[tuple[pa.DataType, ...], ...] = (
    (),
    (pa.string(), pa.float64()),
    (pa.list_(pa.int32()), pa.decimal128(20, 2), pa.bool_()),
)
ORDERS: tuple[tuple[pa.DataType, ...], ...] = ((), (pa.int64(),), (pa.string(), pa.int64()))


@dataclass(frozen=True)
class Event:
    """An upsert, or a deletion whose values are ignored; a partial row omits its first value."""

    key: Values
    row: Values
    order: Values
    delete: bool
    at: int = 0
    partial: bool = False


class World(TaskRunner):
    """The operator, and the dict that is its reference."""

    def __init__(self, spec: UpsertSpec, folder: Path, spread: int = SPREAD) -> None:
        super().__init__(UpsertOperator(spec), folder, spec.output.names, final=True, cut=4)
        self.spec = spec
        self.spread = spread
        self.log: Counter[Values] = Counter()
        self.changes: list[tuple[Values, int]] = []
        self.orders: dict[Values, Values] = {}
        self.rows: dict[Values, Values] = {}

    def batch(self, events: Sequence[Event], partitions: int, random: Random) -> None:
        """One batch, checked."""
        placed = [replace(e, at=3 * i) for i, e in enumerate(events)]
        for event in placed:
            self._apply(event)
        mixed = random.sample(placed, len(placed))
        self.changes = []
        for table in self.changes_of(self.run(self._batch(mixed), partitions)):
            rows = tuples(table.drop_columns(["__version", WEIGHT]))
            self.changes += zip(rows, table.column(WEIGHT).to_pylist(), strict=True)
        self._check()

    def _apply(self, event: Event) -> None:
        if event.key in self.orders and event.order < self.orders[event.key]:
            return
        self.orders[event.key] = event.order
        before = self.rows.pop(event.key, ())
        if event.partial:
            self.rows[event.key] = (before[0] if before else None, *event.row[1:])
        elif not event.delete:
            self.rows[event.key] = event.row

    def _batch(self, events: Sequence[Event]) -> pa.RecordBatch:
        hashes = [hash_of(e.key, self.spread) for e in events]
        columns = {
            "__m": pa.array(hashes, pa.int32()),
            "__x": pa.array([7] * len(events), pa.int32()),
        }
        latest = self.spec
        for i, type_ in enumerate(self.spec.keys):
            columns[f"k{i}"] = pa.array([nested(e.key[i], type_) for e in events], type_)
        types = (*latest.values, *(c.type for c in latest.order))
        for i, type_ in enumerate(types):
            columns[f"x{i}"] = pa.array([(*e.row, *e.order)[i] for e in events], type_)
        for name in latest.partial_columns:
            columns[name] = pa.array([e.partial for e in events])
        columns[POSITION] = pa.array([e.at for e in events], pa.int64())
        columns[WEIGHT] = pa.array([-1 if e.delete else 1 for e in events], pa.int64())
        return pa.RecordBatch.from_pydict(columns)

    def _check(self) -> None:
        taken = [row for row, weight in self.changes if weight < 0]
        brought = [row for row, weight in self.changes if weight > 0]
        assert not set(taken) & set(brought), "a change of nothing"
        for row, weight in sorted(self.changes, key=lambda change: change[1]):
            self.log[row] += weight
            assert self.log[row] in (0, 1), "a row was retracted that had not been emitted"
        wanted = {(*key, *row) for key, row in self.rows.items()}
        assert set(+self.log) == wanted
        assert {row for row, there in self.stored() if there} == wanted

    def stored(self) -> list[tuple[Values, bool]]:
        """Return the content of the tree per key: its row, and whether it exists."""
        found: list[tuple[Values, bool]] = []
        for part in self.scan(GROUP, self.spec.stored, len(self.spec.keys)):
            rows = tuples(part.select(self.spec.output.names))
            found += zip(rows, part.column(THERE).to_pylist(), strict=True)
        return found


def nested(value: Any, type_: pa.DataType) -> Any:
    return dict(value) if pa.types.is_struct(type_) else value


def tuples(table: pa.Table) -> list[Values]:
    return [
        tuple(frozen(v) for v in row)
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True)
    ]


def frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(value.items())
    return tuple(value) if isinstance(value, list) else value


def made(
    folder: Path, keys: tuple[pa.DataType, ...], row: tuple[pa.DataType, ...],
    order: tuple[pa.DataType, ...] = (), spread: int = 2**32, page_rows: int = 100, slice_rows: int = 1000,
) -> World:  # fmt: skip
    partial = () if order or not row else (0,)
    spec = UpsertSpec(
        keys, row, tuple(map(Component, order)), partial, ("first value",)[: len(partial)],
        page_rows=page_rows, slice_rows=slice_rows,
    )  # fmt: skip
    return World(spec, folder, spread)


DRAWS: dict[pa.DataType, Any] = {
    pa.int64(): lambda r: r.randrange(6),
    pa.string(): lambda r: r.choice(["", "a", "ab", "zebra" * 9]),
    pa.float64(): lambda r: r.choice([0.0, 1.5, None]),
    pa.list_(pa.int32()): lambda r: r.choice([None, (), (1,), (1, None)]),
    pa.decimal128(20, 2): lambda r: None,
    pa.bool_(): lambda r: r.choice([True, False, None]),
    KEYS[3][0]: lambda r: (("f0", r.randrange(3)), ("f1", r.choice(["x", None]))),
}


def draw(random: Random, types: Sequence[pa.DataType]) -> Values:
    return tuple(DRAWS[t](random) for t in types)


def draw_event(world: World, random: Random) -> Event:
    latest = world.spec
    order = draw(random, [c.type for c in latest.order])
    delete = random.random() < 0.3
    return Event(draw(random, world.spec.keys), draw(random, latest.values), order, delete)


def draw_events(world: World, random: Random) -> list[Event]:
    """Events of which some omit their first value if the previous row of the key contains it."""
    there = set(world.rows)
    events = []
    for event in (draw_event(world, random) for _ in range(random.randrange(20))):
        known = event.key in there and not event.delete and bool(world.spec.partial)
        events.append(replace(event, partial=known and random.random() < 0.4))
        (there.discard if event.delete else there.add)(event.key)
    return events


@pytest.mark.parametrize("seed", seeds(1, 60, also=(9, 12, 13)))
def test_the_newest_row_of_every_key_is_there_and_every_change_is_exact(
    seed: int, tmp_path: Path
) -> None:
    """Random keys, rows, orders, hash collisions, partitions, slices, pages and merges; a batch again changes nothing."""
    random = Random(f"latest {seed}")
    with merging_soon(random.choice((1, 4)), random.choice((1, 8, 64))), small_parts(3):
        world = made(
            tmp_path,
            random.choice(KEYS),
            random.choice(ROWS),
            random.choice(ORDERS),
            random.choice((1, 3, 2**32)),
            page_rows=random.choice((1, 3, 100)),
            slice_rows=random.choice((1, 5, 1000)),
        )
        for _ in range(8):
            events = draw_events(world, random)
            world.batch(events, random.choice((1, 2, 4)), random)
            if random.random() < 0.4:
                world.batch(events, random.choice((1, 2, 4)), random)
                assert not world.changes


def event(key: int, value: str, order: int | None = None, *, delete: bool = False) -> Event:
    return Event((key,), (value,), () if order is None else (order,), delete)


def text_world(folder: Path, *, ordered: bool) -> World:
    return made(folder, (pa.int64(),), (pa.string(),), (pa.int64(),) if ordered else ())


def test_a_deletion_takes_away_what_is_stored_whatever_it_says(tmp_path: Path) -> None:
    world, random = text_world(tmp_path, ordered=False), Random(1)
    world.batch([event(1, "a")], 1, random)
    world.batch([event(1, "something else", delete=True), event(2, "b", delete=True)], 2, random)
    assert world.changes == [((1, "a"), -1)]


def test_a_row_without_columns_besides_its_key_comes_once_and_goes_once(tmp_path: Path) -> None:
    world, random = made(tmp_path, (pa.int64(),), ()), Random(1)
    for delete, weight in ((False, 1), (True, -1)):
        here = Event((1,), (), (), delete)
        world.batch([here, here], 1, random)
        assert world.changes == [((1,), weight)]
        world.batch([here], 2, random)
        assert world.changes == []


def test_without_an_order_nothing_is_kept_of_keys_that_are_gone(tmp_path: Path) -> None:
    world, random = text_world(tmp_path, ordered=False), Random(1)
    with merging_soon(1, 1 << 20):
        world.batch([event(k, "a") for k in range(50)], 4, random)
        world.batch([event(k, "", delete=True) for k in range(50)], 4, random)
    assert world.stored() == []


def test_an_event_that_is_too_old_does_not_bring_a_deleted_row_back(tmp_path: Path) -> None:
    """With an order, the record of a deleted key rejects older events; newer events insert the row again."""
    world, random = text_world(tmp_path, ordered=True), Random(1)
    world.batch([event(1, "", 5, delete=True)], 1, random)
    world.batch([event(1, "late", 4)], 2, random)
    assert world.changes == []
    assert world.stored() == [((1, None), False)]
    world.batch([event(1, "new", 6)], 1, random)
    assert world.changes == [((1, "new"), 1)]


def test_of_equally_old_events_the_one_that_arrives_last_counts(tmp_path: Path) -> None:
    world, random = text_world(tmp_path, ordered=True), Random(1)
    world.batch([event(1, "a", 5), event(1, "b", 5), event(1, "c", 4)], 1, random)
    assert world.changes == [((1, "b"), 1)]
    world.batch([event(1, "d", 5)], 1, random)
    assert world.changes == [((1, "b"), -1), ((1, "d"), 1)]


@pytest.mark.parametrize("before", [[], [event(1, "a", delete=True)], [event(2, "a")]])
def test_a_value_that_no_row_told_fails_the_batch(before: list[Event], tmp_path: Path) -> None:
    """The unchanged value is not that of a deleted row or of another key."""
    world, random = text_world(tmp_path, ordered=False), Random(1)
    world.batch([event(1, "a"), event(1, "", delete=True)], 1, random)
    with pytest.raises(
        RunFailed, match="1 rows omit first value because it did not change"
    ) as failed:
        world.batch([*before, replace(event(1, "gone"), partial=True)], 1, random)
    assert failed.value.code == "VALUE_UNAVAILABLE"


def test_a_value_that_is_equal_in_another_form_is_retracted_as_it_was_emitted(
    tmp_path: Path,
) -> None:
    """-0.0 in a list equals 0.0, so nothing is emitted, and a later retraction contains the first
    list.
    """
    world = made(tmp_path, (pa.int64(),), (pa.list_(pa.float64()),), (pa.int64(),))
    random = Random(1)
    world.batch([Event((1,), ((0.0,),), (1,), delete=False)], 1, random)
    world.batch([Event((1,), ((-0.0,),), (2,), delete=False)], 1, random)
    assert world.changes == []
    world.batch([Event((1,), ((1.0,),), (3,), delete=False)], 1, random)
    assert [repr(row) for row, weight in world.changes if weight < 0] == ["(1, (0.0,))"]
