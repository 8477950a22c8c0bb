"""Say where a batch failed: the views, the operator, and the expressions that can have failed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from substrait_agg.bind.bound import Call, Conversion, Expr
from substrait_agg.bind.rewrite import subexpressions
from substrait_agg.errors import RunFailed
from substrait_agg.explanation.names import Names, branch_names, names_of, say
from substrait_agg.flow.graph.graph import step_expressions
from substrait_agg.flow.graph.nodes import Flow, Node, all_operators_below
from substrait_agg.functions.scalars.catalogue import SCALARS
from substrait_agg.functions.spark_sql import SPARK_SQL

CODES = frozenset({"BATCH_FAILED", "CAST_INVALID", "DECIMAL_TOO_WIDE", "RESULT_OVERFLOW"})
"""Errors of values that an operator or its input computes."""

MOST_LISTED = 3
"""Maximum number of expressions in a message."""

_ARITHMETIC = frozenset(name for name, row in SCALARS.items() if row.has_option("OVERFLOW"))
_QUOTIENTS = frozenset(n for n in _ARITHMETIC if SCALARS[n].has_option("ON_DOMAIN_ERROR"))
_CONVERSION = "conversion"
_FAILING: tuple[tuple[str, frozenset[str]], ...] = (
    (r"\[(?:DIVIDE|REMAINDER)_BY_ZERO|^DECIMAL_TOO_WIDE", _QUOTIENTS | {SPARK_SQL}),
    (r"ARITHMETIC_OVERFLOW|INTERVAL_ARITHMETIC", _ARITHMETIC | {SPARK_SQL}),
    (r"\[NUMERIC_VALUE_OUT_OF_RANGE", _ARITHMETIC | {_CONVERSION, SPARK_SQL}),
    (r"\[CAST_|^CAST_INVALID", frozenset({_CONVERSION, SPARK_SQL})),
)
"""Pattern of a code and a message -> the functions of which one has failed.

The text of an expression that Spark computes may have any of them.
"""


def with_place(
    flow: Flow, node: Node | None, error: RunFailed, failed: Expr | None = None
) -> RunFailed:
    """Return the error of a batch with its views, its place in the plan, and the expression.

    Args:
        flow: the flow of the run.
        node: the operator that was computed; None if it can be any of them.
        error: the error; one that is not about a value is returned unchanged.
        failed: the expression of the operator's input that failed; None if it is not known. The
            expressions that can have failed in this way are then listed.
    """
    if error.code not in CODES:
        return error
    searched = flow.operators if node is None else (node,)
    suspects = [(n, text) for n in searched for text in _texts(flow, n, error, failed)]
    nodes = list({n.id: n for n, _ in suspects}.values()) or ([] if node is None else [node])
    if not nodes:
        return error
    parts = [error.message.rstrip(".")]
    if len(flow.views) > 1:
        views = [v.name for v in flow.views if any(_needs(flow, v.operator, n) for n in nodes)]
        parts.append(f"in view{'s' if len(views) > 1 else ''} {', '.join(views)}")
    parts += _list_texts(list(dict.fromkeys(text for _, text in suspects)))
    place = nodes[0].path if len(nodes) == 1 else ""
    return RunFailed(error.code, ", ".join(parts), help=error.help, path=error.path or place)


def _list_texts(texts: Sequence[str]) -> list[str]:
    if len(texts) < 2:
        return [f"in the expression {text}" for text in texts]
    more = f"; or {len(texts) - MOST_LISTED} more" if len(texts) > MOST_LISTED else ""
    return [f"in one of the expressions {'; '.join(texts[:MOST_LISTED])}{more}"]


def _needs(flow: Flow, operator: int, node: Node) -> bool:
    return operator == node.id or node.id in all_operators_below(flow, flow.operators[operator])


def _texts(flow: Flow, node: Node, error: RunFailed, failed: Expr | None) -> Iterator[str]:
    """Yield the expressions that can have failed, as explain writes them."""
    said = f"{error.code} {error.message}"
    nothing: frozenset[str] = frozenset()
    functions = next((names for pattern, names in _FAILING if re.search(pattern, said)), nothing)
    for expression, names in _expressions(flow, node):
        if expression == failed if failed is not None else _calls(expression, functions):
            yield say(expression, names)


def _expressions(flow: Flow, node: Node) -> Iterator[tuple[Expr, Names]]:
    """Yield the expressions that are computed per input row, with the names of their columns."""
    around = names_of(flow)
    outputs = [names.output for names in around]
    for port, port_names in zip(node.inputs, around[node.id].ports, strict=True):
        for branch in port.branches:
            for step, names in zip(branch.steps, branch_names(branch, outputs), strict=False):
                own = step_expressions(step)
                yield from ((expression, names) for expression in own)
        own_arguments = (e for argument in port.arguments for e in argument if e is not None)
        yield from ((expression, port_names) for expression in (*port.keys, *own_arguments))


def _calls(expression: Expr, functions: frozenset[str]) -> bool:
    """Return whether an expression calls one of the functions, itself or in a part."""
    return any(_name(part) in functions for part in subexpressions(expression))


def _name(part: Expr) -> str:
    if isinstance(part, Conversion):
        return "" if part.null_on_failure else _CONVERSION
    return part.function if isinstance(part, Call) else ""
