"""Tables with columns of variants."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import VariantVal

import substrait_agg as sa

QUERY = "SELECT id, v:a::int AS a, v, to_json(l[0]) AS j FROM t"
VERSIONS = (
    """(1, '{"a": 1, "b": [1.5, "x"]}', 1), (2, '[1, 2]', 1), (3, NULL, 1)""",
    """(2, '[1, 2]', -1), (4, '{"a": "7"}', 1)""",
)


@pytest.fixture(scope="module")
def source(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give a source of Parquet files that Spark wrote, one per version."""
    folder = tmp_path_factory.mktemp("variants")
    (folder / "in").mkdir()
    for version, rows in enumerate(VERSIONS):
        frame = spark.sql(
            "SELECT col1 AS id, parse_json(col2) AS v, array(parse_json(col2)) AS l, "
            f"CAST(col3 AS BIGINT) AS weight FROM VALUES {rows}"
        )
        frame.coalesce(1).write.parquet(str(folder / f"{version}"))
        (file,) = (folder / f"{version}").glob("*.parquet")
        target = folder / "in" / f"{version}.parquet"
        shutil.copy(file, target)
        os.utime(target, (version, version))
    return f"parquet:{folder / 'in'}?weight=weight&batch-files=1"


@pytest.mark.parametrize("declared", [False, True])
def test_a_file_with_variants_is_a_table(
    declared: bool, source: str, spark: SparkSession, tmp_path: Path
) -> None:
    table = "CREATE TABLE t (id INT, v VARIANT, l ARRAY<VARIANT>);\n"
    plan = (
        sa.sql(table + QUERY, spark=spark)
        if declared
        else sa.sql(QUERY, {"t": source}, spark=spark)
    )
    sa.run({"v": plan}, {"t": source}, checkpoint=tmp_path, spark=spark, keep_versions=5).wait()
    view = sa.open_view(tmp_path, "v")
    first, second = (
        sorted(view.to_arrow(version).to_pylist(), key=lambda row: row["id"]) for version in (1, 2)
    )
    assert [row["j"] for row in first] == ['{"a":1,"b":[1.5,"x"]}', "[1,2]", None]
    assert [(row["id"], row["a"]) for row in second] == [(1, 1), (3, None), (4, 7)]
    assert second[1]["v"] is None
    assert VariantVal(**second[2]["v"]).toPython() == {"a": "7"}
