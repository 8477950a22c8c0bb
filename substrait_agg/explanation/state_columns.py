"""Name the columns of each operator's state, and describe its numbers."""

from __future__ import annotations

from substrait_agg.bind.deep_stack import deep_call
from substrait_agg.explanation.names import NodeNames, names_of, say, shown
from substrait_agg.explanation.state import argument_text, state_of, stored_names
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
    pairs = zip(flow.operators, names_of(flow), strict=True)
    return tuple(_operator_columns(node, names) for node, names in pairs)


def _operator_columns(node: Node, names: NodeNames) -> OperatorColumns:
    state = state_of(node, names)
    keys, values = _key_and_value_names(node, names)
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
            TreeColumns(described.what, values)
            for described, values in zip(state.trees, _tree_columns(node, names), strict=True)
        ),
    )


def _key_and_value_names(node: Node, names: NodeNames) -> tuple[list[str], list[str]]:
    columns = [shown(name) for name in names.output]
    if node.port_columns is not None:
        return [say(key, names.inputs) for key in node.keys], columns
    keys, values = columns[: len(node.keys)], columns[len(node.keys) :]
    if node.sets:  # the set index is the last output column, and the last state key
        return [*keys, values[-1]], values[:-1]
    return keys, values


def _tree_columns(node: Node, names: NodeNames) -> tuple[tuple[str, ...], ...]:
    """Return the names of the values of every tree."""
    if node.port_columns is not None:
        return tuple(map(stored_names, node.inputs, names.ports))
    return tuple(
        tuple(argument_text(c.argument, node, names.inputs) for c in tree.components)
        for tree in node.trees
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
