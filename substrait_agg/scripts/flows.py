"""Read the statements of AUTO CDC flows, and of the streaming tables that they fill.

Spark accepts neither ``OR REFRESH`` nor the clauses of Databricks in front of a flow. They are replaced
by spaces, so that places stay the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from substrait_agg.errors import SqlRefused
from substrait_agg.plan.plannable import COLLATED
from substrait_agg.scripts.clauses import declared_policy
from substrait_agg.scripts.planner import SqlPlanner
from substrait_agg.scripts.script import Statement
from substrait_agg.scripts.tokens import Token, tokens


@dataclass(frozen=True, slots=True)
class SqlDefinition:
    """A statement that creates a table or a view.

    Attributes:
        statement: the statement.
        planner: plans it.
    """

    statement: Statement
    planner: SqlPlanner

    @property
    def name(self) -> str:
        """Return the name of the table or view."""
        return ".".join(self.statement.name)

    @property
    def policy(self) -> str | None:
        """Return the refresh policy that the statement declares."""
        return declared_policy(self.statement)

    def refuse(self, code: str, message: str, help: str) -> SqlRefused:
        """Return an error at the beginning of the statement."""
        return self.statement.refuse(code, message, help)


class SqlTarget(SqlDefinition):
    """A statement that creates a streaming table without a query; it may contain the flow into the table."""

    __slots__ = ()

    def check_columns(self, schema: pa.Schema) -> None:
        """Check that a flow has the columns that the statement declares, if it does."""
        declaration = declaration_alone(self.statement)
        if declaration is None:
            return
        declared = self.planner.columns(declaration)
        columns = [[(f.name.lower(), _type_name(f)) for f in s] for s in (declared, schema)]
        if columns[0] != columns[1]:
            of_table, of_flow = (", ".join(f"{n} {t}" for n, t in c) for c in columns)
            message = (
                f"the columns of {self.name} are declared as {of_table}, and its flow has {of_flow}"
            )
            raise self.refuse("SQL_NOT_MAINTAINED", message, "correct or remove the columns")


def _type_name(column: pa.Field) -> str:
    """Return the type of a column with the collation of its texts, if they have one."""
    collated = (column.metadata or {}).get(COLLATED)
    return str(column.type) if collated is None else collated.decode().strip('"')


def flow_alone(statement: Statement) -> Statement:
    """Return the statement of a flow with what Spark parses as its query: all but clauses of the table."""
    words = tokens(statement.text, statement.file)
    text = _without_refresh(statement.text, words)
    if statement.modifiers:
        table = next(n for n, token in enumerate(words) if token.is_word("table"))
        begin, stop = _after_name(words, table + 1), statement.query_start - statement.start
        text = text[:begin] + _spaces(text[begin:stop]) + text[stop:]
    return replace(statement, query=text, query_start=statement.start)


def declaration_alone(statement: Statement) -> Statement | None:
    """Return the statement of a table up to the end of its columns; None if it declares none."""
    words = tokens(statement.text, statement.file)
    table = next(n for n, token in enumerate(words) if token.is_word("table"))
    name_end = _after_name(words, table + 1)
    rest = [token for token in words if token.start >= name_end]
    if not rest or rest[0].text != "(":
        return None
    depth = 0
    for token in rest:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0:
            text = _without_refresh(statement.text, words)[: token.end]
            return replace(statement, text=text)
    return None


def _after_name(words: Sequence[Token], place: int) -> int:
    """Return the offset after the name of a table, which IF NOT EXISTS may precede."""
    if [token.text.lower() for token in words[place : place + 3]] == ["if", "not", "exists"]:
        place += 3
    while place + 2 < len(words) and words[place + 1].text == ".":
        place += 2
    return words[place].end


def _without_refresh(text: str, words: Sequence[Token]) -> str:
    """Return a statement with spaces instead of OR REFRESH."""
    for token in words[1:3]:
        if token.is_word("or", "refresh", "replace"):
            text = text[: token.start] + _spaces(token.text) + text[token.end :]
    return text


def _spaces(text: str) -> str:
    return "".join("\n" if c == "\n" else " " for c in text)
