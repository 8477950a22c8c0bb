"""Write INTERSECT ALL and EXCEPT ALL as set operations.

DataFusion plans them as semi and anti joins on all columns, which do not count the copies of a row.
Such joins are replaced if the query has no others that they could be confused with.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from substrait import algebra_pb2

from substrait_agg.sql_planner.corrections.functions import Functions
from substrait_agg.sql_planner.corrections.messages import messages
from substrait_agg.sql_planner.query.tokens import QueryText, Token

_JOIN, _SET = algebra_pb2.JoinRel, algebra_pb2.SetRel
_OPERATIONS = {
    _JOIN.JOIN_TYPE_LEFT_SEMI: (("intersect",), _SET.SET_OP_INTERSECTION_MULTISET_ALL),
    _JOIN.JOIN_TYPE_LEFT_ANTI: (("except", "minus"), _SET.SET_OP_MINUS_PRIMARY_ALL),
}
"""Type of a join -> the words of its set operation, and the operation."""
_NULL_SAFE = "is_not_distinct_from"
_HELP = "cast the columns in a subquery, leave out ALL, or count the copies of both sides with GROUP BY and join the counts"


def count_copies(plan: Any, query: QueryText) -> None:
    """Replace the joins of INTERSECT ALL and EXCEPT ALL by set operations.

    Args:
        plan: the plan, without the corrections of NOT IN; it is changed.
        query: the query.

    Raises:
        SqlRefused: SQL_NOT_PLANNED: it is not clear which joins these are, because the query also has subqueries in conditions
            or set operations without ALL, columns of different types, or because DataFusion has changed a join.
    """
    pairs = pairwise(query.tokens)
    written = [(a, b) for a, b in pairs if _is_set_word(a) and b.is_word("all")]
    if not written:
        return
    functions = Functions(plan)
    relations = [r for r in messages(plan, "substrait.Rel") if r.join.type in _OPERATIONS]
    counts = {
        kind: (sum(a.is_word(*words) for a, _ in written), sum(r.join.type == kind for r in relations))
        for kind, (words, _) in _OPERATIONS.items()
    }  # fmt: skip
    triples = zip(query.tokens, query.tokens[1:], query.tokens[2:], strict=False)
    unclear = any(map(_makes_join, triples)) or any(a != b for a, b in counts.values())
    if unclear or not all(_compares_all(r.join, functions) for r in relations):
        first, last = written[0]
        shown = f"{first.text.upper()} ALL"
        message = f"{shown} is planned only between columns of the same types, and without IN, EXISTS or set operations without ALL: DataFusion does not count the copies of a row"
        raise query.refused("SQL_NOT_PLANNED", first.start, last.end, message, _HELP)
    for relation in reversed(relations):
        operation = _SET(op=_OPERATIONS[relation.join.type][1])
        operation.inputs.add().CopyFrom(relation.join.left)
        operation.inputs.add().CopyFrom(relation.join.right)
        operation.common.CopyFrom(relation.join.common)
        relation.set.CopyFrom(operation)


def _is_set_word(token: Token) -> bool:
    return token.is_word("intersect", "except", "minus")


def _makes_join(tokens: tuple[Token, ...]) -> bool:
    """Return whether three tokens begin something else that can become a semi or an anti join."""
    first, second, third = tokens
    subquery = second.text == "(" and (third.text == "(" or third.is_word("select", "with", "values"))  # fmt: skip
    if first.is_word("exists", "semi", "anti", "any", "some") or (first.is_word("in") and subquery):
        return True
    return _is_set_word(first) and not second.is_word("all")


def _compares_all(join: Any, functions: Functions) -> bool:
    """Return whether a join compares the columns of its sides in order, also nulls."""
    compared = [_fields(part, functions) for part in functions.conjuncts(join.expression)]
    width = len(compared)
    return compared == [(i, i + width) for i in range(width)]


def _fields(condition: Any, functions: Functions) -> tuple[int, int] | None:
    """Return the fields that a comparison compares; None for another condition."""
    sides = [argument.value for argument in condition.scalar_function.arguments]
    references = [side.selection.direct_reference.struct_field for side in sides]
    plain = all(s.selection.HasField("root_reference") for s in sides) and not any(r.HasField("child") for r in references)  # fmt: skip
    if functions.scalar(condition) != _NULL_SAFE or len(sides) != 2 or not plain:
        return None
    left, right = (reference.field for reference in references)
    return left, right
