"""The statements of a Flink job, made from the SQL text that all engines share."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from benchmarks.peers.peer_input import OP_COLUMN, InputTable

TYPES = {
    "int64": "BIGINT", "int32": "INT", "double": "DOUBLE", "string": "STRING", "large_string": "STRING",
    "string_view": "STRING", "timestamp[us]": "TIMESTAMP(6)", "date32[day]": "DATE",
}  # fmt: skip
"""Arrow type -> type of Flink; decimals are `DECIMAL`."""

INTEGERS = ("int64", "int32")
CHANGES = "answer_changes"
_TOKEN = re.compile(r"'[^']*'|\w+")
_ALIAS = re.compile(r"\bAS\s+(\w+)(?!\w|\s*[()])", re.IGNORECASE)
_AVERAGE = re.compile(r"\bavg\((\w+)\)", re.IGNORECASE)
_ORDER = re.compile(r"\s+ORDER\s+BY[^()]*$", re.IGNORECASE)


def flink_type(arrow: str) -> str:
    """Return the type of Flink for an Arrow type."""
    if arrow.startswith("decimal128"):
        return arrow.replace("decimal128", "DECIMAL")
    return TYPES[arrow]


def query(sql: str, tables: Collection[InputTable]) -> str:
    """Return a query in Flink's dialect.

    Columns and aliases are quoted, because some of them (``day``) are reserved words. An average of
    integers is an integer in Flink, so the argument becomes a DOUBLE. A sort without LIMIT is left
    out: it is no part of a result that changes.

    Args:
        sql: the text that DuckDB runs.
        tables: the tables that it reads.
    """
    types = {name: kind for table in tables for name, kind in table.columns.items()}
    text = sql.strip().rstrip(";")
    if not re.search(r"\bLIMIT\b", text, re.IGNORECASE):
        text = _ORDER.sub("", text)
    text = _AVERAGE.sub(
        lambda m: f"avg(CAST({m[1]} AS DOUBLE))" if types.get(m[1]) in INTEGERS else m[0], text
    )
    names = {*types, *_ALIAS.findall(text)}
    return _TOKEN.sub(lambda m: f"`{m[0]}`" if m[0] in names else m[0], text)


def source(name: str, table: InputTable, folder: Path, monitor: str) -> list[str]:
    """Return the statements that create a table over a folder of CSV files.

    Args:
        name: of the table.
        table: its columns.
        folder: of its files.
        monitor: how often Flink looks for new files.
    """
    files = f"{name}_files" if table.changes else name
    columns = [f"`{n}` {flink_type(kind)}" for n, kind in table.columns.items()]
    columns += [f"`{OP_COLUMN}` STRING"] if table.changes else []
    created = (
        f"CREATE TABLE {files} ({', '.join(columns)}) WITH ('connector' = 'filesystem',"
        f" 'path' = 'file://{folder}', 'format' = 'csv', 'source.monitor-interval' = '{monitor}')"
    )
    if not table.changes:
        return [created]
    changed = (
        f"CREATE VIEW {name} AS SELECT * FROM FROM_CHANGELOG(input => TABLE {files},"
        f" op => DESCRIPTOR(`{OP_COLUMN}`),"
        " op_mapping => MAP['insert', 'INSERT', 'delete', 'DELETE'])"
    )
    return [created, changed]


def changes_of(view: str) -> str:
    """Return the statement that creates `CHANGES`, the changes of a view with their operation."""
    return (
        f"CREATE VIEW {CHANGES} AS SELECT * FROM TO_CHANGELOG(input => TABLE {view},"
        " op => DESCRIPTOR(`op`))"
    )


def sink(name: str, columns: Sequence[tuple[str, str]], options: Mapping[str, str]) -> str:
    """Return the statement that creates a sink with columns of these names and types."""
    listed = ", ".join(f"`{column}` {kind}" for column, kind in columns)
    given = ", ".join(f"'{option}' = '{value}'" for option, value in options.items())
    return f"CREATE TABLE {name} ({listed}) WITH ({given})"
