"""Name columns by the expression that computes them, or by their place if that is long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from substrait_agg.bind.bound import BoundMeasure, Column, Expr, MeasureSort
from substrait_agg.bind.show import show
from substrait_agg.flow.graph.graph import (
    Branch,
    FilterStep,
    OperatorOrigin,
    Origin,
    Step,
    TableOrigin,
    UnnestStep,
)
from substrait_agg.flow.graph.nodes import Flow, Node

Names = tuple[str, ...]

NAME_LIMIT = 100
"""Maximum length of a column name. Without a limit, names made of names double in length at every
step."""

PLACE = "\udfff"
"""Marks a name that is valid within one branch only. `show_text` removes the mark. UTF-8 text cannot
contain it."""

EMPTY = '""'
"""The written form of an empty name."""


@dataclass(frozen=True, slots=True)
class NodeNames:
    """Names of the input columns and of the output columns of an operator.

    Attributes:
        inputs: of the input columns of the first port.
        output: of the output columns.
        ports: of the input columns of each port.
    """

    inputs: Names
    output: Names
    ports: tuple[Names, ...]


def clean(text: str) -> str:
    """Return the text on one line, with unprintable characters escaped.

    These include characters that change the reading direction.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def show_text(text: str) -> str:
    """Return a text for display: clean, and without the marks of place names."""
    return clean(text.replace(PLACE, ""))


def write_expression(expression: Expr, names: Sequence[str]) -> str:
    """Write an expression over columns with these names, compound names in parentheses."""
    if isinstance(expression, Column) and expression.ordinal < len(names):
        return names[expression.ordinal]
    return show(expression, _Operands(names))


def say(expression: Expr, names: Sequence[str]) -> str:
    """Write an expression for display."""
    return show_text(write_expression(expression, names))


class _Operands(Sequence[str]):
    """Names as they appear inside an expression."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, at: Any) -> Any:
        name = self._names[at]
        return f"({name})" if _compound(name) else name


def _compound(name: str) -> bool:
    """Return whether a name has a space outside of parentheses."""
    depth = 0
    for letter in name:
        depth += (letter == "(") - (letter == ")")
        if letter == " " and depth <= 0:
            return True
    return False


def names_of(flow: Flow) -> tuple[NodeNames, ...]:
    """Return the names around each operator."""
    names: list[NodeNames] = []
    for node in flow.operators:
        outputs = [n.output for n in names]
        ports = tuple(
            merged_names([branch_names(branch, outputs)[-1] for branch in port.branches])
            for port in node.inputs
        )
        names.append(NodeNames(ports[0], _output_names(node, ports), ports))
    return tuple(names)


def _output_names(node: Node, ports: Sequence[Names]) -> Names:
    if node.port_columns is not None:
        return tuple(
            "mark" if e is None else _write_named(e, ports[port], f"op{node.id}.v{i}")
            for i, (port, e) in enumerate(node.port_columns)
        )
    inputs = ports[0]
    names = [_write_named(key, inputs, f"op{node.id}.k{i}") for i, key in enumerate(node.keys)]
    names += [_write_named(e, inputs, f"op{node.id}.v{i}") for i, e in enumerate(node.passed_on)]
    names += [short(call_text(m, inputs), f"op{node.id}.m{i}") for i, m in enumerate(node.measures)]
    return (*names, *node.added_columns)


def merged_names(candidates: Sequence[Names]) -> Names:
    """Return the names of columns that come in on several ways; the ordinal where they disagree."""
    columns = zip(*candidates, strict=True)
    return tuple(c[0] if len(set(c)) == 1 else f"{PLACE}#{i}" for i, c in enumerate(columns))


def branch_names(branch: Branch, outputs: Sequence[Names]) -> tuple[Names, ...]:
    """Return the names of a branch's columns: at its origin, then after each step."""
    names = [origin_names(branch.origin, outputs)]
    for place, step in enumerate(branch.steps):
        names.append(_after(step, names[-1], place))
    return tuple(names)


def origin_names(origin: Origin, outputs: Sequence[Names]) -> Names:
    """Return the names of the columns of an origin."""
    if isinstance(origin, OperatorOrigin):
        return outputs[origin.operator]
    if isinstance(origin, TableOrigin):
        return tuple(map(_table_name, enumerate(origin.names)))
    return tuple(f"{PLACE}#{i}" for i in range(len(origin.types)))


def column_name(name: str) -> str:
    """Return a column name of the plan, with invisible characters escaped."""
    return clean(name) or EMPTY


def _table_name(column: tuple[int, str]) -> str:
    ordinal, name = column
    readable = column_name(name)
    return readable if len(readable) <= NAME_LIMIT else f"{readable[: NAME_LIMIT - 8]}...#{ordinal}"


def _after(step: Step, names: Names, place: int) -> Names:
    if isinstance(step, FilterStep):
        return names
    if isinstance(step, UnnestStep):
        return (*names, _write_named(step.values, names, f"{PLACE}step{place + 1}.element"))
    return tuple(
        _write_named(e, names, f"{PLACE}step{place + 1}.c{i}")
        for i, e in enumerate(step.expressions)
    )


def _write_named(expression: Expr, names: Names, place: str) -> str:
    return short(write_expression(expression, names), place)


def short(text: str, place: str) -> str:
    """Return the text as a name, or `place` if the text cannot serve as one.

    It cannot if it is too long, or if it contains a place name that is not valid at `place`.
    """
    if len(text) > NAME_LIMIT or (PLACE in text and PLACE not in place):
        return place
    return PLACE.join(map(clean, text.split(PLACE)))


def call_text(measure: BoundMeasure, names: Sequence[str]) -> str:
    """Write a measure as in SQL."""
    arguments = [write_expression(a, names) for a in measure.arguments]
    if not arguments and measure.kind == "count":
        arguments = ["*"]
    arguments += map(repr, measure.constants)
    distinct = "DISTINCT " if measure.distinct else ""
    order = ", ".join(_write_sort(s, names) for s in measure.order)
    per_set = " by grouping set" if measure.kind == "grouping" else ""
    inside = f"{distinct}{', '.join(arguments)}{per_set}{f' ORDER BY {order}' if order else ''}"
    return f"{_function(measure)}({inside})"


def _function(measure: BoundMeasure) -> str:
    """Return the kind of a measure; the name of a user-defined one."""
    return measure.implementation.rpartition(":")[2] or measure.kind


def _write_sort(sort: MeasureSort, names: Sequence[str]) -> str:
    direction = " DESC" if sort.descending else ""
    nulls = " NULLS FIRST" if sort.nulls_first else ""
    return f"{write_expression(sort.expression, names)}{direction}{nulls}"
