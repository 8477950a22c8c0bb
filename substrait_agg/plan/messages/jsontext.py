"""Parse JSON text to Python values without recursion.

Comments are allowed, as some producers write them.

The parser of the standard library fails at Python's recursion limit, which real plans exceed, and
accepts duplicate keys.
"""

from __future__ import annotations

import json
import re
from typing import Any

from substrait_agg.plan.messages.node import MAX_DEPTH, MAX_VALUES, Unreadable

# A level of the plan takes at most two levels of JSON: a list and an object in it.
_MAX_JSON_DEPTH = 2 * MAX_DEPTH + 2
_SKIP = re.compile(r"(?:[ \t\r\n]++|//[^\n]*+|/\*(?s:.*?)\*/)*+")
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][+-]?[0-9]++)?")
_WORD = re.compile(r"[A-Za-z]++")
_WORDS = {"true": True, "false": False, "null": None}
_MAX_DIGITS = 400


class _Malformed(Exception):
    """The text is not JSON at `offset`."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset
        self.reason = reason


def parse_json(text: str) -> Any:
    """Return the value that `text` contains.

    >>> parse_json('{"a": [1, null]} // comment')
    {'a': [1, None]}

    Raises:
        Unreadable: the text is not JSON, or exceeds a limit.
    """
    try:
        return _Reader(text).read()
    except _Malformed as problem:
        line = text.count("\n", 0, problem.offset) + 1
        column = problem.offset - text.rfind("\n", 0, problem.offset)
        reason = f"line {line}, column {column}: {problem.reason}"
        raise Unreadable("PLAN_UNREADABLE", offset=problem.offset, reason=reason) from None


class _Reader:
    """Reads one document; `open` is the stack of open lists and objects."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.open: list[Any] = []
        self.budget = MAX_VALUES

    def read(self) -> Any:
        self._skip()
        root = self._begin()
        while self.open:
            self._next_in(self.open[-1])
        self._skip()
        if self.at < len(self.text):
            raise _Malformed(self.at, "text follows the plan")
        return root

    def _skip(self) -> None:
        match = _SKIP.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def _peek(self) -> str:
        if self.at >= len(self.text):
            raise _Malformed(self.at, "the text ends too early")
        return self.text[self.at]

    def _next_in(self, container: Any) -> None:
        """Read the next member of the innermost open container, or close it."""
        closing = "}" if isinstance(container, dict) else "]"
        self._skip()
        if self._peek() == closing:
            self.at += 1
            self.open.pop()
            return
        if container:
            self._expect(",")
            self._skip()
        if isinstance(container, dict):
            key = self._key(container)
            container[key] = None
            container[key] = self._begin()
        else:
            container.append(self._begin())

    def _expect(self, mark: str) -> None:
        if self._peek() != mark:
            raise _Malformed(self.at, f"{mark!r} is expected")
        self.at += 1

    def _key(self, container: dict[str, Any]) -> str:
        start = self.at
        if self._peek() != '"':
            raise _Malformed(start, "a key in quotes is expected")
        key = self._string()
        if key in container:
            raise _Malformed(start, f"key {key[:80]!r} is written twice")
        self._skip()
        self._expect(":")
        self._skip()
        return key

    def _begin(self) -> Any:
        """Return the scalar at the current position, or a new open list or object."""
        self.budget -= 1
        if self.budget < 0:
            raise Unreadable("PLAN_TOO_LARGE", limit=f"{MAX_VALUES} values")
        mark = self._peek()
        if mark in "{[":
            if len(self.open) >= _MAX_JSON_DEPTH:
                raise Unreadable("PLAN_TOO_DEEP", limit=MAX_DEPTH)
            container: Any = {} if mark == "{" else []
            self.at += 1
            self.open.append(container)
            return container
        return self._string() if mark == '"' else self._plain(mark)

    def _string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if match is None:
            raise _Malformed(self.at, "a text has no end")
        try:
            value = json.loads(match.group(), strict=False)
        except json.JSONDecodeError as problem:
            raise _Malformed(self.at + problem.pos, problem.msg.lower()) from None
        self.at = match.end()
        return str(value)

    def _plain(self, mark: str) -> Any:
        if mark in "-0123456789":
            return self._number()
        match = _WORD.match(self.text, self.at)
        if match is None or match.group() not in _WORDS:
            raise _Malformed(self.at, "a value is expected")
        self.at = match.end()
        return _WORDS[match.group()]

    def _number(self) -> int | float:
        match = _NUMBER.match(self.text, self.at)
        if match is None or match.end() - self.at > _MAX_DIGITS:
            raise _Malformed(self.at, "this is not a number")
        self.at = match.end()
        whole = match.group(1) is None and match.group(2) is None
        return int(match.group()) if whole else float(match.group())
