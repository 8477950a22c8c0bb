"""The answers of Spark and of the product to the same queries, and how they compare."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Row, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import VariantVal

import substrait_agg as sa
from tests.spark_sql import tables
from tests.spark_sql.queries import Query

Rows = list[tuple[Any, ...]]
SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.session.timeZone": "UTC",
}


class SparkAnswers:
    """Answers queries with Spark over the rows that are left after each version."""

    def __init__(self, spark: SparkSession) -> None:
        self._sessions = [self._session(spark, version) for version in range(tables.VERSIONS)]

    @staticmethod
    def _session(spark: SparkSession, version: int) -> SparkSession:
        session = spark.newSession()
        for name, value in SETTINGS.items():
            session.conf.set(name, value)
        for name, schema in tables.SCHEMAS.items():
            columns = from_arrow_schema(schema, prefer_timestamp_ntz=True)
            rows = session.createDataFrame(tables.rows(name, version), columns)
            rows.createOrReplaceTempView(name)
        return session

    def rows(self, query: Query, version: int) -> Rows:
        """Give the rows of a query after a version, sorted."""
        frame = self._sessions[version].sql(query.text)
        if "variant" not in frame.schema.simpleString():
            return plain(frame.toArrow())
        # Spark cannot give a null variant to Arrow.
        rows = ([plain_value(_as_arrow(value)) for value in row] for row in frame.collect())
        return sorted(map(tuple, rows), key=repr)


def _as_arrow(value: Any) -> Any:
    """Give a value of PySpark in the form that Arrow gives it."""
    if isinstance(value, VariantVal):
        return {"value": bytes(value.value), "metadata": bytes(value.metadata)}
    if isinstance(value, Row):
        return {name: _as_arrow(part) for name, part in value.asDict().items()}
    if isinstance(value, dict):
        return [(key, _as_arrow(part)) for key, part in value.items()]
    return list(map(_as_arrow, value)) if isinstance(value, list) else value


def planned(query: Query, spark: SparkSession) -> sa.Plan:
    """Give the plan of a query.

    Raises:
        SqlRefused: it is refused.
        PlanRefused: its plan has errors.
    """
    plan = sa.sql(query.text, tables.SCHEMAS, spark=spark)
    plan.bind()
    return plan


def maintained(
    plans: Mapping[str, sa.Plan], folder: Path, spark: SparkSession
) -> dict[str, list[Rows] | Exception]:
    """Give the rows of each view after each version, or the error of a view that fails."""
    if not plans:
        return {}
    try:
        return _run(plans, folder, spark)
    except sa.SubstraitAggError as error:
        if len(plans) == 1:
            return dict.fromkeys(plans, error)
    # A run of several views does not say which of them fails.
    half = len(plans) // 2
    names = list(plans)
    found: dict[str, list[Rows] | Exception] = {}
    for i, part in enumerate((names[:half], names[half:])):
        found |= maintained({name: plans[name] for name in part}, folder / str(i), spark)
    return found


def _run(
    plans: Mapping[str, sa.Plan], folder: Path, spark: SparkSession
) -> dict[str, list[Rows] | Exception]:
    sources = tables.write(folder / "in")
    run = sa.run(
        plans,
        {name: sources[name] for name in sources if any(_reads(p, name) for p in plans.values())},
        checkpoint=folder / "checkpoint",
        spark=spark,
        keep_versions=100,
    )
    run.wait()
    views = {name: sa.open_view(folder / "checkpoint", name) for name in plans}
    return {name: _versions(view) for name, view in views.items()}


def _reads(plan: sa.Plan, table: str) -> bool:
    return plan.origin is not None and plan.origin.mentions(table)


def _versions(view: Any) -> list[Rows]:
    """Give the rows of each version. Version 0 is that without any rows."""
    return [plain(view.to_arrow(version)) for version in view.versions() if version]


def plain(table: pa.Table) -> Rows:
    """Give the rows of a table sorted, with values that compare."""
    columns = [map(plain_value, column.to_pylist()) for column in table.columns]
    return sorted(zip(*columns, strict=True), key=repr)


def plain_value(value: Any) -> Any:
    """Give a value with all that tells it from others, such as the digits of a decimal.

    A zero has no sign: a view that reads -0.0 has 0.0, as keys have in Spark.
    """
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, Decimal):
        return f"decimal {value}"
    if isinstance(value, dict):
        return tuple(map(plain_value, value.values()))
    if isinstance(value, list):
        items = [
            tuple(map(plain_value, v)) if isinstance(v, tuple) else plain_value(v) for v in value
        ]
        is_map = any(isinstance(v, tuple) for v in value)
        return tuple(sorted(items, key=repr) if is_map else items)
    return getattr(value, "isoformat", lambda: value)()


def are_same(left: Sequence[Any], right: Sequence[Any], *, rounded: bool) -> bool:
    """Say whether two values, rows or lists of rows are the same."""
    if isinstance(left, tuple | list) and isinstance(right, tuple | list):
        return len(left) == len(right) and all(
            are_same(a, b, rounded=rounded) for a, b in zip(left, right, strict=True)
        )
    if isinstance(left, float) and isinstance(right, float) and rounded:
        return math.isclose(left, right, rel_tol=1e-13) or repr(left) == repr(right)
    return repr(left) == repr(right)
