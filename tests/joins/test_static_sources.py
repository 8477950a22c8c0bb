"""Runs over static tables: what they store, and the effect of a changed static table."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from substrait_agg.errors import StateRefused, UsageError
from tests.e2e.feeds import Feed, duck
from tests.e2e.plans import COMPARISON, Builder, aggregate, column, joined, read
from tests.e2e.rows import Bag, bag, running_sums
from tests.e2e.running import check_versions, maintain

SALES = {"city": "i64", "amount": "i64"}
CITIES = {"id": "i64", "name": "string"}
FEED = Feed(
    "sales",
    SALES,
    "op",
    [
        [((1, 10), 1), ((2, 20), 1), ((None, 5), 1), ((9, 1), 1)],
        [((1, 10), -1), ((1, 11), 1), ((3, 30), 1)],
        [((2, 20), -1), ((9, 1), -1), ((None, 5), -1), ((1, 12), 1)],
    ],
)
ROWS = [(1, "Aba"), (2, "Bon"), (3, None), (None, "nowhere"), (1, "Aba again")]
OTHER = [(1, "Aba"), (2, "Bonn"), (3, None), (None, "nowhere"), (9, "Nine")]


def plan(kind: str, *, static_left: bool = False) -> str:
    """A join of the sales with their cities."""
    b = Builder()
    sales, cities = read("sales", SALES), read("cities", CITIES)
    left, right = (cities, sales) if static_left else (sales, cities)
    on = b.call("equal:any_any", COMPARISON, column(0), column(2), output="bool")
    rows = joined(kind, left, right, on)
    semi = kind in ("left_semi", "left_anti")
    return b.plan(rows, *(f"c{i}" for i in range(2 if semi else 4)))


def wanted(kind: str, rows: Bag, cities: list[Any], *, static_left: bool = False) -> Bag:
    """The rows of the join by DuckDB."""
    left, right = ("cities", "sales") if static_left else ("sales", "cities")
    on = "sales.city = cities.id"
    exists = f"EXISTS (SELECT 1 FROM {right} WHERE {on})"
    queries = {
        "left_semi": f"FROM {left} WHERE {exists}",
        "left_anti": f"FROM {left} WHERE NOT {exists}",
        "outer": f"FROM {left} FULL JOIN {right} ON {on}",
    }
    query = queries.get(kind, f"FROM {left} {kind} JOIN {right} ON {on}")
    tables = [Feed("sales", SALES, "op", []), Feed("cities", CITIES, "op", [])]
    return duck(query, tables)(rows, Counter(cities))


def write_cities(folder: Path, rows: list[Any], name: str = "part.parquet") -> None:
    folder.mkdir(exist_ok=True)
    ids, names = zip(*rows, strict=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "name": names}), folder / name)


class World:
    """A folder with sales that stream, and cities that do not."""

    def __init__(self, folder: Path, batches: int = 3) -> None:
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        self.write(batches)
        write_cities(folder / "cities", ROWS)

    def write(self, batches: int) -> None:
        self.sales = Feed(FEED.table, FEED.columns, FEED.how, FEED.batches[:batches]).write(
            self.folder
        )

    @property
    def sources(self) -> dict[str, str]:
        return {"sales": self.sales, "cities": f"parquet:{self.folder / 'cities'}?static=true"}

    def maintain(self, plan: str, **options: Any) -> Mapping[int, Bag]:
        return maintain(None, plan, self.sources, self.checkpoint, **options)

    def refused(self, plan: str, sources: Mapping[str, str] | None = None, **options: Any) -> Any:
        """The error that a run is refused with; the checkpoint stays unchanged."""
        before = sa.open_view(self.checkpoint).version
        with pytest.raises(StateRefused) as raised:
            maintain(None, plan, dict(sources or self.sources), self.checkpoint, **options)
        assert sa.open_view(self.checkpoint).version == before
        assert raised.value.help
        return raised.value


STORED = [
    ("inner", False, {"rows1"}),
    ("left", False, {"rows1"}),
    ("left_semi", False, {"rows1"}),
    ("left_anti", False, {"rows1"}),
    ("outer", False, {"rows0", "rows1"}),
    ("inner", True, {"rows0"}),
    ("left", True, {"rows0", "rows1"}),
    ("left_semi", True, {"rows0", "rows1"}),
]


@pytest.mark.parametrize(("kind", "static_left", "trees"), STORED)
def test_a_stream_joined_with_a_static_table(
    tmp_path: Path, kind: str, static_left: bool, trees: set[str]
) -> None:
    """Every version equals DuckDB's; the rows of the stream are stored only where they are read again."""
    world = World(tmp_path)
    text = plan(kind, static_left=static_left)
    views = world.maintain(text, partitions=2)
    check_versions(
        world.checkpoint,
        dict(views),
        [wanted(kind, FEED.after(v), ROWS, static_left=static_left) for v in range(4)],
    )
    state = sa.open_state(world.checkpoint)
    assert set(state.at().operators[0].trees) == trees
    assert {tree.tree for tree in state.ls().trees if tree.operator == 0} == trees
    assert sum(t.num_rows for t in state.show(operator=0, limit=None).values())
    assert state.verify().ok


def test_static_rows_are_written_once(tmp_path: Path) -> None:
    """Later versions refer to the static files of the first version."""
    world = World(tmp_path, batches=1)
    world.maintain(plan("inner"))
    first = sa.open_state(world.checkpoint).at().operators[0]["rows1"]
    world.write(3)
    world.maintain(plan("inner"))
    assert sa.open_state(world.checkpoint).at().operators[0]["rows1"] == first


def test_an_aggregate_over_a_static_table_is_computed_once(tmp_path: Path) -> None:
    """Its groups are joined with the stream; both are exact at every version."""
    world = World(tmp_path)
    b = Builder()
    counted = aggregate(read("cities", CITIES), [column(0)], [b.measure("count", output="i64!")])
    on = b.call("equal:any_any", COMPARISON, column(0), column(2), output="bool")
    text = b.plan(joined("left", read("sales", SALES), counted, on), "a", "b", "c", "d")
    views = world.maintain(text)
    counts = Counter(id for id, _ in ROWS)
    for version, view in views.items():
        rows = FEED.after(version)
        expected: Bag = Counter()
        for (city, amount), n in rows.items():
            known = city is not None and city in counts
            expected[(city, amount, *((city, counts[city]) if known else (None, None)))] += n
        assert view == expected
    state = sa.open_state(world.checkpoint)
    assert "rows0" not in state.at().operators[1].trees
    assert state.verify().ok


def test_files_that_are_touched_or_renamed_are_the_same_table(tmp_path: Path) -> None:
    world = World(tmp_path, batches=1)
    world.maintain(plan("left"))
    part = tmp_path / "cities" / "part.parquet"
    os.utime(part, (1, 1))
    world.write(2)
    world.maintain(plan("left"))
    part.rename(part.with_name("other.parquet"))
    world.write(3)
    views = world.maintain(plan("left"))
    assert views[3] == wanted("left", FEED.after(3), ROWS)
    write_cities(tmp_path / "cities", ROWS[:1], "more.parquet")
    assert world.refused(plan("left")).code == "STATIC_TABLE_CHANGED"


def test_a_changed_static_table_is_refused(tmp_path: Path) -> None:
    """Rows that were joined with it are not stored, so the difference cannot be taken in."""
    world = World(tmp_path, batches=2)
    world.maintain(plan("inner"))
    write_cities(tmp_path / "cities", OTHER)
    refusal = world.refused(plan("inner"))
    assert refusal.code == "STATIC_TABLE_CHANGED"
    assert "cities" in refusal.message
    refusal = world.refused(plan("inner"), accept_source_change=True)
    assert refusal.code == "STATIC_CHANGE_REFUSED"
    assert "operator 0, a join, does not store the rows of input 0" in refusal.message
    write_cities(tmp_path / "cities", ROWS)
    world.write(3)
    assert world.maintain(plan("inner"))[3] == wanted("inner", FEED.after(3), ROWS)


def test_an_aggregate_cannot_take_in_the_changes_of_a_static_table(tmp_path: Path) -> None:
    world = World(tmp_path)
    b = Builder()
    text = b.plan(aggregate(read("cities", CITIES), [], [b.measure("count", output="i64!")]), "n")
    sources = {"cities": world.sources["cities"]}
    maintain(None, text, sources, world.checkpoint)
    write_cities(tmp_path / "cities", OTHER[:2])
    refusal = world.refused(text, sources, accept_source_change=True)
    assert refusal.code == "STATIC_CHANGE_REFUSED"
    assert "operator 0 does not store the rows of cities" in refusal.message


@pytest.mark.parametrize(
    ("kind", "static_left"), [("outer", False), ("left", True), ("left_semi", True)]
)
def test_the_difference_of_a_changed_static_table_is_taken_in(
    tmp_path: Path, kind: str, static_left: bool
) -> None:
    """If the rows of both sides are stored, a separate version applies the difference of a changed
    static table.
    """
    world = World(tmp_path, batches=2)
    text = plan(kind, static_left=static_left)
    world.maintain(text, partitions=2)
    write_cities(tmp_path / "cities", OTHER)
    assert world.refused(text).code == "STATIC_TABLE_CHANGED"
    world.maintain(text, accept_source_change=True)
    view = sa.open_view(world.checkpoint)
    assert view.version == 3
    after = wanted(kind, FEED.after(2), OTHER, static_left=static_left)
    assert bag(view.to_arrow()) == after
    assert world.maintain(text) == {}, "the table is as the newest version has it"
    world.write(3)
    world.maintain(text, accept_source_change=True)
    view = sa.open_view(world.checkpoint)
    last = wanted(kind, FEED.after(3), OTHER, static_left=static_left)
    assert bag(view.to_arrow()) == last
    assert running_sums(view.changes(), view.versions())[view.version] == last
    assert sa.open_state(world.checkpoint).verify().ok
    shown = sa.open_state(world.checkpoint).show(operator=0, limit=None)
    cities = shown["rows0" if static_left else "rows1"]
    names = {v for name in cities.column_names for v in cities.column(name).to_pylist()}
    assert "Bonn" in names
    assert "Bon" not in names


def test_the_static_tables_of_a_checkpoint_stay_the_same(tmp_path: Path) -> None:
    world = World(tmp_path, batches=2)
    world.maintain(plan("inner"))
    streaming = {"sales": world.sales, "cities": f"parquet:{tmp_path / 'cities'}"}
    for sources in (
        streaming,
        {**world.sources, "sales": f"{world.sales.split('?')[0]}?static=true&op=change"},
    ):
        for options in ({}, {"accept_source_change": True}):
            refusal = world.refused(plan("inner"), sources, **options)
            assert refusal.code == "STATIC_DIFFERS"
            assert "cities" in refusal.message
    other = tmp_path / "other"
    maintain(None, plan("inner"), streaming, other)
    with pytest.raises(StateRefused) as raised:
        maintain(None, plan("inner"), world.sources, other)
    assert raised.value.code == "STATIC_DIFFERS"


def counted(*measures: str) -> str:
    """Measures per city over the sales with a city."""
    b = Builder()
    on = b.call("equal:any_any", COMPARISON, column(0), column(2), output="bool")
    pairs = joined("inner", read("sales", SALES), read("cities", CITIES), on)
    made = {
        "count": b.measure("count", output="i64!"),
        "sum": b.measure("sum", (column(1), "i64"), output="i64"),
    }
    return b.plan(aggregate(pairs, [column(3)], [made[m] for m in measures]), "city", *measures)


def test_another_measure_above_a_join_with_a_static_table(tmp_path: Path) -> None:
    """It continues if the table is unchanged; a change of the table comes first otherwise."""
    world = World(tmp_path, batches=2)
    world.maintain(counted("count", "sum"))
    write_cities(tmp_path / "cities", OTHER)
    refusal = world.refused(counted("sum"), evolve=True)
    assert refusal.code == "STATIC_TABLE_CHANGED"
    refusal = world.refused(counted("sum"), evolve=True, accept_source_change=True)
    assert "the plan differs too" in refusal.message
    write_cities(tmp_path / "cities", ROWS)
    streaming = {**world.sources, "cities": f"parquet:{tmp_path / 'cities'}"}
    assert world.refused(counted("sum"), streaming, evolve=True).code == "STATIC_DIFFERS"
    world.write(3)
    views = world.maintain(counted("sum"), evolve=True)
    sums: Counter[Any] = Counter()
    for (_, amount, _, name), n in wanted("inner", FEED.after(3), ROWS).items():
        sums[name] += amount * n
    assert views[max(views)] == Counter(dict.fromkeys(sums.items(), 1))
    assert sa.open_state(world.checkpoint).verify().ok
    world.write(3)
    write_cities(tmp_path / "cities", OTHER)
    assert world.refused(counted("sum")).code == "STATIC_TABLE_CHANGED"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("parquet:x?static=yes", "SPEC_OPTION_BAD"),
        ("parquet:x?static=true&batch-files=1", "SPEC_CHANGE_CONFLICT"),
        ("parquet:x?static=true&key=id", "SPEC_CHANGE_CONFLICT"),
        ("json:x?static=true&cdc=debezium", "SPEC_CHANGE_CONFLICT"),
        ("csv:x?static=true&bad-rows=quarantine", "SPEC_CHANGE_CONFLICT"),
        ("changes:t?static=true", "SPEC_CHANGE_CONFLICT"),
    ],
)
def test_options_that_need_a_stream_are_refused(tmp_path: Path, text: str, code: str) -> None:
    with pytest.raises(UsageError) as raised:
        maintain(None, plan("inner"), {"sales": "parquet:y", "cities": text}, tmp_path / "c")
    assert raised.value.code == code


def test_a_static_table_has_no_watermark(tmp_path: Path) -> None:
    b = Builder()
    columns = {"at": "i64"}
    text = b.plan(
        aggregate(read("cities", columns), [column(0)], [b.measure("count", output="i64!")]),
        "at",
        "n",
    )
    with pytest.raises(UsageError):
        maintain(
            None, text, {"cities": "parquet:x?static=true"}, tmp_path / "c",
            watermark={"cities.at": "max-diff:5s"},
        )  # fmt: skip


def test_a_static_table_that_was_only_moved(tmp_path: Path) -> None:
    """A moved static table with the same content continues if the change of location is accepted."""
    world = World(tmp_path, batches=2)
    world.maintain(plan("inner"))
    moved = tmp_path / "moved"
    (tmp_path / "cities").rename(moved)
    sources = {**world.sources, "cities": f"parquet:{moved}?static=true"}
    assert world.refused(plan("inner"), sources).code == "SOURCE_DIFFERS"
    world.write(3)
    options: dict[str, Any] = {"accept_source_change": True}
    views = maintain(None, plan("inner"), sources, world.checkpoint, **options)
    assert views[3] == wanted("inner", FEED.after(3), ROWS)
    write_cities(moved, OTHER)
    assert world.refused(plan("inner"), sources, **options).code == "STATIC_CHANGE_REFUSED"


def test_rows_retracted_too_early_wait_before_a_join_with_a_static_table(tmp_path: Path) -> None:
    write_cities(tmp_path / "cities", ROWS)
    early = [[((1, 10), -1), ((2, 5), 1)], [((1, 10), 1), ((1, 11), 1)], [((2, 5), -1)]]
    feed = Feed("sales", SALES, "op", early)
    sources = {
        "sales": feed.write(tmp_path),
        "cities": f"parquet:{tmp_path / 'cities'}?static=true",
    }
    checkpoint = tmp_path / "checkpoint"
    views = maintain(None, plan("inner"), sources, checkpoint, early_retraction="quarantine")
    sales: list[Bag] = [
        Counter(),
        Counter({(2, 5): 1}),
        Counter({(2, 5): 1, (1, 11): 1}),
        Counter({(1, 11): 1}),
    ]
    check_versions(checkpoint, views, [wanted("inner", rows, ROWS) for rows in sales])
    assert sa.open_state(checkpoint).verify().ok


def test_a_static_table_with_weights(tmp_path: Path) -> None:
    """A row of weight 2 matches twice, one of weight 0 does not match."""
    world = World(tmp_path)
    weighted = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"], "n": [2, 1, 0]})
    pq.write_table(weighted, tmp_path / "cities" / "part.parquet")
    sources = {**world.sources, "cities": world.sources["cities"] + "&weight=n"}
    views = maintain(None, plan("left"), sources, world.checkpoint)
    cities = [(1, "a"), (1, "a"), (2, "b")]
    check_versions(
        world.checkpoint, views, [wanted("left", FEED.after(v), cities) for v in range(4)]
    )
