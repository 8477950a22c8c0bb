"""Split a SQL script into statements, and read the beginnings of CREATE statements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal as OneOf

from substrait_agg.errors import SqlRefused, UsageError
from substrait_agg.plan.messages.source import file_bytes
from substrait_agg.scripts.tokens import Token, place_at, refused_at, syntax_error, tokens

StatementKind = OneOf[
    "query", "create_table", "create_view", "create_target", "create_flow", "other"
]

_IN_A_LINE = re.compile(r"[^\n]")
_QUERY = re.compile(r"\s*(select|with|create|values)\s", re.IGNORECASE)
_QUERY_WORDS = ("select", "with", "values", "from", "table")
_MODIFIERS = (
    "or", "replace", "refresh", "temporary", "temp", "global", "materialized", "live", "streaming",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a script.

    Attributes:
        kind: ``query``; ``create_table`` with columns; ``create_view``, materialized or not;
            ``create_target``, a streaming table without a query; ``create_flow``, an AUTO CDC flow,
            also one that creates its table; ``other`` for anything else.
        name: the parts of the name of the table or view, of a flow the name of its table; empty for
            a query. Names without quotes are in lower case.
        text: the statement as written, without the semicolon.
        query: the query of a query or a view, and a flow from AUTO CDC on, as written; empty for other
            statements.
        modifiers: the words between CREATE and VIEW or TABLE, in lower case.
        columns: the column names of a view, ``CREATE VIEW v (a, b) AS``.
        start: offset of the statement in the script.
        query_start: offset of the query in the script.
        line: number of the line on which the statement begins, from 1.
        script: the whole script.
        file: name of the file of the script; empty if it has none.
    """

    kind: StatementKind
    text: str
    start: int
    query_start: int
    line: int
    script: str
    file: str
    query: str = ""
    name: tuple[str, ...] = ()
    modifiers: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def refuse(self, code: str, message: str, help: str, end: int | None = None) -> SqlRefused:
        """Return an error at the beginning of the statement, up to `end`."""
        return refused_at(code, self.script, self.start, end, message, help, self.file)

    def pad(self, text: str, start: int) -> str:
        """Return a part of the script with spaces and line breaks in front.

        The part keeps its lines and columns.

        Args:
            text: the part, such as `query`.
            start: its offset, such as `query_start`.
        """
        return _IN_A_LINE.sub(" ", self.script[:start]) + text


def script_text(path: Path) -> str:
    """Return the text of a file of SQL.

    Raises:
        UsageError: FILE_NOT_FOUND or FILE_NOT_READABLE.
    """
    try:
        return file_bytes(path).decode("utf-8-sig")
    except UsageError as error:
        error.help = (
            "this is SQL text, not the name of a file: give it with --query, in Python as a str"
            if error.code == "FILE_NOT_FOUND" and is_query(str(path))
            else "give the path of a file of SQL; run, explain and validate also take a folder of such files"
        )
        raise
    except UnicodeDecodeError as error:
        message = f"byte {error.start} is not UTF-8"
        help = "save the file as UTF-8"
        raise UsageError("FILE_NOT_READABLE", message, help=help, path=str(path)) from error


def is_query(text: str) -> bool:
    """Return whether a text begins as a query does."""
    return _QUERY.match(text) is not None


def statements(script: str, file: str = "") -> tuple[Statement, ...]:
    """Split a script at its semicolons. Empty statements are left out.

    Raises:
        SqlRefused: SQL_SYNTAX: a string, a name or a comment has no end, or a CREATE statement has
            no name or no query.

    >>> [s.kind for s in statements("CREATE TABLE t (a int); SELECT ';' FROM t;")]
    ['create_table', 'query']
    """
    return tuple(_statement(part, script, file) for part in _split(tokens(script, file)))


def _split(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    part: list[Token] = []
    for token in tokens:
        if token.text != ";":
            part.append(token)
        elif part:
            yield part
            part = []
    if part:
        yield part


def _statement(part: Sequence[Token], script: str, file: str) -> Statement:
    first, end = part[0], part[-1].end
    line = place_at(script, first.start).line
    text = script[first.start : end]
    other = Statement("other", text, first.start, first.start, line, script, file)
    if first.is_word(*_QUERY_WORDS) or first.text == "(":
        return replace(other, kind="query", query=text)
    head = _create_head(part)
    flow = _flow_place(part)
    if head is None:
        if flow is None:
            return other
        name, _ = _name(part, flow + 3, script, file)
        begin = part[flow].start
        return replace(
            other, kind="create_flow", name=name, query=script[begin:end], query_start=begin
        )
    kind, modifiers, place = head
    name, place = _name(part, place, script, file)
    created = replace(other, kind=kind, name=name, modifiers=modifiers)
    if kind == "create_table":
        return created
    if flow is not None:
        begin = part[flow - 1].start
        return replace(created, kind="create_flow", query=script[begin:end], query_start=begin)
    columns, start = _view_query(part, place)
    if start is not None:
        return replace(created, columns=columns, query=script[start:end], query_start=start)
    if "streaming" in modifiers:
        return replace(created, kind="create_target", query_start=end)
    help = "write CREATE VIEW name AS SELECT ..."
    raise syntax_error(script, end, "the view has no query", help, file)


def _flow_place(part: Sequence[Token]) -> int | None:
    """Return the position of AUTO CDC in a statement that creates a flow of it; None for others.

    It follows AS and precedes INTO in ``CREATE FLOW``, and follows FLOW in ``CREATE STREAMING TABLE``.
    """
    if not part[0].is_word("create"):
        return None
    before = "as" if len(part) > 1 and part[1].is_word("flow") else "flow"
    after = ("into",) if before == "as" else ()
    for number in range(2, len(part) - 2):
        words = part[number - 1 : number + 2 + len(after)]
        if all(t.is_word(w) for t, w in zip(words, (before, "auto", "cdc", *after), strict=False)):
            return number
    return None


def _create_head(part: Sequence[Token]) -> tuple[StatementKind, tuple[str, ...], int] | None:
    """Return kind, modifiers and the position after CREATE ... TABLE or VIEW; None for others."""
    if not part[0].is_word("create"):
        return None
    place = 1
    while place < len(part) and part[place].is_word(*_MODIFIERS):
        place += 1
    if place == len(part) or not part[place].is_word("table", "view"):
        return None
    modifiers = tuple(token.text.lower() for token in part[1:place])
    is_view = part[place].is_word("view") or "streaming" in modifiers
    kind: StatementKind = "create_view" if is_view else "create_table"
    place += 1
    words = [token.text.lower() for token in part[place : place + 3]]
    if words == ["if", "not", "exists"]:
        place += 3
    return kind, modifiers, place


def _name(part: Sequence[Token], place: int, script: str, file: str) -> tuple[tuple[str, ...], int]:
    """Return a dotted name and the position after it."""
    names: list[str] = []
    while place < len(part) and part[place].kind in ("word", "quoted"):
        names.append(part[place].name)
        place += 1
        if place == len(part) or part[place].text != ".":
            return tuple(names), place
        place += 1
    where = part[place].start if place < len(part) else part[-1].end
    raise syntax_error(script, where, "a name is expected here", "write the name", file)


def _view_query(part: Sequence[Token], place: int) -> tuple[tuple[str, ...], int | None]:
    """Return the column names of a view and the offset of its query; None without one."""
    columns, depth = [], 0
    for number in range(place, len(part)):
        token = part[number]
        if token.text in "()":
            depth += 1 if token.text == "(" else -1
        elif depth == 1 and part[number - 1].text in "(," and not columns_end(part, place, number):
            columns.append(token.name)
        elif depth == 0 and token.is_word("as") and number + 1 < len(part):
            following = part[number + 1]
            if following.is_word(*_QUERY_WORDS) or following.text == "(":
                return tuple(columns), following.start
    return tuple(columns), None


def columns_end(part: Sequence[Token], place: int, number: int) -> bool:
    """Return whether a token is outside of the list of columns that follows the name of a view."""
    return part[place].text != "(" or any(token.text == ")" for token in part[place:number])
