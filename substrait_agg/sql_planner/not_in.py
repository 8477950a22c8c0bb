"""Find NOT IN with a subquery, whose value for nulls DataFusion loses when it writes a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from substrait_agg.sql_planner.tokens import QueryText, Token

_HELP = "write NOT EXISTS (SELECT ... WHERE ...)"


def check_not_in(optimized: Any, query: QueryText) -> None:
    """Refuse a plan with a NOT IN over values that can be null.

    Raises:
        SqlRefused: SQL_NOT_IN.
    """
    if any(map(is_null_aware, anti_joins(optimized))):
        token = _not_in(query.tokens)
        message = "NOT IN is used with a subquery over columns that can be null"
        raise query.refused_token("SQL_NOT_IN", token, message, _HELP)


def anti_joins(plan: Any) -> Iterator[Any]:
    """Yield the left anti joins of a logical plan, outer ones first."""
    if plan.display().startswith("LeftAnti Join"):
        yield plan
    for source in plan.inputs():
        yield from anti_joins(source)


def is_null_aware(join: Any) -> bool:
    """Return whether an anti join of a logical plan comes from NOT IN over nullable values."""
    return bool(join.display().endswith(" null_aware"))


def _not_in(found: Sequence[Token]) -> Token:
    for token, following in pairwise(found):
        if token.is_word("not") and following.is_word("in"):
            return token
    return found[0]
