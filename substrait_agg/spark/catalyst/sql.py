"""Plan SQL text with the parser and the analyzer of Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import ParseException, PySparkException
from pyspark.errors.exceptions.base import QueryContextType
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from substrait_agg.checked_plan import Plan
from substrait_agg.errors import SqlRefused
from substrait_agg.scripts.script import Statement
from substrait_agg.scripts.tokens import offset_of, place_at, refused_at, tokens
from substrait_agg.spark.catalyst.analyzed.refusals import Refusal, What
from substrait_agg.spark.catalyst.change_flow import change_flow_of
from substrait_agg.spark.catalyst.jvm import new_helper
from substrait_agg.spark.catalyst.origin import SqlOrigin
from substrait_agg.spark.catalyst.plan import NotMaintained, plan_of_tree
from substrait_agg.spark.session.session import active_session
from substrait_agg.spark.types.schema import arrow_columns, spark_columns

PLANNING_CONF = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.join.asofJoin.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timeType.enabled": "true",
}
"""Settings of the session that plans queries: those of a new session of Spark, in UTC, with ASOF joins."""

_CODES: Mapping[str, str] = {
    "TABLE_OR_VIEW_NOT_FOUND": "SQL_TABLE_UNKNOWN",
    "SCHEMA_NOT_FOUND": "SQL_TABLE_UNKNOWN",
    "UNRESOLVED_COLUMN": "SQL_COLUMN_UNKNOWN",
    "UNRESOLVED_USING_COLUMN": "SQL_COLUMN_UNKNOWN",
    "FIELD_NOT_FOUND": "SQL_COLUMN_UNKNOWN",
    "UNRESOLVED_ROUTINE": "SQL_FUNCTION_UNKNOWN",
    "DATATYPE_MISMATCH": "SQL_TYPES",
    "CANNOT_MERGE_INCOMPATIBLE_DATA_TYPE": "SQL_TYPES",
    "WRONG_NUM_ARGS": "SQL_TYPES",
    "INVALID_": "SQL_TYPES",
    "AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION": "SQL_NOT_DETERMINISTIC",
}
"""Beginning of the name of an error of Spark -> code."""

_OTHER = "SQL_NOT_PLANNED"
HELP: Mapping[str, str] = {
    "SQL_SYNTAX": "correct the text; it is SQL of Spark",
    "SQL_TABLE_UNKNOWN": "CREATE TABLE in the script, or --source NAME=SPEC, adds a table",
    "SQL_COLUMN_UNKNOWN": "correct the name",
    "SQL_FUNCTION_UNKNOWN": "the functions are those of Spark",
    "SQL_TYPES": "cast the values to other types",
    "SQL_NOT_DETERMINISTIC": "leave out what changes with time or at random",
    _OTHER: "write the query in another way",
}
"""Code -> what to do."""
_REFUSED: Mapping[What, str] = {"changing": "SQL_NOT_DETERMINISTIC"}


class SparkSqlPlanner:
    """Plans statements as Spark does in ANSI mode and in UTC."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark.newSession()
        for name, value in PLANNING_CONF.items():
            self._spark.conf.set(name, value)
        self._parser = self._spark._jsparkSession.sessionState().sqlParser()
        self._helper = new_helper(self._spark)
        self._added: dict[str, pa.Schema] = {}

    def columns(self, statement: Statement) -> pa.Schema:
        """Return the columns that a CREATE TABLE statement declares."""
        parsed = self._parse(statement, statement.pad(statement.text, statement.start))
        declared = self._helper.declared(parsed)
        if declared is None:
            message, help = (
                "this statement declares no columns",
                "write CREATE TABLE name (column type, ...)",
            )
            raise statement.refuse("SQL_STATEMENTS", message, help)
        return arrow_columns(StructType.fromJson(json.loads(declared)))

    def plan(self, statement: Statement, tables: Mapping[str, pa.Schema]) -> Plan:
        """Return the plan of a query, or of the query of CREATE VIEW."""
        text = statement.pad(statement.query, statement.query_start)
        self._add_tables(tables)
        try:
            with active_session(self._spark):
                parsed = self._parse(statement, text)
                if statement.kind == "create_flow":
                    analyzed = self._analyzed_flow(parsed)
                else:
                    analyzed = self._helper.analyzed(self._spark._jsparkSession, parsed)
                planned = plan_of_tree(self._spark, analyzed, names=statement.columns)
        except (PySparkException, Py4JJavaError) as error:
            raise self._error(error, statement, text, tables) from error
        except NotMaintained as error:
            raise _refuse(error.refusals, statement) from error
        return Plan(
            statement.file,
            json.dumps(planned.message),
            SqlOrigin(statement, planned.places),
            collations=planned.collations,
        )

    def _add_tables(self, tables: Mapping[str, pa.Schema]) -> None:
        """Give the JVM the tables that it does not have yet, and only these."""
        if self._added.keys() - tables.keys():
            self._helper, self._added = new_helper(self._spark), {}
        for name, schema in tables.items():
            if name not in self._added or not self._added[name].equals(schema, check_metadata=True):
                self._helper.addTable(name, type_text(schema))
                self._added[name] = schema

    def _analyzed_flow(self, parsed: Any) -> Any:
        """Return the analyzed query of the table that a flow fills."""
        is_alone = parsed.getClass().getSimpleName() == "CreateFlowCommand"
        flow = parsed.flowOperation() if is_alone else parsed
        events = self._helper.withTables(flow.source().child())
        jvm: Any = self._spark._jvm
        rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._spark._jsparkSession, events)
        newest = change_flow_of(flow, self._spark).newest(DataFrame(rows, self._spark))
        return newest._jdf.queryExecution().analyzed()

    def _parse(self, statement: Statement, text: str) -> Any:
        try:
            return self._parser.parsePlan(text)
        except PySparkException as error:
            raise self._error(error, statement, text) from error

    def _error(
        self,
        error: PySparkException | Py4JJavaError,
        statement: Statement,
        text: str,
        tables: Iterable[str] = (),
    ) -> SqlRefused:
        """Return an error of Spark with a code and a place in the script.

        PySpark does not translate every class of exceptions that the analyzer raises.
        """
        if isinstance(error, Py4JJavaError):
            translated = CapturedException(origin=error.java_exception)
            if not translated.getCondition():
                raise error
            error = translated
        code = code_of(error)
        start, stop = _place(error, text, statement)
        help, message = HELP[code], message_of(error)
        if code == "SQL_TABLE_UNKNOWN":
            # Spark goes on about its own catalog.
            message = message.partition(". ")[0]
            help = f"the tables are: {', '.join(sorted(tables)) or 'none'}; {help}"
        return refused_at(code, statement.script, start, stop, message, help, statement.file)


_LINE = re.compile(r"\(line (\d+), pos (\d+)\)|; line (\d+) pos (\d+)")


def _place(error: PySparkException, text: str, statement: Statement) -> tuple[int, int | None]:
    """Return the offsets in the script that an error of Spark is about."""
    for context in error.getQueryContext():
        if context.contextType() != QueryContextType.SQL:
            continue
        if context.startIndex() >= 0 and context.stopIndex() < len(text):
            return context.startIndex(), context.stopIndex() + 1
    match = _LINE.search(str(error))
    if match is None:
        return statement.query_start or statement.start, None
    line, column = (int(number) for number in match.groups() if number is not None)
    start = offset_of(text, line, column + 1)
    token = next((t for t in tokens(text) if t.start == start), None)
    return start, token.end if token else None


def type_text(schema: pa.Schema) -> str:
    """Return the columns of a table as a type of Spark in JSON."""
    return spark_columns(schema).json()


def code_of(error: PySparkException) -> str:
    """Return the code of an error of Spark."""
    condition = error.getCondition() or ""
    if isinstance(error, ParseException):
        return "SQL_SYNTAX"
    return next((c for begin, c in _CODES.items() if condition.startswith(begin)), _OTHER)


def message_of(error: PySparkException) -> str:
    """Return the sentence of an error of Spark, without its name and the text of the query."""
    text = str(error.desc if hasattr(error, "desc") else error)
    text = text.partition("\n== SQL")[0].partition("SQLSTATE:")[0].strip()
    if text.startswith("["):
        text = text.partition("] ")[2]
    return " ".join(text.split()).rstrip(".")


def _refuse(refusals: Sequence[Refusal], statement: Statement) -> SqlRefused:
    """Return the error for all parts of a query that cannot be maintained, in the order of the text."""
    distinct = sorted(dict.fromkeys((r.start, r.stop, r.what, r.message, r.help) for r in refusals))
    first, *others = distinct
    start, stop, what, message, help = first
    code = _REFUSED.get(what, "SQL_NOT_MAINTAINED")
    offset = start if start >= 0 else statement.query_start
    error = refused_at(
        code, statement.script, offset, stop + 1 or None, message, help, statement.file
    )
    for start, _stop, _what, message, _help in others:
        place = place_at(statement.script, max(start, 0)).path(statement.file)
        error.excerpt += f"\nalso at {place}: {message}"
    return error
