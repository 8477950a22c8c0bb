"""Turn output rows of operators into the input rows of the operator above."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from substrait_agg.bind.bound import Expr
from substrait_agg.evaluation.expressions import evaluate, supports
from substrait_agg.evaluation.steps import (
    apply_steps,
    argument_values,
    supports_steps,
    whole,
    with_sets,
)
from substrait_agg.flow.graph.graph import Branch, RowsOrigin, TableOrigin
from substrait_agg.flow.graph.nodes import Node, Port
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import Type
from substrait_agg.state.keys.canonical import canonical


class NotComputable(Exception):
    """Raised when rows cannot be computed from the stored state; the text is the reason."""


def check_computable(types: Sequence[Type], node: Node, branch: Branch) -> None:
    """Check that the rows of a branch can be computed here with exactly the values of Spark.

    Raises:
        NotComputable: they cannot.
    """
    port = node.inputs[branch.port]
    read = [*port.keys, *(e for argument in port.arguments for e in argument if e is not None)]
    nested = any(pa.types.is_nested(to_arrow(t)) for t in (*types, *(e.type for e in read)))
    if nested or not supports_steps(branch.steps) or not all(map(supports, read)):
        raise NotComputable("only Spark can compute an expression between the operators")


def written_rows(origin: RowsOrigin) -> pa.Table:
    """Return the rows that are written in the plan: ``c0``, ``c1``, ..., each with weight 1.

    Raises:
        NotComputable: they have other expressions than constants.
    """
    expressions = [e for row in origin.rows for e in row]
    if not all(map(supports, expressions)):
        raise NotComputable("only Spark can compute the rows that are written in the plan")
    types = [to_arrow(t) for t in origin.types]
    columns = [
        pa.concat_arrays([pa.array([], type_), *(_one(row[i], type_) for row in origin.rows)])
        for i, type_ in enumerate(types)
    ]
    return output_table(columns, np.ones(len(origin.rows), np.int64))


def _one(expression: Expr, type_: pa.DataType) -> pa.Array:
    return evaluate(expression, [], 1).cast(type_)


def output_table(columns: Sequence[pa.Array], weights: object) -> pa.Table:
    """Return rows as `port_rows` reads them: ``c0``, ``c1``, ..., and the weight."""
    names = [f"c{i}" for i in range(len(columns))]
    return pa.table([*columns, pa.array(weights, pa.int64())], [*names, WEIGHT])


def port_rows(node: Node, branch: Branch, rows: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield rows as input rows of a port: ``k*``, ``x*`` and the weight, for all grouping sets.

    The values of the port are ``x0``, ``x1``, ... whatever the number of the port.

    Raises:
        RunFailed: a value cannot be computed.
    """
    port = node.inputs[branch.port]
    for part in rows:
        stepped = apply_steps(part, branch.steps, carried=(WEIGHT,))
        if stepped.num_rows:
            yield with_sets(_prepare(port, stepped), node)


def _prepare(port: Port, rows: pa.Table) -> pa.Table:
    count = rows.num_rows
    columns = [whole(rows.column(name)) for name in rows.column_names if name != WEIGHT]
    prepared = {
        f"k{i}": canonical(evaluate(key, columns, count)) for i, key in enumerate(port.keys)
    }
    for i, values in enumerate(argument_values(port.arguments, columns, count)):
        prepared[f"x{i}"] = canonical(values)
    return pa.table({**prepared, WEIGHT: whole(rows.column(WEIGHT))})


class TableReader(Protocol):
    """Reads the rows again that tables have given up to the newest version of a checkpoint."""

    def rows(self, origin: TableOrigin) -> Iterator[pa.Table]:
        """Yield rows of a table as `port_rows` reads them: ``c0``, ``c1``, ..., and the weight.

        Raises:
            NotComputable: they cannot be read, or may not be those that the checkpoint has read.
        """


def table_rows(origin: TableOrigin, tables: TableReader | None) -> Iterator[pa.Table]:
    """Return the rows of a table.

    Raises:
        NotComputable: they cannot be read.
    """
    if tables is None:
        name = ".".join(origin.table)
        raise NotComputable(
            f"rows of the table {name} are not stored; --source {name}=... reads them again"
        )
    return tables.rows(origin)
