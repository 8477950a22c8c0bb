"""Measures of an embedding program through Spark: the documented examples, in every form, across restarts."""

from __future__ import annotations

import math
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import substrait_agg as sa
from tests.e2e import plans
from tests.e2e.feeds import Change, Feed
from tests.e2e.killing import PATIENCE, kill_session, newest
from tests.e2e.plans import Builder, column, literal, read
from tests.e2e.rows import Bag, bag, net

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DOCUMENT = Path(__file__).parents[2] / "docs" / "user-measures.md"
BLOCKS = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
OWN = "own"
URN = "extension:com.example:statistics"
COLUMNS = {"k": "i64", "day": "i64", "x": "fp64", "word": "string"}


def documented() -> dict[str, Any]:
    """The classes of the document, defined as in a program's main module."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in BLOCKS:
        exec(block, names)
    return names


@pytest.fixture
def measures() -> Iterator[dict[str, Any]]:
    """The documented classes, an object of each registered."""
    found = documented()
    objects = (found["GeometricMean"](), found["LongestRun"]())
    for measure in objects:
        sa.register_measure(measure)
    yield found
    for measure in objects:
        sa.unregister_measure(measure)


def own(build: Builder, name: str, argument: plans.Json, output: str, **more: Any) -> plans.Json:
    """A measure of the program's own URN; `more` goes into the function."""
    build.measure("count", output="i64!")  # the URN's anchor is not the first one
    anchor = build.call(name, OWN, output="i64")["scalarFunction"]["functionReference"]
    body = {
        "functionReference": anchor,
        "arguments": [{"value": argument}],
        "outputType": plans.type_(output),
        "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
        "invocation": "AGGREGATION_INVOCATION_ALL",
    }
    where = more.pop("where", None)
    body |= more
    return {"measure": body} if where is None else {"measure": body, "filter": where}


def plan_of(build: Builder, relation: plans.Json, *names: str) -> str:
    return build.plan(relation, *names).replace(f"extension:io.substrait:{OWN}", URN)


DISTINCT = {"invocation": "AGGREGATION_INVOCATION_DISTINCT"}


def every_form() -> str:
    """Both measures plain, filtered and DISTINCT, one of them in a given order, over two grouping sets."""
    build = Builder()
    x, word = column(2), column(3)
    late = build.call("gt:any_any", plans.COMPARISON, column(1), literal("i64", 2), output="bool")
    by_day = [{"expr": column(1), "direction": "SORT_DIRECTION_DESC_NULLS_LAST"}]
    measures = [
        own(build, "geometric_mean:fp64", x, "fp64"),
        own(build, "geomean", x, "fp64", where=late),
        own(build, "geomean", x, "fp64", where=late, **DISTINCT),
        own(build, "longest_run:any", word, "i64"),
        own(build, "longest_run", word, "i64", sorts=by_day),
        own(build, "longest_run", word, "i64", **DISTINCT),
        build.measure("count", output="i64!"),
    ]
    body = {
        "input": read("t", COLUMNS),
        "measures": measures,
        "groupingExpressions": [column(0)],
        "groupings": [{"expressionReferences": [0]}, {}],
    }
    names = ["k", "mean", "late", "distinct", "run", "by_day", "once", "n", "set"]
    return plan_of(build, {"aggregate": body}, *names)


Row = tuple[Any, ...]


def form_model(rows: Bag) -> Bag:
    """The view of `every_form` over rows with weights above zero."""
    members: dict[tuple[Any, int], list[Row]] = {(None, 1): []}
    for row in rows.elements():
        members.setdefault((row[0], 0), []).append(row)
        members[None, 1].append(row)
    return Counter((key, *_measured(group), index) for (key, index), group in members.items())


def _measured(rows: list[Row]) -> tuple[Any, ...]:
    late = [row[2] for row in rows if row[1] > 2]
    words = sorted(row[3] for row in rows if row[3] is not None)
    by_day = sorted((-row[1], row[3]) for row in rows if row[3] is not None)
    return (
        _mean([row[2] for row in rows]),
        _mean(late),
        _mean(sorted(set(late) - {None})),
        _longest(words),
        _longest([word for _, word in by_day]),
        1 if words else None,
        len(rows),
    )


def _mean(values: Sequence[float | None]) -> Any:
    found = [v for v in values if v is not None]
    if not found:
        return None
    if min(found) < 0:
        return "NaN"
    if 0 in found:
        return 0.0
    return round(math.exp(math.fsum(map(math.log, found)) / len(found)), 9)


def _longest(values: Sequence[str]) -> int | None:
    return max((len(list(run)) for _, run in groupby(values)), default=None)


def rounded(rows: Bag) -> Bag:
    """Means to nine digits: logarithms come from another library here."""
    return Counter(
        {
            tuple(round(v, 9) if isinstance(v, float) else v for v in row): weight
            for row, weight in rows.items()
        }
    )


def changes(rng: random.Random, batches: int) -> list[list[Change]]:
    """Rows of a small domain come and go, some before they were there."""
    domain = [
        (k, day, x, word)
        for k in (1, 2)
        for day in (1, 2, 3, 4)
        for x in (0.5, 3.0, 1e9, None)
        for word in ("a", "b", None)
    ]
    domain += [(1, 3, 0.0, "a"), (2, 4, -1.0, "b")]
    made: list[list[Change]] = []
    for _ in range(batches):
        batch = [(rng.choice(domain), 1) for _ in range(15)]
        batch += [(rng.choice(domain), rng.choice((1, -1))) for _ in range(8)]
        batch += [(row, -1) for row, _ in rng.sample(made[-1], 8) if made] if made else []
        made.append(batch)
    return made


def test_every_form_across_restarts(
    measures: dict[str, Any], spark: SparkSession, tmp_path: Path
) -> None:
    """FILTER, DISTINCT, ORDER BY, grouping sets, retractions that come early, other partitions: as recomputed."""
    batches = changes(random.Random(3), 6)
    source = {"t": Feed("t", COLUMNS, "op", batches).write(tmp_path)}
    checkpoint = tmp_path / "checkpoint"
    views: dict[int, Bag] = {}

    def keep(progress: Any) -> None:
        views[progress.version] = rounded(bag(sa.open_view(checkpoint).to_arrow(progress.version)))
        if progress.version == 2:
            raise InterruptedError  # the run ends here, and another object goes on

    options: dict[str, Any] = {"spark": spark, "early_retraction": "quarantine"}
    options["checkpoint"] = checkpoint
    with pytest.raises(InterruptedError):
        sa.run(every_form(), source, progress=keep, partitions=1, **options).wait()
    assert sa.open_view(checkpoint).version == 2
    sa.unregister_measure(measures["GeometricMean"]())
    with pytest.raises(sa.PlanRefused) as caught:
        sa.run(every_form(), source, **options)
    assert caught.value.code == "FUNCTION_URN_UNKNOWN"
    sa.register_measure(documented()["GeometricMean"]())
    sa.run(every_form(), source, progress=keep, partitions=4, **options).wait()
    wanted = {v: form_model(+net(batches[:v])) for v in range(len(batches) + 1)}
    assert views == wanted


def test_the_documented_measures_run_in_a_program(
    measures: dict[str, Any],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The classes of the document, word for word, over a plan that uses both measures."""
    monkeypatch.chdir(tmp_path)
    build = Builder()
    asked = [
        own(build, "geometric_mean", column(0), "fp64"),
        own(build, "longest_run", column(0), "i64"),
    ]
    relation = plans.aggregate(read("sales", {"x": "fp64"}), [], asked)
    Path("plan.json").write_text(plan_of(build, relation, "mean", "run"))
    rows = [((2.0,), 1), ((8.0,), 1), ((8.0,), 1), ((0.0,), 1), ((0.0,), -1), ((8.0,), -1)]
    Feed("sales", {"x": "fp64"}, "op", [rows[:4], rows[4:]]).write(tmp_path)
    # Spark has a working folder of its own; the location is relative to ours.
    sa.run("plan.json", {"sales": "parquet:sales?op=change"}, checkpoint="checkpoint").wait()
    ((row),) = sa.open_view("checkpoint").to_arrow().to_pylist()
    assert row == {"mean": pytest.approx(4.0, rel=1e-15), "run": 1}


PROGRAM = """
import sys
for measure in (GeometricMean(), LongestRun()):
    sa.register_measure(measure)
plan, source, checkpoint = sys.argv[1:]
conf = {"spark.ui.enabled": "false"}
sa.run(plan, {"t": source}, checkpoint=checkpoint, master="local[2]", conf=conf).wait()
"""


@pytest.mark.soak
def test_a_killed_program_goes_on_when_it_is_started_again(tmp_path: Path) -> None:
    """The classes are in the main module of the program, and every process registers them again."""
    batches = changes(random.Random(5), 12)
    batches.append([(row, -weight) for row, weight in net(batches).items() if weight < 0])
    source = Feed("t", COLUMNS, "weight", batches).write(tmp_path)
    (tmp_path / "plan.json").write_text(every_form())
    program = tmp_path / "program.py"
    program.write_text("".join([*BLOCKS, PROGRAM]))
    checkpoint = tmp_path / "checkpoint"
    command = [sys.executable, str(program), str(tmp_path / "plan.json"), source, str(checkpoint)]
    environment = {**os.environ, "PYTHONPATH": str(DOCUMENT.parents[1])}

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True
        )

    process = start()
    try:
        while newest(checkpoint) < 3:
            assert process.poll() is None, "the program ended before it was killed"
            time.sleep(0.01)
    finally:
        kill_session(process)
    assert newest(checkpoint) < len(batches)
    process = start()
    try:
        assert process.wait(PATIENCE) == 0
    finally:
        kill_session(process)
    view = sa.open_view(checkpoint)
    assert view.versions() == list(range(len(batches) + 1))
    assert rounded(bag(view.to_arrow())) == form_model(+net(batches))


class Fussy(sa.AdditiveMeasure):
    """Fails on a value that it does not like."""

    urn = URN
    names = ("fussy",)
    arguments = (("fp64",),)
    columns = {"n": 0}  # noqa: RUF012 - written as users write it

    def result(self, types: tuple[sa.Type, ...]) -> sa.Type:
        return sa.Type("i64")

    def contribute(self, arguments: Sequence[pa.Array]) -> dict[str, pa.Array]:
        (x,) = arguments
        if 13.0 in x.to_pylist():
            raise LookupError("thirteen is unlucky")
        return {"n": pa.array([1] * len(x))}

    def value(self, count: pa.Array, totals: Any) -> pa.Array:
        return totals["n"]


def fussy_plan() -> str:
    build = Builder()
    measure = own(build, "fussy", column(1), "i64")
    small = {"k": "i64", "x": "fp64"}
    return plan_of(build, plans.aggregate(read("t", small), [column(0)], [measure]), "k", "n")


def test_what_a_measure_raises_ends_the_batch(spark: SparkSession, tmp_path: Path) -> None:
    """An exception of a user measure in a Spark worker fails the batch with its class and message;
    nothing is committed.
    """
    measure = Fussy()
    sa.register_measure(measure)
    batches = [[((1, 2.0), 1)], [((1, 13.0), 1), ((2, 1.0), 1)]]
    feed = Feed("t", {"k": "i64", "x": "fp64"}, "op", batches)
    try:
        with pytest.raises(sa.RunFailed) as caught:
            sa.run(
                fussy_plan(), {"t": feed.write(tmp_path)}, checkpoint=tmp_path / "ck", spark=spark
            ).wait()
    finally:
        sa.unregister_measure(measure)
    assert caught.value.code == "USER_MEASURE_FAILED"
    assert caught.value.message == "Fussy: contribute raised LookupError: thirteen is unlucky"
    view = sa.open_view(tmp_path / "ck")
    assert (view.version, view.to_arrow().to_pylist()) == (1, [{"k": 1, "n": 1}])


def test_another_version_of_a_class_needs_another_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What its totals mean has changed."""
    source = {"t": Feed("t", {"k": "i64", "x": "fp64"}, "op", [[((1, 2.0), 1)]]).write(tmp_path)}
    for version in ("", "2"):
        measure = Fussy()
        measure.version = version
        sa.register_measure(measure)
        try:
            if version:
                with pytest.raises(sa.StateRefused) as caught:
                    sa.run(fussy_plan(), source, checkpoint=tmp_path / "ck", spark=spark)
                assert caught.value.code == "PLAN_DIFFERS"
            else:
                sa.run(fussy_plan(), source, checkpoint=tmp_path / "ck", spark=spark).wait()
        finally:
            sa.unregister_measure(measure)
