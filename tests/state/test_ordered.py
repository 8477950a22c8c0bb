"""Ordered trees against a dictionary: tiny pages, several runs, equal hashes of different groups, entries that cancel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from itertools import chain as chained
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.errors import RunFailed
from substrait_agg.state import ordered, ordered_run, ranks
from substrait_agg.state.entries import Entries, TreeLayout, consolidate
from substrait_agg.state.keys.keys import Component, before, encode
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.run import RunFile, RunWriter
from tests.sampling import examples

Group = tuple[int, int]  # hash, chain
Key = tuple[Any, ...]
Rows = list[tuple[Group, Key, int]]
Model = dict[Group, dict[Key, int]]

GROUPS: list[Group] = [(0, 0), (7, 0), (7, 1), (7, 300), (2**63, 0), (2**64 - 1, 2)]
INTEGERS = (Component(pa.int64()),)
TEXTS = (Component(pa.string(), nullable=True),)
PAIRS = (
    Component(pa.int32(), nullable=True, descending=True),
    Component(pa.float64()),
    Component(pa.binary(3)),
)
SHAPES: dict[str, tuple[tuple[Component, ...], st.SearchStrategy[Key]]] = {
    "integers": (INTEGERS, st.tuples(st.integers(-9, 9))),
    "texts": (TEXTS, st.tuples(st.sampled_from([None, "", "a", "a\0", "aaaaaaaa", "aaaaaaaab"]))),
    "pairs": (
        PAIRS,
        st.tuples(
            st.none() | st.integers(-2, 2),
            st.sampled_from([-1.5, 0.0, 2.0]),
            st.sampled_from([b"abc", b"ab\0"]),
        ),
    ),
}


def rank(key: Key, components: tuple[Component, ...]) -> tuple[Any, ...]:
    """The order of keys (nulls last, integers of pairs descending)."""
    signs = [-1 if c.descending else 1 for c in components]
    return tuple(
        (value is None, 0 if value is None else value if sign > 0 else -value)
        for value, sign in zip(key, signs, strict=True)
    )


def entries(layout: TreeLayout, rows: Rows) -> Entries:
    """Entries from rows in any order."""
    hashes = np.array([g[0] for g, _, _ in rows], np.uint64)
    chains = np.array([g[1] for g, _, _ in rows], np.uint16)
    weights = np.array([w for _, _, w in rows], np.int64)
    return consolidate(layout, hashes, chains, columns(layout, [k for _, k, _ in rows]), weights)


def columns(layout: TreeLayout, keys: list[Key]) -> list[pa.Array]:
    """Keys as columns."""
    return [pa.array([k[i] for k in keys], c.type) for i, c in enumerate(layout.components)]


def groups(wanted: list[Group]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint16]]:
    """Groups as columns."""
    return np.array([g[0] for g in wanted], np.uint64), np.array([g[1] for g in wanted], np.uint16)


def write(files: FolderFiles, name: str, rows: pa.Table, page_rows: int) -> RunFile | None:
    """A run of the rows."""
    writer = RunWriter(files, name, rows.schema, page_rows)
    writer.write(rows)
    return writer.close()


@contextmanager
def a_tree(
    layout: TreeLayout, batches: list[Rows], page_rows: int, *, extra: bool
) -> Iterator[tuple[OrderedTree, list[RunFile], FolderFiles]]:
    """A tree of one run per batch, the last one in memory with `extra`."""
    with TemporaryDirectory() as folder:
        files = FolderFiles(folder)
        *stored, newest = batches if extra else [*batches, []]
        runs: list[RunFile] = []
        for b, batch in enumerate(stored):
            run = write(files, f"run-{b}", entries(layout, batch).to_table(layout), page_rows)
            runs = [run, *runs] if run is not None else runs
        last = entries(layout, newest) if extra else None
        yield OrderedTree(files, runs, layout, last), runs, files


def modelled(batches: list[Rows]) -> Model:
    """Weights by group and key."""
    model: Model = {group: Counter() for group in GROUPS}
    for group, key, weight in chained.from_iterable(batches):
        model[group][key] = model[group].get(key, 0) + weight
    return model


@st.composite
def histories(draw: st.DrawFn, least: int = -3) -> tuple[TreeLayout, list[Rows], int, bool]:
    """Batches of changes; the weights in them are at least `least`."""
    components, keys = SHAPES[draw(st.sampled_from(sorted(SHAPES)))]
    row = st.tuples(st.sampled_from(GROUPS), keys, st.integers(least, 3))
    batches = draw(st.lists(st.lists(row, max_size=40), min_size=1, max_size=5))
    return TreeLayout(components), batches, draw(st.integers(1, 5)), draw(st.booleans())


def plain(rows: tuple[pa.Array, ...]) -> list[Key]:
    """Columns as keys."""
    return list(zip(*(column.to_pylist() for column in rows), strict=True))


@settings(max_examples=examples(200), deadline=None)
@given(history=histories(), probes=st.data())
def test_weights_are_sums_over_all_runs(
    history: tuple[TreeLayout, list[Rows], int, bool], probes: st.DataObject
) -> None:
    """Weights are sums over all runs, for live, cancelled and unknown entries."""
    layout, batches, page_rows, extra = history
    keys = next(keys for components, keys in SHAPES.values() if components == layout.components)
    wanted = probes.draw(st.lists(st.tuples(st.sampled_from(GROUPS), keys), max_size=20))
    model = modelled(batches)
    with a_tree(layout, batches, page_rows, extra=extra) as (tree, _, _):
        asked = entries(layout, [(g, k, 1) for g, k in wanted])
        found = tree.weights(asked).tolist()
        rows = zip(
            asked.hashes.tolist(), asked.collision_ids.tolist(), plain(asked.payload), strict=True
        )
        assert found == [model[h, c].get(k, 0) for h, c, k in rows]


@settings(max_examples=examples(300), deadline=None)
@given(history=histories(), data=st.data())
def test_the_first_and_the_last_live_entry(
    history: tuple[TreeLayout, list[Rows], int, bool], data: st.DataObject
) -> None:
    """For each group, from the end or after a key, for insertions and deletions in any runs."""
    layout, batches, page_rows, extra = history
    keys = next(keys for components, keys in SHAPES.values() if components == layout.components)
    wanted = sorted(data.draw(st.sets(st.sampled_from(GROUPS), min_size=1)))
    limits = data.draw(st.lists(keys, min_size=len(wanted), max_size=len(wanted)))
    where = data.draw(st.lists(st.booleans(), min_size=len(wanted), max_size=len(wanted)))
    last = data.draw(st.booleans())
    bounded = data.draw(st.sampled_from(["no", "all", "some"]))
    model = modelled(batches)

    def expected(i: int) -> Key | None:
        def counts(key: Key) -> bool:
            a, b = rank(key, layout.components), rank(limits[i], layout.components)
            return a < b if last else a > b

        limited = bounded == "all" or (bounded == "some" and where[i])
        alive = [k for k, w in model[wanted[i]].items() if w > 0 and (not limited or counts(k))]
        alive.sort(key=lambda k: rank(k, layout.components))
        return alive[-1 if last else 0] if alive else None

    after = None if bounded == "no" else encode(columns(layout, limits), layout.components)
    mask = np.array(where) if bounded == "some" else None
    with (
        a_tree(layout, batches, page_rows, extra=extra) as (tree, _, _),
        patch.object(ordered, "GROUPS_AT_ONCE", 2),
    ):
        found, values = tree.first_live(*groups(wanted), after, mask, last=last)
        rows = plain(values)
        got = [rows[i] if found[i] else None for i in range(len(wanted))]
        assert got == [expected(i) for i in range(len(wanted))]
        assert all(v is None for i, row in enumerate(rows) if not found[i] for v in row)


@settings(max_examples=examples(150), deadline=None)
@given(history=histories(), wanted=st.sets(st.sampled_from(GROUPS)))
def test_all_live_entries_of_some_groups(
    history: tuple[TreeLayout, list[Rows], int, bool], wanted: set[Group]
) -> None:
    """Live entries come in key order with their weights; entries with a weight of 0 or less are
    left out.
    """
    layout, batches, page_rows, extra = history
    model = modelled(batches)
    with a_tree(layout, batches, page_rows, extra=extra) as (tree, _, _):
        segments = tree.live(*groups(sorted(wanted)))
        rows = list(zip(plain(segments.columns), segments.weights.tolist(), strict=True))
        for i, group in enumerate(sorted(wanted)):
            alive = sorted(
                ((k, w) for k, w in model[group].items() if w > 0),
                key=lambda entry: rank(entry[0], layout.components),
            )
            assert rows[segments.offsets[i] : segments.offsets[i + 1]] == alive
        assert len(segments) == len(wanted)
        assert segments.offsets[-1] == len(rows) == len(segments.owners)


@settings(max_examples=examples(150), deadline=None)
@given(
    history=histories(),
    cut=st.sampled_from([0, 1, 7, 8, 2**63, 2**64 - 1]),
    scan_rows=st.sampled_from([1, 3, 1000]),
)
def test_a_merge_in_pieces_keeps_all_sums(
    history: tuple[TreeLayout, list[Rows], int, bool], cut: int, scan_rows: int
) -> None:
    """Below a hash the merged run replaces the runs, above it the runs stay; entries of weight 0
    are dropped.
    """
    layout, batches, page_rows, extra = history
    if extra:
        batches = [*batches, []]
    model = modelled(batches)
    nonzero = {(g, k): w for g, keys in model.items() for k, w in keys.items() if w}
    with (
        patch.object(ordered, "SCAN_ROWS", scan_rows),
        a_tree(layout, batches, page_rows, extra=extra) as (tree, runs, files),
    ):
        assert scanned(tree, layout) == nonzero
        writer = RunWriter(files, "merged", layout.schema, page_rows)
        for part in tree.scan(0, cut):
            writer.write(part)
        merged = writer.close()
        part = {entry: w for entry, w in nonzero.items() if entry[0][0] <= cut}
        assert (merged.rows if merged else 0) == len(part)
        front = (
            [RunFile(merged.name, merged.rows, merged.bytes, merged.crc, 0, cut)] if merged else []
        )
        rest = [RunFile(r.name, r.rows, r.bytes, r.crc, cut + 1) for r in runs if cut < 2**64 - 1]
        after = OrderedTree(files, [*front, *rest], layout)
        assert scanned(after, layout) == nonzero
        asked = entries(layout, [(g, k, 1) for g, k in nonzero])
        rows = zip(
            asked.hashes.tolist(), asked.collision_ids.tolist(), plain(asked.payload), strict=True
        )
        assert after.weights(asked).tolist() == [nonzero[(h, c), k] for h, c, k in rows]


def scanned(tree: OrderedTree, layout: TreeLayout) -> dict[tuple[Group, Key], int]:
    """The entries of a scan, with a check of their order."""
    parts = [Entries.from_table(table, layout) for table in tree.scan()]
    rows: list[tuple[Group, Key, int]] = []
    for part in parts:
        named = zip(part.hashes.tolist(), part.collision_ids.tolist(), strict=True)
        rows += zip(named, plain(part.payload), part.weights.tolist(), strict=True)
    order = [(group, rank(key, layout.components)) for group, key, _ in rows]
    assert order == sorted(set(order))
    return {(group, key): weight for group, key, weight in rows}


@settings(max_examples=examples(200), deadline=None)
@given(
    history=histories(),
    few=st.sampled_from([1, 8]),
    questions=st.lists(st.tuples(st.sampled_from(GROUPS), st.integers(-1, 60)), max_size=30),
    merged=st.booleans(),
)
def test_entries_by_rank(
    history: tuple[TreeLayout, list[Rows], int, bool],
    few: int,
    questions: list[tuple[Group, int]],
    merged: bool,
) -> None:
    """Ranks are correct over runs in which weights are below 0 but whose sums are not."""
    layout, batches, page_rows, extra = history
    model = modelled(batches)
    mended = [(g, k, -w) for g, keys in model.items() for k, w in keys.items() if w < 0]
    batches = [mended, *batches]
    model = modelled(batches)
    with (
        patch.multiple(ranks, FEW_ROWS=few, FEW_ROWS_PER_RUN=4, PIVOTS=2),
        a_tree(layout, batches, page_rows, extra=extra) as (changed, _, files),
    ):
        tree = changed
        if merged:
            writer = RunWriter(files, "merged", layout.schema, page_rows)
            for part in changed.scan():
                writer.write(part)
            one = writer.close()
            tree = OrderedTree(files, [one] if one else [], layout)
        wanted = sorted({group for group, _ in questions})
        numbers = np.array([wanted.index(g) for g, _ in questions], np.int64)
        asked = np.array([r for _, r in questions], np.int64)
        found, values = tree.at_ranks(*groups(wanted), numbers, asked)
        rows = plain(values)
        for i, (group, number) in enumerate(questions):
            there = sorted(model[group], key=lambda k: rank(k, layout.components))
            sequence = [k for k in there for _ in range(model[group][k])]
            if 0 <= number < len(sequence):
                assert found[i]
                assert rows[i] == sequence[number]
            else:
                assert not found[i]
                assert set(rows[i]) == {None}


def test_collapse_adds_up_equal_values_and_shows_one_form() -> None:
    """-0.0 equals 0.0, NaN equals NaN, and cancelled entries are removed."""
    layout = TreeLayout((Component(pa.float64(), nullable=True),))
    nan = float("nan")
    group = (5, 1)
    rows: Rows = [(group, (v,), w) for v, w in [(nan, 1), (-0.0, 2), (0.0, 3), (-nan, 1)]]
    found = entries(layout, [*rows, (group, (1.0,), 1), (group, (None,), 4), (group, (1.0,), -1)])
    assert [str(v) for v in found.payload[0].to_pylist()] == ["0.0", "nan", "None"]
    assert found.weights.tolist() == [5, 2, 4]


@pytest.mark.parametrize("sign", [1, -1])
def test_weights_beyond_64_bits_are_refused(tmp_path: Path, sign: int) -> None:
    """Overflows in a batch, over runs and in a merge are refused; a sum that fits is accepted, also
    if an intermediate sum does not.
    """
    layout = TreeLayout(INTEGERS)
    big = sign * (2**63 - 1)
    group = (1, 0)
    passing = [(group, (0,), big), (group, (0,), big), (group, (0,), -big)]
    assert entries(layout, passing).weights.tolist() == [big]
    over = entries(layout, [(group, (0,), big)])
    with pytest.raises(RunFailed, match="64 bits") as refused:
        entries(layout, [(group, (0,), big), (group, (0,), 2 * sign)])
    assert refused.value.code == "WEIGHT_OVERFLOW"
    files = FolderFiles(tmp_path)
    run = write(files, f"run{sign}", over.to_table(layout), 4)
    assert run is not None
    tree = OrderedTree(files, [run], layout, over)
    for question in (
        lambda: tree.weights(over),
        lambda: tree.first_live(over.hashes, over.collision_ids),
        lambda: list(tree.scan()),
    ):
        with pytest.raises(RunFailed, match="64 bits"):
            question()


def test_a_tree_without_runs_has_nothing() -> None:
    """Every question of an empty tree has an answer."""
    layout = TreeLayout(PAIRS)
    with a_tree(layout, [], 4, extra=False) as (tree, _, _):
        asked = groups(GROUPS)
        assert not tree.first_live(*asked)[0].any()
        assert tree.live(*asked).offsets.tolist() == [0] * (len(GROUPS) + 1)
        assert tree.weights(entries(layout, [((1, 0), (1, 1.0, b"abc"), 1)])).tolist() == [0]
        found, values = tree.at_ranks(*asked, np.array([0]), np.array([0]))
        assert not found.any()
        assert plain(values) == [(None, None, None)]
        assert list(tree.scan()) == []


def test_ranks_of_huge_weights_are_right_however_many_are_asked_for() -> None:
    """The total weight of all ranges of a query can exceed 64 bits."""
    layout = TreeLayout(INTEGERS)
    weight, count, values = 2**49, 40_000, 10
    rows: Rows = [((7, 0), (i,), weight) for i in range(values)]
    asked = np.linspace(0, values * weight - 1, count).astype(np.int64)
    with a_tree(layout, [rows], 4, extra=True) as (tree, _, _):
        found, (there,) = tree.at_ranks(*groups([(7, 0)]), np.zeros(count, np.int64), asked)
    assert found.all()
    assert there.to_numpy().tolist() == (asked // weight).tolist()


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("largest", [3, 1_000, 2**62])
@pytest.mark.parametrize("seed", range(6))
def test_many_keys_of_a_page_have_the_bounds_of_bisection(
    seed: int, largest: int, right: bool
) -> None:
    """Ranges are parts of groups; keys may be outside of the values of the page."""
    rng = np.random.default_rng(seed)
    groups = np.sort(rng.integers(0, 30, 400))
    layout = TreeLayout(INTEGERS)
    values = pa.array(rng.integers(-largest // 2, largest // 2 + 1, 400))
    chains = (groups % 3).astype(np.uint16)
    page = consolidate(layout, (groups // 3).astype(np.uint64), chains, [values], np.ones(400, int))
    owners = page.hashes.astype(np.int64) * 3 + page.collision_ids
    low = np.sort(rng.integers(0, len(page), 150))
    high = np.minimum(low + rng.integers(0, 9, 150), np.searchsorted(owners, owners[low], "right"))
    keys = encode([pa.array(rng.integers(-largest, largest + 1, 150))], INTEGERS)
    found = ordered_run._bounds_in_page(page, low, high, keys, right=right)
    with patch.object(ordered_run, "_MANY", 0):
        expected = ordered_run._bounds_in_page(page, low, high, keys, right=right)
    assert np.array_equal(found, expected)
    one_number = ordered_run._bounds_of_many(page, low, high, keys.words[0], right=right)
    assert (one_number is None) == (largest == 2**62)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("prefix", ["", "12345678", "x" * 31, "y" * 40])
@pytest.mark.parametrize("descending", [False, True])
def test_keys_of_one_group_have_the_bounds_of_bisection(
    descending: bool, prefix: str, right: bool
) -> None:
    """Texts differ in or behind the words that are compared first, or one begins another."""
    rng = np.random.default_rng(len(prefix))
    components = (
        Component(pa.decimal128(38, 2), nullable=True),
        Component(pa.string(), descending=descending),
    )

    def columns(rows: int) -> list[pa.Array]:
        tails = ["".join(rng.choice(list("\0ab"), rng.integers(0, 12))) for _ in range(rows)]
        numbers = [Decimal(int(n)) for n in rng.integers(-1, 2, rows)]
        return [pa.array(numbers, components[0].type), pa.array([prefix + t for t in tails])]

    layout, zeros = TreeLayout(components), np.zeros(300, np.int64)
    page = consolidate(
        layout, zeros.astype(np.uint64), zeros.astype(np.uint16), columns(300), zeros + 1
    )
    keys = encode(columns(80), components)
    low, high = np.full(80, 3), np.full(80, len(page) - 5)
    bounds = ordered_run._bounds_in_page(page, low, high, keys, right=right)
    expected = ordered_run.bisect(
        low, high, lambda at, i: before(page.keys, at, keys, i, or_equal=right)
    )
    assert np.array_equal(bounds, expected)
