"""Split an aggregate over sessions into two operators: one forms sessions, one aggregates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from substrait_agg.bind.bound import BoundAggregate, BoundRelation, Call, Column, Expr
from substrait_agg.bind.rewrite import call_durations, renumber, renumber_measure
from substrait_agg.flow.graph.graph import (
    Branch,
    OperatorOrigin,
    StatePerGroup,
    TreeComponent,
    ValueTree,
)
from substrait_agg.flow.graph.nodes import Node, Port
from substrait_agg.flow.graph.sessionize import Sessionize
from substrait_agg.flow.passes.branches import find_needed, positions_of
from substrait_agg.functions.aggregates.accumulators import (
    EarlyRetraction,
    WeightKind,
    tree_counters,
)

Inputs = Callable[[BoundRelation, tuple[int, ...]], tuple[Branch, ...]]
"""Returns the branches of a relation with some of its columns."""

InputProperties = Callable[[tuple[Branch, ...]], tuple[WeightKind, EarlyRetraction]]
"""Returns what is known about the weights of branches, and the early-retraction policy."""


def is_session(key: Expr) -> bool:
    """Return whether a grouping expression is a session."""
    return isinstance(key, Call) and key.function == "session"


def _parts(relation: BoundAggregate) -> tuple[int, Call, tuple[Expr, ...], tuple[Column, ...]]:
    """Return the session's ordinal among the keys, the session, the other keys and columns.

    The columns are those that measures read.
    """
    at = next(i for i, key in enumerate(relation.keys) if is_session(key))
    call = relation.keys[at]
    if not isinstance(call, Call):
        raise TypeError(call)
    others = (*relation.keys[:at], *relation.keys[at + 1 :])
    read = find_needed([e for m in relation.measures for e in m.expressions])
    types = relation.input.types
    return at, call, others, tuple(Column(types[o], o) for o in read)


def session_node(
    relation: BoundAggregate,
    number: Callable[[], int],
    inputs_of: Inputs,
    properties: InputProperties,
) -> Sessionize:
    """Return the operator that forms the sessions of an aggregate.

    Args:
        relation: one of its keys is a session.
        number: returns the operator's id, once the operators that it reads have theirs.
        inputs_of: returns the branches of its input.
        properties: returns what is known about them.
    """
    _, call, others, columns = _parts(relation)
    time = call.arguments[0]
    ordinals = find_needed((*others, time, *columns))
    inputs = inputs_of(relation.input, ordinals)
    weight, early = properties(inputs)
    places = positions_of(ordinals)
    arguments = tuple((renumber(e, places), None) for e in (time, *columns))
    tree = ValueTree(tuple(map(TreeComponent, range(len(arguments)))), (), None)  # by time
    return Sessionize(
        id=number(),
        inputs=(Port(inputs, tuple(renumber(k, places) for k in others), arguments),),
        types=(*(k.type for k in others), call.type, *(c.type for c in columns)),
        weight="weighted" if early == "quarantine" else weight,
        path=relation.path,
        groups=StatePerGroup(
            trees=(tree,),
            accumulators=tree_counters(0),
            guard=None if early == "carry" else 0,  # the tree has all columns that are read
        ),
        early=early,
        gap=call_durations(call.arguments)[0],
        call=renumber_call(call, places),
    )


def renumber_call(call: Call, places: Mapping[int, int]) -> Call:
    """Return the call over a row whose column `o` has moved to ``places[o]``."""
    return replace(call, arguments=tuple(renumber(a, places) for a in call.arguments))


def over(node: Node) -> tuple[Branch, ...]:
    """Return a branch with the unchanged changes of an operator."""
    return (Branch(OperatorOrigin(node.id, node.types), ()),)


def over_sessions(relation: BoundAggregate) -> BoundAggregate:
    """Return the aggregate over the output of its session operator.

    Its input columns are the other keys, the session, and the columns that measures read.
    """
    at, call, others, columns = _parts(relation)
    keys: list[Expr] = [Column(k.type, i) for i, k in enumerate(others)]
    keys.insert(at, Column(call.type, len(others)))
    first = len(others) + 1
    places = {c.ordinal: first + i for i, c in enumerate(columns)}
    return replace(
        relation,
        keys=tuple(keys),
        measures=tuple(renumber_measure(m, places) for m in relation.measures),
    )
