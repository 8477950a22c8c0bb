"""Compute what identifies an operator and its measures, independently of the rest of the plan.

A measure is the same in two plans if it computes the same over the same rows, grouped by the same
keys. So expressions are resolved to the named columns of tables. The set and order of the other
columns that a plan reads do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from substrait_agg.bind.bound import Expr
from substrait_agg.bind.deep_stack import deep_call
from substrait_agg.bind.plan.fingerprint import canonical, digest
from substrait_agg.flow.graph.graph import (
    Branch,
    FeedbackOrigin,
    FilterStep,
    OperatorOrigin,
    TableOrigin,
    UnnestStep,
)
from substrait_agg.flow.graph.nodes import Flow, Node


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of an operator, as digests.

    Attributes:
        rows: which rows it takes, and how it groups them.
        measures: per measure, `rows` and the computation.
        columns: per output column, its content.
        arguments: per (value, filter) pair that its state reads, what both compute; empty text
            where one is absent.
    """

    rows: str
    measures: tuple[str, ...]
    columns: tuple[str, ...]
    arguments: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _Input:
    """The identity of a branch: of its rows, and of each of its columns."""

    rows: Any
    columns: tuple[Any, ...]


def identities(flow: Flow) -> tuple[Identity, ...]:
    """Return the identity of every operator, by its id, recursing as deep as expressions are nested."""
    return deep_call(_identities, flow)


def _identities(flow: Flow) -> tuple[Identity, ...]:
    by_operator: list[Identity] = []
    for node in flow.operators:
        by_operator.append(
            _identity(node, [_input(branch, by_operator) for branch in node.branches])
        )
    return tuple(by_operator)


def _identity(node: Node, inputs: Sequence[_Input]) -> Identity:
    ports = [branch.port for branch in node.branches]
    grouping = [
        [canonical(key, i.columns) for key in node.inputs[port].keys]
        for port, i in zip(ports, inputs, strict=True)
    ]
    columns = inputs[0].columns if inputs else ()
    per_port = list(zip(ports, inputs, strict=True))
    if node.row_columns is not None:
        columns = tuple(_of_port(column, per_port) for column in node.row_columns)
    *kind, upserts = node.identity()
    details = [canonical(kind, columns), canonical(upserts)]
    details += [ports] if any(ports) else []
    rows = digest([[i.rows for i in inputs], grouping, *details])
    measures = tuple(
        digest([rows, [canonical(measure, i.columns) for i in inputs]]) for measure in node.measures
    )
    names = node.columns
    by_column = {f"v{i}": print_ for i, print_ in enumerate(measures)}
    whole = digest([rows, [[canonical(node.inputs[p].arguments, i.columns)] for p, i in per_port]])
    columns = tuple(by_column.get(n) or digest([whole if n[0] == "v" else rows, n]) for n in names)
    if node.port_columns is not None:
        columns = tuple(digest([rows, _of_port(column, per_port)]) for column in node.port_columns)
    arguments = []
    for port, input_port in enumerate(node.inputs):
        own = [i for p, i in per_port if p == port]
        arguments += [(_expression(v, own), _expression(c, own)) for v, c in input_port.arguments]
    return Identity(rows, measures, columns, tuple(arguments))


def _of_port(column: tuple[int, Expr | None], per_port: Sequence[tuple[int, _Input]]) -> str:
    """Return the digest of an expression over the rows of a port."""
    port, expression = column
    own = [i for p, i in per_port if p == port]
    return digest([port, _expression(expression, own)])


def _expression(expression: Expr | None, inputs: Sequence[_Input]) -> str:
    """Return the digest of an expression over the input columns, with its type."""
    if expression is None:
        return ""
    return digest([canonical(expression.type), [canonical(expression, i.columns) for i in inputs]])


def _input(branch: Branch, below: Sequence[Identity]) -> _Input:
    columns, start = _origin(branch, below)
    filters: list[Any] = []
    for step in branch.steps:
        if isinstance(step, FilterStep):
            filters.append(digest(canonical(step.condition, columns)))
        elif isinstance(step, UnnestStep):
            values = canonical(step.values, columns)
            filters.append(["unnest", digest(values)])
            columns = (*columns, ["element", values])
        else:
            # A column that is passed on keeps its identity: which columns a step drops depends on
            # what else is read.
            columns = tuple(canonical(e, columns) for e in step.expressions)
    return _Input([start, filters], columns)


def _origin(branch: Branch, below: Sequence[Identity]) -> tuple[tuple[Any, ...], Any]:
    """Return the identities of the columns of an origin, and that of its rows."""
    origin = branch.origin
    if isinstance(origin, OperatorOrigin):
        return below[origin.operator].columns, below[origin.operator].rows
    if isinstance(origin, TableOrigin):
        typed = zip(origin.names, origin.types, strict=True)
        columns = [[*origin.table, name, canonical(type_)] for name, type_ in typed]
        if origin.upsert is not None:
            # The fields of the envelope follow, then the flags of omitted values.
            columns += [[*origin.table, "", i] for i in range(origin.upsert.extra)]
        return tuple(columns), list(origin.table)
    if isinstance(origin, FeedbackOrigin):
        return tuple(["feedback", i] for i in range(len(origin.types))), "feedback"
    rows = digest(canonical(origin.rows))
    return tuple([rows, i] for i in range(len(origin.types))), rows
