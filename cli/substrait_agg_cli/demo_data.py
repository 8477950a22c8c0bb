"""Write the stream of the demo: TPC-H lineitem as change files, and the table of surviving rows."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from substrait_agg.errors import UsageError

SECONDS_BETWEEN_FILES = 60
"""Distance of modification times.

Spark orders files by them, and files of the same time have no order.
"""

CORRECTION = """l_quantity = l_quantity + 1, l_extendedprice = l_extendedprice + 0.01,
    l_discount = 0.10 - l_discount, l_returnflag = CASE l_returnflag WHEN 'R' THEN 'A' ELSE 'R' END"""
"""The update of a correction. It moves some rows to another group."""


@dataclass(frozen=True, slots=True)
class ChangeStream:
    """A folder of change files.

    Attributes:
        folder: the folder; the order of file names is the order of time.
        inserts: number of files with inserts only; deletes and corrections follow.
        steps: a description of each file.
        rows: number of rows of all files.
    """

    folder: Path
    inserts: int
    steps: tuple[str, ...]
    rows: int


def generate(target: Path, scale: float) -> Path:
    """Generate TPC-H lineitem at a scale factor with tpchgen-cli.

    Return the path of its Parquet file.

    Raises:
        UsageError: ``TOOL_MISSING``, ``TOOL_FAILED``.
    """
    tool = Path(sys.executable).with_name("tpchgen-cli")
    if not tool.exists():
        message = f"tpchgen-cli is not installed in the folder of {sys.executable}"
        raise UsageError("TOOL_MISSING", message, help="pip install 'substrait-agg[demo]'")
    options = ["--scale-factor", str(scale), "--tables", "lineitem", "--output-dir", str(target)]
    done = subprocess.run(
        [str(tool), "parquet", *options, "--quiet"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise UsageError("TOOL_FAILED", f"tpchgen-cli: {done.stderr.strip()}")
    return target / "lineitem.parquet"


def write_stream(connection: Any, lineitem: Path, folder: Path, files: int) -> ChangeStream:
    """Write the stream as the changes of a DuckDB table.

    Afterwards the table ``lineitem`` of the connection contains the surviving rows. They result
    from DuckDB's own INSERT, DELETE and UPDATE, independently of how change files are read.
    """
    folder.mkdir()
    connection.execute(f"CREATE VIEW generated AS FROM '{lineitem}'")
    connection.execute("CREATE TABLE lineitem AS FROM generated LIMIT 0")
    inserts = files - files // 2
    steps: list[str] = []
    total = 0
    for ordinal, (step, change) in enumerate(_changes(inserts, files)):
        connection.execute(change)
        path = folder / f"{ordinal:03d}.parquet"
        connection.execute(f"COPY changes TO '{path}' (FORMAT parquet)")
        (count,) = connection.execute("SELECT count(*) FROM changes").fetchone()
        _set_time(path, ordinal - files)
        steps.append(f"{step} ({count:,} rows)")
        total += count
    return ChangeStream(folder, inserts, tuple(steps), total)


def _changes(inserts: int, files: int) -> Iterator[tuple[str, str]]:
    """Yield the description and the SQL of each file.

    The SQL fills the table ``changes`` and applies it.
    """
    for part in range(inserts):
        yield "inserts", _insert(f"hash(l_orderkey) % {inserts} = {part}")
    for step in range(files - inserts):
        # Each step takes another remainder, so that it finds rows.
        chosen = f"(hash(l_orderkey) // 1000) % 20 = {step}"
        if step % 2:
            yield "corrections", _update(chosen)
        else:
            yield "deletes", _delete(chosen)


def _insert(where: str) -> str:
    return (
        f"CREATE OR REPLACE TABLE changes AS SELECT *, 'insert' AS op FROM generated WHERE {where};"
        f"INSERT INTO lineitem FROM generated WHERE {where}"
    )


def _delete(where: str) -> str:
    return (
        f"CREATE OR REPLACE TABLE changes AS SELECT *, 'delete' AS op FROM lineitem WHERE {where};"
        f"DELETE FROM lineitem WHERE {where}"
    )


def _update(where: str) -> str:
    return (
        "CREATE OR REPLACE TABLE changes AS"
        f" SELECT *, 'update_preimage' AS op FROM lineitem WHERE {where};"
        f"UPDATE lineitem SET {CORRECTION} WHERE {where};"
        f"INSERT INTO changes SELECT *, 'update_postimage' FROM lineitem WHERE {where}"
    )


def _set_time(path: Path, ordinal: int) -> None:
    moment = path.stat().st_mtime + ordinal * SECONDS_BETWEEN_FILES
    os.utime(path, (moment, moment))
