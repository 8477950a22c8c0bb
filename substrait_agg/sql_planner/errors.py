"""Turn errors of DataFusion into errors with a code and a place in the SQL text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches

from substrait_agg.errors import SqlRefused
from substrait_agg.functions.windows import WINDOWS
from substrait_agg.sql_planner.query.names import TableNames
from substrait_agg.sql_planner.query.tokens import QueryText, Token, offset_of

_PREFIX = re.compile(
    r"^(?:DataFusion error: |Error during planning: |Schema error: |SQL error: |Internal error: "
    r"|This feature is not implemented: |Optimizer rule '\w+' failed\s*(?:caused by\s*)?"
    r"|type_coercion\s*(?:caused by\s*)?|Analyzer rule \w+ failed\s*)+",
    re.I,
)
_REPORT = re.compile(r"\s*This issue was likely caused by a bug in DataFusion.*?issues\.\s*", re.S)
_PLACE = re.compile(r" at Line: (\d+), Column: (\d+)")
_NAME = r'(?:"(?:[^"]|"")*"|[\w$]+)'
_DOTTED = rf"{_NAME}(?:\.{_NAME})*"


@dataclass(frozen=True, slots=True)
class _Rule:
    """How an error of DataFusion is reported.

    Attributes:
        pattern: matches the message; its group ``name`` is a name in the SQL text.
        message: the message, with ``{name}`` and other groups of the pattern.
        help: what to do; ``{near}`` is what DataFusion suggests.
    """

    pattern: re.Pattern[str]
    code: str
    message: str
    help: str


_NO_TABLES = "the tables are: none"
_TABLES = "the tables are: {tables}; CREATE TABLE in the script, or --source NAME=SPEC, adds one"
_OUTER_REFERENCE = "this subquery, which refers to {name} of the outer query, cannot be planned"
_OUTER_REFERENCE_HELP = "write it as a join, as a condition of WHERE, or with an aggregate such as min or max instead of LIMIT"
_RULES = (
    _Rule(
        re.compile(rf"table '(?P<name>{_DOTTED}|[^']+)' not found"),
        "SQL_TABLE_UNKNOWN", "there is no table {name}", _TABLES,
    ),
    _Rule(
        re.compile(rf"failed to resolve (?:schema|catalog): (?P<name>{_NAME})"),
        "SQL_TABLE_UNKNOWN", "there is no schema {name}", _TABLES,
    ),
    _Rule(
        re.compile(rf"No field named (?P<name>{_DOTTED})\.(?:\s|$)"),
        "SQL_COLUMN_UNKNOWN", "there is no column {name}", "the columns are {fields}",
    ),
    _Rule(
        re.compile(r"Invalid function '(?P<name>[^']+)'"),
        "SQL_FUNCTION_UNKNOWN", "there is no function {name}", "docs/sql.md lists the functions of SQL",
    ),
    _Rule(
        re.compile(r"(?:satisfy a call to|Function) '(?P<name>\w+)'(?: function)?"
                   r"(?=.*(?:coerc|signature|expects|arguments|requires))", re.S),
        "SQL_TYPES", "{name} cannot be called with these arguments: {given}", "cast the arguments to types that the function takes",
    ),
    _Rule(
        re.compile(r"Cannot (?:coerce|infer)[^\n]*|[^\n]*(?:not coercible|incompatible)[^\n]*"),
        "SQL_TYPES", "{all}", "cast one side to the type of the other",
    ),
    _Rule(
        re.compile(r'column "(?P<name>[^"]+)" must appear in the GROUP BY clause'),
        "SQL_NOT_PLANNED", "column {name} is neither in GROUP BY nor in an aggregate function", "add it to GROUP BY, or aggregate it",
    ),
    _Rule(
        re.compile(rf"Ambiguous reference to unqualified field (?P<name>{_NAME})"),
        "SQL_NOT_PLANNED", "several tables have a column {name}", "write the name of the table in front of it",
    ),
    _Rule(
        re.compile(r"join constraint: `(?P<name>using)`"),
        "SQL_NOT_PLANNED", "an outer join with USING or NATURAL, or one beside IS NOT DISTINCT FROM, cannot be planned",
        "write the condition with ON, and coalesce(x.a, y.a) for a column of both sides",
    ),
    _Rule(
        re.compile(r"Cannot convert OuterReferenceColumn.*?name: .?\"(?P<name>\w+)", re.S),
        "SQL_NOT_PLANNED", _OUTER_REFERENCE, _OUTER_REFERENCE_HELP,
    ),
    _Rule(
        re.compile(r"Correlated (?P<name>scalar subquery) must be aggregated"),
        "SQL_NOT_PLANNED", "a subquery that is a value refers to the outer query and may have several rows",
        "select an aggregate such as max(y)",
    ),
    _Rule(
        re.compile(r"Correlated (?P<name>scalar subquery) can only be used in"),
        "SQL_NOT_PLANNED", "a subquery that refers to the outer query cannot be planned in ORDER BY, in OVER or in a join",
        "select it in a subquery in FROM, and name its value",
    ),
    _Rule(
        re.compile(r'unique expression names but the expression "(?P<one>.*?)" at position \d+ and "(?P<name>.*?)" at position \d+', re.S),
        "SQL_NOT_PLANNED", "two columns have one name, as casts do not count: {one} and {name}",
        "name one of them: AS x",
    ),
    _Rule(
        re.compile(r"Unsupported window frame unit: (?P<name>Groups)"),
        "SQL_NOT_PLANNED", "a window frame of GROUPS cannot be planned", "write ROWS or RANGE",
    ),
    _Rule(
        re.compile(r"Unsupported plan type: (?P<name>Recursive)Query"),
        "SQL_NOT_PLANNED", "a recursive query cannot be planned", "write one join for each level",
    ),
    _Rule(
        re.compile(r"Unsupported plan type: (?P<name>Unnest)"),
        "SQL_NOT_PLANNED", "UNNEST cannot be planned", "write the elements as rows in the source, or name them: l[1], l[2]",
    ),
    _Rule(
        re.compile(r"Cannot convert (?P<name>Similar)To"),
        "SQL_NOT_PLANNED", "SIMILAR TO cannot be planned", "write LIKE",
    ),
    _Rule(
        re.compile(r"Unsupported JOIN operator (?P<name>Semi|Anti)\b"),
        "SQL_NOT_PLANNED", "a join of this kind cannot be planned", "write LEFT SEMI JOIN or LEFT ANTI JOIN",
    ),
)  # fmt: skip
_WHILE_OPTIMIZED = re.compile(r"^(?:DataFusion error: )?Optimizer rule", re.I)
_LOST_REFERENCE = _Rule(
    re.compile(rf"No field named {_NAME}\.(?P<name>{_NAME})\.(?:\s|$)"),
    "SQL_NOT_PLANNED", _OUTER_REFERENCE, _OUTER_REFERENCE_HELP,
)  # fmt: skip
"""A column that the optimizer misses: all names of the query itself exist."""


def planning_error(error: Exception, query: QueryText, names: TableNames) -> SqlRefused:
    """Return the error of a query that DataFusion cannot plan."""
    text = _REPORT.sub(" ", str(error)).strip()
    plain = _PREFIX.sub("", text)
    if is_syntax_error(error):
        return _syntax_error(text, query)
    rules = (_LOST_REFERENCE, *_RULES) if _WHILE_OPTIMIZED.match(text) else _RULES
    for rule in rules:
        match = rule.pattern.search(plain)
        if match is not None:
            return _by_rule(rule, match, plain, query, names)
    if plain.startswith("DDL not supported") or "not supported: " in plain:
        help = "give one query: SELECT, WITH or VALUES"
        return _at_start("SQL_STATEMENTS", plain, help, query)
    help = "write the query in another way; docs/sql.md says what is supported"
    return _at_start("SQL_NOT_PLANNED", _first_line(plain), help, query)


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turn a panic of DataFusion into an exception. Its class is no `Exception`, and no module has it.

    Raises:
        RuntimeError: DataFusion panicked.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        message = f"DataFusion cannot compute a constant of the query: {error}"
        raise RuntimeError(message) from error


def is_syntax_error(error: Exception) -> bool:
    """Return whether DataFusion cannot parse a query."""
    return any(kind in str(error) for kind in ("ParserError", "TokenizerError"))


def _syntax_error(text: str, query: QueryText) -> SqlRefused:
    place = _PLACE.search(text)
    said = re.search(r'Error\("(.*?)"\)', text, re.S)
    message = _PLACE.sub("", said[1] if said else text).replace('\\"', '"')
    message = message[:1].lower() + message[1:]
    start = len(query.text.rstrip())
    if place is not None:
        start = offset_of(query.text, int(place[1]), int(place[2]))
    return query.refused("SQL_SYNTAX", start, None, message, "correct the SQL text")


def _by_rule(
    rule: _Rule,
    match: re.Match[str],
    plain: str,
    query: QueryText,
    names: TableNames,
) -> SqlRefused:
    groups = match.groupdict()
    name = (groups.get("name") or "").removeprefix("datafusion.public.").removeprefix("datafusion.")
    fields = re.search(r"Valid fields are (.*)\.", plain, re.S)
    near = re.search(r"Did you mean '([^']+)'", plain)
    types = re.search(r"coercion from (.*?) to the signature|argument types '(.*?)'", plain, re.S)
    words = {
        **groups,
        "name": name,
        "all": _with_sql_types(_first_line(plain)),
        "tables": ", ".join(".".join(table) for table in names.tables.values()) or "none",
        "fields": fields[1] if fields else "not known",
        "given": next((g for g in types.groups() if g), "") if types else _first_line(plain),
    }
    words["given"] = _with_sql_types(words["given"])
    help = rule.help.format(**words)
    if name in WINDOWS:
        help = "cast the time to timestamp(6); durations are INTERVAL '5 minutes'"
    if near is not None and _is_near(name, near[1]):
        help = f"did you mean {near[1]}? {help}"
    start, end = _operator_place(plain, query.tokens) or _place_of(name, query.tokens)
    return query.refused(rule.code, start, end, rule.message.format(**words), help)


_SQL_TYPES = {
    "Utf8": "varchar", "LargeUtf8": "varchar", "Utf8View": "varchar", "Boolean": "boolean", "Binary": "varbinary",
    "Int8": "tinyint", "Int16": "smallint", "Int32": "int", "Int64": "bigint", "Float32": "float", "Float64": "double",
    "Date32": "date",
}  # fmt: skip
_ARROW_TYPE = re.compile(rf"\b({'|'.join(_SQL_TYPES)})\b")


def _with_sql_types(text: str) -> str:
    """Return a message of DataFusion with the names of types in SQL."""
    return _ARROW_TYPE.sub(lambda found: _SQL_TYPES[found[1]], text)


def _is_near(name: str, other: str) -> bool:
    """Return whether a name may be a slip of another one. DataFusion suggests the nearest, however far."""
    last = other.rpartition(".")[2].strip('"').lower()
    return SequenceMatcher(None, name.strip('"').lower(), last).ratio() > 0.7


def with_sources(error: SqlRefused, sources: Iterable[str]) -> SqlRefused:
    """Return an error with the names of the sources in its help, if it is about an unknown table.

    The planner knows only the tables that a query names.
    """
    names = sorted(sources)
    unknown = re.fullmatch(r"there is no table (.+)", error.message)
    if error.code == "SQL_TABLE_UNKNOWN" and unknown and names:
        near = get_close_matches(unknown[1], names, n=1)
        guess = f"did you mean {near[0]}? " if near else ""
        error.help = f"{guess}the sources are {', '.join(names)}; CREATE TABLE in the script, or --source NAME=SPEC, adds a table"
    elif error.code == "SQL_TABLE_UNKNOWN" and error.help.startswith(_NO_TABLES):
        error.help = "no source is given: add --source NAME=SPEC, or CREATE TABLE in the script"
    return error


def _place_of(name: str, tokens: Sequence[Token]) -> tuple[int, int | None]:
    """Return where the query has a name, else where it begins."""
    parts = [part.replace('""', '"').strip('"') for part in re.findall(_NAME, name)]
    named = [t for t in tokens if t.kind in ("word", "quoted")]
    for sought in (parts, parts[-1:]):
        for number in range(len(named) - len(sought) + 1):
            run = named[number : number + len(sought)]
            if sought and [t.name for t in run] in (sought, [part.lower() for part in sought]):
                return run[0].start, run[-1].end
    return (tokens[0].start, tokens[0].end) if tokens else (0, None)


def _operator_place(plain: str, tokens: Sequence[Token]) -> tuple[int, int] | None:
    """Return where the query has the operator that a message is about, if it has it once."""
    said = re.search(r"expression \S+ (?P<operator>\S+) \S+ to valid types", plain)
    places = [t for t in tokens if said is not None and t.text.upper() == said["operator"].upper()]
    return (places[0].start, places[0].end) if len(places) == 1 else None


def _at_start(code: str, message: str, help: str, query: QueryText) -> SqlRefused:
    start, end = _place_of("", query.tokens)
    return query.refused(code, start, end, message, help)


def _first_line(text: str) -> str:
    return text.splitlines()[0].rstrip(".") if text else "DataFusion gives no reason"
