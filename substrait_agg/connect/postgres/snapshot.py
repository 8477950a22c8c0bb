"""Copy tables at one instant."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import psycopg2
import pyarrow as pa
from psycopg2 import sql
from pyarrow import csv

from substrait_agg.connect.postgres.connection import Address, connect, to_error, translate_errors
from substrait_agg.connect.postgres.position import VisibleTransactions, read_lsn
from substrait_agg.connect.postgres.setup import Table
from substrait_agg.connect.postgres.types import convert
from substrait_agg.connect.protocol import WEIGHT
from substrait_agg.connect.spool import RowSpool
from substrait_agg.connect.weights import add_weight, with_weights
from substrait_agg.errors import RunFailed

BLOCK_BYTES = 8 << 20
"""Bytes of CSV that become one batch of rows."""

_NUMBERS = tuple(f"c{i}" for i in range(1600))
"""Names of columns in the CSV: PostgreSQL has at most 1,600."""


class TableSnapshot:
    """A read-only transaction that sees all tables as they were at one instant.

    Args:
        address: of the database.

    Attributes:
        snapshot: which transactions it sees.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connection = connect(address)
        with translate_errors(address), self._connection.cursor() as cursor:
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute("SELECT pg_current_snapshot()::text")
            (text,) = cursor.fetchone()
            cursor.execute("SELECT pg_current_wal_insert_lsn()::text")
            (end,) = cursor.fetchone()
        self.snapshot = VisibleTransactions.parse(text, read_lsn(end))

    def read(self, table: Table, columns: Sequence[str], schema: pa.Schema) -> pa.Table:
        """Return the rows of a table in the columns of a schema, with the weight 1.

        Raises:
            InputRefused: VALUE_OUT_OF_RANGE, SOURCE_NOT_PERMITTED.
            RunFailed: SOURCE_NOT_REACHABLE.
        """
        name = sql.Identifier(table.schema, table.name)
        source = sql.SQL("{}" if table.partitioned else "ONLY {}").format(name)
        sink = _CsvSink(table, columns, schema)
        try:
            with self._connection.cursor() as cursor:
                if not columns:
                    cursor.execute(sql.SQL("SELECT count(*) FROM {}").format(source))
                    return _rows_without_columns(cursor.fetchone()[0])
                fields = sql.SQL(", ").join(map(sql.Identifier, columns))
                copy = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT csv)")
                cursor.copy_expert(copy.format(fields, source), sink)
            sink.flush()
            rows = sink.spool.table()
        except psycopg2.InterfaceError as error:
            message = f"the snapshot of {self._address.name} is gone: {error}"
            raise RunFailed("SOURCE_NOT_REACHABLE", message, help="run again") from None
        except psycopg2.Error as error:
            raise to_error(error, self._address) from None
        finally:
            sink.spool.close()
        return rows

    def close(self) -> None:
        """End the transaction."""
        self._connection.close()


def _rows_without_columns(count: int) -> pa.Table:
    """Return a table that has only a number of rows."""
    return with_weights(pa.table({"": pa.nulls(count)})).select([WEIGHT])


class _CsvSink:
    """Receives CSV, row by row, and turns it into batches.

    PostgreSQL writes null as nothing, and an empty text as two quotes.
    """

    def __init__(self, table: Table, columns: Sequence[str], schema: pa.Schema) -> None:
        self._table = table
        self._columns = [table.columns[name] for name in columns]
        self._schema = schema
        self._rows: list[bytes] = []
        self._size = 0
        self.spool = RowSpool(add_weight(schema))

    def write(self, data: bytes) -> None:
        """Take a row."""
        self._rows.append(data)
        self._size += len(data)
        if self._size >= BLOCK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Turn the rows that have come into a batch."""
        if not self._rows:
            return
        data = b"".join(self._rows)
        self._rows.clear()
        self._size = 0
        names = _NUMBERS[: len(self._columns)]
        texts = csv.read_csv(
            io.BytesIO(data),
            # One block: a row must not be longer than a block.
            read_options=csv.ReadOptions(column_names=names, block_size=len(data) + 1),
            parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )
        values = [
            convert(texts[number].combine_chunks(), column, self._table.full_name)
            for number, column in zip(names, self._columns, strict=True)
        ]
        weights = pa.array(np.ones(len(values[0]), np.int64))
        self.spool.add(pa.record_batch([*values, weights], add_weight(self._schema)))
