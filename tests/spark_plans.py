"""Plans of SQL text by the shared Spark, for tests that compute them on the local executor.

A test that makes plans takes the fixture `spark`: ``pytestmark = pytest.mark.usefixtures("spark")``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import pyarrow as pa
from pyspark.sql import SparkSession

import substrait_agg as sa
from substrait_agg.plan.plannable import plannable
from substrait_agg.scripts.pipeline import PlanSet, plan_pipeline
from substrait_agg.scripts.planner import plan_script
from substrait_agg.spark.catalyst.sql import SparkSqlPlanner


@lru_cache(maxsize=1)
def planner() -> SparkSqlPlanner:
    """Return the planner of this process: its session is made once."""
    spark = SparkSession.getActiveSession()
    assert spark is not None, "take the fixture `spark`"
    return SparkSqlPlanner(spark)


def plan_query(text: str, schemas: Mapping[str, pa.Schema], file: str = "") -> sa.Plan:
    """Return the plan of a script with one query over tables with these columns."""
    tables = {name: plannable(schema) for name, schema in schemas.items()}
    return plan_script(text, lambda _: tables, planner(), file)


def plan_views(scripts: Mapping[str, str], schemas: Mapping[str, pa.Schema]) -> PlanSet:
    """Return the plans of the views of scripts, given by the names of their files."""
    return plan_pipeline(scripts, lambda _: schemas, planner())
