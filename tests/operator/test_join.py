"""The join operator against joins of counted rows by nested loops, batch by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from substrait_agg.bind.bound import Call, Column, Expr, JoinKind
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.errors import RunFailed
from substrait_agg.operator.common.emission import ALL
from substrait_agg.operator.common.names import PORT, WEIGHT, arrangement_tree
from substrait_agg.operator.join.lookup import ProbeSet, first_column
from substrait_agg.operator.join.spec import JoinSide, JoinSpec
from substrait_agg.operator.join.step import JoinOperator, _Step
from substrait_agg.plan.types import BOOL, Type
from substrait_agg.runtime.job import OperatorJob
from substrait_agg.spark.execution.driver import _VERIFIER, Driver
from substrait_agg.state import arrangement
from substrait_agg.state import run as runs
from substrait_agg.state.arrangement import ArrangementLayout
from substrait_agg.state.run import is_verified, verify_runs
from tests.operator.tasks import TaskRunner

Row = tuple[int | None, str]
Batch = Sequence[tuple[int, Row, int]]
"""Changes: side, row (key, value), weight."""

I64, TEXT = Type("i64", nullable=True), Type("string", nullable=True)
KINDS: tuple[JoinKind, ...] = ("inner", "left", "full", "semi", "anti", "mark")
DIFFERENT = Call(BOOL, "not_equal", (Column(TEXT, 1), Column(TEXT, 3)))
"""A residual condition: the values of both sides differ."""


def spec(kind: JoinKind, residual: Expr | None = None, *, null_safe: bool = False) -> JoinSpec:
    """Return a join of two sides with a key and a value each; all columns are in the output."""
    width = {"semi": 2, "anti": 2, "mark": 3}.get(kind, 4)
    types = (pa.int64(), pa.string(), pa.int64(), pa.string())
    needs_value = residual is not None or width == 4
    left = JoinSide(ArrangementLayout((pa.int64(),), (pa.string(),)), (0, 1))
    value = (pa.string(),) if needs_value else ()
    right = JoinSide(ArrangementLayout((pa.int64(),), value), (0, 1) if needs_value else ())
    mark = len(left.columns) + len(right.columns)
    chosen = {2: (0, 1), 3: (0, 1, mark), 4: (0, 1, 2, 3)}[width]
    out = (*types[:2], pa.bool_()) if width == 3 else types[:width]
    return JoinSpec(
        kind,
        (pa.int64(),),
        (null_safe,),
        (left, right),
        residual,
        chosen,
        out,
        "the join",
        "weighted",
    )


def rows_of(batch: Batch, join: JoinSpec, hashes: int) -> list[pa.RecordBatch]:
    """Return the changes as the exchange gives them; few hashes force collisions."""
    keys = [row[0] for _, row, _ in batch]
    values = [row[1] for _, row, _ in batch]
    ports = [side for side, _, _ in batch]
    columns: dict[str, Any] = {
        "__m": np.zeros(len(batch), np.int32),
        "__x": np.array([0 if k is None else 1 + k % hashes for k in keys], np.int32),
        "k0": pa.array(keys, pa.int64()),
        "x0": pa.array(
            [v if p == 0 else None for v, p in zip(values, ports, strict=True)], pa.string()
        ),
        PORT: np.array(ports, np.int8),
        WEIGHT: np.array([w for _, _, w in batch], np.int64),
    }
    if join.sides[1].layout.value_types:
        other = [v if p == 1 else None for v, p in zip(values, ports, strict=True)]
        columns["x1"] = pa.array(other, pa.string())
    return [pa.RecordBatch.from_pydict(columns)]


class Run(TaskRunner):
    """Runs a join batch by batch, and keeps the sum of its changes."""

    def __init__(self, folder: Path, join: JoinSpec, hashes: int) -> None:
        names = (f"v{i}" for i in range(len(join.types)))
        super().__init__(JoinOperator(join), folder, names, final=False, cut=1000)
        self.join, self.hashes = join, hashes
        self.output: Counter[tuple[Any, ...]] = Counter()

    def batch(self, batch: Batch) -> None:
        (rows,) = rows_of(batch, self.join, self.hashes)
        for table in self.changes_of(self.run(rows)):
            for *row, weight in zip(*(c.to_pylist() for c in table.columns), strict=True):
                self.output[tuple(row)] += weight
        self.output = Counter({row: n for row, n in self.output.items() if n})


def matches(left: Row, right: Row, *, null_safe: bool, differ: bool) -> bool:
    """Return whether a pair of rows matches."""
    same = left[0] == right[0] and (null_safe or left[0] is not None)
    return same and (not differ or left[1] != right[1])


def expected(
    kind: JoinKind, sides: Sequence[Counter[Row]], *, null_safe: bool, differ: bool
) -> Counter[tuple[Any, ...]]:
    """Return the join of counted rows."""
    left, right = sides
    pairs: Counter[tuple[Any, ...]] = Counter()
    met: tuple[Counter[Row], Counter[Row]] = (Counter(), Counter())
    for (a, m), (b, n) in product(left.items(), right.items()):
        if matches(a, b, null_safe=null_safe, differ=differ):
            met[0][a] += n
            met[1][b] += m
            pairs[(*a, *b)] += m * n
    matched = [(a, m, met[0][a] > 0) for a, m in left.items()]
    alone = {(*a, None, None): m for a, m, flag in matched if not flag}
    other = {(None, None, *b): n for b, n in right.items() if met[1][b] <= 0}
    results: Mapping[JoinKind, Sequence[Mapping[tuple[Any, ...], int]]] = {
        "inner": [pairs],
        "left": [pairs, alone],
        "full": [pairs, alone, other],
        "semi": [{a: m for a, m, flag in matched if flag}],
        "anti": [{a: m for a, m, flag in matched if not flag}],
        "mark": [{(*a, flag): m for a, m, flag in matched}],
    }
    total: Counter[tuple[Any, ...]] = Counter()
    for part in results[kind]:
        total.update(part)
    return Counter({row: n for row, n in total.items() if n})


ROWS = st.tuples(st.sampled_from([None, 0, 1, 2, 3]), st.sampled_from(["a", "b", "c"]))
CHANGES = st.lists(
    st.tuples(st.sampled_from([0, 1]), ROWS, st.sampled_from([1, 1, 2, -1, -2])), max_size=12
)


@given(
    batches=st.lists(CHANGES, min_size=1, max_size=12),
    kind=st.sampled_from(KINDS),
    null_safe=st.booleans(),
    differ=st.booleans(),
    hashes=st.sampled_from([1, 2, 100]),
    at_once=st.sampled_from([1, 3, 1000]),
)
def test_every_version_is_the_join_of_the_rows_so_far(
    batches: list[Batch], kind: JoinKind, null_safe: bool, differ: bool, hashes: int, at_once: int
) -> None:
    """Nulls, retractions, weights above 1, negative sums, collisions, hot keys cut into pieces."""
    with TemporaryDirectory() as folder, patch.object(arrangement, "MATCHES_AT_ONCE", at_once):
        join = spec(kind, DIFFERENT if differ else None, null_safe=null_safe)
        run = Run(Path(folder), join, hashes)
        sides: tuple[Counter[Row], Counter[Row]] = (Counter(), Counter())
        for batch in batches:
            for side, row, weight in batch:
                sides[side][row] += weight
            run.batch(batch)
            assert run.output == expected(kind, sides, null_safe=null_safe, differ=differ)


def test_an_arrangement_has_each_row_once_after_a_merge(tmp_path: Path) -> None:
    run = Run(tmp_path, spec("inner"), 2)
    for _ in range(8):  # as many small runs as start a merge
        run.batch([(0, (1, "a"), 1), (0, (2, "b"), 1), (0, (2, "b"), -1)])
    (file,) = run.state["rows0"]
    assert file.rows == 1


@pytest.mark.parametrize("kind", ["semi", "anti"])
def test_rows_match_all_rows_of_a_key_in_two_pages(kind: JoinKind, tmp_path: Path) -> None:
    run = Run(tmp_path, replace(spec(kind, DIFFERENT), page_rows=2), 4)
    right: list[Row] = [(1, value) for value in "abcd"]
    run.batch([(1, row, 1) for row in right])
    run.batch([(1, row, -1) for row in right[:2]])
    run.batch([(0, (1, "x"), 1), (0, (1, "y"), 1)])
    assert run.output == Counter({(1, "x"): 1, (1, "y"): 1} if kind == "semi" else {})


def test_a_single_join_refuses_a_second_match(tmp_path: Path) -> None:
    run = Run(tmp_path, spec("single"), 2)
    run.batch([(0, (1, "a"), 1), (1, (1, "x"), 1), (1, (2, "y"), 2)])
    assert run.output == Counter({(1, "a", 1, "x"): 1})
    run.batch([(1, (1, "x"), -1), (1, (1, "z"), 1)])
    assert run.output == Counter({(1, "a", 1, "z"): 1})
    run.batch([(0, (1, "a"), -1), (0, (3, "c"), 1), (1, (1, "x"), 1)])
    assert run.output == Counter({(3, "c", None, None): 1})
    with pytest.raises(RunFailed, match="at most one match") as failure:
        run.batch([(0, (2, "b"), 1)])
    assert failure.value.code == "SINGLE_JOIN_MATCHES"


def test_products_of_weights_beyond_64_bits_fail(tmp_path: Path) -> None:
    run = Run(tmp_path, spec("inner"), 2)
    run.batch([(0, (1, "a"), 1 << 40), (1, (1, "b"), 1 << 22)])
    assert run.output == Counter({(1, "a", 1, "b"): 1 << 62})
    with pytest.raises(RunFailed) as failure:
        run.batch([(1, (1, "c"), 1 << 23)])
    assert failure.value.code == "WEIGHT_OVERFLOW"


def test_a_single_join_with_a_condition_forgets_rows_that_are_gone(tmp_path: Path) -> None:
    """A row that would have several matches goes in the batch in which they come; its neighbour has one."""
    run = Run(tmp_path, spec("single", DIFFERENT), 2)
    run.batch([(0, (1, "a"), 1), (0, (1, "x"), 1), (1, (1, "x"), 1)])
    run.batch([(0, (1, "a"), -1), (1, (1, "y"), 1)])
    assert run.output == Counter({(1, "x", 1, "y"): 1})


def job_of(run: Run) -> OperatorJob:
    """The join of a run in its next batch."""
    node: Any = None
    return OperatorJob(
        node, run.operator, str(run.folder), 1, run.state, run.now.number + 1, ALL, run.columns, final=False
    )  # fmt: skip


def test_what_a_batch_reads_is_limited_and_not_what_is_stored(tmp_path: Path) -> None:
    """A state over the limit is verified first; then only batches that match many of its rows go to Spark."""
    run = Run(tmp_path, spec("inner"), 100)
    hot: Batch = [(0, (1, f"row {i}"), 1) for i in range(2_000)]
    cold: Batch = [(0, (2 + i % 90, f"row {i}"), 1) for i in range(2_000)]
    run.batch([*hot, *cold])
    session: Any = SimpleNamespace(conf={})
    job = job_of(run)
    (stored,) = job.state.runs
    driver = Driver(state_bytes=stored.bytes // 4)
    runs._verified.clear()  # as in a new process
    unread = driver.unread(job)
    assert unread.runs == (stored,)
    assert not driver.takes_rows(session, 100, unread)
    _VERIFIER.wait()
    assert driver.unread(job).runs == ()
    assert driver.takes_rows(session, 100, driver.unread(job))
    few, many = (rows_of([(1, (key, "x"), 1)], run.join, 100) for key in (2, 1))
    assert driver.takes_matches(job, few)
    assert not driver.takes_matches(job, many)
    assert Driver().takes_matches(job, many)
    own = rows_of([(0, (1, "x"), 1)], run.join, 100)
    assert driver.takes_matches(job, own), "an inner join does not read the side of a row"


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("kind", ["inner", "left", "full", "semi", "anti", "mark", "single"])
def test_a_batch_looks_up_what_its_operator_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: JoinKind, residual: bool
) -> None:
    """Each key that is looked up in a side comes from a port whose rows may look it up there."""
    join = spec(kind, DIFFERENT) if residual else spec(kind)
    operator = JoinOperator(join)
    looked_up: list[tuple[int, int]] = []
    before = _Step._before

    def noting(self: _Step, side: int, probes: ProbeSet) -> Any:
        ports = [p for p in range(2) if operator.looks_up(arrangement_tree(side), p)]
        known = np.concatenate([first_column(self._deltas[port].rows) for port in ports])
        assert np.isin(probes.low, known).all()
        looked_up.extend((side, port) for port in ports if len(probes.low))
        return before(self, side, probes)

    monkeypatch.setattr(_Step, "_before", noting)
    run = Run(tmp_path, join, 100)
    run.batch([(side, (key, f"{side}"), 1) for side in range(2) for key in range(4)])
    run.batch([(0, (1, "0"), -1), (0, (5, "0"), 1), (1, (2, "1"), -1), (1, (6, "1"), 1)])
    run.batch([(1, (5, "1"), 1), (1, (3, "1"), -1)])
    assert {(0, 1), (1, 0)} <= set(looked_up)
    assert operator.looks_up(arrangement_tree(0), 0) == (kind in ("full", "single"))


def test_a_damaged_file_is_not_verified_in_the_background(tmp_path: Path) -> None:
    """The error comes when a batch reads the file."""
    run = Run(tmp_path, spec("inner"), 100)
    run.batch([(0, (1, "a"), 1)])
    (stored,) = run.state.runs
    path = tmp_path / "state" / stored.name
    path.write_bytes(path.read_bytes()[::-1])
    files = FolderFiles(tmp_path / "state")
    verify_runs(files, [stored])
    assert not is_verified(files, stored)
