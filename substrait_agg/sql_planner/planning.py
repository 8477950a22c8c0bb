"""Plan one SQL query: its text and the schemas of its tables in, a Substrait plan out."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from substrait_agg.errors import SqlRefused, SubstraitAggError
from substrait_agg.report.checked_plan import Plan
from substrait_agg.sql_planner.corrections.not_in import check_marks
from substrait_agg.sql_planner.corrections.plan import corrected
from substrait_agg.sql_planner.errors import is_syntax_error, panics_as_errors, planning_error
from substrait_agg.sql_planner.query.frames import value_frames
from substrait_agg.sql_planner.query.names import TableNames, output_names
from substrait_agg.sql_planner.query.places import SqlOrigin
from substrait_agg.sql_planner.query.script import Statement, statements
from substrait_agg.sql_planner.query.subqueries import check_subqueries
from substrait_agg.sql_planner.query.tokens import QueryText, syntax_error, tokens
from substrait_agg.sql_planner.query.windows import register_windows
from substrait_agg.sql_planner.session import (
    check_casts_of_floats,
    check_clauses,
    check_scalar_calls,
    check_types,
    check_window_calls,
    declared_schema,
    has_decimal_literals,
    has_joins_by_name,
    new_session,
    with_parentheses,
    with_signed_results,
    without_exponents,
    written_decimals,
)
from substrait_agg.sql_planner.simplification import (
    SIMPLIFYING_RULES,
    computes_all_constants,
    is_simplified_wrongly,
)

if TYPE_CHECKING:
    from datafusion import DataFrame, SessionContext

CHANGING_FUNCTIONS = ("now", "today", "random", "rand", "uuid", "current_timestamp", "current_date", "current_time")  # fmt: skip
"""Functions whose value changes although no table does. DataFusion replaces most by a constant."""

WITHOUT_CALL = ("current_timestamp", "current_date", "current_time")
"""Those that are called without parentheses."""


STATEMENTS = (
    "alter", "analyze", "call", "copy", "create", "delete", "describe", "drop", "explain", "grant", "insert", "merge", "refresh",
    "set", "show", "truncate", "update", "use",
)  # fmt: skip
"""Words with which other statements than queries begin."""


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
    queries = statements(text, file)
    if len(queries) != 1 or not queries[0].query:
        raise SqlRefused(
            "SQL_STATEMENTS",
            f"one query is expected, and the text has {len(queries)} statements",
            help="give one SELECT statement",
            path=file,
        )
    return plan_statement(queries[0], tables)


def plan_script(
    text: str, columns_of: Callable[[Container[str]], Mapping[str, pa.Schema]], file: str = ""
) -> Plan:
    """Return the plan of a script: CREATE TABLE statements, and one query or CREATE VIEW.

    Args:
        text: the script.
        columns_of: returns the columns of tables that the script does not create. Its argument has
            the names in lower case that the script contains; other tables need no columns.
        file: name of the file of the script, for errors.

    Raises:
        SqlRefused: as in `plan_query`.
        UsageError: DATAFUSION_MISSING.
    """
    parts = statements(text, file)
    tables = declared_tables(s for s in parts if s.kind == "create_table")
    others = [s for s in parts if s.kind != "create_table"]
    for statement in others:
        if not statement.query or statement is not others[0]:
            raise _unexpected(statement)
    if not others:
        raise SqlRefused(
            "SQL_STATEMENTS", "the text has no query", help="add a SELECT statement", path=file
        )
    written = frozenset(t.name.lower() for t in tokens(others[0].text, file))
    declared = {name.lower().rpartition(".")[2] for name in tables}
    tables |= columns_of(written - declared)
    return plan_statement(others[0], tables)


def declared_tables(created: Iterable[Statement]) -> dict[str, pa.Schema]:
    """Return the columns that CREATE TABLE statements declare, by name of table.

    Raises:
        SqlRefused: as in `plan_query`.
    """
    return {".".join(statement.name): _declared(statement) for statement in created}


def _declared(statement: Statement) -> pa.Schema:
    padded = statement.padded(statement.text, statement.start)
    try:
        return declared_schema(padded, statement.name)
    except SubstraitAggError:
        raise
    except Exception as error:
        text = QueryText.of(padded, statement.script, statement.file)
        raise planning_error(error, text, TableNames.of({}, ())) from error


def _unexpected(statement: Statement) -> SqlRefused:
    first = tokens(statement.text)[0]
    if not statement.query and not first.is_word(*STATEMENTS):
        message = f"a statement cannot begin with {first.text}"
        help = "write SELECT, WITH, CREATE TABLE or CREATE VIEW"
        raise syntax_error(statement.script, statement.start, message, help, statement.file)
    what = "a second query" if statement.query else f"a statement {first.text}"
    help = "give CREATE TABLE statements and one query"
    end = statement.start + len(first.text)
    return statement.refused("SQL_STATEMENTS", f"{what} is not expected here", help, end)


def plan_statement(statement: Statement, tables: Mapping[str, pa.Schema]) -> Plan:
    """Return the plan of the query of a statement: of a query, or of CREATE VIEW.

    Errors have the line and the column in the script of the statement.

    Raises:
        SqlRefused: as in `plan_query`.
        UsageError: DATAFUSION_MISSING.
    """
    padded = statement.padded(statement.query, statement.query_start)
    query = QueryText.of(padded, statement.script, statement.file)
    _check_deterministic(query)
    check_clauses(query)
    content = _planned(query, TableNames.of(tables, query.tokens), statement.columns)
    return Plan(statement.file, content, SqlOrigin(query, content))


def _planned(query: QueryText, names: TableNames, columns: Sequence[str]) -> bytes:
    context = new_session(
        names.schemas,
        decimal_literals=has_decimal_literals(query, names),
        joins_by_name=has_joins_by_name(query),
    )
    check_scalar_calls(context, query)
    check_window_calls(query)
    register_windows(context, query, names.schemas)
    from datafusion.substrait import Producer

    try:
        frame = _frame(context, query)
        check_marks(frame.logical_plan(), query)
        check_subqueries(frame.logical_plan(), query)
        check_types(frame.logical_plan(), query)
        with panics_as_errors():
            optimized = frame.optimized_logical_plan()
        content = Producer.to_substrait_plan(optimized, context).encode()
    except SqlRefused:
        raise
    except Exception as error:
        if SIMPLIFYING_RULES[0] in str(error):
            outputs = output_names(query.text, query.tokens, columns)
            plain = _plan_without_simplification(
                context, query, names, outputs, computes_all_constants
            )
            if plain is not None:
                return plain
        raise planning_error(error, query, names) from error
    outputs = output_names(query.text, query.tokens, columns)
    written = written_decimals(frame.logical_plan())
    simplified = corrected(content, optimized, query, names, outputs, written)
    check_casts_of_floats(frame.logical_plan(), optimized, simplified, query)
    is_wanted = partial(is_simplified_wrongly, context=context)
    plain = _plan_without_simplification(context, query, names, outputs, is_wanted)
    return plain or simplified


def _plan_without_simplification(
    context: SessionContext,
    query: QueryText,
    names: TableNames,
    outputs: Sequence[str],
    is_wanted: Callable[[bytes, bytes], bool],
) -> bytes | None:
    """Return the plan of a query without DataFusion's simplification; None if it is not wanted.

    Args:
        context: the session; it no longer simplifies afterwards.
        query: the query.
        names: its tables.
        outputs: names of the columns of its result.
        is_wanted: takes the plan as DataFusion writes it, and the corrected plan.

    Raises:
        SqlRefused: SQL_TYPES: the plan is wanted, and the query combines a float with a decimal.
    """
    from datafusion.substrait import Producer

    for rule in SIMPLIFYING_RULES:
        context.remove_optimizer_rule(rule)
    frame = _frame(context, query)
    try:
        optimized = frame.optimized_logical_plan()
        content = Producer.to_substrait_plan(optimized, context).encode()
        written = written_decimals(frame.logical_plan())
        plain = corrected(content, optimized, query, names, outputs, written)
    except Exception:  # noqa: BLE001 - DataFusion has no class of its own
        return None  # some plans have a form in Substrait only after they are simplified
    if not is_wanted(content, plain):
        return None
    check_casts_of_floats(frame.logical_plan(), optimized, plain, query)
    return plain


def _frame(context: SessionContext, query: QueryText) -> DataFrame:
    """Return what DataFusion reads in a query. Its errors have the places of the query."""
    from datafusion import SQLOptions

    options = SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)
    plain = without_exponents(query.text, query.tokens)
    rows = value_frames(query).as_rows(query.text)
    rows = without_exponents(rows, tokens(rows))
    signed = with_signed_results(rows, tokens(rows))
    text = with_parentheses(signed, tokens(signed))
    try:
        return context.sql_with_options(text, options)
    except Exception as error:
        if text == plain or not is_syntax_error(error):
            raise
    context.sql_with_options(plain, options)
    if text == signed:
        return context.sql_with_options(rows, options)  # a name is one of the functions
    place = next(t for t in query.tokens if t.is_word("is"))
    message = "the operands of IS DISTINCT FROM are not clear"
    raise query.refused_token(
        "SQL_SYNTAX", place, message, "write parentheses around a IS DISTINCT FROM b"
    )


def _check_deterministic(query: QueryText) -> None:
    words = query.tokens
    for number, token in enumerate(words):
        called = words[number + 1 : number + 2]
        is_call = bool(called) and called[0].text == "("
        if number and words[number - 1].text == ".":
            continue
        if token.is_word(*CHANGING_FUNCTIONS) and (is_call or token.is_word(*WITHOUT_CALL)):
            message = f"{token.text} changes although no table does, so no view of it can be kept"
            help = "compare with a literal, or add the value to the rows of a table"
            raise query.refused_token("SQL_NOT_DETERMINISTIC", token, message, help)
