"""Sessions: settings of our own, the caller's left alone, and a clear word where Java is missing."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from substrait_agg.errors import UsageError
from substrait_agg.spark.session.session import SESSION_CONF, check_settings, get_session, isolate

pytestmark = pytest.mark.spark


def test_a_session_given_by_the_caller_keeps_its_settings(spark: SparkSession) -> None:
    """Our settings apply to a separate session on the same Spark."""
    own = spark.newSession()
    own.conf.set("spark.sql.ansi.enabled", "false")
    ours = get_session(spark=own, conf={"spark.sql.shuffle.partitions": "3"})
    assert {k: ours.conf.get(k) for k in SESSION_CONF} == SESSION_CONF
    assert ours.conf.get("spark.sql.shuffle.partitions") == "3"
    assert own.conf.get("spark.sql.ansi.enabled") == "false"
    assert ours.sparkContext is own.sparkContext


def test_large_generated_methods_are_compiled(spark: SparkSession) -> None:
    """The JVM of a Spark that we start has the option, and the caller's own options too."""
    beans = spark._jvm.java.lang.management.ManagementFactory  # type: ignore[union-attr]
    given = [str(option) for option in beans.getRuntimeMXBean().getInputArguments()]
    assert "-XX:-DontCompileHugeMethods" in given
    assert "-XX:MetaspaceSize=192m" in given
    assert "-Duser.timezone=UTC" in given


def test_an_isolated_session_sees_the_tables_of_the_catalogue(spark: SparkSession) -> None:
    """Tables are shared, temporary views are not."""
    spark.sql("create or replace temporary view agg_view as select 1")
    spark.sql("drop table if exists agg_shared")
    spark.sql("create table agg_shared (x int) using parquet")
    ours = isolate(spark)
    assert ours.catalog.tableExists("agg_shared")
    assert not ours.catalog.tableExists("agg_view")
    spark.sql("drop table agg_shared")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.session.timeZone", "America/New_York"),
        ("spark.sql.ansi.enabled", "false"),
        ("spark.sql.files.ignoreMissingFiles", "true"),
    ],
)
def test_a_setting_that_changes_rows_is_refused(key: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"{key}={value} would change the rows"):
        check_settings({key: value})
    check_settings({key: SESSION_CONF[key].upper(), "spark.sql.adaptive.enabled": "true"})
