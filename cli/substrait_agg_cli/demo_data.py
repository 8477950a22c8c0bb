"""Write the stream of the demo: change files of three TPC-H tables, and the tables as they become."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from substrait_agg.errors import UsageError

SECONDS_BETWEEN_FILES = 60
"""Distance of modification times.

Spark orders files by them, and files of the same time have no order.
"""

KEYS = {"customer": "c_custkey", "orders": "o_orderkey", "lineitem": "l_orderkey"}
"""Tables of the demo, and the column whose hash chooses the rows of a step."""

CORRECTIONS = {
    "customer": """c_mktsegment = CASE c_mktsegment
        WHEN 'BUILDING' THEN 'MACHINERY' ELSE 'BUILDING' END""",
    "orders": "o_orderdate = o_orderdate - INTERVAL 7 DAY",
    "lineitem": """l_quantity = l_quantity + 1, l_extendedprice = l_extendedprice + 0.01,
        l_discount = 0.10 - l_discount, l_returnflag = CASE l_returnflag WHEN 'R' THEN 'A' ELSE 'R' END""",
}
"""The update of a correction. It moves some rows to another group, or to other matches."""


def generate(target: Path, scale: float) -> Path:
    """Generate the tables at a scale factor with tpchgen-cli.

    Return the folder of their Parquet files.

    Raises:
        UsageError: ``TOOL_MISSING``, ``TOOL_FAILED``.
    """
    tool = Path(sys.executable).with_name("tpchgen-cli")
    if not tool.exists():
        message = f"tpchgen-cli is not installed in the folder of {sys.executable}"
        raise UsageError("TOOL_MISSING", message, help="pip install 'substrait-agg[demo]'")
    options = [
        "--scale-factor",
        str(scale),
        "--tables",
        ",".join(KEYS),
        "--output-dir",
        str(target),
    ]
    done = subprocess.run(
        [str(tool), "parquet", *options, "--quiet"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise UsageError("TOOL_FAILED", f"tpchgen-cli: {done.stderr.strip()}")
    return target


def insert_steps(steps: int) -> int:
    """Return the number of steps with inserts only. Deletes and corrections follow."""
    return steps - steps // 2


def create_tables(connection: Any, generated: Path) -> None:
    """Create the tables without rows, and views of the generated rows."""
    for table in KEYS:
        connection.execute(f"CREATE VIEW new_{table} AS FROM '{generated / table}.parquet'")
        connection.execute(f"CREATE TABLE {table} AS FROM new_{table} LIMIT 0")


def write_stream(connection: Any, folder: Path, steps: int) -> Iterator[str]:
    """Write the stream as the changes of the tables of DuckDB, with one file per table and step.

    The files of a table are in a folder with its name. The order of their names is the order of
    time. After each step the tables of the connection contain the current rows. They result from
    DuckDB's own INSERT, DELETE and UPDATE, independently of how change files are read.

    Yields:
        A description of each step, after it is written and applied.
    """
    for table in KEYS:
        (folder / table).mkdir(parents=True)
    for ordinal in range(steps):
        kind, condition = _step(ordinal, insert_steps(steps))
        counts = []
        for table, key in KEYS.items():
            connection.execute(_SQL[kind](table, condition.format(key=key)))
            path = folder / table / f"{ordinal:03d}.parquet"
            connection.execute(f"COPY changes TO '{path}' (FORMAT parquet)")
            (count,) = connection.execute("SELECT count(*) FROM changes").fetchone()
            _set_time(path, ordinal - steps)
            counts.append(f"{count:,} {table}")
        yield f"{kind} ({', '.join(counts)})"


def _step(ordinal: int, inserts: int) -> tuple[str, str]:
    """Return the kind of a step, and the condition that chooses its rows."""
    if ordinal < inserts:
        return "inserts", f"hash({{key}}) % {inserts} = {ordinal}"
    # Each step takes another remainder, so that it finds rows.
    step = ordinal - inserts
    condition = f"(hash({{key}}) // 1000) % 20 = {step % 20}"
    return ("corrections" if step % 2 else "deletes"), condition


def _insert(table: str, where: str) -> str:
    return (
        f"CREATE OR REPLACE TABLE changes AS SELECT *, 'insert' AS op FROM new_{table}"
        f" WHERE {where}; INSERT INTO {table} FROM new_{table} WHERE {where}"
    )


def _delete(table: str, where: str) -> str:
    return (
        f"CREATE OR REPLACE TABLE changes AS SELECT *, 'delete' AS op FROM {table} WHERE {where};"
        f"DELETE FROM {table} WHERE {where}"
    )


def _update(table: str, where: str) -> str:
    return (
        "CREATE OR REPLACE TABLE changes AS"
        f" SELECT *, 'update_preimage' AS op FROM {table} WHERE {where};"
        f"UPDATE {table} SET {CORRECTIONS[table]} WHERE {where};"
        f"INSERT INTO changes SELECT *, 'update_postimage' FROM {table} WHERE {where}"
    )


_SQL = {"inserts": _insert, "deletes": _delete, "corrections": _update}


def _set_time(path: Path, ordinal: int) -> None:
    moment = path.stat().st_mtime + ordinal * SECONDS_BETWEEN_FILES
    os.utime(path, (moment, moment))
