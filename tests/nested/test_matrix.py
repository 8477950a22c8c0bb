"""A column of a nested type in every place of a query: the view has the rows of Spark at each version.

What Spark refuses is refused with a code and a remedy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import substrait_agg as sa
from tests.local.run import LocalRun
from tests.nested import queries, values
from tests.spark_plans import plan_query
from tests.spark_sql.results import SETTINGS, Rows, are_same, plain_value
from tests.sql.results import changed

KINDS = list(values.VALUES)
OTHER_WITH_MAPS = ("rollup", "mode", "explode", "inline")
"""Queries that differ for types with maps: in Spark a null in a map key of a rollup is 0, and equal modes have no
order; lists that generators make of constants with maps are refused."""


def texts(kind: str) -> dict[str, str]:
    """Give the queries for a type by name."""
    parts = {f"part {i}": text for i, text in enumerate(queries.PARTS[kind])}
    one, without = values.VALUES[kind][2], OTHER_WITH_MAPS if "map" in kind else ()
    every = {**queries.QUERIES, **parts}
    return {n: text.replace("{one}", one) for n, text in every.items() if n not in without}


def share(kind: str, part: int) -> dict[str, str]:
    """Give one query of as many as there are types: another one for each type and part."""
    chosen = (KINDS.index(kind) + part) % len(KINDS)
    return {n: t for i, (n, t) in enumerate(texts(kind).items()) if i % len(KINDS) == chosen}


@pytest.fixture(scope="module")
def sessions(spark: SparkSession) -> list[SparkSession]:
    """Give a session for each version."""
    made = [spark.newSession() for _ in range(values.VERSIONS)]
    for session in made:
        for name, value in SETTINGS.items():
            session.conf.set(name, value)
    return made


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(i, marks=pytest.mark.soak) for i in range(1, len(KINDS)))]
)
@pytest.mark.parametrize("kind", KINDS)
def test_views_of_nested_values_have_the_rows_of_spark(
    kind: str, part: int, sessions: Sequence[SparkSession], tmp_path: Path
) -> None:
    for version, session in enumerate(sessions):
        for name, numbers in values.IDS.items():
            columns = from_arrow_schema(values.schema(kind), prefer_timestamp_ntz=True)
            rows = session.createDataFrame(values.table(kind, numbers[version]), columns)
            rows.createOrReplaceTempView(name)
    plans: dict[str, sa.Plan] = {}
    wrong: list[str] = []
    for name, text in share(kind, part).items():
        try:
            plans[name] = plan_query(text, dict.fromkeys(values.IDS, values.schema(kind)))
            plans[name].bind()
        except (sa.SqlRefused, sa.PlanRefused) as error:
            wrong += _not_refused_by_spark(name, text, error, sessions[0])
    for name, plan in plans.items():
        views = maintained(plan, kind, tmp_path / name)
        expected = [answer(session, texts(kind)[name]) for session in sessions]
        for i, (ours, theirs) in enumerate(zip(views, expected, strict=True)):
            if not are_same(ours, theirs, rounded=False):
                wrong.append(f"{name}, version {i}: {ours}\n  Spark: {theirs}")
    assert not wrong, "\n\n".join(wrong)


def _not_refused_by_spark(
    name: str, text: str, error: sa.SqlRefused | sa.PlanRefused, session: SparkSession
) -> Iterator[str]:
    try:
        session.sql(text).collect()
    except AnalysisException:
        if not error.help:
            yield f"{name} has no remedy: {error}"
    else:
        yield f"{name}: {error}"


def maintained(plan: sa.Plan, kind: str, folder: Path) -> list[Rows]:
    """Give the rows of a view after each version."""
    sources = {}
    for name, versions in values.IDS.items():
        if plan.origin is None or not plan.origin.mentions(name):
            continue
        (folder / name).mkdir(parents=True)
        whole = values.table(kind, range(11))
        before: Sequence[int] = ()
        for version, numbers in enumerate(versions):
            changes = changed(whole, before, numbers).rename_columns([*whole.column_names, "w"])
            before = numbers
            pq.write_table(changes, folder / name / f"{version}.parquet")
            os.utime(folder / name / f"{version}.parquet", (version, version))
        sources[name] = f"parquet:{folder / name}?weight=w&batch-files=1"
    LocalRun(plan, sources, checkpoint=folder / "c", keep_versions=9, partitions=1).wait()
    view = sa.open_view(folder / "c")
    return [_rows(view.to_arrow(version).to_pylist()) for version in view.versions() if version]


def answer(session: SparkSession, text: str) -> Rows:
    """Give the rows of a query in Spark."""
    return _rows([_fields(row) for row in session.sql(text).collect()])


def _fields(row: Row) -> dict[str, Any]:
    return {name: _of_spark(value) for name, value in zip(row.__fields__, row, strict=True)}


def _of_spark(value: Any) -> Any:
    """Give a value of Spark as Arrow gives it: a struct as a dictionary, a map as pairs."""
    if isinstance(value, Row):
        return _fields(value)
    if isinstance(value, Mapping):
        return [(_of_spark(k), _of_spark(v)) for k, v in value.items()]
    if isinstance(value, list):
        return [_of_spark(item) for item in value]
    return bytes(value) if isinstance(value, bytearray) else value


def _rows(rows: Sequence[Mapping[str, Any]]) -> Rows:
    """Give rows sorted; the order of what is in a column named `bag` does not count."""
    plain = [[_in_order(n, plain_value(v)) for n, v in row.items()] for row in rows]
    return sorted(map(tuple, plain), key=repr)


def _in_order(name: str, value: Any) -> Any:
    return tuple(sorted(value, key=repr)) if name == "bag" and value is not None else value
