"""A materialization of SQLMesh that maintains a model by the changes of what it reads.

SQLMesh gives every version of a model a physical table. This materialization gives each of these tables a checkpoint of
its own, so an edited model starts from an empty one and the others continue. A model that reads another one of this kind reads its changes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from sqlglot import exp
from sqlmesh import CustomMaterialization

PROGRAM = os.environ.get("SUBSTRAIT_AGG", "substrait-agg")
"""The command; it may be in another environment than SQLMesh."""


class SubstraitAggViews(CustomMaterialization):
    """Run the query of a model with substrait-agg, and copy the rows of the view to its table.

    The property ``'schema.table' = 'SPEC'`` of a model says where the changes of a table outside of SQLMesh are.
    """

    NAME = "substrait_agg"

    def insert(
        self, table_name: str, query_or_df: Any, model: Any, is_first_insert: bool, **_: Any
    ) -> None:
        """Process the new changes. The first time, and after a restatement, process all rows."""
        folder = _folder(exp.to_table(table_name).name)
        if is_first_insert:
            shutil.rmtree(folder, ignore_errors=True)
        query, sources = _with_sources(query_or_df, model.custom_materialization_properties)
        command = [PROGRAM, "run", "--query", query.sql(dialect="postgres"), "--no-progress"]
        command += [f"--source={name}={spec}" for name, spec in sources.items()]
        command += [f"--checkpoint={folder / 'checkpoint'}"]
        command += [f"--output=view-parquet={folder}", f"--output=changes-parquet={folder / 'changes'}"]  # fmt: skip
        subprocess.run(command, check=True)
        rows = exp.select("*").from_(exp.func("read_parquet", exp.Literal.string(f"{folder}/view.parquet")))  # fmt: skip
        self.adapter.replace_query(table_name, rows, model.columns_to_types)

    def delete(self, name: str, **kwargs: Any) -> None:
        """Delete the table of a model and its checkpoint."""
        super().delete(name, **kwargs)
        shutil.rmtree(_folder(exp.to_table(name).name), ignore_errors=True)


def _folder(table: str) -> Path:
    """Return the folder of the checkpoint and the outputs of a physical table."""
    return Path(os.environ.get("VIEWS", "views")).absolute() / table


def _with_sources(query: Any, specs: dict[str, Any]) -> tuple[Any, dict[str, str]]:
    """Return a query with plain names of tables, and the source of each of these tables."""
    sources = {}
    query = query.copy()
    for table in query.find_all(exp.Table):
        if not table.db:  # a name of WITH
            continue
        spec = specs.get(f"{table.db}.{table.name}")
        sources[table.name] = (
            getattr(spec, "name", spec) or f"parquet:{_folder(table.name)}/changes?weight=__weight"
        )
        table.set("db", None)
        table.set("catalog", None)
    return query, sources
