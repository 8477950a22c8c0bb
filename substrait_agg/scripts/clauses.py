"""Read the parts of CREATE statements besides the query: which change the rows, and the policy.

Databricks declares a refresh policy as ``REFRESH POLICY FULL`` before ``AS``. Spark's own SQL has no
such clause, but table properties: ``TBLPROPERTIES ('substrait_agg.refresh_policy' = 'full')``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from substrait_agg.errors import SqlRefused
from substrait_agg.refresh.policies import REFRESH_POLICIES
from substrait_agg.scripts.script import Statement, statements
from substrait_agg.scripts.tokens import Token, refused_at, tokens

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


IGNORED: dict[str, str] = {
    "comment": "COMMENT",
    "tblproperties": "TBLPROPERTIES",
    "partitioned": "PARTITIONED BY",
    "cluster": "CLUSTER BY",
    "clustered": "CLUSTERED BY",
    "using": "USING",
    "location": "LOCATION",
    "options": "OPTIONS",
}
"""First word of a clause that does not change the rows of a view -> its name."""

SILENT = ("comment",)
"""Clauses that need no notice."""

REFUSED: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("constraint", "expect"),
        (
            "expectations are not supported: rows that violate them would have to be dropped or fail",
            "write the condition into the WHERE clause of the query",
        ),
    ),
    "flow": (
        "flows other than AUTO CDC are not supported: a view has one query",
        "write one query with UNION ALL; for change events, CREATE FLOW name AS AUTO CDC INTO ...",
    ),
    "schedule": ("schedules are not supported", "give --every INTERVAL"),
    "trigger": ("triggers are not supported", "give --every INTERVAL"),
    "default": (
        "DEFAULT COLLATION is not supported",
        "write COLLATE behind the type of each column",
    ),
}
"""Word of a clause -> why it is refused, and what to do."""

_STATEMENTS: dict[str, tuple[str, str]] = {
    "create": (
        "this statement creates no view with a query",
        "write CREATE MATERIALIZED VIEW name AS SELECT ..., or CREATE STREAMING TABLE name AS SELECT ...",
    ),
    "insert": ("INSERT is not supported: a view has one query", "write one query with UNION ALL"),
    "apply": (
        "APPLY CHANGES is not a statement of Spark",
        "write CREATE FLOW name AS AUTO CDC INTO ...",
    ),
}
"""First word of another statement -> why it is refused, and what to do."""


_FLOW_REFUSED: dict[str, tuple[str, str]] = {
    "scd type 2": (
        "SCD TYPE 2 is not supported: the table would keep the former rows of a key",
        "write STORED AS SCD TYPE 1; the changes of the table have the former rows",
    ),
    "ignore null updates": (
        "IGNORE NULL UPDATES is not supported: a row is that of one event",
        "remove it, and write the former values into the events",
    ),
    "apply as truncate": (
        "APPLY AS TRUNCATE is not supported: Spark has no such clause",
        "write events of deletion for the rows, with APPLY AS DELETE WHEN",
    ),
    "track history on": (
        "TRACK HISTORY is part of SCD TYPE 2, which is not supported",
        "remove it",
    ),
}
"""Words of a clause of an AUTO CDC flow -> why it is refused, and what to do."""


def check_collation(statement: Statement) -> None:
    """Check that a statement of a script gives no collation to the types that name none.

    Raises:
        SqlRefused: SQL_NOT_MAINTAINED.
    """
    end = statement.query_start - statement.start if statement.query else len(statement.text)
    for token, following in pairwise(tokens(statement.text, statement.file)):
        if token.start < end and token.is_word("default") and following.is_word("collation"):
            raise not_maintained(statement, token, *REFUSED["default"])


def check_clauses(statement: Statement) -> Iterator[Token]:
    """Check a statement of a pipeline that is not CREATE TABLE with columns.

    Yields:
        The first word of each clause that has no effect and deserves a notice.

    Raises:
        SqlRefused: SQL_NOT_MAINTAINED: the statement or a clause cannot be maintained.
    """
    words = tokens(statement.text, statement.file)
    if statement.kind not in ("create_view", "create_target", "create_flow"):
        raise not_maintained(statement, words[0], *_other(statement, words))
    if statement.kind == "create_flow":
        check_flow(statement)
        if not statement.modifiers:
            return
    end = statement.query_start - statement.start
    depth = 0
    for token in words:
        if token.start >= end:
            return
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        word = token.text.lower() if token.kind == "word" else ""
        if word in REFUSED and (depth == 0 or word in ("constraint", "expect")):
            raise not_maintained(statement, token, *REFUSED[word])
        if depth == 0 and word in IGNORED and word not in SILENT and not _is_known(token, words):
            yield token


def check_flow(statement: Statement) -> None:
    """Check the clauses of an AUTO CDC flow that have no meaning for its table, or that Spark refuses.

    Raises:
        SqlRefused: SQL_NOT_MAINTAINED.
    """
    words = tokens(statement.query, statement.file)
    begin = statement.query_start - statement.start
    for first, second, third in zip(words, words[1:], words[2:], strict=False):
        following = " ".join(token.text.lower() for token in (first, second, third))
        for clause, refusal in _FLOW_REFUSED.items():
            if following.startswith(clause):
                token = replace(first, start=begin + first.start)
                raise not_maintained(statement, token, *refusal)


def check_script(text: str, file: str = "") -> None:
    """Check the clauses of views in a script that is not a pipeline.

    Raises:
        SqlRefused: SQL_NOT_MAINTAINED: a clause changes the rows of the view, or declares a refresh
            policy, which a plan cannot have; SQL_SYNTAX.
    """
    for statement in statements(text, file):
        if statement.kind != "create_view":
            continue
        for _ in check_clauses(statement):
            pass
        if declared_policy(statement) is not None:
            words = tokens(statement.text, statement.file)
            raise not_maintained(
                statement,
                next(t for t in words if t.is_word("policy") or is_property(t)),
                "a refresh policy is declared for the views of a pipeline, and this script has one view",
                "remove it and give the policy by --refresh",
            )


def _is_known(clause: Token, words: tuple[Token, ...]) -> bool:
    """Return whether the table properties are only the refresh policy."""
    if clause.text.lower() != "tblproperties":
        return False
    names = [token for token in words if token.start > clause.start][1:5]
    return bool(names) and is_property(names[0]) and [t.text for t in names[1:]][-1:] == [")"]


def _other(statement: Statement, statement_tokens: tuple[Token, ...]) -> tuple[str, str]:
    """Return why a statement that is no view is refused, and what to do."""
    if statement.kind == "query":
        return (
            "a query without a name is not a view",
            "write CREATE MATERIALIZED VIEW name AS in front of it",
        )
    words = [token.text.lower() for token in statement_tokens]
    if statement_tokens[0].is_word("create") and "flow" in words[:12]:
        return REFUSED["flow"]
    refusal = _STATEMENTS.get(words[0])
    return refusal or (
        f"a statement {statement_tokens[0].text.upper()} is not supported",
        "remove it",
    )
