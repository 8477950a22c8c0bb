"""Plans that DataFusion writes from SQL: the types derived there and here are the same."""

from __future__ import annotations

import pyarrow as pa
import pytest
from datafusion import SessionContext
from datafusion.substrait import Serde

from substrait_agg.bind import bind
from substrait_agg.explanation.explain import explain_flow
from substrait_agg.explanation.text import plan_text
from substrait_agg.flow.passes.lower import lower
from substrait_agg.plan import decode
from substrait_agg.problems import Problems

MONEY = pa.decimal128(15, 2)
SCHEMA = pa.schema(
    [
        ("k", pa.int64()), ("q", MONEY), ("p", MONEY), ("f", pa.string()), ("dt", pa.date32()),
        ("ts", pa.timestamp("us")), ("x", pa.float64()), ("i", pa.int32()), ("u", pa.uint32()),
        ("b", pa.bool_()), ("fl", pa.float32()),
    ]
)  # fmt: skip

QUERIES = [
    ("select sum(case when f like 'PROMO%' then p*(1-q) else 0 end)/sum(p*(1-q)) from t", ["decimal?<38,8>"]),
    ("select extract(year from dt) y, sum(p) from t group by 1 order by y", ["i32?", "decimal?<25,2>"]),
    ("select date_trunc('month', ts) m, count(*) from t group by 1", ["precision_timestamp?<6>", "i64"]),
    ("select substring(f from 1 for 2), avg(x) from t where f in ('a','b') group by 1", ["string?", "fp64?"]),
    ("select distinct f from t", ["string?"]),
    ("select sum(s) from (select f, sum(x) s from t group by f)", ["fp64?"]),
    ("select f, count(*) from (select f from t union all select f from t) group by f", ["string?", "i64"]),
    ("select f||'-'||f, round(x,2), abs(i), count(*) from t group by 1,2,3", ["string?", "fp64?", "i32?", "i64"]),
    ("select p*q, p+q, p-q, p/q, p%q from t",
     ["decimal?<31,4>", "decimal?<16,2>", "decimal?<16,2>", "decimal?<21,6>", "decimal?<15,2>"]),
    ("select i%3, i/3, -i, i&3, sum(fl), avg(fl) from t group by 1,2,3,4",
     ["i64?", "i64?", "i32?", "i64?", "fp64?", "fp64?"]),
    ("select dt + interval '3 day', count(*) from t group by 1", ["date?", "i64"]),
    ("select cast(x as bigint), cast(i as varchar), nullif(f,'a') from t", ["i64?", "string?", "string?"]),
    ("select char_length(f), strpos(f,'a'), trim(f), upper(f) from t", ["i32?", "i32?", "string?", "string?"]),
    ("select b and x>1 or not b, b is true, x is null, i between 1 and 2 from t", ["bool?", "bool", "bool", "bool?"]),
    ("select sqrt(x), ln(x), power(x,2), floor(x), coalesce(f,'?') from t",
     ["fp64?", "fp64?", "fp64?", "fp64?", "string?"]),
    ("select sum(v) from (values (1),(2)) as q(v)", ["i64?"]),
    ("select count(*), count(u) from t where k > 3", ["i64", "i64"]),
    ("select u, u > 3, u + 0 < k, cast(k as int unsigned) from t where u in (1, 2)",
     ["u32?", "bool?", "bool?", "u32?"]),
]  # fmt: skip
"""SQL -> column types, None where the plan is refused for its unsigned column."""


@pytest.fixture(scope="module")
def session() -> SessionContext:
    made = SessionContext()
    made.register_record_batches("t", [[pa.RecordBatch.from_pylist([], schema=SCHEMA)]])
    return made


@pytest.mark.parametrize(("sql", "types"), QUERIES, ids=[sql for sql, _ in QUERIES])
def test_queries(session: SessionContext, sql: str, types: list[str] | None) -> None:
    problems = Problems()
    made = bind(decode(Serde.serialize_bytes(sql, session), problems), problems)
    if types is None:
        assert [p.code for p in problems.errors] == ["TYPE_NOT_SUPPORTED"]
        return
    assert made is not None, problems.errors
    assert [str(t) for t in made.root.types] == types
    assert "RESULT_TYPE_DIFFERS" not in {p.code for p in problems.items}
    assert plan_text(explain_flow(lower(made))).startswith("view from operator")
