"""Compute a view with a query of the user in DuckDB or in Spark, without operators of this program.

`state verify --against` compares the rows with those of the version.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import IO

import pyarrow as pa
from pyspark.sql import SparkSession

from substrait_agg.commit.documents.snapshot import Snapshot
from substrait_agg.errors import SubstraitAggError, UsageError, checked_choice
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.optional_packages import require
from substrait_agg.recompute.whole_input import local_path
from substrait_agg.redaction import clean
from substrait_agg.refresh.ownership import select_views
from substrait_agg.spark.query.recompute import Recomputation
from substrait_agg.spark.session.errors import SPARK_ERRORS
from substrait_agg.spark.session.session import get_session
from substrait_agg.spark.sources.specs import OPERATIONS, SourceSpec
from substrait_agg.tools.verify.recomputed import QUERY_FAILED, EngineQuery, Recomputed

_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class _TableFiles:
    """The files of a table that a version has read.

    Attributes:
        name: the name of the table in queries.
        paths: the Parquet files.
        spec: how they are read.
    """

    name: str
    paths: tuple[str, ...]
    spec: SourceSpec

    def rows(self, files: str, mark: str, repeat: str) -> str:
        """Return the query of the rows that are there.

        Args:
            files: the rows of the files, as a query names them.
            mark: the mark around names.
            repeat: how the engine repeats a row ``__n`` times, as a column.
        """
        if self.spec.change == "none":
            return f"SELECT * FROM {files}"
        column = mark + self.spec.change_column.replace(mark, 2 * mark) + mark
        inserts = ", ".join(f"'{word}'" for word, sign in OPERATIONS.items() if sign > 0)
        weight = (
            column if self.spec.change == "weight" else f"CASE WHEN {column} IN ({inserts}) THEN 1 ELSE -1 END"
        )  # fmt: skip
        without = "EXCEPT" if mark == "`" else "EXCLUDE"
        summed = (
            f"SELECT * {without} ({column}), CAST(sum({weight}) AS BIGINT) AS __n FROM {files} "
            f"GROUP BY ALL HAVING sum({weight}) > 0"
        )
        repeated = f"SELECT *, {repeat} AS __i FROM ({summed})"
        return f"SELECT * {without} (__n, __i) FROM ({repeated})"


class OtherEngine:
    """Computes a view again with a query; a `Recompute`.

    Args:
        recomputation: has the sources, and knows why a view cannot be computed from them.
        query: the query.
        log: as `spark_log` of `run`.

    Raises:
        UsageError: OPTION_INVALID for an unknown engine; DUCKDB_MISSING.
    """

    def __init__(
        self, recomputation: Recomputation, query: EngineQuery, log: IO[bytes] | None
    ) -> None:
        self._recomputation, self._query, self._log = recomputation, query, log
        self._rows = _ENGINES[checked_choice(query.engine, tuple(_ENGINES), "against")]
        if query.engine == "duckdb":
            require("duckdb")

    @contextmanager
    def __call__(self, flow: Flow, version: Snapshot) -> Iterator[Recomputed]:
        """Provide the rows of the view."""
        name = self._query.view
        reasons = self._recomputation.reasons(flow, name, version)
        tables: list[_TableFiles] = []
        try:
            tables = [] if reasons else list(self._tables(select_views(flow, [name])[0], version))
        except SubstraitAggError as error:
            reasons = [error.message]
        if reasons:
            yield Recomputed(None, flow, (), {name: "; ".join(dict.fromkeys(reasons))})
        else:
            rows = partial(self._rows, tables, self._query.text, self._log)
            yield Recomputed(None, flow, (), {}, {name: rows})

    def _tables(self, flow: Flow, version: Snapshot) -> Iterator[_TableFiles]:
        for table, (spec, files) in self._recomputation.files(flow, version).items():
            yield _TableFiles(table[-1], tuple(local_path(file) for file in files), spec)


def _duckdb_rows(
    tables: list[_TableFiles], query: str, log: IO[bytes] | None
) -> Iterator[pa.Table]:
    """Yield the result of a query in DuckDB."""
    import duckdb

    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        for table in tables:
            paths = ", ".join("'" + path.replace("'", "''") + "'" for path in table.paths)
            files = f"read_parquet([{paths}], union_by_name=true)"
            rows = table.rows(files, '"', "unnest(range(__n))")
            con.execute(f"CREATE VIEW {_quoted(table.name, chr(34))} AS {rows}")
        try:
            result = con.sql(query)
            for batch in () if result is None else result.to_arrow_reader(_ROWS_AT_ONCE):
                yield pa.Table.from_batches([batch])
        except duckdb.Error as error:
            raise _query_failed("duckdb", error) from error


def _spark_rows(tables: list[_TableFiles], query: str, log: IO[bytes] | None) -> Iterator[pa.Table]:
    """Yield the result of a query in a session of Spark."""
    session: SparkSession = get_session(log=log).newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        for table in tables:
            files = f"__files_of_{table.name}"
            session.read.parquet(*table.paths).createOrReplaceTempView(files)
            rows = table.rows(_quoted(files, "`"), "`", "explode(sequence(1, __n))")
            session.sql(rows).createOrReplaceTempView(table.name)
        yield session.sql(query).toArrow()
    except SPARK_ERRORS as error:
        raise _query_failed("spark", error) from error


def _quoted(name: str, mark: str) -> str:
    return mark + name.replace(mark, 2 * mark) + mark


def _query_failed(engine: str, error: Exception) -> UsageError:
    return UsageError(
        QUERY_FAILED,
        f"{engine} cannot compute the query: {clean(str(error).strip().partition(chr(10))[0])}",
        help=f"write the query as {engine} reads it, over the tables of --source",
        path="--query",
    )


_ENGINES = {"duckdb": _duckdb_rows, "spark": _spark_rows}
