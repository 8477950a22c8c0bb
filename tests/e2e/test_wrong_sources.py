"""Sources that contradict the plan or the SPEC: an error code and no commit, and no file if the check is before the run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import substrait_agg as sa
from tests.e2e.files import write_in_order
from tests.e2e.plans import Builder, aggregate, column, read
from tests.e2e.rows import view_rows
from tests.e2e.running import maintain
from tests.e2e.test_sources import rows, sums

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

GOOD = rows(("a", 1), op=pa.array(["insert"]))
TEXTS = pa.table({"k": ["a"], "x": ["1"], "op": ["insert"]})
UNSIGNED = pa.table({"k": ["a"], "x": pa.array([1], pa.uint64()), "op": ["insert"]})
NARROW = pa.table({"k": ["a"], "op": ["insert"]})


@pytest.mark.parametrize(
    ("table", "change", "code"),
    [
        (TEXTS, "op=op", "COLUMN_TYPE_MISMATCH"),
        (UNSIGNED, "op=op", "COLUMN_TYPE_MISMATCH"),
        (NARROW, "op=op", "COLUMN_MISSING"),
        (GOOD, "op=operation", "COLUMN_MISSING"),
        (GOOD, "op=x", "COLUMN_TYPE_MISMATCH"),
        (GOOD, "weight=op", "COLUMN_TYPE_MISMATCH"),
        (GOOD, "weight=w", "COLUMN_MISSING"),
    ],
)
def test_what_shows_before_the_run_writes_nothing(
    spark: SparkSession, tmp_path: Path, table: pa.Table, change: str, code: str
) -> None:
    """Columns that are missing or of a type that does not fit: refused, and not even the checkpoint's folder is made."""
    write_in_order(tmp_path / "in", [table])
    with pytest.raises(sa.InputRefused) as caught:
        maintain(
            spark, sums("t"), {"t": f"parquet:{tmp_path / 'in'}?{change}"}, tmp_path / "checkpoint"
        )
    assert caught.value.code == code
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize("how", ["op=op", "op=op&bad-rows=quarantine", "key=k"])
def test_unsigned_integers_in_a_later_file_stop_the_batch(
    spark: SparkSession, tmp_path: Path, how: str
) -> None:
    """Spark would read 2^63 and more as negative integers, also where the driver does not read."""
    large = pa.table({"k": ["b"], "x": pa.array([1 << 63], pa.uint64()), "op": ["insert"]})
    write_in_order(tmp_path / "in", [GOOD, large])
    source, checkpoint = f"parquet:{tmp_path / 'in'}?{how}&batch-files=1", tmp_path / "checkpoint"
    with pytest.raises(sa.InputRefused) as caught:
        maintain(spark, sums("t"), {"t": source}, checkpoint)
    assert caught.value.code == "COLUMN_TYPE_MISMATCH"
    assert sa.open_view(checkpoint).version == 1


def test_calls_that_cannot_work_write_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """A source that is not there, none, one too many; a bad SPEC; a plan that is refused; partitions that are no power of two."""
    write_in_order(tmp_path / "in", [GOOD])
    good, checkpoint = f"parquet:{tmp_path / 'in'}?op=op", tmp_path / "checkpoint"
    builder = Builder()
    refused = builder.plan(
        aggregate(
            read("t", {"k": "string", "x": "i64"}),
            [column(0)],
            [builder.measure("entropy", (column(1), "i64"), output="i64")],
        ),
        "k",
        "m",
    )
    calls = [
        (sums("t"), {"t": f"parquet:{tmp_path / 'nowhere'}"}, {}, "SOURCE_NOT_FOUND"),
        (sums("t"), {}, {}, "SOURCE_MISSING"),
        (sums("t"), {"t": good, "u": good}, {}, "SOURCE_UNKNOWN"),
        (sums("t"), {"t": good + "&weight=x"}, {}, "SPEC_CHANGE_CONFLICT"),
        (sums("t"), {"t": good}, {"partitions": 3}, "PARTITIONS_INVALID"),
        (refused, {"t": good}, {}, "AGGREGATE_FUNCTION_NOT_SUPPORTED"),
    ]
    for plan, sources, options, code in calls:
        with pytest.raises(sa.SubstraitAggError) as caught:
            maintain(spark, plan, sources, checkpoint, **options)
        assert caught.value.code == code
        assert not checkpoint.exists()


REQUIRED = {"k": "string!", "x": "i64"}


@pytest.mark.parametrize(
    ("table", "change", "code"),
    [
        (rows((None, 1), op=pa.array(["insert"])), "op=op", "NULL_IN_REQUIRED_COLUMN"),
        (rows(("a", 1), op=pa.array(["upsert"])), "op=op", "OPERATION_UNKNOWN"),
        (rows(("a", 1), op=pa.array([None], pa.string())), "op=op", "OPERATION_UNKNOWN"),
        (rows(("a", 1), op=pa.array(["Insert"])), "op=op", "OPERATION_UNKNOWN"),
        (rows(("a", 1), op=pa.array([None], pa.int64())), "weight=op", "WEIGHT_IS_NULL"),
        (rows(*[("a", 1)] * 2, op=pa.array([2**63 - 1] * 2)), "weight=op", "TOTAL_OVERFLOW"),
        (TEXTS, "op=op", "COLUMN_TYPE_MISMATCH"),
    ],
)
def test_what_shows_in_a_row_commits_nothing_of_its_batch(
    spark: SparkSession, tmp_path: Path, table: pa.Table, change: str, code: str
) -> None:
    """The batch before stays the newest version; the one after is not reached, in no second attempt either."""
    kind = pa.int64() if change.startswith("weight") else pa.string()
    good = rows(("a", 5), op=pa.array([1 if kind == pa.int64() else "insert"], kind))
    write_in_order(tmp_path / "in", [good, table, good])
    builder = Builder()
    # The plan's word that k is never null makes this a count of rows, which must not hide that k is null.
    measures = [builder.measure("count", (column(0), "string!"), output="i64!")]
    plan = builder.plan(aggregate(read("t", REQUIRED), [column(1)], measures), "x", "n")
    source, checkpoint = (
        f"parquet:{tmp_path / 'in'}?{change}&batch-files=1",
        tmp_path / "checkpoint",
    )
    for _ in range(2):
        with pytest.raises((sa.RunFailed, sa.InputRefused)) as caught:
            maintain(spark, plan, {"t": source}, checkpoint)
        assert caught.value.code == code
        assert "\n" not in caught.value.message
        assert sa.open_view(checkpoint).versions() == [0, 1]
        assert view_rows(checkpoint) == Counter([(5, 1)])


def test_a_checkpoint_of_something_else_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    """Another plan, other weights, a folder of other things: refused, and nothing in the folder changes."""
    write_in_order(tmp_path / "in", [GOOD])
    checkpoint = tmp_path / "checkpoint"
    source = f"parquet:{tmp_path / 'in'}"
    maintain(spark, sums("t"), {"t": f"{source}?op=op"}, checkpoint)
    before = sorted(str(path) for path in checkpoint.rglob("*"))
    calls = [
        (sums("t", keys=False), f"{source}?op=op", checkpoint, "PLAN_DIFFERS"),
        (sums("t"), source, checkpoint, "WEIGHTS_DIFFER"),
        (sums("t"), f"{source}?op=op", tmp_path / "in", "NOT_A_CHECKPOINT"),
    ]
    for plan, spec, folder, code in calls:
        with pytest.raises(sa.StateRefused) as caught:
            maintain(spark, plan, {"t": spec}, folder)
        assert caught.value.code == code
    assert sorted(str(path) for path in checkpoint.rglob("*")) == before
    assert len(list((tmp_path / "in").iterdir())) == 1
