"""Plan a pipeline: the views of a SQL script or of a folder of SQL files, in an order to plan them.

The statements are those of Spark Declarative Pipelines: ``CREATE MATERIALIZED VIEW``, ``CREATE
STREAMING TABLE``, ``CREATE VIEW`` and ``CREATE TEMPORARY VIEW``, each with ``AS`` and a query, in
any order over several files. A streaming table without a query has an AUTO CDC flow. Tables in FROM
clauses may have Spark's STREAM in front of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from substrait_agg.checked_plan import Plan
from substrait_agg.errors import UsageError
from substrait_agg.notices import notice
from substrait_agg.scripts.clauses import IGNORED, check_clauses
from substrait_agg.scripts.definitions import ColumnsOf, Definitions, Planning
from substrait_agg.scripts.flows import SqlDefinition, SqlTarget, flow_alone
from substrait_agg.scripts.planner import SqlPlanner, declared_tables
from substrait_agg.scripts.script import Statement, script_text, statements
from substrait_agg.scripts.tokens import Token, place_at, tokens

_STARTS = ("from", "join")
_WITHIN = (
    "on", "using", "as", "inner", "left", "right", "full", "outer", "cross", "semi", "anti",
    "natural",
)  # fmt: skip
_ENDS = (
    "select", "where", "group", "order", "having", "limit", "offset", "union", "except", "intersect",
    "window", "qualify", "with", "fetch",
)  # fmt: skip
_BEFORE_NAME = ("lateral", "only", "stream")


def without_stream(statement: Statement) -> Statement:
    """Return a statement whose query has spaces instead of STREAM, so that places stay the same.

    ``FROM STREAM t`` and ``FROM STREAM(t)`` become ``FROM t``. Every table of a run is a stream.
    """
    text = list(statement.query)
    words = tokens(statement.query)
    for number, token in enumerate(words[:-1]):
        if not token.is_word("stream") or number == 0:
            continue
        before, after = words[number - 1], words[number + 1]
        in_from = before.is_word(*_STARTS) or before.text in (",", "(")
        if in_from and after.text == "(":
            close = _find_closing(words, number + 1)
            for place in (*range(token.start, after.end), close.start):
                text[place] = " "
        elif in_from and after.kind in ("word", "quoted") and not after.is_word(*_WITHIN, *_ENDS):
            text[token.start : token.end] = " " * len(token.text)
    return replace(statement, query="".join(text))


def _find_closing(words: Sequence[Token], opening: int) -> Token:
    """Return the token that closes a parenthesis; the last one if nothing does."""
    depth = 0
    for token in words[opening:]:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if not depth:
            return token
    return words[-1]


def relations_read(statement: Statement) -> frozenset[str]:
    """Return the names in the FROM clauses of a query, in lower case, without those of WITH.

    A name in another place, as in ``extract(day FROM t)``, may be among them.
    """
    words = tokens(statement.query)
    named = {
        t.name.lower()
        for t, as_, opened in zip(words, words[1:], words[2:], strict=False)
        if as_.is_word("as") and opened.text == "("
    }
    reads: set[str] = set()
    in_from, expected, number = [False], [False], 0
    while number < len(words):
        token = words[number]
        number += 1
        if token.text == "(":
            in_from.append(in_from[-1] and expected[-1])
            expected.append(expected[-1])
        elif token.text == ")" and len(in_from) > 1:
            in_from.pop()
            expected.pop()
            expected[-1] = False
        elif token.text == ",":
            expected[-1] = in_from[-1]
        elif token.is_word(*_STARTS):
            in_from[-1] = expected[-1] = True
        elif token.is_word(*_ENDS):
            in_from[-1] = expected[-1] = False
        elif expected[-1] and token.kind in ("word", "quoted") and not token.is_word(*_BEFORE_NAME):
            parts = [token.name]
            while number + 1 < len(words) and words[number].text == ".":
                parts.append(words[number + 1].name)
                number += 2
            reads.add(".".join(parts).lower())
            expected[-1] = False
    return frozenset(reads - named)


SUFFIX = ".sql"
PYTHON_SUFFIX = ".py"


class PlanSet(dict[str, Plan]):
    """The plans of several views by name.

    Attributes:
        temporary: the views that only other views read.
        configuration: Spark configuration of the pipeline.
        refresh: refresh policies of views by name: from their statements, or from `sql_views`.
        places: file and line of the statement of each view.
    """

    def __init__(
        self,
        plans: Mapping[str, Plan],
        temporary: frozenset[str],
        configuration: Mapping[str, str] | None = None,
        refresh: Mapping[str, str] | None = None,
        places: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(plans)
        self.temporary = temporary
        self.configuration = dict(configuration or {})
        self.refresh = dict(refresh or {})
        self.places = dict(places or {})


class SqlView(SqlDefinition):
    """A statement that creates a view, with a query that Spark's STREAM is removed from."""

    __slots__ = ()

    @property
    def place(self) -> str:
        """Return the file and the line of the statement."""
        statement = self.statement
        return f"{statement.file}:{statement.line}" if statement.file else f"line {statement.line}"

    @property
    def temporary(self) -> bool:
        """Return whether only other views read it."""
        return bool({"temporary", "temp"} & set(self.statement.modifiers))

    @property
    def reads(self) -> frozenset[str]:
        """Return the names of the relations that the query reads, in lower case."""
        return relations_read(self.statement)

    def plan(self, tables: Mapping[str, pa.Schema]) -> Plan:
        """Return the plan of the query."""
        return self.planner.plan(self.statement, tables)


def files_in(path: Path) -> list[Path]:
    """Return the files of a folder and its subfolders, or the path of one file."""
    if not path.is_dir():
        return [path]
    return sorted(
        file
        for file in path.rglob("*")
        if file.is_file()
        and not any(p.startswith((".", "__")) for p in file.relative_to(path).parts)
    )


def scripts_in(path: Path) -> dict[str, str]:
    """Return the SQL files of a folder and its subfolders, or one file, by name.

    Raises:
        UsageError: FILE_NOT_FOUND, FILE_NOT_READABLE or SQL_FOLDER_EMPTY.
    """
    return scripts_of(files_in(path), path) if path.is_dir() else {str(path): script_text(path)}


def scripts_of(files: Sequence[Path], path: Path) -> dict[str, str]:
    """Return the text of SQL files by name.

    Args:
        files: the files; those with other suffixes than .sql are left out.
        path: where they come from, for errors.

    Raises:
        UsageError: FILE_NOT_READABLE, or SQL_FOLDER_EMPTY if there is neither SQL nor Python.
    """
    scripts = {str(file): script_text(file) for file in files if file.suffix.lower() == SUFFIX}
    if not scripts and not python_files(files):
        raise UsageError(
            "SQL_FOLDER_EMPTY",
            "the folder has no file of SQL or Python",
            help=f"name a folder with files that end in {SUFFIX} or {PYTHON_SUFFIX}",
            path=str(path),
        )
    return scripts


def python_files(files: Sequence[Path]) -> list[Path]:
    """Return the files of Python."""
    return [file for file in files if file.suffix == PYTHON_SUFFIX]


def is_pipeline(script: str, file: str = "") -> bool:
    """Return whether a script creates several views, a streaming table or a flow.

    Raises:
        SqlRefused: SQL_SYNTAX.
    """
    parsed = statements(script, file)
    views = [s for s in parsed if s.kind == "create_view"]
    of_pipeline = any(s.kind == "create_flow" or "streaming" in s.modifiers for s in parsed)
    return of_pipeline or len(views) > 1


def plan_pipeline(
    scripts: Mapping[str, str],
    columns_of: ColumnsOf,
    planner: SqlPlanner,
    functions: Definitions | None = None,
) -> PlanSet:
    """Return the plans of the views that scripts create.

    Args:
        scripts: text of each file, by its name.
        columns_of: returns the columns of tables that the scripts do not create.
        planner: plans their statements.
        functions: further views, which files of Python define.

    Raises:
        SqlRefused: a statement cannot be planned or maintained; as `SqlPlanner.plan`, and
            SQL_VIEW_TWICE or SQL_VIEW_CYCLE.
        PlanRefused: a view has problems.
    """
    parsed = [s for file, text in scripts.items() for s in statements(text, file)]
    declared = [s for s in parsed if s.kind == "create_table"]
    created = [checked_view(s) for s in parsed if s.kind != "create_table"]
    views = (sql_definitions(created, planner) + (functions or Definitions())).by_name()
    words = {t.name.lower() for s in created for t in tokens(s.text)}
    tables = declared_tables(declared, planner)
    names = {*(name.lower() for name in tables), *views}
    schemas = columns_of(words)
    tables |= {name: schema for name, schema in schemas.items() if name.lower() not in names}
    plans = Planning(views, tables, columns_of).plan_all()
    policies = {view.name: view.policy for view in views.values() if not view.temporary}
    return PlanSet(
        plans,
        frozenset(view.name for view in views.values() if view.temporary),
        refresh={name: policy for name, policy in policies.items() if policy is not None},
        places={view.name: view.place for view in views.values()},
    )


def sql_definitions(created: Sequence[Statement], planner: SqlPlanner) -> Definitions:
    """Return what the statements of a pipeline define."""
    defined = Definitions()
    for statement in created:
        is_flow = statement.kind == "create_flow"
        if statement.kind == "create_target" or (is_flow and statement.modifiers):
            defined.targets.append(SqlTarget(statement, planner))
        if is_flow:
            defined.flows.append(SqlView(flow_alone(statement), planner))
        elif statement.kind == "create_view":
            defined.views.append(SqlView(statement, planner))
    return defined


def checked_view(statement: Statement) -> Statement:
    """Return the statement of a view without STREAM; note its clauses that have no effect."""
    for ignored in check_clauses(statement):
        note_clause(
            IGNORED[ignored.text.lower()],
            place_at(statement.script, statement.start + ignored.start).path(statement.file),
        )
    return statement if statement.kind == "create_flow" else without_stream(statement)


def note_clause(name: str, path: str) -> None:
    """Log a notice for a clause that has no effect."""
    notice(
        "SQL_CLAUSE_IGNORED",
        f"{name} has no effect: it says how Spark stores a table",
        help="no action is needed: the rows of the view are the same",
        path=path,
    )
