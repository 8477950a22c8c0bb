"""Pipelines with functions in Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

import substrait_agg as sa
from substrait_agg.errors import SqlRefused, SubstraitAggError
from substrait_agg.scripts.pipeline import (
    PlanSet,
    files_in,
    python_files,
    scripts_of,
    without_stream,
)
from substrait_agg.scripts.script import statements
from substrait_agg.spark.pipelines.registry import current_session, run_files
from substrait_agg_cli.main import main
from tests.views import warehouse

SALES = pa.schema([("region", pa.string()), ("amount", pa.int64())])
HEAD = "from pyspark import pipelines as dp\nfrom pyspark.sql import SparkSession, functions as F\n"


def planned(spark: SparkSession, folder: Path, **files: str) -> PlanSet:
    for name, text in files.items():
        kind = "sql" if text.startswith("CREATE") else "py"
        (folder / f"{name}.{kind}").write_text(text if kind == "sql" else HEAD + text)
    return sa.sql_views(folder, {"sales": SALES}, spark=spark)


def test_functions_and_statements_read_each_other(spark: SparkSession, tmp_path: Path) -> None:
    plans = planned(
        spark, tmp_path,
        a="@dp.materialized_view\ndef best():\n    return spark.table('totals').orderBy('total').limit(1)\n",
        b="CREATE MATERIALIZED VIEW totals AS SELECT region, sum(amount) AS total FROM STREAM big GROUP BY region",
        c="@dp.table(name='big')\ndef f():\n    return SparkSession.active().readStream.table('small').where('amount > 10')\n"
        "@dp.temporary_view\ndef small():\n    return SparkSession.builder.getOrCreate().sql('SELECT * FROM sales')\n",
    )  # fmt: skip
    assert [*plans] == ["small", "big", "totals", "best"]
    assert plans.temporary == {"small"}
    assert plans["best"].bind().names == ("region", "total")
    assert plans.places["best"].endswith("a.py:3")


def test_a_table_property_is_the_refresh_policy(spark: SparkSession, tmp_path: Path) -> None:
    text = (
        "@dp.materialized_view(table_properties={'substrait_agg.refresh_policy': 'full'})\n"
        "def v():\n    return spark.table('sales').groupBy('region').count()\n"
    )
    assert planned(spark, tmp_path, a=text).refresh == {"v": "full"}


VIEW = "@dp.materialized_view\ndef v():\n    "


@pytest.mark.parametrize(
    ("text", "code", "line", "words"),
    [
        (VIEW + "return spark.table('sales').count()", "SQL_NOT_MAINTAINED", 3, "computes rows"),
        (VIEW + "spark.range(9).repartition(2).collect()\n    return spark.table('sales')", "SQL_NOT_MAINTAINED", 3, "computes rows"),
        (VIEW + "spark.table('sales').write.saveAsTable('x')", "SQL_NOT_MAINTAINED", 3, "computes rows"),
        (VIEW + "spark.readStream.format('rate').load().writeStream.format('noop').start()", "SQL_NOT_MAINTAINED", 3, "computes rows"),
        (VIEW + "return 3", "SQL_NOT_MAINTAINED", 3, "no DataFrame"),
        (VIEW + "return spark.table('nothing')", "SQL_TABLE_UNKNOWN", 3, "nothing"),
        (VIEW + "return spark.table('v')", "SQL_VIEW_CYCLE", 3, "v reads v"),
        (VIEW + "return spark.table('sales').select('no')", "PIPELINE_PYTHON_FAILED", 5, "no"),
        (VIEW + "return spark.table('sales').select(F.rand())", "SQL_NOT_DETERMINISTIC", 3, "rand"),
        (VIEW + "spark.conf.set('spark.sql.ansi.enabled', 'false')\n    return spark.table('sales')", "SQL_NOT_MAINTAINED", 3, "ansi"),
        ("@dp.table(schema='region INT')\ndef v():\n    return spark.table('sales').select('region')", "SQL_NOT_MAINTAINED", 3, "declared"),
        ("@dp.table(spark_conf={'spark.sql.ansi.enabled': 'false'})\ndef v():\n    return spark.table('sales')", "SQL_NOT_MAINTAINED", 3, "ansi"),
        ("dp.create_streaming_table('t')\n@dp.append_flow(target='t')\ndef f():\n    return spark.table('sales')", "SQL_NOT_MAINTAINED", 4, "append flow"),
        ("\ndp.create_sink('s', 'parquet', {})", "SQL_NOT_MAINTAINED", 4, "sink"),
        ("dp.create_streaming_table('t')", "SQL_NOT_MAINTAINED", 3, "no query"),
        ("@dp.expect('a', 'b > 0')\ndef f(): pass", "PIPELINE_PYTHON_FAILED", 3, "expect"),
        ("\nimport no_such_module", "PIPELINE_PYTHON_FAILED", 4, "no_such_module"),
        ("\ndef f(:", "PIPELINE_PYTHON_FAILED", 4, "SyntaxError"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_with_its_line(
    spark: SparkSession, tmp_path: Path, text: str, code: str, line: int, words: str
) -> None:
    with pytest.raises(SqlRefused, match=words) as refused:
        planned(spark, tmp_path, a=text)
    assert (refused.value.code, refused.value.line) == (code, line)
    assert refused.value.path == f"{tmp_path}/a.py:{line}"
    assert refused.value.help
    assert ("expectations" in refused.value.help) == ("dp.expect" in text)
    spark.conf.get("spark.sql.ansi.enabled")


def test_a_view_of_a_name_in_sql_and_in_python(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SubstraitAggError) as refused:
        planned(spark, tmp_path, a="CREATE VIEW v AS SELECT 1", b=VIEW + "return spark.table('sales')")  # fmt: skip
    assert refused.value.code == "SQL_VIEW_TWICE"


def _read_all(_reader: DataStreamReader, name: str) -> DataFrame:
    return SparkSession.active().table(name)


def computed(spark: SparkSession, tables: Mapping[str, pa.Table]) -> dict[str, list[str]]:
    """The rows of each stored view of the example, as Spark computes them."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    for name, table in tables.items():
        session.createDataFrame(table).createOrReplaceTempView(name)
    files = files_in(warehouse.PROJECT / "transformations")
    flows = {flow.name: flow.func for flow in run_files(python_files(files), Path(), session).flows}
    queries = {
        ".".join(one.name): without_stream(one).query
        for file, text in scripts_of(files, warehouse.PROJECT).items()
        for one in statements(text, file)
    }
    waiting = [*flows, *queries]
    for _ in range(len(waiting) ** 2):
        if not waiting:
            break
        name = waiting.pop(0)
        try:
            with current_session(session), patch.object(DataStreamReader, "table", _read_all):
                frame = flows[name]() if name in flows else session.sql(queries[name])
        except AnalysisException:
            waiting.append(name)
            continue
        frame.createOrReplaceTempView(name)
    return {name: rows_of(session.table(name).collect()) for name in warehouse.VIEWS}


def rows_of(rows: Iterable[Any]) -> list[str]:
    return sorted(repr(tuple(row)) for row in rows)


def test_one_command_keeps_a_project_current(spark: SparkSession, tmp_path: Path) -> None:
    batches = warehouse.batches(seed=4)
    command = ["run", str(warehouse.PROJECT), "--checkpoint", str(tmp_path / "ckpt"), "--output", "none"]  # fmt: skip
    for name, source in warehouse.sources(tmp_path).items():
        command += ["--source", f"{name}={source}"]
    for number, batch in enumerate(batches, 1):
        warehouse.write(tmp_path, number, batch)
        if number != 2:
            result = CliRunner().invoke(main, command)
            assert result.exit_code == 0, result.output
    for version in (1, len(batches)):
        want = computed(spark, warehouse.whole(batches[:version]))
        for name in warehouse.VIEWS:
            view = sa.open_view(tmp_path / "ckpt", name)
            rows = [row.values() for row in view.to_arrow(version).to_pylist()]
            assert rows_of(rows) == want[name], (name, version)
            assert rows, name
