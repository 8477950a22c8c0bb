"""Programs of usual kinds: after every version their views equal what Spark computes from the rows that are left."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from tests.dataframes.programs import COMING, PROGRAMS
from tests.e2e.rows import bag
from tests.sampling import sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUPS = [tuple(PROGRAMS)[start::6] for start in range(6)]
"""The programs in groups of equal size; each is a run."""

PRECISION_LOSS = "spark.sql.decimalOperations.allowPrecisionLoss"
VERSIONS = 3
BEGIN = 1_700_000_000
"""When the first file was written: Spark reads the oldest file first."""


def sales(numbers: Sequence[int]) -> pa.Table:
    """Rows with these numbers; the other values follow from the number."""

    def unless(number: int, every: int, value: object) -> object:
        return None if number % every == 0 else value

    return pa.table({
        "id": pa.array([unless(n, 7, n % 4) for n in numbers], pa.int32()),
        "name": pa.array([("a", "b", "Ab", None, "c_")[n % 5] for n in numbers], pa.string()),
        "x": pa.array([unless(n, 5, n * 0.25 - 2) for n in numbers], pa.float64()),
        "price": pa.array([unless(n, 6, Decimal(n * 125 - 300) / 100) for n in numbers], pa.decimal128(10, 2)),
        "day": pa.array([unless(n, 8, dt.date(2024, 1 + n % 3, 1 + n)) for n in numbers], pa.date32()),
        "at": pa.array([unless(n, 9, dt.datetime(2024, 1, 1 + n % 4, n, 30)) for n in numbers], pa.timestamp("us", tz="UTC")),
        "ok": pa.array([unless(n, 4, n % 3 == 0) for n in numbers], pa.bool_()),
        "n": pa.array(numbers, pa.int64()),
        "tags": pa.array([unless(n, 10, ["x", "y", "x"][: n % 4]) for n in numbers], pa.list_(pa.string())),
        "place": pa.array([unless(n, 11, {"city": "ab"[n % 2], "zip": n % 3}) for n in numbers], pa.struct([("city", pa.string()), ("zip", pa.int32())])),
        "marks": pa.array([unless(n, 12, [("k", n % 3), ("l", None)][: n % 3]) for n in numbers], pa.map_(pa.string(), pa.int32())),
    })  # fmt: skip


def labels(numbers: Sequence[int]) -> pa.Table:
    """Rows with these numbers."""
    return pa.table({
        "id": pa.array([None if n % 5 == 0 else n % 3 for n in numbers], pa.int32()),
        "label": pa.array([f"l{n % 4}" for n in numbers], pa.string()),
    })  # fmt: skip


MAKERS = {"sales": sales, "labels": labels}
INSERTS = {
    "sales": [range(1, 12), range(12, 17), [17, 18, 3]],
    "labels": [range(1, 5), [5, 6, 7], [8, 1]],
}
DELETES = {"sales": [[], [2, 3, 7], [5, 12, 16]], "labels": [[], [1, 4], [5]]}


def write_versions(folder: Path) -> dict[str, str]:
    """Write a file per version and table, with deletions as rows of weight -1; return the sources."""
    sources = {}
    for name, make in MAKERS.items():
        (folder / name).mkdir()
        for version in range(VERSIONS):
            parts = [(INSERTS[name][version], 1), (DELETES[name][version], -1)]
            tables = [weighted(make(list(numbers)), weight) for numbers, weight in parts]
            file = folder / name / f"{version}.parquet"
            pq.write_table(pa.concat_tables(tables), file)
            os.utime(file, (BEGIN + version, BEGIN + version))
        sources[name] = f"parquet:{folder / name}?weight=w&batch-files=1"
    return sources


def weighted(rows: pa.Table, weight: int) -> pa.Table:
    return rows.append_column("w", pa.array([weight] * rows.num_rows, pa.int64()))


def left(name: str, version: int) -> pa.Table:
    """The rows of a table that are left after a version."""
    numbers: list[int] = []
    for inserts, deletes in zip(INSERTS[name][: version + 1], DELETES[name], strict=False):
        numbers.extend(inserts)
        for number in deletes:
            numbers.remove(number)
    return MAKERS[name](numbers)


def name_tables(spark: SparkSession, version: int) -> None:
    for name in MAKERS:
        spark.createDataFrame(left(name, version)).createOrReplaceTempView(name)


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """The shared session with the setting that users have for decimals."""
    before = str(spark.conf.get(PRECISION_LOSS))
    spark.conf.set(PRECISION_LOSS, "true")
    yield spark
    spark.conf.set(PRECISION_LOSS, before)


def plan_of(spark: SparkSession, name: str) -> sa.Plan | None:
    """The plan of a program; None for one that is to come and still refused."""
    frame = PROGRAMS[name](spark.table("sales"), spark.table("labels"))
    try:
        return sa.from_dataframe(frame)
    except sa.UsageError:
        if name not in COMING:
            raise
        return None


def plans_of(spark: SparkSession, names: Sequence[str]) -> dict[str, sa.Plan]:
    """The plans of programs by the names of their views."""
    name_tables(spark, 0)
    plans = {f"v{number}": plan_of(spark, name) for number, name in enumerate(names)}
    return {view: plan for view, plan in plans.items() if plan is not None}


@pytest.mark.parametrize("number", sample(range(len(GROUPS)), 0, 1))
def test_views_follow_inserts_and_deletes(
    session: SparkSession, tmp_path: Path, number: int
) -> None:
    names = GROUPS[number]
    plans = plans_of(session, names)
    sources = write_versions(tmp_path)
    sa.run(plans, sources, checkpoint=tmp_path / "views", outputs=["none"], spark=session).wait()
    versions = sa.open_view(tmp_path / "views", next(iter(plans))).versions()[-VERSIONS:]
    wrong = {}
    for at, version in enumerate(versions):
        name_tables(session, at)
        for view in plans:
            name = names[int(view[1:])]
            answer = PROGRAMS[name](session.table("sales"), session.table("labels")).toArrow()
            found = sa.open_view(tmp_path / "views", view).to_arrow(version)
            if found.column_names != answer.column_names or bag(found) != bag(answer):
                wrong[name, at] = (bag(found) - bag(answer), bag(answer) - bag(found))
    assert not wrong
