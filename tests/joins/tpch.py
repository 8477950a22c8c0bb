"""The tables of TPC-H with refresh pairs, and what DuckDB gives for its queries at every version."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.data.tpch import KEYS, RELEASES, plan_path, same_rows, sql
from benchmarks.data.tpch import generate as write_tables
from substrait_agg.operator.common.names import WEIGHT

__all__ = ["KEYS", "QUERIES", "RELEASES", "Tables", "generate", "plan_bytes", "same_rows", "sql"]

QUERIES = range(1, 23)
UPDATES: Mapping[str, tuple[str, ...]] = {
    "region": ("r_name",),
    "nation": ("n_name", "n_regionkey"),
    "supplier": ("s_nationkey", "s_acctbal", "s_comment"),
    "customer": ("c_mktsegment", "c_nationkey", "c_acctbal", "c_phone"),
    "part": ("p_brand", "p_type", "p_size", "p_container", "p_name"),
    "partsupp": ("ps_supplycost", "ps_availqty"),
    "orders": ("o_orderstatus", "o_orderpriority", "o_orderdate"),
    "lineitem": ("l_quantity", "l_discount", "l_shipmode", "l_receiptdate"),
}
"""Columns that an update takes from another row of the table."""


def plan_bytes(query: int, release: int = 55) -> bytes:
    """Return the plan of a query by a release of DataFusion."""
    return plan_path(query, release).read_bytes()


def generate(folder: Path, scale: float = 0.01) -> dict[str, pa.Table]:
    """Return the tables of a scale factor; they are written into a folder first."""
    write_tables(folder, scale)
    return {name: _plain(pq.read_table(folder / f"{name}.parquet")) for name in KEYS}


def _plain(table: pa.Table) -> pa.Table:
    """Return a table with texts as plain strings, and nullable columns."""
    fields = [
        pa.field(field.name, pa.string() if pa.types.is_string_view(field.type) else field.type)
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


@dataclass
class Tables:
    """The tables as they change.

    Attributes:
        rows: the current rows of each table.
        future: orders and lineitems that have not come yet.
    """

    rows: dict[str, pa.Table]
    chance: random.Random
    future: dict[str, pa.Table] = field(default_factory=dict)

    @staticmethod
    def of(generated: Mapping[str, pa.Table], seed: int = 7) -> Tables:
        """Begin without every tenth order, which comes later."""
        later = pc.equal(pc.bit_wise_and(generated["orders"]["o_orderkey"], 7), 3)
        line_later = pc.equal(pc.bit_wise_and(generated["lineitem"]["l_orderkey"], 7), 3)
        rows = dict(generated)
        rows["orders"] = generated["orders"].filter(pc.invert(later))
        rows["lineitem"] = generated["lineitem"].filter(pc.invert(line_later))
        future = {
            "orders": generated["orders"].filter(later),
            "lineitem": generated["lineitem"].filter(line_later),
        }
        return Tables(rows, random.Random(seed), future)

    def first(self) -> dict[str, pa.Table]:
        """Return the first batch: all rows."""
        return {name: _weighted(rows, 1) for name, rows in self.rows.items()}

    def refresh(self, orders: int = 15) -> dict[str, pa.Table]:
        """Insert orders, delete orders, and change rows of every table; return the changes."""
        changes = {name: list(self._update(name)) for name in KEYS}
        old = self._sample("orders", orders)
        changes["orders"].append(_weighted(old, -1))
        gone = pc.is_in(self.rows["lineitem"]["l_orderkey"], old["o_orderkey"].combine_chunks())
        changes["lineitem"].append(_weighted(self.rows["lineitem"].filter(gone), -1))
        self._remove("orders", old)
        self.rows["lineitem"] = self.rows["lineitem"].filter(pc.invert(gone))
        new = self.future["orders"].slice(0, orders)
        self.future["orders"] = self.future["orders"].slice(orders)
        come = pc.is_in(self.future["lineitem"]["l_orderkey"], new["o_orderkey"].combine_chunks())
        lines = self.future["lineitem"].filter(come)
        for name, rows in (("orders", new), ("lineitem", lines)):
            self.rows[name] = pa.concat_tables([self.rows[name], rows])
            changes[name].append(_weighted(rows, 1))
        return {name: pa.concat_tables(parts) for name, parts in changes.items() if parts}

    def _update(self, name: str) -> Iterator[pa.Table]:
        """Replace values of some rows by those of others; sometimes delete a row, or bring it back."""
        old = self._sample(name, 1 if len(self.rows[name]) < 100 else 5)
        other = self._sample(name, len(old))
        new = old
        for column in UPDATES[name]:
            if self.chance.random() < 0.5:
                ordinal = new.schema.get_field_index(column)
                new = new.set_column(ordinal, new.schema.field(ordinal), other[column])
        self._remove(name, old)
        self.rows[name] = pa.concat_tables([self.rows[name], new])
        yield _weighted(old, -1)
        yield _weighted(new, 1)

    def _sample(self, name: str, count: int) -> pa.Table:
        rows = self.rows[name]
        return rows.take(self.chance.sample(range(len(rows)), min(count, len(rows))))

    def _remove(self, name: str, old: pa.Table) -> None:
        keys = KEYS[name]
        marked = old.select(keys).append_column("gone", pa.array([True] * len(old)))
        joined = self.rows[name].join(marked, list(keys), join_type="left outer")
        kept = joined.filter(pc.is_null(joined["gone"])).drop_columns(["gone"])
        self.rows[name] = kept.select(self.rows[name].column_names)

    def expected(self, query: int) -> list[tuple[Any, ...]]:
        """Return the rows of a query over the current tables, by DuckDB."""
        with duckdb.connect() as connection:
            for name, rows in self.rows.items():
                connection.register(name, rows)
            found: list[tuple[Any, ...]] = connection.execute(sql(query)).fetchall()
        return found


def _weighted(rows: pa.Table, weight: int) -> pa.Table:
    return rows.append_column(WEIGHT, pa.array([weight] * len(rows), pa.int64()))
