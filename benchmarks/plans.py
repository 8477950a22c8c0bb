"""The plans under ``plans/bench``: DataFusion writes them from the texts of the queries.

``python -m benchmarks.plans`` writes them again.
"""

from __future__ import annotations

import pyarrow as pa
from datafusion import SessionConfig, SessionContext
from datafusion.substrait import Serde

from benchmarks.queries import QUERIES, Query, plan_of

_INTEGERS = ("k", "f", *(f"c{i}" for i in range(10)), *"abcd")
SCHEMAS: dict[str, pa.Schema] = {
    "t": pa.schema({"k": pa.int64(), "i": pa.int64(), "x": pa.float64()}),
    "churn": pa.schema({"g": pa.int64(), "v": pa.int64()}),
    "wide": pa.schema({name: pa.int64() for name in _INTEGERS}),
    "lists": pa.schema({"g": pa.int64(), "v": pa.int64(), "s": pa.string()}),
    "bids": pa.schema({
        "auction": pa.int64(), "bidder": pa.int64(), "price": pa.int64(), "channel": pa.string(),
        "datetime": pa.timestamp("us"),
    }),
}  # fmt: skip
"""Columns of the tables, in the order of the files; lineitem has plans of its own."""


def plan(query: Query) -> bytes:
    """The plan of a query, as DataFusion writes it without optimising: that would make two aggregates of one with DISTINCT."""
    context = SessionContext(SessionConfig().set("datafusion.optimizer.max_passes", "0"))
    empty = SCHEMAS[query.table].empty_table()
    context.register_record_batches(query.table, [empty.to_batches() or [_none(empty.schema)]])
    return bytes(Serde.serialize_bytes(query.sql, context))


def _none(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def written() -> dict[str, Query]:
    """The queries whose plans this module writes."""
    return {name: query for name, query in QUERIES.items() if not query.plan}


def main() -> None:
    """Write all of them."""
    for name, query in written().items():
        path = plan_of(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(plan(query))


if __name__ == "__main__":
    main()
