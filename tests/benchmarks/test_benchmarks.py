"""The benchmarks themselves, without measurements: workloads, engines and reports are consistent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from benchmarks import plots, report, results
from benchmarks.check import WrongView, _alive
from benchmarks.conduct import _turns
from benchmarks.data.bids import bids
from benchmarks.data.churn import churn
from benchmarks.data.data_sets import ID, LOAD, OP, DataSet, Generator, make
from benchmarks.data.lineitem import lineitem
from benchmarks.data.rows import lists, many, wide, with_key
from benchmarks.engines.commits import Commits
from benchmarks.phases import PHASES, Jobs, JobStage, phases
from benchmarks.plans import SCHEMAS, plan, written
from benchmarks.process import ENGINES
from benchmarks.queries import QUERIES, plan_of
from benchmarks.results import LaneResult, MeasuredBatch, Results, WorkloadResult
from benchmarks.targets import TARGETS
from benchmarks.workload import WARM, Sizes
from benchmarks.workloads import WORKLOADS
from substrait_agg.metrics import OperatorProgress, Progress

DRAWN = [["warm", 50], ["rows", 60], ["rows", 60]]
GENERATORS: dict[Generator, Mapping[str, Any]] = {
    with_key: {"keys": 10, "held": 30, "batches": DRAWN, "hot": 0.5},
    many: {"keys": 10, "rows": 100, "files": 4, "kind": "rows"},
    wide: {"keys": 10, "batches": DRAWN},
    lists: {"groups": 5, "values": 4, "touched": 2, "each": 3, "kinds": ["warm", "rows"]},
    churn: {"rows": 200, "groups": 20, "batch": 10, "pairs": 2},
    bids: {"batches": DRAWN},
    lineitem: {"scale": 0.001, "refreshes": 2, "share": 0.02},
}


@pytest.mark.parametrize("generator", GENERATORS, ids=lambda g: g.__name__)
def test_the_same_parameters_give_the_same_rows(generator: Generator, tmp_path: Path) -> None:
    """Otherwise a run over stored files could not be compared with the run that wrote them."""
    parameters = GENERATORS[generator]
    first, second = (
        make(generator.__name__, generator, parameters, tmp_path / name) for name in ("a", "b")
    )
    assert first.files == second.files
    assert all(file.rows > 0 for file in first.files)
    for file in first.files:
        assert pq.read_table(first.folder / file.name) == pq.read_table(second.folder / file.name)
    times = [(first.folder / file.name).stat().st_mtime for file in first.files]
    assert times == sorted(set(times)), "the order in which streams read them"


def test_kept_data_is_not_made_again(tmp_path: Path) -> None:
    made = make("many", many, GENERATORS[many], tmp_path)
    path = made.folder / made.files[0].name
    before = path.stat().st_ino
    assert make("many", many, GENERATORS[many], tmp_path) == made
    assert path.stat().st_ino == before
    other = make("many", many, {**GENERATORS[many], "keys": 11}, tmp_path)
    assert other.folder != made.folder


def test_churn_deletes_rows_that_are_there_and_half_of_them_are_the_greatest(
    tmp_path: Path,
) -> None:
    data = make("churn", churn, GENERATORS[churn], tmp_path)
    alive: dict[int, tuple[int, int]] = {}
    for file in data.files:
        rows = pq.read_table(data.folder / file.name).to_pylist()
        if file.kind == "delete":
            tops = {g: max(v for h, v in alive.values() if h == g) for g, _ in alive.values()}
            greatest = sum(row["v"] == tops[row["g"]] for row in rows)
            assert greatest * 2 >= len(rows) == 10
        for row in rows:
            if row[OP] == "delete":
                assert alive.pop(row[ID]) == (row["g"], row["v"])
            else:
                assert row[ID] not in alive
                alive[row[ID]] = (row["g"], row["v"])
    assert len(alive) == 200


def test_the_tables_of_plans_are_the_columns_of_the_data(tmp_path: Path) -> None:
    """A plan is written over `SCHEMAS`; a column that is misspelt there would only show when Spark runs."""
    tables: dict[str, Generator] = {
        "t": with_key,
        "churn": churn,
        "wide": wide,
        "lists": lists,
        "bids": bids,
    }
    assert set(tables) == set(SCHEMAS)
    for table, generator in tables.items():
        made = make(generator.__name__, generator, GENERATORS[generator], tmp_path)
        assert made.table.names == SCHEMAS[table].names
        assert made.table.types == SCHEMAS[table].types


@pytest.mark.parametrize("name", QUERIES)
def test_every_plan_validates(name: str) -> None:
    assert sa.validate(plan_of(name)).ok


@pytest.mark.parametrize("name", written())
def test_plans_are_what_their_queries_say(name: str) -> None:
    """The stored plans and the plans of their queries have equal explanations; their bytes differ
    because DataFusion numbers functions differently.
    """
    kept, fresh = (sa.explain(p).split("\n", 1)[1] for p in (plan_of(name), plan(QUERIES[name])))
    assert kept == fresh, "write them again: python -m benchmarks.plans"


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("id", WORKLOADS)
def test_workloads_are_whole(id: str, large: bool) -> None:
    """Lanes name engines, queries and data that are there; each has one of ours, so that it is checked."""
    workload = WORKLOADS[id](Sizes(large=large))
    names = [lane.name for lane in workload.lanes]
    assert workload.id == id
    assert len(set(names)) == len(names)
    assert not set(workload.absent) & set(names)
    for lane in workload.lanes:
        assert lane.engine in ENGINES
        assert lane.engine not in ("rocksdb", "default") or not QUERIES[lane.query].native
        assert lane.query in QUERIES
        assert lane.data in workload.data
        assert lane.name.partition("@")[0] == lane.engine
    assert any(lane.engine == "ours" for lane in workload.lanes)


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_turns_leave_nothing_out_and_load_first(tmp_path: Path, rounds: int) -> None:
    drawn = [["warm", 5], *([["rows", 5]] * 7)]
    data = make("keyed", with_key, {"keys": 9, "held": 9, "batches": drawn}, tmp_path)
    turns = _turns(data, rounds)
    assert [file for turn in turns for file in turn.files] == list(data.files)
    assert [turn.round for turn in turns if turn.round >= 0] == list(range(len(turns) - 2))
    assert len(turns) - 2 <= rounds
    kinds = [{file.kind for file in turn.files} for turn in turns]
    assert kinds == [{LOAD}, {WARM}, *[{"rows"}] * (len(turns) - 2)]


def test_rows_that_left_are_not_alive(tmp_path: Path) -> None:
    import duckdb

    data = make("churn", churn, GENERATORS[churn], tmp_path)
    upto = [file.name for file in data.files[:2]]
    assert [file.kind for file in data.files[:2]] == [LOAD, "delete"]
    with duckdb.connect() as connection:
        counted = f"SELECT count(*), count(DISTINCT g) FROM ({_alive(data, upto)})"
        assert connection.execute(counted).fetchone() == (190, 20)


JOBS = Jobs(1.0, (JobStage(0.4, 0.8, 0.2, maps=True), JobStage(0.5, 1.0, 0.0, maps=False)), 0.2)


def test_phases_add_up_to_the_batch() -> None:
    """The rest of a batch is counted as driver time, and no time is counted twice."""
    before = _progress(0.0)
    after = _progress(0.1)
    found = phases(2.0, before, after, JOBS)
    assert list(found) == list(PHASES)
    assert sum(found.values()) == pytest.approx(2.0)
    assert found["read"] == pytest.approx(0.1)
    assert found["lookup"] == pytest.approx(0.05)
    assert found["schedule"] == pytest.approx(0.1)
    assert found["open"] == pytest.approx(0.3)


def test_batches_are_told_by_the_progress_of_a_run() -> None:
    """The version without input is not a batch, nor is the progress of a join in a batch."""
    commits, phases_of_start = Commits(), (("query", 1.0), ("batch", 0.5))
    first = replace(_progress(0.1), version=1, start_phases=phases_of_start)
    second = replace(_progress(0.2), version=2, start_phases=phases_of_start)
    none = Progress(version=0)
    for progress in (none, none, first, first, second):
        commits(progress)
    assert [(b.before, b.after) for b in commits.of(2)] == [(none, first), (first, second)]
    assert commits.batches[0].seconds == 0.5
    assert [batch.written for batch in commits.batches] == [7, 0]
    with pytest.raises(RuntimeError, match="2 batches were committed instead of 3"):
        commits.of(3)


def _progress(seconds: float) -> Progress:
    operator = OperatorProgress(
        0,
        fold_seconds=3 * seconds,
        lookup_seconds=seconds,
        merge_seconds=seconds,
        write_seconds=seconds,
        written_bytes=7,
    )
    return Progress(operators=(operator,), commit_seconds=seconds, batch_seconds=1.7)


def _results() -> Results:
    def lane(name: str, seconds: float, parts: Mapping[str, float]) -> LaneResult:
        batches = tuple(
            MeasuredBatch(0, "rows", 1000, seconds * f, dict(parts)) for f in (1, 0.9, 1.1)
        )
        return LaneResult(
            name, name.partition("@")[0], "count_sum_avg", batches, 0.0, 100, 50, {"jvm": 1 << 30}
        )

    parts = dict.fromkeys(PHASES, 0.01)
    lanes = (lane("ours", 0.2, parts), lane("rocksdb", 1.4, {}), lane("floor", 0.18, {}))
    return Results({}, {}, (WorkloadResult("W1", "rows", lanes, {"default": "it is absent"}),))


def test_reports_render_from_what_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    _results().save(path)
    found = results.load([path])
    assert found == _results()
    text = report.markdown(found)
    assert "| ours | rows (3) | 0.200 |" in text
    assert "| rocksdb | rows (3) | 1.400 |" in text
    assert "it is absent" in text
    assert "| W1: times faster than RocksDB | 7 | at least 6 | met |" in text
    assert "| W1: times the floor | 1.11 | at most 1.3 | met |" in text
    assert "| W1: times faster than the default store | - | at least 3 | not measured |" in text
    assert "| W1 ours | " in text.rpartition("Where our time goes")[2]


def test_a_missed_target_is_told() -> None:
    found = _results()
    workload = found.workloads[0]
    slow = replace(workload.lanes[2], batches=(MeasuredBatch(0, "rows", 1000, 0.01),))
    changed = replace(found, workloads=(replace(workload, lanes=(*workload.lanes[:2], slow)),))
    (target,) = [t for t in TARGETS if t.what == "W1: times the floor"]
    assert target.met(changed) is False
    assert target.met(found) is True


def test_targets_name_lanes_that_there_are() -> None:
    """Every target names an existing lane; otherwise it would never be measured."""
    lanes = {}
    for id, made in WORKLOADS.items():
        workload = made(Sizes())
        batches = tuple(
            MeasuredBatch(0, kind, 1, 1.0, {"driver": 1.0}) for kind in ("insert", "delete")
        )
        lanes[id] = tuple(
            LaneResult(x.name, x.engine, x.query, batches, 0.0, 1, 1, {"workers_own": 1})
            for x in workload.lanes
        )
    lanes["B"] = lanes["W1"]
    every = Results({}, {}, tuple(WorkloadResult(id, "", own, {}) for id, own in lanes.items()))
    assert [target.what for target in TARGETS if target.met(every) is None] == []


def test_plots_are_drawn(tmp_path: Path) -> None:
    first = plots.save(_results(), tmp_path / "a")
    assert [path.name for path in first] == ["w1.svg", "phases.svg"]
    again = plots.save(_results(), tmp_path / "b")
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in again]


def test_the_crossover_is_drawn(tmp_path: Path) -> None:
    """Also where an engine has no figure for a size."""
    lanes = tuple(
        LaneResult(
            f"{engine}@{held}", engine, "count_sum_avg",
            tuple(MeasuredBatch(0, kind, int(kind), 0.1) for kind in kinds), 0.0, None, 1, {}, held,
        )
        for held in (100, 1000)
        for engine, kinds in (("ours", ("10", "100")), ("duckdb", ("10",)))
    )  # fmt: skip
    found = Results({}, {}, (WorkloadResult("X2", "crossover", lanes, {}),))
    drawn = plots.save(found, tmp_path)
    assert [path.name for path in drawn] == ["crossover.svg", "crossover-map.svg"]
    # Each text is noted above the glyphs that draw it.
    assert "<!-- 1 x -->" in drawn[1].read_text()


def test_wrong_answers_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One value that differs, one row too many, one too few: each fails."""
    from benchmarks import check

    data = make("keyed", with_key, {"keys": 3, "held": 0, "batches": DRAWN}, tmp_path)
    names = [file.name for file in data.files]
    right = _grouped(data)
    spoilt: dict[str, Callable[[pa.Table], pa.Table]] = {
        "value": lambda t: t.set_column(1, "n", pa.array([1, *t["n"].to_pylist()[1:]])),
        "more": lambda t: pa.concat_tables([t, t.slice(0, 1)]),
        "fewer": lambda t: t.slice(1),
    }
    shown: list[pa.Table] = [right]

    class View:
        def to_arrow(self) -> pa.Table:
            return shown[0]

    monkeypatch.setattr(sa, "open_view", lambda _: View())
    check.check("count_sum_avg", data, names, tmp_path, tmp_path)
    for spoil in spoilt.values():
        shown[0] = spoil(right)
        with pytest.raises(WrongView):
            check.check("count_sum_avg", data, names, tmp_path, tmp_path)


def _grouped(data: DataSet) -> pa.Table:
    rows = pa.concat_tables([pq.read_table(data.folder / file.name) for file in data.files])
    grouped = rows.group_by("k").aggregate([([], "count_all"), ("i", "sum"), ("x", "mean")])
    return grouped.rename_columns(["k", "n", "s", "a"])
