"""The incremental aggregate, batch by batch through real runs and snapshots, equals recomputation from scratch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from substrait_agg.commit.documents.snapshot import OperatorState
from substrait_agg.commit.tasks.task import run_task
from substrait_agg.operator.aggregate.operator import GroupOperator
from substrait_agg.operator.common.emission import ALL, NONE
from substrait_agg.operator.common.names import GROUP, PENDING
from substrait_agg.operator.common.spec import OperatorSpec
from tests.operator.measures_world import merging_soon
from tests.operator.reference import Row, expected, partial_sums, raw_rows, spec_for
from tests.operator.tasks import TaskRunner
from tests.sampling import examples

Rows = list[tuple[Any, ...]]

ROWS_AT_ONCE = 4
"""Rows per Arrow batch, so that a task sees batches with and without large weights."""


class World(TaskRunner):
    """An operator: applies batches, stores the changelog, and returns the view."""

    def __init__(self, spec: OperatorSpec, folder: Path, spread: int, *, raw: bool = False) -> None:
        super().__init__(
            GroupOperator(spec), folder, spec.output.names, final=True, cut=ROWS_AT_ONCE
        )
        self.spec = spec
        self.raw = raw
        self.spread = spread
        self.rows: list[Row] = []
        self.log: Counter[tuple[Any, ...]] = Counter()

    def batch(self, rows: Sequence[Row], partitions: int = 1, *, emit: bool = True) -> None:
        """Run one batch over all partitions."""
        self.rows += rows
        make = raw_rows if self.raw else partial_sums
        results = self.run(
            make(self.spec, rows, self.spread) if rows else None,
            1 if self.spec.is_global else partitions,
            emission=ALL if emit else NONE,
            unaggregated=self.raw,
            initial_groups=((0, 0),) if self.spec.is_global and not self.now.number else (),
        )
        for table in self.changes_of(results):
            self._apply(table)

    def _apply(self, changes: pa.Table) -> None:
        rows = _tuples(changes.drop_columns(["__version", "__weight"]))
        seen_insert: set[tuple[Any, ...]] = set()
        for row, weight in zip(rows, changes.column("__weight").to_pylist(), strict=True):
            key = row[: len(self.spec.keys)]
            assert weight > 0 or key not in seen_insert, "a retraction follows its insertion"
            if weight > 0:
                seen_insert.add(key)
            self.log[row] += weight
            assert self.log[row] >= 0, "a row was retracted that had not been emitted"

    def view(self) -> Counter[tuple[Any, ...]]:
        """The rows shown, from the group tree."""
        shown: Counter[tuple[Any, ...]] = Counter()
        for part in self.scan(GROUP, self.spec.layout.schema, len(self.spec.keys)):
            values = _tuples(part.select(self.spec.output.names))
            for row, weight in zip(values, part.column("shown").to_pylist(), strict=True):
                shown[row] += weight
        return +shown

    def check(self) -> None:
        """The view and the sum of all changes are what recomputation gives."""
        wanted = Counter(
            _canonical((*key, *values)) for key, values in expected(self.spec, self.rows).items()
        )
        assert self.view() == wanted
        assert +self.log == wanted


def _tuples(table: pa.Table) -> Rows:
    columns = [column.to_pylist() for column in table.columns]
    return [_canonical(row) for row in zip(*columns, strict=True)]


def _canonical(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple("NaN" if isinstance(v, float) and math.isnan(v) else v for v in row)


# --- inputs ----------------------------------------------------------------------------------

EXTREME_FLOATS = [
    0.0, -0.0, 1.0, -1.5, 5e-324, -5e-324, 2.2250738585072014e-308, 1e308, -1e308,
    1.7976931348623157e308, 1e20, -1e20, 2.0**-32, 2.0**32, 2.0**32 - 2**-20, math.nan, math.inf, -math.inf,
]  # fmt: skip
INTS = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([2**63 - 1, -(2**63)]))
FLOATS = st.one_of(st.none(), st.sampled_from(EXTREME_FLOATS), st.floats(width=64))
DECIMALS = st.one_of(
    st.none(),
    st.integers(-500, 500),
    st.sampled_from([10**38 - 1, 1 - 10**38, 10**18, -(10**36) - 1]),
)
KEYS = st.tuples(st.one_of(st.none(), st.integers(0, 4)), st.sampled_from([None, "", "a", "\0b"]))
WEIGHTS = {
    "append_only": st.just(1),
    "changelog": st.sampled_from([1, 1, -1]),
    "weighted": st.one_of(
        st.integers(-3, 3),
        st.sampled_from([16, -16, 17, -17, 2**28, -(2**28) - 1, 2**31, 2**40, -(2**40), 2**53 + 1]),
    ),
}


def row_lists(weight: str) -> st.SearchStrategy[list[Row]]:
    """Lists of rows with weights of one kind."""
    values = st.tuples(INTS, FLOATS, DECIMALS)
    return st.lists(st.builds(Row, KEYS, values, WEIGHTS[weight]), max_size=12)


@pytest.mark.parametrize("weight", ["append_only", "changelog", "weighted"])
@pytest.mark.parametrize("keys", [0, 2])
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_version_equals_recomputation(weight: Any, keys: int, data: st.DataObject) -> None:
    """Any rows, weights, cuts into batches, partitions, collisions, page and slice sizes; merges after few rows."""
    spec = spec_for(weight, keys=keys, page_rows=data.draw(st.integers(1, 9)))
    spec = replace(spec, slice_rows=data.draw(st.sampled_from([2, 1000])))
    spread = data.draw(st.sampled_from([1, 3, 2**32]))
    tier, budget = data.draw(st.sampled_from([(1, 1), (1, 4), (1, 1 << 20), (16_384, 1)]))
    with TemporaryDirectory() as folder, merging_soon(tier, budget):
        raw = bool(keys) and data.draw(st.booleans())
        world = World(spec, Path(folder), spread, raw=raw)
        for _ in range(data.draw(st.integers(1, 7))):
            rows = data.draw(row_lists(weight))
            world.batch(rows, data.draw(st.sampled_from([1, 2, 4])))
            world.check()


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_pending_keys_are_emitted_later_and_once(data: st.DataObject) -> None:
    """Groups that are touched without emission keep their last row; the next emission updates all of them."""
    spec = spec_for("changelog", page_rows=2)
    with TemporaryDirectory() as folder:
        spread, raw = data.draw(st.sampled_from([1, 2**32])), data.draw(st.booleans())
        world = World(spec, Path(folder), spread, raw=raw)
        for _ in range(data.draw(st.integers(1, 6))):
            before = world.view()
            emit = data.draw(st.booleans())
            world.batch(
                data.draw(row_lists("changelog")), data.draw(st.sampled_from([1, 2])), emit=emit
            )
            if not emit:
                assert world.view() == before
        world.batch([], emit=True)
        world.check()
        assert not world.state[PENDING]


def test_sums_without_halves_are_not_applied_to_large_weights(tmp_path: Path) -> None:
    """The task reports the weights and writes nothing; the same rows in halves are applied and reported."""
    spec = spec_for("weighted", keys=1)
    world = World(spec, tmp_path, 2**32)
    rows = [Row((n,), (7, 1.5, 3), 1) for n in range(6)]
    small = partial_sums(spec, rows, 2**32)
    large = small.set_column(
        small.schema.get_field_index("__large"), "__large", pa.array([None] * 5 + [1], pa.int64())
    )
    plan = world.plan(0, 1, 0, unaggregated=False)
    refused = run_task(plan, world.cut_rows(large, 0, 1))
    assert refused.large_weights
    assert refused.state == OperatorState()
    assert not refused.changes
    assert not run_task(plan, world.cut_rows(small, 0, 1)).large_weights
    heavy = [replace(rows[0], weight=2**31), *rows[1:]]
    halves = world.cut_rows(partial_sums(spec, heavy, 2**32), 0, 1)
    assert run_task(plan, halves).large_weights


def test_the_additive_case_that_loses_two_in_floating_point(tmp_path: Path) -> None:
    """The average of 1, 1e20, 2, 3 after deleting the first two is 2.5, which floating point would
    miss.
    """
    world = World(spec_for("changelog", keys=1), tmp_path, 2**32)
    rows = [Row((1,), (None, x, None), 1) for x in (1.0, 1e20, 2.0, 3.0)]
    world.batch(rows)
    world.batch([replace(row, weight=-1) for row in rows[:2]])
    (shown,) = world.view()
    assert shown[1 + 7] == 2.5


def test_totals_pass_the_range_of_their_type_and_come_back(tmp_path: Path) -> None:
    """Int64 and 38-digit totals go beyond their type and return, unharmed by the way."""
    world = World(spec_for("changelog", keys=1), tmp_path, 2**32)
    big = Row((1,), (2**63 - 1, None, 10**38 - 1), 1)
    world.batch([big] * 5)
    world.check()
    world.batch([replace(big, weight=-1)] * 4)
    world.check()
    (shown,) = world.view()
    assert shown[1 + 2] == 2**63 - 1
