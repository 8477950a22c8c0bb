"""The raw tables as `tables.sql` names them, as Arrow's schemas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

_TABLE = re.compile(r"CREATE TABLE (\w+) \(\n(.*?)\n\);", re.DOTALL)
_COLUMN = re.compile(r"(\w+) (\w+)(?:\((\d+), (\d+)\))?( NOT NULL)?,?")
_TYPES = {
    "BIGINT": pa.int64(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "INT": pa.int32(),
    "STRING": pa.string(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
}


def _field(line: str) -> pa.Field:
    name, word, digits, places, required = _COLUMN.fullmatch(line.strip()).groups()  # type: ignore[union-attr]
    type = pa.decimal128(int(digits), int(places)) if digits else _TYPES[word]
    return pa.field(name, type, nullable=required is None)


def _schemas() -> dict[str, pa.Schema]:
    text = (Path(__file__).parent / "tables.sql").read_text()
    return {
        name: pa.schema([_field(line) for line in columns.splitlines()])
        for name, columns in _TABLE.findall(text)
    }


SCHEMAS = _schemas()
"""The schema of each table."""

CHANGES_PER_BATCH = 10_000_000
"""Numbers of changes (cdc_dsn) that each batch has for itself."""


def rows(table: str, columns: Mapping[str, Any]) -> pa.Table:
    """Return rows of a table: columns that are not given are NULL."""
    schema = SCHEMAS[table]
    if unknown := set(columns) - set(schema.names):
        raise KeyError(f"{table} has no columns {sorted(unknown)}")
    count = len(next(iter(columns.values())))
    arrays = [
        pa.array(columns[field.name]).cast(field.type)
        if field.name in columns
        else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.table(arrays, schema=pa.schema([field.with_nullable(True) for field in schema]))


def batch_rows(table: str, batch: int, columns: Mapping[str, Any]) -> pa.Table:
    """Return rows of a table that batches share.

    Args:
        table: its name.
        batch: 1 for the historical load, whose rows have no cdc_dsn.
        columns: the others, with cdc_flag unless this is batch 1 or all of them are inserted.
    """
    count = len(next(iter(columns.values())))
    given: dict[str, Any] = {"batch_id": np.full(count, batch), **columns}
    if batch > 1 and "cdc_dsn" in SCHEMAS[table].names:
        given.setdefault("cdc_flag", np.full(count, "I", object))
        given["cdc_dsn"] = (batch - 1) * CHANGES_PER_BATCH + np.arange(count)
    return rows(table, given)


def required(table: str, data: pa.Table) -> pa.Table:
    """Return rows whose schema says which columns are never NULL.

    Raises:
        ValueError: one of those has a NULL.
    """
    schema = SCHEMAS[table]
    if empty := [f.name for f in schema if not f.nullable and data[f.name].null_count]:
        raise ValueError(f"{table} has NULL in {empty}")
    return data.cast(schema)
