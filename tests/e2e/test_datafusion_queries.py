"""SQL through DataFusion: the view has the rows and types that DataFusion computes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from datafusion import SessionContext
from datafusion.substrait import Serde

import substrait_agg as sa
from tests.e2e.files import write_in_order
from tests.e2e.queries import (
    AGGREGATES,
    AVERAGES,
    CLOSE,
    EXACT,
    FAILING,
    FETCHES,
    REFUSED,
    SCHEMA,
    Check,
    equal,
    nearly,
    table,
)
from tests.e2e.running import starting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


ROWS = table(seed=1, rows=120)
NOISE = table(seed=2, rows=60, first=1000)
_PLAIN = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def _context(rows: pa.Table) -> SessionContext:
    context = SessionContext()
    context.register_record_batches("t", [rows.to_batches()])
    return context


@pytest.fixture(scope="module")
def context() -> SessionContext:
    return _context(ROWS)


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS).cache()


def _wanted(context: SessionContext, sql: str) -> pa.Table:
    found = context.sql(sql).to_arrow_table()
    types = [(f.name, _PLAIN.get(f.type, f.type)) for f in found.schema]
    return found.cast(pa.schema(types))


def _view(
    spark: SparkSession | None, folder: Path, context: SessionContext, sql: str, rows: Any
) -> pa.Table:
    plan = sa.load(Serde.serialize_bytes(sql, context))
    reads = "t" in {table[-1] for table in _tables(plan)}
    sources = {"t": rows} if reads else {}
    starting(spark)(plan, sources, checkpoint=folder / "checkpoint", partitions=1).wait()
    return sa.open_view(folder / "checkpoint").to_arrow()


def _tables(plan: Any) -> set[tuple[str, ...]]:
    from substrait_agg.flow.passes.lower import lower
    from substrait_agg.spark.inputs.inputs import table_origins

    return {origin.table for origin in table_origins(lower(plan.bind()))}


def _sorted(rows: pa.Table) -> list[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in rows.columns]
    return sorted(zip(*columns, strict=True), key=lambda row: [_sort_key(v) for v in row])


def _sort_key(value: Any) -> tuple[bool, str, Any]:
    # Coarse for floats, so that rows whose last digits differ stay in the same place.
    number = float(f"{value:.6g}") if isinstance(value, float) else value
    return value is not None, type(value).__name__, number


def _compare(found: pa.Table, wanted: pa.Table, check: Check) -> None:
    assert found.schema.types == wanted.schema.types
    ours, theirs = _sorted(found), _sorted(wanted)
    assert len(ours) == len(theirs)
    names = wanted.schema.names
    wrong = {
        name: (left, right)
        for row, other in zip(ours, theirs, strict=True)
        for name, left, right in zip(names, row, other, strict=True)
        if not check(left, right)
    }
    assert not wrong


@pytest.mark.parametrize(
    ("expressions", "check"), [*((EXACT[turn::5], equal) for turn in range(5)), (CLOSE, nearly)]
)
def test_expressions(
    spark: SparkSession, tmp_path: Path, context: SessionContext, frame: DataFrame,
    expressions: Sequence[str], check: Check,
) -> None:  # fmt: skip
    """Expressions are compared row by row, in the order of `id`; many in one run."""
    sql = f"select id, {', '.join(expressions)} from t"
    _compare(_view(spark, tmp_path, context, sql, frame), _wanted(context, sql), check)


OF_SPARK = [*(AGGREGATES[i] for i in (1, 5, 6, 7, 11, 16, 20, 24, 25)), AVERAGES[5]]
"""Aggregates over expressions that only Spark computes."""
IN_ARROW = [sql for sql in (*AGGREGATES, *AVERAGES, *FETCHES) if sql not in OF_SPARK]


@pytest.mark.parametrize("sql", OF_SPARK)
def test_aggregates_over_expressions(
    spark: SparkSession, tmp_path: Path, context: SessionContext, frame: DataFrame, sql: str
) -> None:
    """Groups of values, filters, aggregates over aggregates."""
    _check(spark, tmp_path, context, sql, frame)


@pytest.mark.parametrize("sql", IN_ARROW)
def test_aggregates_and_fetches(tmp_path: Path, context: SessionContext, sql: str) -> None:
    """Groups, filters, unions, distinct rows, limits and offsets below and above other relations."""
    write_in_order(tmp_path / "in", [ROWS])
    _check(None, tmp_path, context, sql, f"parquet:{tmp_path / 'in'}")


@pytest.mark.soak
@pytest.mark.parametrize("sql", IN_ARROW)
def test_aggregates_and_fetches_on_spark(
    spark: SparkSession, tmp_path: Path, context: SessionContext, frame: DataFrame, sql: str
) -> None:
    """The same in Spark jobs."""
    _check(spark, tmp_path, context, sql, frame)


def _check(
    spark: SparkSession | None, folder: Path, context: SessionContext, sql: str, rows: Any
) -> None:
    found = _view(spark, folder, context, sql, rows)
    _compare(found, _wanted(context, sql), nearly if sql in AVERAGES else equal)


@pytest.mark.parametrize(
    "sql", [AGGREGATES[1], AGGREGATES[9], AGGREGATES[19], AVERAGES[2], FETCHES[0], FETCHES[4]]
)
def test_rows_that_come_and_go(
    spark: SparkSession, tmp_path: Path, context: SessionContext, sql: str
) -> None:
    """Rows that are inserted and deleted leave no state."""
    half = ROWS.num_rows // 2
    batches = [
        _changes(ROWS.slice(0, half), NOISE),
        _changes(ROWS.slice(half), deleted=NOISE.slice(0, 40)),
        _changes(deleted=NOISE.slice(40)),
    ]
    write_in_order(tmp_path / "in", batches)
    source = f"parquet:{tmp_path / 'in'}?op=op&batch-files=1"
    found = _view(spark, tmp_path, context, sql, source)
    _compare(found, _wanted(context, sql), nearly if sql in AVERAGES else equal)


def _changes(*inserted: pa.Table, deleted: pa.Table | None = None) -> pa.Table:
    gone = SCHEMA.empty_table() if deleted is None else deleted
    parts = [(rows, "insert") for rows in inserted] + [(gone, "delete")]
    return pa.concat_tables(
        [
            rows.append_column("op", pa.array([op] * rows.num_rows, pa.string()))
            for rows, op in parts
        ]
    )


@pytest.mark.parametrize(("sql", "code"), REFUSED.items())
def test_refused(context: SessionContext, sql: str, code: str) -> None:
    """Unsupported plans are refused with a code, the place in the plan, and a remedy."""
    report = sa.validate(Serde.serialize_bytes(sql, context))
    errors = [p for p in report.problems if p.level == "error"]
    assert [errors[0].code, bool(errors[0].path), bool(errors[0].help)] == [code, True, True]


@pytest.mark.parametrize(("sql", "code"), FAILING.items())
def test_failing(
    spark: SparkSession,
    tmp_path: Path,
    context: SessionContext,
    frame: DataFrame,
    sql: str,
    code: str,
) -> None:
    """Overflow, division by zero and values that do not convert fail the run; none is given as a wrong value."""
    with pytest.raises(sa.SubstraitAggError) as caught:
        _view(spark, tmp_path, context, sql, frame)
    assert caught.value.code == code
