"""Plan a script with one query; what plans its statements is given."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Protocol

import pyarrow as pa

from substrait_agg.checked_plan import Plan
from substrait_agg.errors import SqlRefused
from substrait_agg.scripts.clauses import check_collation
from substrait_agg.scripts.script import Statement, statements
from substrait_agg.scripts.tokens import syntax_error, tokens

STATEMENTS = (
    "alter", "analyze", "call", "copy", "create", "delete", "describe", "drop", "explain", "grant", "insert", "merge", "refresh",
    "set", "show", "truncate", "update", "use",
)  # fmt: skip
"""Words with which other statements than queries begin."""


class SqlPlanner(Protocol):
    """Plans the statements of scripts."""

    def columns(self, statement: Statement) -> pa.Schema:
        """Return the columns that a CREATE TABLE statement declares.

        Raises:
            SqlRefused: SQL_SYNTAX or SQL_NOT_PLANNED.
        """
        ...

    def plan(self, statement: Statement, tables: Mapping[str, pa.Schema]) -> Plan:
        """Return the plan of a query, or of the query of CREATE VIEW.

        Args:
            statement: the statement.
            tables: name of a table -> its columns. A name with dots has several parts. Names match
                without regard to case.

        Raises:
            SqlRefused: SQL_SYNTAX, SQL_TABLE_UNKNOWN, SQL_COLUMN_UNKNOWN, SQL_FUNCTION_UNKNOWN,
                SQL_TYPES, SQL_NOT_DETERMINISTIC, SQL_NOT_MAINTAINED or SQL_NOT_PLANNED, at a line and
                a column of the script.
        """
        ...


def plan_script(
    text: str,
    columns_of: Callable[[Container[str]], Mapping[str, pa.Schema]],
    planner: SqlPlanner,
    file: str = "",
) -> Plan:
    """Return the plan of a script: CREATE TABLE statements, and one query or CREATE VIEW.

    Args:
        text: the script.
        columns_of: returns the columns of tables that the script does not create. Its argument has
            the names in lower case that the script contains; other tables need no columns.
        planner: plans the statements.
        file: name of the file of the script, for errors.

    Raises:
        SqlRefused: as `SqlPlanner.plan`; SQL_STATEMENTS.
    """
    parts = statements(text, file)
    tables = declared_tables((s for s in parts if s.kind == "create_table"), planner)
    others = [s for s in parts if s.kind != "create_table"]
    for statement in others:
        if not statement.query or statement is not others[0]:
            raise _refuse(statement)
    if not others:
        raise SqlRefused(
            "SQL_STATEMENTS", "the text has no query", help="add a SELECT statement", path=file
        )
    check_collation(others[0])
    written = frozenset(t.name.lower() for t in tokens(others[0].text, file))
    declared = {name.lower().rpartition(".")[2] for name in tables}
    tables |= columns_of(written - declared)
    return planner.plan(others[0], tables)


def declared_tables(created: Iterable[Statement], planner: SqlPlanner) -> dict[str, pa.Schema]:
    """Return the columns that CREATE TABLE statements declare, by name of table.

    Raises:
        SqlRefused: as `SqlPlanner.columns`.
    """
    tables = {}
    for statement in created:
        check_collation(statement)
        tables[".".join(statement.name)] = planner.columns(statement)
    return tables


def _refuse(statement: Statement) -> SqlRefused:
    first = tokens(statement.text)[0]
    if not statement.query and not first.is_word(*STATEMENTS):
        message = f"a statement cannot begin with {first.text}"
        help = "write SELECT, WITH, CREATE TABLE or CREATE VIEW"
        raise syntax_error(statement.script, statement.start, message, help, statement.file)
    what = "a second query" if statement.query else f"a statement {first.text}"
    help = "give CREATE TABLE statements and one query"
    end = statement.start + len(first.text)
    return statement.refuse("SQL_STATEMENTS", f"{what} is not expected here", help, end)
