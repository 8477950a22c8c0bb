"""Read the refresh policy that a CREATE statement declares.

Databricks writes ``REFRESH POLICY FULL`` before ``AS``. Spark's own SQL has no such clause, but
table properties: ``TBLPROPERTIES ('substrait_agg.refresh_policy' = 'full')``.
"""

from __future__ import annotations

from collections.abc import Sequence

from substrait_agg.errors import SqlRefused
from substrait_agg.refresh.policies import REFRESH_POLICIES
from substrait_agg.sql_planner.script import Statement
from substrait_agg.sql_planner.tokens import Token, refused_at, tokens

PROPERTY = "substrait_agg.refresh_policy"


def declared_policy(statement: Statement) -> str | None:
    """Return the refresh policy that a statement declares; None without one.

    Raises:
        SqlRefused: SQL_NOT_MAINTAINED for another word.
    """
    end = statement.query_start - statement.start
    head = [token for token in tokens(statement.text, statement.file) if token.start < end]
    for place, token in enumerate(head):
        following = head[place + 1 :]
        if token.is_word("refresh") and following[:1] and following[0].is_word("policy"):
            return _policy(statement, following[0], following[1:3])
        if is_property(token):
            values = [t for t in following[:2] if t.text != "="][:1]
            return _policy(statement, token, values)
    return None


def is_property(token: Token) -> bool:
    """Return whether a token is the name of the table property."""
    return token.text.strip("'\"`").lower() == PROPERTY


def _policy(statement: Statement, before: Token, words: Sequence[Token]) -> str:
    """Return the policy that one or two tokens name; the second one belongs to it if it can."""
    texts = [token.text.strip("'\"").lower() for token in words]
    for word in ("_".join(texts[:2]), *texts[:1]):
        if word in REFRESH_POLICIES:
            return word
    place = words[0] if words else before
    message = f"{place.text} is not a refresh policy"
    help = "write REFRESH POLICY AUTO, INCREMENTAL, INCREMENTAL STRICT or FULL"
    raise not_maintained(statement, place, message, help)


def not_maintained(statement: Statement, token: Token, message: str, help: str) -> SqlRefused:
    """Return the error for a token of a statement that a pipeline does not support."""
    start = statement.start + token.start
    end = start + len(token.text)
    script, file = statement.script, statement.file
    return refused_at("SQL_NOT_MAINTAINED", script, start, end, message, help, file)
