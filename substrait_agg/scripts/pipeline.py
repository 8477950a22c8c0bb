"""Plan a pipeline: the views of a SQL script or of a folder of SQL files, in an order to plan them.

The statements are those of Spark Declarative Pipelines: ``CREATE MATERIALIZED VIEW``, ``CREATE
STREAMING TABLE``, ``CREATE VIEW`` and ``CREATE TEMPORARY VIEW``, each with ``AS`` and a query, in
any order over several files. Tables in FROM clauses may have Spark's STREAM in front of them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pyarrow as pa

from substrait_agg.errors import PlanRefused, SqlRefused, UsageError
from substrait_agg.notices import notice
from substrait_agg.plan.arrow import arrow_schema
from substrait_agg.report.checked_plan import Plan
from substrait_agg.scripts.clauses import IGNORED, check_clauses, declared_policy
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
            close = _closing(words, number + 1)
            for place in (*range(token.start, after.end), close.start):
                text[place] = " "
        elif in_from and after.kind in ("word", "quoted") and not after.is_word(*_WITHIN, *_ENDS):
            text[token.start : token.end] = " " * len(token.text)
    return replace(statement, query="".join(text))


def _closing(words: Sequence[Token], opening: int) -> Token:
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

ColumnsOf = Callable[[Container[str]], Mapping[str, pa.Schema]]
"""Returns the columns of the tables whose names, in lower case, are in a container."""


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


@dataclass(frozen=True, slots=True)
class _View:
    """A statement that creates a view.

    Attributes:
        statement: the statement, with a query that Spark's STREAM is removed from.
        reads: names of the relations that the query reads, in lower case.
    """

    name: str
    statement: Statement
    reads: frozenset[str]

    @property
    def temporary(self) -> bool:
        """Return whether only other views read it."""
        return bool({"temporary", "temp"} & set(self.statement.modifiers))


def scripts_in(path: Path) -> dict[str, str]:
    """Return the SQL files of a folder and its subfolders, or one file, by name.

    Raises:
        UsageError: FILE_NOT_FOUND, FILE_NOT_READABLE or SQL_FOLDER_EMPTY.
        SqlRefused: SQL_NOT_MAINTAINED: a file has Python code.
    """
    if not path.is_dir():
        return {str(path): script_text(path)}
    files = (
        file
        for file in path.rglob("*")
        if file.is_file()
        and not any(p.startswith((".", "__")) for p in file.relative_to(path).parts)
    )
    return scripts_of(sorted(files), path)


def scripts_of(files: Sequence[Path], path: Path) -> dict[str, str]:
    """Return the text of SQL files by name.

    Args:
        files: the files; those with other suffixes than .sql and .py are left out.
        path: where they come from, for errors.

    Raises:
        UsageError: FILE_NOT_READABLE or SQL_FOLDER_EMPTY.
        SqlRefused: SQL_NOT_MAINTAINED: a file has Python code.
    """
    scripts = {str(file): script_text(file) for file in files if file.suffix.lower() == SUFFIX}
    if not scripts:
        raise UsageError(
            "SQL_FOLDER_EMPTY",
            "the folder has no SQL file",
            help=f"name a folder with files that end in {SUFFIX}",
            path=str(path),
        )
    for file in files:
        if file.suffix == ".py":
            raise SqlRefused(
                "SQL_NOT_MAINTAINED",
                "views that Python code defines cannot be maintained",
                help="define them in SQL, or move the file out of the folder",
                path=str(file),
            )
    return scripts


def is_pipeline(script: str, file: str = "") -> bool:
    """Return whether a script creates several views, or a streaming table.

    Raises:
        SqlRefused: SQL_SYNTAX.
    """
    views = [s for s in statements(script, file) if s.kind == "create_view"]
    return len(views) > 1 or any("streaming" in view.modifiers for view in views)


def plan_pipeline(
    scripts: Mapping[str, str], columns_of: ColumnsOf, planner: SqlPlanner
) -> PlanSet:
    """Return the plans of the views that scripts create.

    Args:
        scripts: text of each file, by its name.
        columns_of: returns the columns of tables that the scripts do not create.
        planner: plans their statements.

    Raises:
        SqlRefused: a statement cannot be planned or maintained; as `SqlPlanner.plan`, and
            SQL_VIEW_TWICE or SQL_VIEW_CYCLE.
        PlanRefused: a view has problems.
    """
    parsed = [s for file, text in scripts.items() for s in statements(text, file)]
    declared = [s for s in parsed if s.kind == "create_table"]
    views = _views([s for s in parsed if s.kind != "create_table"])
    words = {t.name.lower() for v in views.values() for t in tokens(v.statement.text)}
    tables = declared_tables(declared, planner)
    names = {*(name.lower() for name in tables), *views}
    schemas = columns_of(words)
    tables |= {name: schema for name, schema in schemas.items() if name.lower() not in names}
    plans: dict[str, Plan] = {}
    for key in _ordered(views):
        view = views[key]
        plan = planner.plan(view.statement, tables)
        bound = plan.check().bound
        if bound is None:
            raise PlanRefused(plan.check().problems)
        types = [type_.as_nullable() for type_ in bound.types]
        tables[view.name] = arrow_schema(bound.names, types, bound.fields)
        plans[view.name] = plan
    created = list(views.values())
    policies = {
        view.name: declared_policy(view.statement) for view in created if not view.temporary
    }
    return PlanSet(
        plans,
        frozenset(view.name for view in created if view.temporary),
        refresh={name: policy for name, policy in policies.items() if policy is not None},
        places={
            view.name: f"{view.statement.file}:{view.statement.line}".lstrip(":")
            for view in created
        },
    )


def _views(parsed: Sequence[Statement]) -> dict[str, _View]:
    """Return the views by name in lower case."""
    by_name: dict[str, _View] = {}
    for statement in parsed:
        for ignored in check_clauses(statement):
            notice(
                "SQL_CLAUSE_IGNORED",
                f"{IGNORED[ignored.text.lower()]} has no effect: it says how Spark stores a table",
                help="no action is needed: the rows of the view are the same",
                path=place_at(statement.script, statement.start + ignored.start).path(
                    statement.file
                ),
            )
        name = ".".join(statement.name)
        if name.lower() in by_name:
            other = by_name[name.lower()].statement
            first = f"{other.file}:{other.line}" if other.file else f"line {other.line}"
            message = f"the view {name} is created twice, first at {first}"
            raise statement.refused("SQL_VIEW_TWICE", message, "rename or remove one of them")
        plain = without_stream(statement)
        by_name[name.lower()] = _View(name, plain, relations_read(plain))
    return by_name


def _ordered(views: Mapping[str, _View]) -> Iterator[str]:
    """Yield the names of views, each after those that it reads."""
    below = {name: sorted(view.reads & views.keys()) for name, view in sorted(views.items())}
    try:
        yield from TopologicalSorter(below).static_order()
    except CycleError as error:
        circle = list(reversed(error.args[1]))
        message = f"views read each other in a circle: {' reads '.join(circle)}"
        help = "remove one of these reads; recursive views are not supported"
        if len(set(circle)) == 1:
            help = f"if a source has the name {circle[0]}, give the view another name; {help}"
        raise views[circle[0]].statement.refused("SQL_VIEW_CYCLE", message, help) from error
