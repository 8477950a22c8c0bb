"""Measures that DataFusion plans from SQL are bound with DataFusion's meaning and derived types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from datafusion import SessionContext
from datafusion.substrait import Serde

from substrait_agg.bind import BoundPlan, bind
from substrait_agg.bind.bound import BoundAggregate, BoundMeasure
from substrait_agg.functions.aggregates.catalogue import AGGREGATES
from substrait_agg.plan import decode
from substrait_agg.plan.types import Type
from substrait_agg.problems import Problems

SCHEMA = pa.schema(
    [
        ("g", pa.int64()), ("k", pa.int64()), ("x", pa.float64()), ("s", pa.string()),
        ("d", pa.decimal128(10, 2)), ("u", pa.uint32()), ("b", pa.bool_()), ("t", pa.time64("us")),
        ("day", pa.date32()), ("f", pa.float32()),
    ]
)  # fmt: skip

QUERIES: list[tuple[str, str]] = [
    ("percentile_cont(0.25) within group (order by x desc)", "percentile_cont (0.75,)"),
    ("approx_percentile_cont(0.25) within group (order by k)", "percentile_cont (0.25,)"),
    ("approx_percentile_cont(0.25, 100) within group (order by x)", "percentile_cont (0.25,)"),
    ("quantile_cont(d, 0.5)", "percentile_cont (0.5,)"),
    ("median(k)", "median"),
    ("approx_median(x)", "median"),
    ("string_agg(s, ',' order by k)", "string_agg (',',) by 1"),
    ("string_agg(distinct s, ', ' order by s desc)", "string_agg (', ',) distinct by 1"),
    ("array_agg(distinct x order by x)", "list distinct by 1"),
    ("array_agg(x) filter (where k > 1)", "list filtered"),
    ("first_value(x order by k, s desc)", "first_value by 2"),
    ("first_value(x)", "first"),
    ("last_value(x)", "last"),
    ("nth_value(x, 2 order by k desc)", "nth_value (2,) by 1"),
    ("var(x)", "variance"),
    ("var_pop(d)", "variance"),
    ("stddev(k)", "std_dev"),
    ("covar(x, k)", "covar"),
    ("covar_pop(x, k)", "covar"),
    ("corr(x, f)", "corr"),
    ("bit_xor(k)", "bit_xor"),
    ("bit_and(u)", "bit_and"),
    ("bool_or(b)", "bool_or"),
    ("approx_distinct(s)", "count distinct"),
    ("count(k, x)", "count"),
    ("count(distinct k, x)", "count distinct"),
    ("count(distinct s), sum(distinct k)", "count distinct"),
    ("sum(u)", "sum"),
    ("sum(f)", "sum"),
    ("avg(d)", "avg"),
    ("any_value(s)", "any_value"),
    ("min(s)", "min"),
    ("max(t)", "max"),
    ("min(day)", "min"),
]
"""Measure -> its kind, constants, DISTINCT, FILTER, and number of sort keys."""


NAMES = {
    "int64": "i64", "uint64": "u64", "uint32": "u32", "double": "fp64", "float": "fp32",
    "string": "string", "large_string": "string", "bool": "bool", "date32[day]": "date",
    "time64[us]": "precision_time<6>",
}  # fmt: skip


@pytest.fixture(scope="module")
def session() -> SessionContext:
    made = SessionContext()
    made.register_record_batches("r", [[pa.RecordBatch.from_pylist([], schema=SCHEMA)]])
    return made


def bind_sql(sql: str, session: SessionContext) -> tuple[BoundPlan | None, Problems]:
    problems = Problems()
    return bind(decode(Serde.serialize_bytes(sql, session), problems), problems), problems


def measures_of(plan: BoundPlan) -> tuple[BoundMeasure, ...]:
    root: Any = plan.root
    while not isinstance(root, BoundAggregate):
        root = root.input
    return root.measures


def bare(type_: Type) -> str:
    """The type without nullability, at no level."""
    inside = ",".join([*map(str, type_.params), *map(bare, type_.children)])
    return f"{type_.kind}<{inside}>" if inside else type_.kind


def described_measures(type_: Any) -> str:
    """An Arrow type of DataFusion as the Substrait type that it is."""
    if pa.types.is_list(type_):
        return f"list<{described_measures(type_.value_type)}>"
    if pa.types.is_decimal(type_):
        return f"decimal<{type_.precision},{type_.scale}>"
    return NAMES[str(type_)]


def said(measure: BoundMeasure) -> str:
    words = [measure.kind, str(measure.constants) if measure.constants else ""]
    words += ["distinct" if measure.distinct else "", "filtered" if measure.filter else ""]
    words += [f"by {len(measure.order)}" if measure.order else ""]
    return " ".join(filter(None, words))


@pytest.mark.parametrize(("measure", "expected"), QUERIES, ids=[q for q, _ in QUERIES])
def test_measures_of_sql(session: SessionContext, measure: str, expected: str) -> None:
    sql = f"select {measure} from r group by g"
    made, problems = bind_sql(sql, session)
    assert made is not None, problems.errors
    assert said(measures_of(made)[0]) == expected
    theirs = [described_measures(t) for t in session.sql(sql).schema().types]
    assert [bare(t) for t in made.root.types] == theirs


def test_what_is_known_and_not_maintained_is_refused_with_the_reason(
    session: SessionContext,
) -> None:
    made, problems = bind_sql("select regr_slope(x, k) from r group by g", session)
    assert made is None
    (problem,) = problems.errors
    assert problem.code == "AGGREGATE_FUNCTION_NOT_SUPPORTED"
    assert AGGREGATES["regr_slope"].reason in problem.message


def test_an_order_that_means_nothing_is_reported(session: SessionContext) -> None:
    made, problems = bind_sql("select sum(x order by k) from r group by g", session)
    assert made is not None
    assert "ORDER_BY_NO_EFFECT" in {p.code for p in problems.items}
