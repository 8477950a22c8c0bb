"""Name the columns of each operator's state, and describe its numbers."""

from __future__ import annotations

from substrait_agg.bind.deep_stack import deep_call
from substrait_agg.explanation.names import Names, names_of, shown
from substrait_agg.explanation.state import argument_text, state_of
from substrait_agg.explanation.tree import NumberColumns, OperatorColumns, TreeColumns
from substrait_agg.flow.graph.nodes import Flow, Node
from substrait_agg.functions.aggregates.accumulators import Accumulator
from substrait_agg.required import required


def state_columns(flow: Flow) -> tuple[OperatorColumns, ...]:
    """Return the state columns of every operator of a flow.

    The function recurses as deep as expressions are nested.
    """
    return deep_call(_columns_of_flow, flow)


def _columns_of_flow(flow: Flow) -> tuple[OperatorColumns, ...]:
    names = names_of(flow)
    return tuple(
        _operator_columns(node, names[node.id].inputs, names[node.id].output)
        for node in flow.operators
    )


def _operator_columns(node: Node, inputs: Names, output: Names) -> OperatorColumns:
    state = state_of(node, inputs, output)
    columns = [shown(name) for name in output]
    keys, values = columns[: len(node.keys)], columns[len(node.keys) :]
    if node.sets:  # the set index is the last output column, and the last state key
        keys, values = [*keys, values[-1]], values[:-1]
    return OperatorColumns(
        kind=node.describe().kind,
        keys=tuple(keys),
        values=tuple(values),
        numbers=tuple(
            NumberColumns(
                described.what, a.kind, 0 if a.floating else a.digits, _scale(node, a), a.tree
            )
            for described, a in zip(state.accumulators, node.accumulators, strict=True)
        ),
        trees=tuple(
            TreeColumns(
                described.what,
                tuple(argument_text(c.argument, node, inputs) for c in tree.components),
            )
            for described, tree in zip(state.trees, node.trees, strict=True)
        ),
    )


def _scale(node: Node, accumulator: Accumulator) -> int:
    """Return the decimal places of the unit of a decimal total."""
    if accumulator.kind != "decimal":
        return 0
    argument = required(accumulator.argument)
    if argument >= len(node.arguments):  # a column that a user-defined measure computes
        return 0
    value, _ = node.arguments[argument]
    if value is None or value.type.kind != "decimal":
        return 0
    return value.type.params[1]
