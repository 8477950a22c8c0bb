"""Plans without column types: they are taken from the source, at the start and when a run is continued."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from substrait_agg.errors import InputRefused, PlanRefused
from tests.e2e.files import write_in_order
from tests.e2e.rows import bag
from tests.e2e.running import maintain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HAVING = (
    Path(__file__).parents[1] / "data" / "producers" / "datafusion_40_having.bin"
).read_bytes()
"""DataFusion 40: SELECT k, sum(i * i) AS s FROM t GROUP BY k HAVING sum(i) > 0, of columns k, i, x."""


def rows(k: list[str], i: list[int | None], type_: Any = None) -> pa.Table:
    made: dict[str, Any] = {"k": k, "i": pa.array(i, type_ or pa.int32())}
    return pa.table({**made, "x": [0.5] * len(k)})


def test_a_run_takes_them_from_files_and_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """A later file with narrower integers changes nothing: the oldest file defines the columns."""
    source = {"t": f"parquet:{tmp_path / 'in'}?batch-files=1"}
    (tmp_path / "in").mkdir()
    first = tmp_path / "in" / "m.parquet"
    pq.write_table(rows(["a", "b", "a"], [2, -1, 3]), first)
    checkpoint = tmp_path / "checkpoint"
    maintain(spark, HAVING, source, checkpoint)
    assert bag(sa.open_view(checkpoint).to_arrow()) == {("a", 13): 1}
    pq.write_table(rows(["b", "a"], [4, None], pa.int16()), tmp_path / "in" / "b.parquet")
    maintain(spark, HAVING, source, checkpoint)
    assert bag(sa.open_view(checkpoint).to_arrow()) == {("a", 13): 1, ("b", 17): 1}


def test_a_run_takes_them_from_a_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([("a", 2, 0.5), ("b", 0, 0.5)], "k string, i int, x double")
    for _ in range(2):
        plan = sa.load(HAVING)
        maintain(spark, plan, {"t": frame}, tmp_path / "checkpoint")
        checked = plan.check_to_run()
        assert checked.bound is not None
        assert "OUTPUT_TYPE_MISSING" in {p.code for p in checked.problems}
        assert bag(sa.open_view(tmp_path / "checkpoint").to_arrow()) == {("a", 4): 1}


def test_a_csv_source_has_none(tmp_path: Path) -> None:
    """A CSV source has no column types, and is refused before Spark starts."""
    (tmp_path / "t.csv").write_text("k,i,x\na,2,0.5\n")
    with pytest.raises(InputRefused) as refused:
        sa.run(HAVING, {"t": f"csv:{tmp_path / 't.csv'}"}, checkpoint=tmp_path / "checkpoint")
    assert refused.value.code == "SOURCE_TYPES_UNKNOWN"
    assert not (tmp_path / "checkpoint").exists()


def test_types_that_do_not_fit_the_plan_are_told(spark: SparkSession, tmp_path: Path) -> None:
    """Errors that depend on the types are reported as for any plan, before anything is written."""
    table = pa.table({"k": ["a"], "i": [[1, 2]], "x": [0.5]})
    write_in_order(tmp_path, [table])
    with pytest.raises(PlanRefused) as refused:
        sa.run(
            HAVING, {"t": f"parquet:{tmp_path}"}, checkpoint=tmp_path / "checkpoint", spark=spark
        )
    assert "FUNCTION_ARGUMENTS" in {p.code for p in refused.value.problems}
    assert not (tmp_path / "checkpoint").exists()


def test_without_a_usable_source_the_cause_is_told(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    cases = {
        "SOURCE_MISSING": {"other": "parquet:nowhere"},
        "SOURCE_NOT_FOUND": {"t": f"parquet:{tmp_path / 'nowhere'}"},
        "SOURCE_EMPTY": {"t": f"parquet:{tmp_path / 'empty'}"},
    }
    for code, sources in cases.items():
        with pytest.raises(InputRefused) as refused:
            sa.run(HAVING, sources, checkpoint=tmp_path / "checkpoint", spark=spark)
        assert refused.value.code == code
        assert "column types" in refused.value.message


def test_strict_mode_takes_none(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([("a", 2, 0.5)], "k string, i int, x double")
    with pytest.raises(PlanRefused) as refused:
        sa.run(HAVING, {"t": frame}, checkpoint=tmp_path / "c", spark=spark, mode="strict")
    assert "SCHEMA_TYPES_MISSING" in {p.code for p in refused.value.problems}


def test_other_errors_come_first(tmp_path: Path) -> None:
    """A plan with another error is refused without a look at the sources."""
    plan = json.loads(
        '{"version": {"minorNumber": 51}, "relations": [{"root": {"input": {"read": {"baseSchema": {"names": ["a"]},'
        ' "namedTable": {"names": ["t"]}, "wrong": 1}}, "names": ["a"]}}]}'
    )
    with pytest.raises(PlanRefused) as refused:
        sa.run(json.dumps(plan), {"t": "parquet:nowhere"}, checkpoint=tmp_path / "c")
    codes = {p.code for p in refused.value.problems if p.level == "error"}
    assert codes == {"UNKNOWN_FIELD", "SCHEMA_TYPES_MISSING"}
