"""Rewrite NOT IN with a subquery so that it handles nulls as SQL does.

DataFusion marks the anti join of such a NOT IN as null-aware, and Substrait has no place for the
mark. ``x NOT IN (SELECT y ...)`` is true for the rows without a match for which no y is null, and x
is not null or there is no y. These are three plain anti joins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from substrait import algebra_pb2

from substrait_agg.sql_planner.corrections.functions import Functions
from substrait_agg.sql_planner.corrections.messages import messages
from substrait_agg.sql_planner.query.logical_plans import below, subquery_text
from substrait_agg.sql_planner.query.tokens import QueryText, Token

_HELP = "write NOT EXISTS (SELECT ... WHERE ...)"
_JOIN = algebra_pb2.JoinRel


def rewrite_not_in(plan: Any, optimized: Any, query: QueryText) -> None:
    """Rewrite the null-aware anti joins of a plan.

    Args:
        plan: the plan; it is changed.
        optimized: the logical plan that it was made from.
        query: the query, for errors.

    Raises:
        SqlRefused: SQL_NOT_IN: a subquery of NOT IN depends on the outer query in a way that hides
            which comparison is that of NOT IN.
    """
    written = [r for r in messages(plan, "substrait.Rel") if _is_anti(r)]
    logical = list(anti_joins(optimized))
    aware = [number for number, join in enumerate(logical) if is_null_aware(join)]
    if not aware:
        return
    functions = Functions(plan)
    for number in reversed(aware):
        rewritten = _rewritten(written[number], functions) if len(written) == len(logical) else None
        if rewritten is None:
            token = _not_in(query.tokens)
            message = "NOT IN with this subquery cannot be written as joins"
            raise query.refused_token("SQL_NOT_IN", token, message, _HELP)
        written[number].CopyFrom(rewritten)


def check_marks(logical: Any, query: QueryText) -> None:
    """Refuse IN with a subquery whose value for nulls matters inside of OR, NOT or CASE.

    DataFusion computes such an IN as a mark that is false instead of null.

    Args:
        logical: the logical plan before it was optimized.
        query: the query, for errors.

    Raises:
        SqlRefused: SQL_NOT_IN.
    """
    outer = [plan for plan in below(logical) if plan.display().startswith(_FILTER)]
    inner = subquery_text(logical)
    # A name or a text with line breaks spreads a relation over several lines.
    has_breaks = any("\n" in token.text for token in query.tokens)
    lines = [line.strip() for line in inner.split("\n")]
    filters = [inner] if has_breaks else [line for line in lines if line.startswith(_FILTER)]
    if any(_loses_null(plan.to_variant().predicate()) for plan in outer) or any(
        map(_may_lose_null, filters)
    ):
        message = "IN with a subquery is negated inside of OR, NOT or CASE, where its value for nulls matters"
        raise query.refused_token("SQL_NOT_IN", _not_in(query.tokens), message, _HELP)


_FILTER = "Filter: "
_IN_SUBQUERY = "IN (<subquery>)"
_NEGATION = re.compile(r"\bNOT (?!EXISTS\b|LIKE\b|ILIKE\b|NULL\b|BETWEEN\b|IN \((?!<subquery>))")


def _loses_null(condition: Any) -> bool:
    """Return whether a condition negates an IN inside of another operator."""
    waiting = [(condition, False, False)]
    while waiting:
        part, negated, inside = waiting.pop()
        kind = part.variant_name()
        if kind == "InSubquery":
            if inside and negated != part.to_variant().negated():
                return True
        elif kind == "Not":
            inner = part.rex_call_operands()[0]
            waiting.append((inner, not negated, inside or inner.variant_name() != "InSubquery"))
        elif kind == "BinaryExpr" and part.rex_call_operator() in ("AND", "OR"):
            deeper = inside or part.rex_call_operator() == "OR"
            waiting.extend((side, negated, deeper) for side in part.rex_call_operands())
        elif _IN_SUBQUERY in part.canonical_name():
            return True
    return False


def _may_lose_null(line: str) -> bool:
    """Return whether a condition, as DataFusion shows it without all parentheses, may negate an IN."""
    several = re.search(r" (?:AND|OR) |\bCASE\b", line) is not None
    return _IN_SUBQUERY in line and several and _NEGATION.search(line) is not None


def anti_joins(plan: Any) -> Iterator[Any]:
    """Yield the left anti joins of a logical plan, outer ones first."""
    return (found for found in below(plan) if found.display().startswith("LeftAnti Join"))


def is_null_aware(join: Any) -> bool:
    """Return whether an anti join of a logical plan comes from NOT IN over nullable values."""
    return bool(join.display().endswith(" null_aware"))


def _is_anti(rel: Any) -> bool:
    return bool(rel.HasField("join") and rel.join.type == _JOIN.JOIN_TYPE_LEFT_ANTI)


def _rewritten(rel: Any, functions: Functions) -> Any | None:
    """Return the relation without the rows that NOT IN removes because of nulls.

    None if the comparison of NOT IN cannot be told from the others.
    """
    parts = list(functions.conjuncts(rel.join.expression))
    sides = _compared(parts[0], functions)
    if sides is None:
        return None
    value, other = sides
    right_start = other.selection.direct_reference.struct_field.field
    rest = parts[1:]
    if rest and (_left_width(rel, functions) != right_start or not _has_key(rest, functions)):
        return None
    nulls = _filtered(rel.join.right, functions.call("is_null", _first_column()))
    without_nulls = _anti(rel, nulls, rest, functions)
    value_is_null = functions.call("is_null", value)
    return _anti(without_nulls, rel.join.right, [value_is_null, *rest], functions)


def _compared(condition: Any, functions: Functions) -> tuple[Any, Any] | None:
    """Return the sides of ``value = column``; None for any other condition."""
    if functions.scalar(condition) != "equal":
        return None
    left, right = (argument.value for argument in condition.scalar_function.arguments)
    return (left, right) if right.HasField("selection") else None


def _filtered(rel: Any, condition: Any) -> Any:
    """Return the rows of a relation that meet a condition."""
    relation = algebra_pb2.Rel()
    relation.filter.common.direct.SetInParent()
    relation.filter.input.CopyFrom(rel)
    relation.filter.condition.CopyFrom(condition)
    return relation


def _anti(left: Any, right: Any, conditions: list[Any], functions: Functions) -> Any:
    """Return the rows of the left relation for which no row of the right one meets conditions.

    Without a comparison of both sides, whether the right relation has a row decides.
    """
    has_key = _has_key(conditions, functions)
    relation = algebra_pb2.Rel()
    relation.join.common.direct.SetInParent()
    relation.join.left.CopyFrom(left)
    relation.join.type = _JOIN.JOIN_TYPE_LEFT_ANTI
    relation.join.right.CopyFrom(right if has_key else _any_row(right, functions))
    if not conditions:
        relation.join.expression.literal.boolean = True
    elif len(conditions) == 1:
        relation.join.expression.CopyFrom(conditions[0])
    else:
        relation.join.expression.CopyFrom(functions.call("and", *conditions))
    return relation


def _has_key(conditions: list[Any], functions: Functions) -> bool:
    """Return whether a condition compares both sides of a join."""
    return any(functions.scalar(condition) == "equal" for condition in conditions)


def _any_row(rel: Any, functions: Functions) -> Any:
    """Return one row if a relation has rows: their number, if it is above zero."""
    counted = algebra_pb2.Rel()
    counted.aggregate.common.direct.SetInParent()
    counted.aggregate.input.CopyFrom(rel)
    measure = counted.aggregate.measures.add().measure
    measure.function_reference = functions.anchor("count")
    measure.phase = algebra_pb2.AGGREGATION_PHASE_INITIAL_TO_RESULT
    measure.output_type.i64.nullability = 2  # required
    zero = algebra_pb2.Expression()
    zero.literal.i64 = 0
    return _filtered(counted, functions.call("gt", _first_column(), zero))


def _first_column() -> Any:
    """Return a reference to the first column."""
    column = algebra_pb2.Expression()
    column.selection.direct_reference.struct_field.SetInParent()
    column.selection.root_reference.SetInParent()
    return column


def _left_width(rel: Any, functions: Functions) -> int:
    """Return the position in the columns of a join at which those of the right input begin.

    It is the least position that a comparison reads of the right input.
    """
    compared = [_compared(part, functions) for part in functions.conjuncts(rel.join.expression)]
    columns = [sides[1].selection.direct_reference for sides in compared if sides is not None]
    return min((column.struct_field.field for column in columns), default=0)


def _not_in(tokens: Sequence[Token]) -> Token:
    for first, second in pairwise(tokens):
        if first.is_word("not") and second.is_word("in"):
            return first
    return next((token for token in tokens if token.is_word("in")), tokens[0])
