"""What the columns of each operator's state are called, and what the numbers in it count or add up."""

from __future__ import annotations

from dataclasses import dataclass

from substrait_agg.bind.deep_stack import deep_call
from substrait_agg.explanation.names import Names, names_of, shown
from substrait_agg.explanation.state import argument_text, state_of
from substrait_agg.flow.graph.nodes import Flow, Node
from substrait_agg.functions.aggregates.accumulators import Accumulator


@dataclass(frozen=True, slots=True)
class Number:
    """An accumulator: in words, as which kind, in how many fixed digits, decimal places of its unit, and of which tree."""

    what: str
    kind: str
    digits: int
    scale: int
    tree: int


@dataclass(frozen=True, slots=True)
class StateColumns:
    """What an operator keeps.

    Attributes:
        kind: what the operator is.
        keys: names of its key columns.
        values: names of its other output columns.
        numbers: its accumulators.
        trees: per ordered tree what it is, and the names of its components.
    """

    kind: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    numbers: tuple[Number, ...]
    trees: tuple[tuple[str, tuple[str, ...]], ...]


def kept_by(flow: Flow) -> tuple[StateColumns, ...]:
    """What every operator of a flow keeps; recurses as deep as its expressions are nested."""
    return deep_call(_kept_by, flow)


def _kept_by(flow: Flow) -> tuple[StateColumns, ...]:
    names = names_of(flow)
    return tuple(
        _kept(node, names[node.id].inputs, names[node.id].output) for node in flow.operators
    )


def _kept(node: Node, inputs: Names, output: Names) -> StateColumns:
    state = state_of(node, inputs, output)
    columns = [shown(name) for name in output]
    keys, values = columns[: len(node.keys)], columns[len(node.keys) :]
    if node.sets:  # the index of the set is the last output column, and the last key of the state
        keys, values = [*keys, values[-1]], values[:-1]
    return StateColumns(
        kind=node.describe().kind,
        keys=tuple(keys),
        values=tuple(values),
        numbers=tuple(
            Number(told.what, a.kind, 0 if a.floating else a.digits, _scale(node, a), a.tree)
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
    """Decimal places of the unit of a decimal total."""
    if accumulator.kind != "decimal" or not 0 <= accumulator.argument < len(node.arguments):
        return 0
    value, _ = node.arguments[accumulator.argument]
    if value is None or value.type.kind != "decimal":
        return 0
    return value.type.params[1]
