"""Split SQL text into tokens with their places, and show a place in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal as OneOf

from substrait_agg.errors import SqlRefused

TokenKind = OneOf["word", "quoted", "string", "number", "symbol"]

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*)
    |(?P<comment>/\*)
    |(?P<raw>[rR](?P<mark>['"]).*?(?:(?P=mark)|\Z))
    |(?P<string>'(?:[^'\\]|\\.|'')*(?:'|\Z))
    |(?P<double>"(?:[^"\\]|\\.|"")*(?:"|\Z))
    |(?P<dollar>\$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z))
    |(?P<quoted>`(?:[^`]|``)*(?:`|\Z))
    |(?P<number>(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<word>[^\W\d][\w$]*)
    |(?P<symbol>.)
    """,
    re.X | re.S,
)
_COMMENT_END = re.compile(r"/\*|\*/")
_KINDS: dict[str, TokenKind] = {"raw": "string", "double": "string", "dollar": "string"}
_TAB = 4


@dataclass(frozen=True, slots=True)
class Token:
    """A token of SQL text.

    Attributes:
        kind: ``word`` (a keyword or a name), ``quoted`` (a name in quotes), ``string``, ``number``
            or ``symbol`` (one character).
        text: the token as written, with its quotes.
        start: offset of its first character in the text.
    """

    kind: TokenKind
    text: str
    start: int

    @property
    def end(self) -> int:
        """Return the offset after the token."""
        return self.start + len(self.text)

    @property
    def name(self) -> str:
        """Return the name that the token means: in lower case, unless it is quoted."""
        if self.kind == "quoted":
            quote = self.text[0]
            return self.text[1:-1].replace(quote * 2, quote)
        return self.text.lower()

    def is_word(self, *words: str) -> bool:
        """Return whether the token is one of some keywords, given in lower case."""
        return self.kind == "word" and self.text.lower() in words


@lru_cache(maxsize=256)
def tokens(text: str, file: str = "") -> tuple[Token, ...]:
    """Return the tokens of SQL text, without spaces and comments.

    Strings are those of Spark: in single or double quotes, with backslash escapes, ``r'...'`` without
    them, and ``$$...$$`` with any text. Names may be in backticks.

    Raises:
        SqlRefused: SQL_SYNTAX: a string, a name or a comment has no end.

    >>> [token.text for token in tokens("SELECT 'a;b' -- c")]
    ['SELECT', "'a;b'"]
    """
    return tuple(_scan(text, file))


def _scan(text: str, file: str) -> Iterator[Token]:
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:  # every character matches the last alternative
            raise AssertionError(place)
        group = match.lastgroup or ""
        group = {"tag": "dollar", "mark": "raw"}.get(group, group)
        if group == "comment":
            place = _after_comment(text, place, file)
            continue
        place = match.end()
        if group == "space":
            continue
        _check_end(text, match, group, file)
        yield Token(_KINDS.get(group, group), match.group(), match.start())  # type: ignore[arg-type]


def _after_comment(text: str, start: int, file: str) -> int:
    """Return the offset after a comment. Comments can contain comments."""
    depth = 0
    for match in _COMMENT_END.finditer(text, start):
        depth += 1 if match.group() == "/*" else -1
        if depth == 0:
            return match.end()
    raise syntax_error(text, start, "the comment has no end", "add */", file)


def _check_end(text: str, match: re.Match[str], group: str, file: str) -> None:
    written = match.group()
    ends = {
        "raw": (match.group("mark") or "", 2),
        "string": ("'", 1),
        "double": ('"', 1),
        "quoted": (written[0], 1),
        "dollar": (f"${match.group('tag')}$", 2 + len(match.group("tag") or "")),
    }
    if group not in ends:
        return
    end, least = ends[group]
    body = written[least:]
    if not body.endswith(end):
        what = "name" if group == "quoted" else "string"
        raise syntax_error(text, match.start(), f"the {what} has no end", f"add {end}", file)


# --- places -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """A place in SQL text.

    Attributes:
        line: number of the line, from 1.
        column: number of the character in the line, from 1.
        excerpt: the line, and below it carets under the place.
    """

    line: int
    column: int
    excerpt: str

    def path(self, file: str) -> str:
        """Return the place as a path for messages, such as ``query.sql:3:8``."""
        return f"{file or 'SQL'}:{self.line}:{self.column}"


def place_at(text: str, start: int, end: int | None = None) -> Place:
    """Return the place of the characters from `start` to `end` in SQL text.

    >>> print(place_at("SELECT 1", 7).excerpt)
    SELECT 1
           ^
    """
    start = min(start, len(text.rstrip()))
    begin = text.rfind("\n", 0, start) + 1
    stop = text.find("\n", start)
    line = text[begin : len(text) if stop < 0 else stop].rstrip("\r")
    column = start - begin
    shown = line.replace("\t", " " * _TAB)
    indent = len(line[:column].replace("\t", " " * _TAB))
    width = max(1, min((end or start + 1) - start, len(line) - column))
    number = text.count("\n", 0, begin) + 1
    return Place(number, column + 1, f"{shown}\n{' ' * indent}{'^' * width}")


def offset_of(text: str, line: int, column: int) -> int:
    """Return the offset of a line and column, both from 1, in SQL text."""
    begin = 0
    for _ in range(line - 1):
        following = text.find("\n", begin)
        if following < 0:
            break
        begin = following + 1
    return min(begin + column - 1, len(text))


def refused_at(
    code: str, text: str, start: int, end: int | None, message: str, help: str, file: str = ""
) -> SqlRefused:
    """Return an error at a place in SQL text."""
    place = place_at(text, start, end)
    return SqlRefused(
        code,
        message,
        help=help,
        path=place.path(file),
        line=place.line,
        column=place.column,
        excerpt=place.excerpt,
    )


def syntax_error(text: str, start: int, message: str, help: str, file: str = "") -> SqlRefused:
    """Return the error SQL_SYNTAX at a place in SQL text."""
    return refused_at("SQL_SYNTAX", text, start, None, message, help, file)
