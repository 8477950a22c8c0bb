"""Sessions: settings of our own, the caller's left alone, and a clear word where Java is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from substrait_agg.errors import UsageError
from substrait_agg.spark import session
from substrait_agg.spark.session import SESSION_CONF, get_session, isolated, require_java

pytestmark = pytest.mark.spark


def test_a_session_given_by_the_caller_keeps_its_settings(spark: SparkSession) -> None:
    """Our settings hold in a session beside it, on the same Spark."""
    own = spark.newSession()
    own.conf.set("spark.sql.ansi.enabled", "false")
    ours = get_session(spark=own, conf={"spark.sql.shuffle.partitions": "3"})
    assert {k: ours.conf.get(k) for k in SESSION_CONF} == SESSION_CONF
    assert ours.conf.get("spark.sql.shuffle.partitions") == "3"
    assert own.conf.get("spark.sql.ansi.enabled") == "false"
    assert ours.sparkContext is own.sparkContext


def test_an_isolated_session_sees_the_tables_of_the_catalogue(spark: SparkSession) -> None:
    """Tables are shared, temporary views are not."""
    spark.sql("create or replace temporary view agg_view as select 1")
    spark.sql("drop table if exists agg_shared")
    spark.sql("create table agg_shared (x int) using parquet")
    ours = isolated(spark)
    assert ours.catalog.tableExists("agg_shared")
    assert not ours.catalog.tableExists("agg_view")
    spark.sql("drop table agg_shared")


@pytest.mark.parametrize(
    ("shown", "said"), [(None, "none was found"), ('openjdk version "11.0.2"', "found Java 11"), ('java version "1.8.0_1"', "found Java 8")]
)  # fmt: skip
def test_missing_or_old_java_is_said_with_the_command_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shown: str | None, said: str
) -> None:
    """Spark itself would end in a page of shell errors."""
    binary = tmp_path / "bin" / "java"
    if shown:
        binary.parent.mkdir()
        binary.write_text(f"#!/bin/sh\necho '{shown}' >&2\n")
        binary.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError) as raised:
        require_java()
    assert raised.value.code == "JAVA_MISSING"
    assert said in raised.value.message
    assert session.JAVA_INSTALL in raised.value.help
