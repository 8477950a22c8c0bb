"""The set operation operator against the specification: examples of its table, and random changes against a model.

Batches go through real runs, pages and merges, over another number of partitions each.
"""

from __future__ import annotations

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

from substrait_agg.bind.context import columns
from substrait_agg.commit.tasks.task_plan import TaskResult
from substrait_agg.errors import RunFailed
from substrait_agg.flow.graph.graph import Forget
from substrait_agg.flow.graph.nodes import Port
from substrait_agg.flow.graph.set_operation import SET_OUTPUTS, SetOperation, port_counts
from substrait_agg.functions.aggregates.accumulators import EarlyRetraction, WeightKind
from substrait_agg.operator.common.emission import ALL, NONE, Emission
from substrait_agg.operator.common.names import CLOSED, GROUP, PORT, WEIGHT
from substrait_agg.operator.set_operation import (
    RULES,
    SetOperationSpec,
    SetOperator,
    set_operation_spec,
)
from substrait_agg.plan.types import Type
from tests.operator.measures_world import merging_soon
from tests.operator.tasks import SPREAD, TaskRunner, hash_of
from tests.sampling import examples
from tests.set_operations import COPIES, Bag, expected

Row = tuple[Any, ...]
Change = tuple[int, Row, int]
"""An input, a row and its weight."""

TYPES = (Type("i64", True), Type("string", True))


def spec_of(
    operation: Any, inputs: int, weight: WeightKind = "weighted", early: EarlyRetraction = "carry"
) -> SetOperationSpec:
    """The spec of an operation over rows of a number and a text."""
    node = SetOperation(
        id=0,
        inputs=tuple(Port((), columns(TYPES)) for _ in range(inputs)),
        types=TYPES,
        groups=port_counts(inputs),
        weight=weight,
        path="",
        early=early,
        operation=operation,
    )
    return replace(set_operation_spec(node), page_rows=2, slice_rows=5)


class World(TaskRunner):
    """The operator and the net rows of its inputs."""

    def __init__(self, spec: SetOperationSpec, folder: Path, spread: int = SPREAD) -> None:
        super().__init__(SetOperator(spec), folder, spec.output.names, final=True, cut=3)
        self.spec, self.spread = spec, spread
        self.inputs: list[Bag] = [Counter() for _ in spec.accumulators]
        self.log: Bag = Counter()
        self.shown: Bag = Counter()

    def batch(
        self, changes: Sequence[Change], partitions: int = 1, emission: Emission = ALL
    ) -> list[TaskResult]:
        """One batch, checked; what waits is not in the view."""
        for port, row, weight in changes:
            self.inputs[port][row] += weight
        rows = self._rows(changes) if changes else None
        results = self.run(rows, partitions, emission=emission)
        for table in self.changes_of(results):
            self._apply(table)
        if emission.all:
            self.shown = expected(self.spec.operation, self.inputs)
        assert self.view() == self.shown
        assert +self.log == self.shown
        return results

    def _rows(self, changes: Sequence[Change]) -> pa.RecordBatch:
        hashes = [hash_of(row, self.spread) for _, row, _ in changes]
        cells = {
            "__m": pa.array(hashes, pa.int32()),
            "__x": pa.array([7] * len(changes), pa.int32()),
            "k0": pa.array([r[0] for _, r, _ in changes], pa.int64()),
            "k1": pa.array([r[1] for _, r, _ in changes], pa.string()),
            PORT: pa.array([p for p, _, _ in changes], pa.int8()),
        }
        if self.spec.weight != "append_only":
            cells[WEIGHT] = pa.array([w for _, _, w in changes], pa.int64())
        return pa.RecordBatch.from_pydict(cells)

    def _apply(self, changes: pa.Table) -> None:
        for *row, weight in zip(
            *(changes.column(n).to_pylist() for n in ("k0", "k1", WEIGHT)), strict=True
        ):
            self.log[tuple(row)] += weight
            assert self.log[tuple(row)] >= 0, "a row was retracted that had not been emitted"

    def view(self) -> Bag:
        """The rows shown, from the group tree."""
        shown: Bag = Counter()
        for part in self.scan(GROUP, self.spec.layout.schema, len(self.spec.keys)):
            found = (part.column(n).to_pylist() for n in ("k0", "k1", "shown"))
            for number, text, weight in zip(*found, strict=True):
                shown[number, text] += weight
        return +shown


def test_every_operation_has_a_rule_a_text_and_a_model() -> None:
    assert set(RULES) == set(SET_OUTPUTS) == set(COPIES)


P, S1, S2 = [1, 2, 2, 3, 3, 3, 4], [1, 2, 3, 5], [2, 3, 6]
EXAMPLES = [
    ("minus_primary", (P, [1, 2], [3]), [4]),
    ("minus_primary_all", ([1, 2, 2, 3, 3, 3, 3], [1, 2, 3, 4], [3]), [2, 3, 3]),
    ("minus_multiset", ([1, 2, 3, 4], [1, 2], [1, 2, 3]), [3, 4]),
    ("intersection_primary", (P, S1, S2), [1, 2, 3]),
    ("intersection_multiset", ([1, 2, 3, 4], [2, 3], [3, 4]), [3]),
    ("intersection_multiset_all", (P, [1, 2, 3, 3, 5], [2, 3, 3, 6]), [2, 3, 3]),
    ("union_distinct", (P, [2, 3, 5], [1, 6]), [1, 2, 3, 4, 5, 6]),
    # Null matches null.
    ("minus_primary", ([None, 1, 3], [None, 2, 4]), [1, 3]),
    ("intersection_multiset", ([None, 1, 3], [None, 2, 3]), [None, 3]),
    ("union_distinct", ([None, 1, 3], [None, 2, 4]), [None, 1, 2, 3, 4]),
    # The specification leaves the copies open; those of the primary input are kept.
    ("minus_multiset", ([1, 1, 2, 2], [1], [1, 2]), [2, 2]),
]
"""Set Operation Types: inputs and output."""


@pytest.mark.parametrize(("operation", "inputs", "output"), EXAMPLES)
def test_the_examples_of_the_specification(
    tmp_path: Path, operation: str, inputs: Sequence[list[Any]], output: list[Any]
) -> None:
    world = World(spec_of(operation, len(inputs), "append_only"), tmp_path)
    world.batch([(port, (v, "x"), 1) for port, values in enumerate(inputs) for v in values], 2)
    assert world.view() == Counter((v, "x") for v in output)


WEIGHTS = st.one_of(st.integers(-3, 3), st.sampled_from([2**40, -(2**40)]))
ROWS = st.tuples(st.sampled_from([None, 0, 1]), st.sampled_from([None, "", "a"]))


@st.composite
def histories(draw: st.DrawFn) -> tuple[str, int, list[tuple[list[Change], int]], int]:
    """An operation, a number of inputs, batches with their partitions, and a spread of hashes."""
    inputs = draw(st.integers(2, 4))
    change = st.tuples(st.integers(0, inputs - 1), ROWS, WEIGHTS)
    batch = st.tuples(st.lists(change, max_size=12), st.sampled_from([1, 2, 4]))
    batches = draw(st.lists(batch, min_size=1, max_size=6))
    return draw(st.sampled_from(list(COPIES))), inputs, batches, draw(st.sampled_from([1, 2**32]))


@settings(max_examples=examples(400), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(histories())
def test_every_version_is_that_of_the_model(
    history: tuple[str, int, list[tuple[list[Change], int]], int],
) -> None:
    """Weights above 1, numbers below zero, equal hashes, any cut into batches and partitions."""
    operation, inputs, batches, spread = history
    with TemporaryDirectory() as folder, merging_soon(1, 8):
        world = World(spec_of(operation, inputs), Path(folder), spread)
        for changes, partitions in batches:
            world.batch(changes, partitions)


@pytest.mark.parametrize("operation", COPIES)
def test_rows_wait_to_be_emitted(tmp_path: Path, operation: str) -> None:
    """Batches without emission, then a batch that emits all pending rows, with and without new rows."""
    world = World(spec_of(operation, 3, "changelog"), tmp_path)
    rows = [(number, "x") for number in range(6)]
    for batch in range(3):
        changes = [(port, row, 1) for port in range(3) for row in rows[port : port + 2 + batch]]
        world.batch(changes, 2, NONE)
    assert not world.shown
    world.batch([], 2)
    assert world.shown
    world.batch([(0, rows[0], -1), (1, rows[5], 1)], 2, NONE)
    world.batch([(2, rows[3], 1)], 2)


@pytest.mark.parametrize("forget", ["retract", "keep"])
def test_idle_rows_leave_the_state(tmp_path: Path, forget: Forget) -> None:
    """Rows without a change for some time are evicted with the numbers of all inputs; the view keeps them or not."""
    spec = replace(spec_of("minus_primary_all", 2, "changelog"), forget=forget)
    world = World(spec, tmp_path)
    old, new = (1, "a"), (2, "b")
    world.batch([(0, old, 1), (0, old, 1), (1, old, 1)], 2, replace(ALL, instant=10))
    world.batch([(0, new, 1)], 2, replace(ALL, instant=20))
    results = world.run(None, 2, emission=replace(ALL, all=False, instant=30, idle=15))
    groups = world.scan(GROUP, spec.layout.schema, 2)
    assert [k for part in groups for k in part.column("k0").to_pylist()] == [2]
    changes = world.changes_of(results)
    found = [tuple(row.values())[:2] for table in changes for row in table.to_pylist()]
    assert found == ([old] if forget == "retract" else [])
    assert sum(run.rows for run in world.state[CLOSED]) == (forget == "keep")


def test_early_retractions_are_refused_per_input(tmp_path: Path) -> None:
    """An inserted row of another input does not cancel an early retraction."""
    world = World(spec_of("union_distinct", 2, "changelog", "refuse"), tmp_path)
    world.batch([(0, (1, "a"), 1)])
    with pytest.raises(RunFailed) as refused:
        world.batch([(1, (1, "a"), -1)])
    assert refused.value.code == "EARLY_RETRACTION"
    assert "(1, a)" in refused.value.message


def test_early_retractions_are_counted_per_input(tmp_path: Path) -> None:
    """Those in quarantine, and those that are carried."""
    row = (1, "a")
    for name in ("quarantine", "carry"):
        (tmp_path / name).mkdir()
    world = World(
        spec_of("minus_primary_all", 3, "changelog", "quarantine"), tmp_path / "quarantine"
    )
    (result,) = world.batch([(0, row, 1), (1, row, -1), (2, row, -1), (2, row, -1)])
    assert (result.counters["quarantined"], result.counters["early"]) == (3, 3)
    (result,) = world.batch([(1, row, 1), (2, row, 1)])
    assert result.counters["quarantined"] == -2
    carried = World(spec_of("minus_primary_all", 3, "changelog", "carry"), tmp_path / "carry")
    (result,) = carried.batch([(0, row, 1), (1, row, -1), (2, row, -1)])
    assert result.counters["early"] == 2
