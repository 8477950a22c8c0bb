"""Tables that AUTO CDC flows fill, in SQL and in Python."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import substrait_agg as sa
from substrait_agg.errors import SqlRefused
from substrait_agg.scripts.pipeline import PlanSet, is_pipeline
from tests.sampling import seeds

BEGUN = 1_700_000_000
EVENTS = pa.schema(
    [
        ("id", pa.int64()), ("region", pa.string()), ("op", pa.string()), ("seq", pa.int64()), ("name", pa.string()),
        ("tags", pa.list_(pa.string())), ("price", pa.decimal128(8, 2)), ("marks", pa.map_(pa.string(), pa.int32())),
    ]
)  # fmt: skip
HEAD = "from pyspark import pipelines as dp\nfrom pyspark.sql import functions as F\n"
TABLE = "CREATE STREAMING TABLE t;\n"
FLOW = "CREATE FLOW f AS AUTO CDC INTO t FROM STREAM(events) KEYS (id, region) "
PYTHON = HEAD + "dp.create_streaming_table('t')\n"


def planned(spark: SparkSession, folder: Path, *texts: str) -> PlanSet:
    for number, text in enumerate(texts):
        (folder / f"{number}.{'py' if text.startswith(HEAD) else 'sql'}").write_text(text)
    return sa.sql_views(folder, {"events": EVENTS}, spark=spark)


def event(r: Random, seq: int) -> dict[str, Any]:
    return {
        "id": r.randrange(8), "region": r.choice(["n", "s", None]), "op": r.choice(["u", "u", "d", None]),
        "seq": r.choice([seq, seq - 130]) if r.random() < 0.9 else None, "name": r.choice(["a", None, "b"]),
        "tags": r.choice([["x", None], [], None]), "price": None, "marks": r.choice([[("k", seq)], None]),
    }  # fmt: skip


def expected(events: list[dict[str, Any]], columns: tuple[str, ...], *keys: str) -> list[str]:
    """The newest event of each key, unless it is a deletion: the model."""
    newest: dict[Any, dict[str, Any]] = {}
    for one in events:
        key = tuple(one[k] for k in keys)
        if one["seq"] is not None and (key not in newest or one["seq"] > newest[key]["seq"]):
            newest[key] = one
    kept = (one for one in newest.values() if one["op"] != "d")
    return sorted(repr([one[c] for c in columns]) for one in kept)


ALL = ("id", "region", "name", "tags", "price", "marks")


@pytest.mark.parametrize("seed", seeds(2, 4))
def test_flows_keep_the_newest_events_at_every_version(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    scripts = (
        TABLE + FLOW + "APPLY AS DELETE WHEN op = 'd' SEQUENCE BY seq COLUMNS * EXCEPT (op, seq) STORED AS SCD TYPE 1",
        ("CREATE OR REFRESH STREAMING TABLE named COMMENT 'x' FLOW AUTO CDC FROM STREAM recent KEYS (id)\n"
        "APPLY AS DELETE WHEN op = 'd' SEQUENCE BY struct(seq, region) COLUMNS (name, ID);\n"
        "CREATE VIEW recent AS SELECT * FROM STREAM(events) WHERE region = 's';\n"
        "CREATE MATERIALIZED VIEW counts AS SELECT name, count(*) AS n FROM p GROUP BY name"),
        HEAD + "dp.create_streaming_table('p', schema='id BIGINT, region STRING, op STRING, name STRING')\n"
        "dp.create_auto_cdc_flow(target='p', source='events', keys=['id', F.col('region')], sequence_by='seq',\n"
        "    apply_as_deletes=\"op = 'd'\", column_list=['id', 'region', 'op', 'name'], stored_as_scd_type=1)\n",
    )  # fmt: skip
    (tmp_path / "views").mkdir()
    plans = planned(spark, tmp_path / "views", *scripts)
    assert {*plans} == {"t", "named", "recent", "p", "counts"}
    r, events, wanted = Random(seed), [], []
    (tmp_path / "events").mkdir()
    for number in range(5):
        batch = [event(r, 100 * number + i) for i in range(30)]
        # A key has one event for each value of seq.
        batch = [*{(e["id"], e["region"], e["seq"]): e for e in batch}.values()]
        events += batch
        file = tmp_path / "events" / f"{number}.parquet"
        pq.write_table(pa.Table.from_pylist(batch, EVENTS), file)
        # Files are read in the order of their times.
        os.utime(file, (BEGUN + number, BEGUN + number))
        south = [e for e in events if e["region"] == "s"]
        wanted.append({
            "t": expected(events, ALL, "id", "region"),
            "p": expected(events, ("id", "region", "op", "name"), "id", "region"),
            "named": expected(south, ("name", "id"), "id"),
        })  # fmt: skip
    given = {"events": f"parquet:{tmp_path}/events?batch-files=1"}
    sa.run(plans, given, checkpoint=tmp_path / "ckpt", outputs=["none"], spark=spark).wait()
    for version, want in enumerate(wanted, 1):
        for name, rows in want.items():
            found = sa.open_view(tmp_path / "ckpt", name).to_arrow(version).to_pylist()
            assert sorted(repr([*row.values()]) for row in found) == rows, (name, version)
    counts = sa.open_view(tmp_path / "ckpt", "counts").to_arrow().to_pylist()
    assert sum(row["n"] for row in counts) == len(wanted[-1]["p"])


def test_of_equal_events_a_deletion_counts(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "views").mkdir()
    plans = planned(spark, tmp_path / "views", TABLE + FLOW + "APPLY AS DELETE WHEN op = 'd' SEQUENCE BY seq COLUMNS (id, region, name)")  # fmt: skip
    rows = [
        {"id": 1, "region": "n", "op": "d", "seq": 4, "name": "a"},
        {"id": 1, "region": "n", "op": "u", "seq": 4, "name": "b"},
        {"id": 2, "region": "n", "op": "u", "seq": 4, "name": "b"},
        {"id": 2, "region": "n", "op": "u", "seq": 4, "name": "a"},
        {"id": 3, "region": "n", "op": "u", "seq": None, "name": "a"},
    ]
    (tmp_path / "events").mkdir()
    pq.write_table(pa.Table.from_pylist(rows, EVENTS), tmp_path / "events" / "0.parquet")
    given = {"events": f"parquet:{tmp_path}/events"}
    sa.run(plans, given, checkpoint=tmp_path / "ckpt", outputs=["none"], spark=spark).wait()
    view = sa.open_view(tmp_path / "ckpt", "t")
    assert view.to_arrow().to_pylist() == [{"id": 2, "region": "n", "name": "b"}]


def test_the_table_of_a_flow_declares_columns_and_a_policy(
    spark: SparkSession, tmp_path: Path
) -> None:
    properties = "TBLPROPERTIES ('substrait_agg.refresh_policy' = 'full')"
    plans = planned(
        spark, tmp_path,
        f"CREATE STREAMING TABLE t (id BIGINT, Price DECIMAL(8, 2)) {properties};\n"
        "CREATE FLOW f AS AUTO CDC INTO T FROM STREAM(events) KEYS (id) SEQUENCE BY seq COLUMNS (id, price);"
        f"CREATE OR REFRESH STREAMING TABLE u (id BIGINT) {properties} REFRESH POLICY FULL FLOW AUTO CDC FROM STREAM events\n"
        "KEYS (id) SEQUENCE BY seq COLUMNS (id)",
    )  # fmt: skip
    assert plans.refresh == {"t": "full", "u": "full"}
    assert plans["t"].bind().names == ("id", "price")


SECOND = FLOW.replace("FLOW f", "FLOW g") + "SEQUENCE BY seq"


@pytest.mark.parametrize(
    ("script", "code", "place", "words"),
    [
        (FLOW + "SEQUENCE BY seq STORED AS SCD TYPE 2", "SQL_NOT_MAINTAINED", "2:98", "former rows"),
        (FLOW + "IGNORE NULL UPDATES SEQUENCE BY seq", "SQL_NOT_MAINTAINED", "2:72", "NULL UPDATES"),
        (FLOW + "APPLY AS TRUNCATE WHEN op = 't' SEQUENCE BY seq", "SQL_NOT_MAINTAINED", "2:72", "TRUNCATE"),
        (FLOW + "SEQUENCE BY seq;\n" + SECOND, "SQL_NOT_MAINTAINED", "3:1", "second flow"),
        ("CREATE STREAMING TABLE u", "SQL_NOT_MAINTAINED", "1:1", "no query"),
        (FLOW.replace("INTO t", "INTO u") + "SEQUENCE BY seq", "SQL_NOT_MAINTAINED", "1:1", "no query"),
        (FLOW + "SEQUENCE BY seq COLUMNS (id, name)", "SQL_NOT_MAINTAINED", "2:1", "key region"),
        (FLOW + "SEQUENCE BY no", "SQL_COLUMN_UNKNOWN", "2:84", "no"),
        (FLOW + "APPLY AS DELETE WHEN no SEQUENCE BY seq", "SQL_COLUMN_UNKNOWN", "2:93", "no"),
        (FLOW + "APPLY AS DELETE WHEN rand() < 1 SEQUENCE BY seq", "SQL_NOT_DETERMINISTIC", "2:1", "Non-deterministic"),
        (FLOW + "SEQUENCE BY marks", "SQL_TYPES", "2:1", "MAP"),
        (FLOW, "SQL_SYNTAX", "2:", "SEQUENCE BY"),
        (FLOW.replace("events", "nothing") + "SEQUENCE BY seq", "SQL_TABLE_UNKNOWN", "2:39", "nothing"),
        (FLOW.replace("events", "t") + "SEQUENCE BY seq", "SQL_VIEW_CYCLE", "2:1", "t reads t"),
    ],
)  # fmt: skip
def test_a_flow_in_sql_is_refused_with_its_place(
    spark: SparkSession, tmp_path: Path, script: str, code: str, place: str, words: str
) -> None:
    with pytest.raises(SqlRefused, match=words) as refused:
        planned(spark, tmp_path, TABLE + script)
    assert refused.value.code == code
    assert refused.value.path.startswith(f"{tmp_path}/0.sql:{place}")
    assert refused.value.help


def test_declared_columns_are_those_of_the_flow(spark: SparkSession, tmp_path: Path) -> None:
    table = "CREATE STREAMING TABLE t (id INT, region STRING);\n"
    with pytest.raises(SqlRefused, match="declared as id int32, region string") as refused:
        planned(spark, tmp_path, table + FLOW + "SEQUENCE BY seq COLUMNS (id, region)")
    assert refused.value.path == f"{tmp_path}/0.sql:1:1"


CALL = "dp.create_auto_cdc_flow('t', 'events', ['id'], 'seq'"


@pytest.mark.parametrize(
    ("text", "code", "line", "words"),
    [
        (CALL + ", stored_as_scd_type=2)", "SQL_NOT_MAINTAINED", 4, "former rows"),
        (CALL + ")\n" + CALL + ", name='g')", "SQL_NOT_MAINTAINED", 5, "second flow"),
        (CALL.replace("'t'", "'u'") + ")", "SQL_NOT_MAINTAINED", 3, "no query"),
        (CALL.replace("seq", "no") + ")", "SQL_COLUMN_UNKNOWN", 4, "no"),
        (CALL.replace("seq", "1 +") + ")", "SQL_SYNTAX", 4, "Syntax error"),
        (CALL.replace("events", "nothing") + ")", "SQL_TABLE_UNKNOWN", 4, "nothing"),
        (CALL + ", except_column_list=['id'])", "SQL_NOT_MAINTAINED", 4, "key id"),
        (CALL + ", spark_conf={'spark.sql.ansi.enabled': 'false'})", "SQL_NOT_MAINTAINED", 4, "ansi"),
    ],
)  # fmt: skip
def test_a_flow_in_python_is_refused_with_its_line(
    spark: SparkSession, tmp_path: Path, text: str, code: str, line: int, words: str
) -> None:
    with pytest.raises(SqlRefused, match=words) as refused:
        planned(spark, tmp_path, PYTHON + text)
    assert refused.value.code == code
    assert refused.value.path == f"{tmp_path}/0.py:{line}"
    assert refused.value.help


def test_tables_and_flows_of_both_languages_meet(spark: SparkSession, tmp_path: Path) -> None:
    plans = planned(spark, tmp_path, "CREATE STREAMING TABLE t", HEAD + CALL + ")\ndp.create_streaming_table('u')", FLOW.replace("INTO t", "INTO u") + "SEQUENCE BY seq")  # fmt: skip
    assert {name: plan.bind().names for name, plan in plans.items()} == dict.fromkeys(
        ("t", "u"), tuple(EVENTS.names)
    )


def test_a_flow_makes_a_script_a_pipeline() -> None:
    assert is_pipeline(TABLE)
    assert is_pipeline(FLOW)
