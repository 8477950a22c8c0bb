"""Name the columns of each operator's state, and describe its numbers."""

from __future__ import annotations

from dataclasses import dataclass

from substrait_agg.bind.deep_stack import deep_call
from substrait_agg.explanation.names import Names, names_of, shown
from substrait_agg.explanation.state import argument_text, state_of
from substrait_agg.flow.graph.nodes import Flow, Node
from substrait_agg.functions.aggregates.accumulators import Accumulator


@dataclass(frozen=True, slots=True)
class AccumulatorText:
    """An accumulator.

    Attributes:
        what: the number in words.
        kind: kind of the accumulator.
        digits: number of fixed digits; 0 for floats.
        scale: decimal places of its unit.
        tree: ordinal of its tree, or -1.
    """

    what: str
    kind: str
    digits: int
    scale: int
    tree: int


@dataclass(frozen=True, slots=True)
class StateColumns:
    """The columns of an operator's state.

    Attributes:
        kind: kind of operator.
        keys: names of its key columns.
        values: names of its other output columns.
        numbers: its accumulators.
        trees: per ordered tree its description and the names of its components.
    """

    kind: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    numbers: tuple[AccumulatorText, ...]
    trees: tuple[tuple[str, tuple[str, ...]], ...]


def state_columns(flow: Flow) -> tuple[StateColumns, ...]:
    """Return the state columns of every operator of a flow.

    The function recurses as deep as expressions are nested.
    """
    return deep_call(_columns_of_flow, flow)


def _columns_of_flow(flow: Flow) -> tuple[StateColumns, ...]:
    names = names_of(flow)
    return tuple(
        _operator_columns(node, names[node.id].inputs, names[node.id].output)
        for node in flow.operators
    )


def _operator_columns(node: Node, inputs: Names, output: Names) -> StateColumns:
    state = state_of(node, inputs, output)
    columns = [shown(name) for name in output]
    keys, values = columns[: len(node.keys)], columns[len(node.keys) :]
    if node.sets:  # the set index is the last output column, and the last state key
        keys, values = [*keys, values[-1]], values[:-1]
    return StateColumns(
        kind=node.describe().kind,
        keys=tuple(keys),
        values=tuple(values),
        numbers=tuple(
            AccumulatorText(
                told.what, a.kind, 0 if a.floating else a.digits, _scale(node, a), a.tree
            )
            for told, a in zip(state.accumulators, node.accumulators, strict=True)
        ),
        trees=tuple(
            (
                told.what,
                tuple(argument_text(c.argument, node, inputs) for c in tree.components),
            )
            for told, tree in zip(state.trees, node.trees, strict=True)
        ),
    )


def _scale(node: Node, accumulator: Accumulator) -> int:
    """Return the decimal places of the unit of a decimal total."""
    if accumulator.kind != "decimal" or not 0 <= accumulator.argument < len(node.arguments):
        return 0
    value, _ = node.arguments[accumulator.argument]
    if value is None or value.type.kind != "decimal":
        return 0
    return value.type.params[1]
