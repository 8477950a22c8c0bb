"""Measures in phases, on the local executor and on Spark: a view of states, and one of merged states."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.spark.execution.driver import Driver
from tests.e2e.files import write_in_order
from tests.e2e.plans import Builder, Json, aggregate, column, read
from tests.e2e.running import starting
from tests.executors import ON_SPARK, drivers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REQUIRED, NULLABLE = "NULLABILITY_REQUIRED", "NULLABILITY_NULLABLE"
INTEGER = {"i64": {"nullability": REQUIRED}}
STATE = {"struct": {"types": [INTEGER, INTEGER], "nullability": REQUIRED}}
COLUMNS = {"k": "string", "d": "i64", "x": "i64"}
Row = tuple[str, int, int | None, str]
BATCHES: list[list[Row]] = [
    [("a", 1, 5, "insert"), ("a", 1, 8, "insert"), ("a", 2, None, "insert")],
    [("a", 1, 5, "delete"), ("b", 1, -7, "insert"), ("a", 3, 2, "insert")],
    [("a", 2, None, "delete"), ("a", 3, 2, "delete")],
]
STATES: list[list[tuple[Any, ...]]] = [
    [("a", 1, {"total": 13, "values": 2}, 8), ("a", 2, {"total": 0, "values": 0}, None)],
    [("a", 1, {"total": 8, "values": 1}, 8), ("a", 2, {"total": 0, "values": 0}, None),
     ("a", 3, {"total": 2, "values": 1}, 2), ("b", 1, {"total": -7, "values": 1}, -7)],
    [("a", 1, {"total": 8, "values": 1}, 8), ("b", 1, {"total": -7, "values": 1}, -7)],
]  # fmt: skip
RESULTS = [[("a", 6, 8)], [("a", 5, 8), ("b", -7, -7)], [("a", 8, 8), ("b", -7, -7)]]


def in_phase(measure: Json, phase: str, output: Json | None = None) -> Json:
    body = {**measure["measure"], "phase": f"AGGREGATION_PHASE_{phase}"}
    return {"measure": body if output is None else {**body, "outputType": output}}


def of_states(made: Builder) -> Json:
    average, most = (made.measure(n, (column(2), "i64"), output="i64") for n in ("avg", "max"))
    phase = "INITIAL_TO_INTERMEDIATE"
    measures = [in_phase(average, phase, STATE), in_phase(most, phase)]
    return aggregate(read("t", COLUMNS), [column(0), column(1)], measures)


def states() -> str:
    made = Builder()
    return made.plan(of_states(made), "k", "d", "state", "total", "values", "most")


def results() -> str:
    made = Builder()
    first = of_states(made)
    average = made.measure("avg", (column(2), "i64"), output="i64")
    most = made.measure("max", (column(3), "i64"), output="i64")
    measures = [in_phase(m, "INTERMEDIATE_TO_RESULT") for m in (average, most)]
    return made.plan(aggregate(first, [column(0)], measures), "k", "average", "most")


PARTS: list[list[tuple[str, dict[str, int] | None, str]]] = [
    [("a", {"total": 7, "values": 2}, "insert"), ("a", {"total": -1, "values": 1}, "insert")],
    [("a", {"total": 7, "values": 2}, "delete"), ("b", None, "insert")],
]
"""States that another engine has computed."""

MERGED = [[("a", 2)], [("a", -1), ("b", None)]]


def merged() -> str:
    """The averages of states in a table."""
    made = Builder()
    table = read("t", {"k": "string", "state": "i64"})
    schema = table["read"]["baseSchema"]
    schema["names"] += ["total", "values"]
    schema["struct"]["types"][1] = {"struct": {**STATE["struct"], "nullability": NULLABLE}}
    average = made.measure("avg", (column(1), "i64"), output="i64")
    measures = [in_phase(average, "INTERMEDIATE_TO_RESULT")]
    return made.plan(aggregate(table, [column(0)], measures), "k", "average")


def check(
    plan: str,
    expected: list[Any],
    folder: Path,
    spark: SparkSession | None,
    batches: Sequence[Sequence[tuple[Any, ...]]] = BATCHES,
) -> None:
    """Check every version of a view."""
    views: dict[int, list[Any]] = {}

    def keep(progress: Any) -> None:
        rows = sa.open_view(folder / "ck").to_arrow(progress.version).to_pylist()
        views[progress.version] = sorted((tuple(row.values()) for row in rows), key=repr)

    names = [*COLUMNS, "op"] if batches is BATCHES else ["k", "state", "op"]
    files = [
        pa.table({name: [row[i] for row in batch] for i, name in enumerate(names)})
        for batch in batches
    ]
    write_in_order(folder / "in", files)
    source = {"t": f"parquet:{folder / 'in'}?op=op&batch-files=1"}
    starting(spark)(plan, source, checkpoint=folder / "ck", partitions=2, progress=keep).wait()
    assert [views[version] for version in sorted(views) if version] == expected


def test_states_and_merged_states_follow_every_change(tmp_path: Path) -> None:
    check(states(), STATES, tmp_path / "states", None)
    check(results(), RESULTS, tmp_path / "results", None)
    check(merged(), MERGED, tmp_path / "merged", None, PARTS)


@pytest.mark.spark
@pytest.mark.parametrize("driver", [ON_SPARK, Driver()], ids=["jobs", "driver"])
def test_states_and_merged_states_are_the_same_on_spark(
    driver: Driver, spark: SparkSession, tmp_path: Path
) -> None:
    with drivers(driver):
        check(states(), STATES, tmp_path / "states", spark)
        check(results(), RESULTS, tmp_path / "results", spark)
        check(merged(), MERGED, tmp_path / "merged", spark, PARTS)
