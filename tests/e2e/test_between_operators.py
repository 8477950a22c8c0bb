"""Few changes pass between operators without a Spark job, with the same state, changes and
counters.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.commit.documents.snapshot import Snapshot
from tests import windowed
from tests.e2e.feeds import Feed, churn
from tests.e2e.files import write_in_order
from tests.e2e.plans import (
    COMPARISON,
    DECIMAL,
    Builder,
    Json,
    aggregate,
    column,
    filtered,
    literal,
    projected,
    read,
    set_operation,
    union_all,
)
from tests.e2e.stored_state import snapshot
from tests.sampling import sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

COLUMNS = {"k": "i64", "s": "string", "d": "decimal<12,2>", "f": "fp64", "t": "date"}
LONG = "decimal<38,2>"
STRINGS = "functions_string"


def inner(b: Builder) -> Json:
    """Columns: 0 k, 1 s, 2 f, 3 the sum of d, 4 the number of rows, 5 the greatest k."""
    keys = [column(0), column(1), column(3)]
    measures = [
        b.measure("sum", (column(2), COLUMNS["d"]), output=LONG),
        b.measure("count", output="i64!"),
        b.measure("max", (column(0), "i64"), output="i64"),
    ]
    return aggregate(read("t", COLUMNS), keys, measures)


def by_text(b: Builder) -> Json:
    """Two aggregates with a filter, a product and a text in between."""
    many = b.call("gt:any_any", COMPARISON, column(4), literal("i64", 1), output="bool")
    like = b.call("starts_with:str_str", STRINGS, column(1), literal("string", "a"), output="bool")
    product = b.call("multiply:dec_dec", DECIMAL, column(3), column(3), output="decimal<38,4>")
    rows = projected(filtered(inner(b), many), 6, column(1), product, column(5), like)
    measures = [
        b.measure("sum", (column(1), "decimal<38,4>"), output="decimal<38,4>"),
        b.measure("min", (column(2), "i64"), output="i64"),
        b.measure("count", (column(2), "i64"), output="i64!", where=column(3)),
    ]
    return aggregate(rows, [column(0)], measures)


def by_float(b: Builder) -> Json:
    """Two aggregates; the keys of the upper one are floats and come in on two branches."""
    rows = inner(b)
    some = filtered(rows, b.call("is_null:any", COMPARISON, column(1), output="bool!"))
    both = union_all(
        projected(rows, 6, column(2), column(3)), projected(some, 6, column(2), column(3))
    )
    return aggregate(both, [column(0)], [b.measure("sum", (column(1), LONG), output=LONG)])


def three(b: Builder) -> Json:
    """Three aggregates, the last one of all rows."""
    middle = aggregate(
        inner(b), [column(0), column(5)], [b.measure("sum", (column(3), LONG), output=LONG)]
    )
    measures = [
        b.measure("max", (column(2), LONG), output=LONG),
        b.measure("sum", (column(0), "i64"), output="i64"),
    ]
    return aggregate(middle, [], measures)


def sets(b: Builder) -> Json:
    """Two aggregates, the upper one with grouping sets."""
    upper = aggregate(
        inner(b), [column(0), column(1)], [b.measure("sum", (column(3), LONG), output=LONG)]
    )
    upper["aggregate"]["groupings"] = [
        {"expressionReferences": list(keys)} for keys in ((0, 1), (1,), ())
    ]
    return upper


def difference(b: Builder) -> Json:
    """A set operation, whose two ports read aggregates with different filters."""
    rows = projected(inner(b), 6, column(1), column(5))
    many = b.call("gt:any_any", COMPARISON, column(1), literal("i64", 1), output="bool")
    return set_operation("minus_primary_all", rows, filtered(rows, many))


def join(b: Builder) -> Json:
    """A left join of an aggregate with its table by a nullable text: one port reads rows of a source."""
    same = b.call("equal:any_any", COMPARISON, column(1), column(7), output="bool")
    return {
        "join": {
            "left": inner(b),
            "right": read("t", COLUMNS),
            "expression": same,
            "type": "JOIN_TYPE_LEFT",
        }
    }


def table_and_aggregate(b: Builder) -> Json:
    """An aggregate of a table and of another aggregate."""
    rows = union_all(
        projected(read("t", COLUMNS), 5, column(0), column(1)),
        projected(inner(b), 6, column(0), column(1)),
    )
    return aggregate(rows, [column(1)], [b.measure("max", (column(0), "i64"), output="i64")])


PLANS: dict[str, tuple[Callable[[Builder], Json], int]] = {
    "by text": (by_text, 4),
    "by float": (by_float, 2),
    "three": (three, 2),
    "sets": (sets, 4),
    "difference": (difference, 2),
    "join": (join, 11),
    "table and aggregate": (table_and_aggregate, 2),
}
"""Name -> the plan, and the number of its columns."""


def plan(name: str) -> bytes:
    make, width = PLANS[name]
    builder = Builder()
    relation = make(builder)
    return builder.plan(relation, *(f"c{i}" for i in range(width))).encode()


def feed(rng: random.Random) -> Feed:
    from datetime import date
    from decimal import Decimal

    def row() -> tuple[Any, ...]:
        return (
            rng.choice((None, 1, 2, 3, -(2**63))),
            rng.choice((None, "", "a", "ab", "é" * 9)),
            rng.choice((None, Decimal("0.01"), Decimal("-9999.99"), Decimal(rng.randint(-99, 99)))),
            rng.choice((None, 0.0, -0.0, math.nan, 1.5)),
            rng.choice((None, date(1995, 3, 15))),
        )

    return Feed("t", COLUMNS, "op", churn(rng, row, 5, 8))


def described(version: Snapshot) -> tuple[Any, ...]:
    """Return the content of a version, without names of files and times.

    Changes that stay in memory count no written bytes.
    """
    operators = [
        {name: [astuple(run)[1:] for run in runs] for name, runs in state.trees.items()}
        for state in version.operators
    ]
    changes = [(file.rows, file.bytes, file.crc) for file in version.changes]
    apart = ("_us", "written_bytes")
    counters = {n: v for n, v in version.counters.items() if not n.endswith(apart)}
    return operators, changes, counters


def versions(
    spark: SparkSession,
    folder: Path,
    text: bytes,
    sources: dict[str, str],
    *,
    without_job: bool,
    **options: Any,
) -> tuple[list[Any], list[bool]]:
    """Run to the end.

    Returns:
        The rows of every version, and per job over changes whether Spark read them.
    """
    from substrait_agg.spark.query.spark_executor import OperatorChanges, SparkExecutor
    from tests.executors import executors

    read_by_spark: list[bool] = []

    class OnSpark:
        """Changes that only Spark can read."""

        def __init__(self, changes: OperatorChanges) -> None:
            self.prepared = changes.prepared

    class Noting(SparkExecutor):
        def run(self, job: Any, inputs: Sequence[Any], changes: Sequence[Any] = ()) -> Any:
            given: Sequence[Any] = changes if without_job else [OnSpark(c) for c in changes]
            result = super().run(job, inputs, given)
            read_by_spark.extend(
                c._spark is not None for c in changes if isinstance(c, OperatorChanges)
            )
            return result

    held: list[Any] = []
    with executors(Noting):
        run = sa.run(
            text, sources, checkpoint=folder, spark=spark, **options,
            progress=lambda _: held.append(described(snapshot(folder))),
        )  # fmt: skip
        run.wait()
    return held, read_by_spark


@pytest.mark.parametrize(
    ("name", "seed"),
    sample(
        [(name, seed) for name in PLANS for seed in range(20)],
        ("by text", 0), ("difference", 0), ("join", 0),
    ),
)  # fmt: skip
def test_changes_without_a_job_give_the_same_versions(
    spark: SparkSession, tmp_path: Path, name: str, seed: int
) -> None:
    sources, text = {"t": feed(random.Random(seed)).write(tmp_path)}, plan(name)
    wanted, on_spark = versions(spark, tmp_path / "spark", text, sources, without_job=False)
    found, without = versions(spark, tmp_path / "arrow", text, sources, without_job=True)
    assert found == wanted
    assert on_spark, "no changes reach another operator"
    assert all(on_spark)
    assert not any(without), "a job was run"


def test_event_times_of_upserts_come_along(spark: SparkSession, tmp_path: Path) -> None:
    """Idle groups are evicted by the event time of upserts; Spark reads changes that can be late."""
    windows = windowed.Windows()
    relation = windowed.aggregate(windows.read(), [windowed.column(0)], [windowed.COUNT])
    text = windows.plan(relation, "team", "n").encode()
    rng, tables = random.Random(2), []
    for number in range(6):
        rows = [
            ("ab"[rng.randrange(2)], 100 * number + rng.randrange(150), n)
            for n in range(number + 2)
        ]
        times = [None if n == 1 else second * 1_000_000 for _, second, n in rows]
        tables.append(
            pa.table(
                {
                    "team": [team for team, _, _ in rows],
                    "t": pa.array(times, pa.timestamp("us")),
                    "n": pa.array([n for _, _, n in rows], pa.int64()),
                }
            )
        )
    write_in_order(tmp_path / "in", tables)
    sources = {"goals": f"parquet:{tmp_path / 'in'}?key=n&batch-files=1"}
    options: dict[str, Any] = {"watermark": {"goals.t": "max-diff:10s"}, "ttl": "200s"}
    wanted, _ = versions(spark, tmp_path / "spark", text, sources, without_job=False, **options)
    found, on_spark = versions(
        spark, tmp_path / "arrow", text, sources, without_job=True, **options
    )
    assert found == wanted
    assert set(on_spark) == {True, False}


def failing(b: Builder) -> Json:
    """A quotient between two aggregates, which fails if a number of rows is one."""
    less = b.call(
        "subtract:i64_i64", "functions_arithmetic", column(4), literal("i64", 1), output="i64"
    )
    ratio = b.call("divide:i64_i64", "functions_arithmetic", column(0), less, output="i64")
    rows = projected(inner(b), 6, ratio)
    return aggregate(rows, [], [b.measure("sum", (column(0), "i64"), output="i64")])


def test_a_value_that_cannot_be_computed_is_reported_by_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    builder = Builder()
    text = builder.plan(failing(builder), "c0").encode()
    row = (1, "a", None, None, None)
    source = Feed("t", COLUMNS, "one", [[(row, 1)]]).write(tmp_path)
    with pytest.raises(sa.SubstraitAggError) as failed:
        sa.run(text, {"t": source}, checkpoint=tmp_path / "c", spark=spark).wait()
    assert failed.value.code == "BATCH_FAILED"
    assert "DIVIDE_BY_ZERO" in failed.value.message
