"""Plan one SQL query: its text and the schemas of its tables in, a Substrait plan out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from substrait_agg.errors import SqlRefused
from substrait_agg.report.checked_plan import Plan
from substrait_agg.sql.corrections import corrected
from substrait_agg.sql.errors import planning_error
from substrait_agg.sql.names import TableNames, output_names
from substrait_agg.sql.not_in import check_not_in
from substrait_agg.sql.script import Statement, statements
from substrait_agg.sql.session import new_session
from substrait_agg.sql.tokens import Token, refused_at, tokens
from substrait_agg.sql.windows import register_windows

CHANGING_FUNCTIONS = ("now", "today", "random", "rand", "uuid", "current_timestamp", "current_date", "current_time")  # fmt: skip
"""Functions whose value changes although no table does. DataFusion replaces most by a constant."""

WITHOUT_CALL = ("current_timestamp", "current_date", "current_time")
"""Those that are called without parentheses."""


def plan_query(text: str, tables: Mapping[str, pa.Schema], file: str = "") -> Plan:
    """Return the plan of a SQL query.

    Args:
        text: one query: SELECT, WITH or VALUES.
        tables: name of a table -> its columns. A name with dots has several parts. Names match
            without regard to case, unless the query has them in quotes.
        file: name of the file of the text, for errors.

    Raises:
        SqlRefused: the text is not one query, or DataFusion cannot plan it: SQL_SYNTAX,
            SQL_STATEMENTS, SQL_TABLE_UNKNOWN, SQL_COLUMN_UNKNOWN, SQL_FUNCTION_UNKNOWN, SQL_TYPES,
            SQL_NOT_DETERMINISTIC, SQL_NOT_IN or SQL_NOT_PLANNED.
        UsageError: DATAFUSION_MISSING.
    """
    found = statements(text, file)
    if len(found) != 1 or not found[0].query:
        raise SqlRefused(
            "SQL_STATEMENTS",
            f"one query is expected, and the text has {len(found)} statements",
            help="give one SELECT statement",
            path=file,
        )
    return plan_statement(found[0], tables)


def plan_statement(statement: Statement, tables: Mapping[str, pa.Schema]) -> Plan:
    """Return the plan of the query of a statement: of a query, or of CREATE VIEW.

    Errors have the line and the column in the script of the statement.

    Args:
        statement: a statement with a query.
        tables: as in `plan_query`.

    Raises:
        SqlRefused: as in `plan_query`.
        UsageError: DATAFUSION_MISSING.
    """
    query = statement.padded(statement.query, statement.query_start)
    found = tokens(query, statement.file)
    _check_deterministic(query, found, statement.file)
    names = TableNames.of(tables, found)
    content = _planned(query, statement, found, names)
    return Plan(statement.file, content)


def _planned(
    query: str, statement: Statement, found: tuple[Token, ...], names: TableNames
) -> bytes:
    context = new_session(names.schemas)
    register_windows(context, found, names.schemas, query, statement.file)
    from datafusion import SQLOptions
    from datafusion.substrait import Producer

    only_queries = SQLOptions().with_allow_ddl(False).with_allow_dml(False)
    try:
        frame = context.sql_with_options(query, only_queries.with_allow_statements(False))
        optimized = frame.optimized_logical_plan()
        content = Producer.to_substrait_plan(optimized, context).encode()
    except Exception as error:
        raise planning_error(error, query, found, names, statement.file) from error
    check_not_in(optimized, query, found, statement.file)
    outputs = output_names(query, found, statement.columns)
    return corrected(content, names, outputs)


def _check_deterministic(query: str, found: Sequence[Token], file: str) -> None:
    for number, token in enumerate(found):
        called = found[number + 1 : number + 2]
        is_call = bool(called) and called[0].text == "("
        if number and found[number - 1].text == ".":
            continue
        if token.is_word(*CHANGING_FUNCTIONS) and (is_call or token.is_word(*WITHOUT_CALL)):
            message = f"{token.text} changes although no table does, so no view of it can be kept"
            help = "compare with a literal, or add the value to the rows of a table"
            raise refused_at(
                "SQL_NOT_DETERMINISTIC", query, token.start, token.end, message, help, file
            )
