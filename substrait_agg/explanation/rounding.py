"""Find the decimals that a plan rounds: their types have fewer digits than the exact values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from substrait_agg.bind.bound import BoundMeasure, Call, Conversion, Expr
from substrait_agg.bind.rewrite import subexpressions
from substrait_agg.explanation.names import (
    NAME_LIMIT,
    Names,
    NodeNames,
    branch_names,
    call_text,
    say,
    show_text,
)
from substrait_agg.explanation.tree import ExplainedRounding
from substrait_agg.flow.graph.graph import Branch, FilterStep, UnnestStep
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.functions.signatures.derive import FLOATS, as_decimal
from substrait_agg.plan.types import Type

ENDLESS = 1_000
"""Digits after the point of a value that can have any number of them, as a third."""


def roundings_of(
    node: Node, names: NodeNames, outputs: Sequence[Names]
) -> tuple[ExplainedRounding, ...]:
    """Return the decimals that an operator and the steps of its inputs round, each once.

    Args:
        node: the operator.
        names: the names around it.
        outputs: the names of the output columns of every operator.
    """
    roundings = (*_of_inputs(node, outputs), *_of_operator(node, names))
    return tuple(dict.fromkeys(roundings))


def _of_inputs(node: Node, outputs: Sequence[Names]) -> Iterator[ExplainedRounding]:
    for branch in node.branches:
        for expressions, before in _steps(branch, outputs):
            yield from _in_expressions(expressions, before)


def _steps(branch: Branch, outputs: Sequence[Names]) -> Iterator[tuple[tuple[Expr, ...], Names]]:
    """Yield the expressions of each step, and the names of the columns that they read."""
    names = branch_names(branch, outputs)
    for step, before in zip(branch.steps, names, strict=False):
        match step:
            case FilterStep(condition=condition):
                yield (condition,), before
            case UnnestStep(values=values):
                yield (values,), before
            case _:
                yield step.expressions, before


def _of_operator(node: Node, names: NodeNames) -> Iterator[ExplainedRounding]:
    for port, columns in zip(node.inputs, names.ports, strict=True):
        arguments = (e for argument in port.arguments for e in argument if e is not None)
        yield from _in_expressions((*port.keys, *arguments), columns)
    if node.pair_condition is not None:
        yield from _in_expressions((node.pair_condition,), pair_names(node, names.ports))
    for measure in (*node.measures, *node.frame_measures):
        digits = _digits_lost(measure.type, _measure_scale(measure))
        if digits is not None:
            yield _explain_rounding(show_text(call_text(measure, names.inputs)), digits)


def pair_names(node: Node, ports: Sequence[Names]) -> Names:
    """Return the names of the columns that the condition of pairs of rows reads."""
    return tuple(
        f"{'' if e is None else say(e, ports[port])} of input {port}"
        for port, e in node.row_columns or ()
    )


def _in_expressions(expressions: Sequence[Expr], names: Names) -> Iterator[ExplainedRounding]:
    for part in subexpressions(*expressions):
        digits = _digits_lost(part.type, _scale(part))
        if digits is not None:
            yield _explain_rounding(say(part, names), digits)


def _explain_rounding(text: str, digits: int) -> ExplainedRounding:
    """Return a rounding; a long expression is cut, because every part of it may be rounded."""
    cut = text if len(text) <= NAME_LIMIT else f"{text[: NAME_LIMIT - 4]} ..."
    return ExplainedRounding(cut, digits)


def _digits_lost(type_: Type, exact: int) -> int | None:
    """Return the digits after the point of a type, None if the exact value has no more of them."""
    if type_.kind != "decimal" or exact <= type_.params[1]:
        return None
    return type_.params[1]


def _scale(expression: Expr) -> int:
    """Return the digits after the point of the exact value of an expression; 0 if it is given."""
    match expression:
        case Conversion(input=inner):
            return ENDLESS if inner.type.kind in FLOATS else _scale_of(inner.type)
        case Call(function="divide"):
            return ENDLESS
        case Call(function="multiply", arguments=arguments):
            return sum(_scale_of(a.type) for a in arguments)
        case Call(function="add" | "subtract" | "modulus", arguments=arguments):
            return max(_scale_of(a.type) for a in arguments)
        case _:
            return 0


def _measure_scale(measure: BoundMeasure) -> int:
    """Return the digits after the point of the exact value of a measure."""
    if measure.kind in ("avg", "percentile_cont"):
        return ENDLESS
    values = [_scale_of(a.type) for a in measure.arguments]
    if measure.kind == "median":  # half of a sum of two values
        return max(values) + 1
    return max(values, default=0) if measure.kind in ("sum", "sum0") else 0


def _scale_of(type_: Type) -> int:
    decimal = as_decimal(type_)
    return decimal.params[1] if decimal.kind == "decimal" else 0
