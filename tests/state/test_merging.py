"""Merging: few runs at every hash, bounded work per batch, nothing lost on the way."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from substrait_agg.state.merging import (
    BUDGET_FACTOR,
    LEAST_BUDGET,
    SMALL_WIDTH,
    MergeSpan,
    after_merges,
    budget_for,
    spans_to_merge,
)
from substrait_agg.state.run import HASH_MAX, RunFile
from tests.sampling import examples

SIZE = HASH_MAX + 1


def rows_of(span: MergeSpan) -> int:
    """Rows that a merge of the span reads, if runs are even."""
    return sum(
        int(f.rows * (min(span.high, f.high) - max(span.low, f.low) + 1) / f.span)
        for f in span.files
    )


def batch(files: tuple[RunFile, ...], rows: int, ordinal: int) -> tuple[tuple[RunFile, ...], int]:
    """A new run, then the merges that are due, none of whose keys meet; and the rows merged."""
    files = (RunFile(f"new-{ordinal}", rows, 0, 0), *files)
    spans = spans_to_merge(files, 0, HASH_MAX, budget_for(rows))
    made = [
        (span, RunFile(f"merged-{ordinal}-{i}", rows_of(span), 0, 0))
        for i, span in enumerate(spans)
    ]
    return after_merges(files, made), sum(map(rows_of, spans))


def depth(files: Sequence[RunFile], hashed: int) -> int:
    """Runs that a lookup of this hash passes."""
    return sum(f.low <= hashed <= f.high for f in files)


def test_a_thousand_batches_leave_few_runs_and_rewrite_each_row_a_few_times() -> None:
    """Depth grows with the logarithm, no batch merges more than its budget, and merges keep up."""
    files: tuple[RunFile, ...] = ()
    written, rows = 0, 50_000
    for ordinal in range(1000):
        files, merged = batch(files, rows, ordinal)
        written += merged
        assert merged <= max(LEAST_BUDGET, BUDGET_FACTOR * rows)
        assert max(depth(files, i * (SIZE // 64)) for i in range(64)) <= 24
    assert written <= 7 * 1000 * rows
    total = sum(f.rows * (f.high - f.low + 1) / f.span for f in files)
    assert abs(total - 1000 * rows) < 0.01 * 1000 * rows


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.integers(1, 400_000), min_size=1, max_size=60),
    st.lists(st.integers(0, HASH_MAX), min_size=3, max_size=3),
)
def test_for_every_hash_the_runs_stay_and_stay_in_order(
    sizes: list[int], hashes: list[int]
) -> None:
    """At every hash, a merge replaces consecutive newest runs by one run at their position."""
    files: tuple[RunFile, ...] = ()
    holds: dict[str, dict[int, list[int]]] = {}
    for ordinal, rows in enumerate(sizes):
        files = (RunFile(f"new-{ordinal}", rows, 0, 0), *files)
        holds[f"new-{ordinal}"] = {h: [ordinal] for h in hashes}
        spans = spans_to_merge(files, 0, HASH_MAX, budget_for(rows))
        made = []
        for i, span in enumerate(spans):
            name = f"merged-{ordinal}-{i}"
            holds[name] = {
                h: [o for f in span.files for o in holds[f.name].get(h, [])]
                for h in hashes
                if span.low <= h <= span.high
            }
            made.append((span, RunFile(name, rows_of(span), 0, 0)))
        files = after_merges(files, made)
        for hashed in hashes:
            there = [f for f in files if f.low <= hashed <= f.high]
            seen = [o for f in there for o in holds[f.name][hashed]]
            assert seen == list(range(ordinal, -1, -1))


def test_only_a_merge_of_the_oldest_run_drops_dead_keys() -> None:
    """Dead rows are dropped only with the oldest run, because they hide older rows of their key."""
    old = RunFile("old", 10_000_000, 0, 0)
    young = tuple(RunFile(f"r{i}", 1000, 0, 0) for i in range(SMALL_WIDTH))
    (span,) = spans_to_merge((*young, old), 0, HASH_MAX, LEAST_BUDGET)
    assert not span.bottom
    (span,) = spans_to_merge(young, 0, HASH_MAX, LEAST_BUDGET)
    assert span.bottom
