"""Parse protobuf-JSON plans of every release, without recursion.

Comments are allowed, as some producers write them. The parser of the standard library fails at
Python's recursion limit, which real plans exceed, and accepts duplicate keys.


Names may be camelCase or snake_case, enum values names or numbers.
Mapping: https://protobuf.dev/programming-guides/json/
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import struct
from collections.abc import Callable
from typing import Any

from substrait_agg.plan.messages.node import MAX_DEPTH, MAX_VALUES, MessageNode, Unreadable
from substrait_agg.plan.messages.schema import (
    ANY,
    ENUM,
    MESSAGE,
    NEWEST_RELEASE,
    SINGLE_BEFORE,
    VALUE_REMOVED_IN,
    Field,
    schema,
)
from substrait_agg.plan.messages.wire import Report

_RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}
_FLOAT_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


_NOT_IN_A_NAME = re.compile(r"[^\w@$-]")
"""Characters that no field name contains and that would change the meaning of a path."""


class _Invalid(Exception):
    """The value does not fit its field; the text says why."""


def read_json(text: str, report: Report) -> MessageNode:
    """Parse a plan as JSON; report unknown keys and invalid values, and continue.

    Raises:
        Unreadable: the text is not JSON or not an object, or exceeds a limit.
    """
    document = parse_json(text)
    if not isinstance(document, dict):
        raise Unreadable("PLAN_UNREADABLE", reason="the text is not a JSON object")
    version = _version(document)
    minor = version[1]
    removed: set[str] = set()
    root = MessageNode(schema().messages["Plan"])
    pending: list[tuple[MessageNode, dict[str, Any]]] = [(root, document)]
    while pending:
        node, members = pending.pop()
        if node.shape.name == ANY:
            # No message inside an Any is decoded; only its type is kept, for messages.
            if isinstance(members.get("@type"), str):
                node.put(node.shape.by_json_name["type_url"], members["@type"])
            continue
        for key, value in members.items():
            item = node.shape.by_json_name.get(key)
            if item is not None:
                listed = _to_list(node, item, value, minor)
                _read_field(node, item, listed, pending, report)
                if _is_removed(item, value, version) and value not in removed:
                    removed.add(value)
                    _report_removed(node, item, value, version, report)
            else:
                field = f"{key[:80]} of {node.shape.name}"
                place = node.at(_NOT_IN_A_NAME.sub("?", key[:80]) or "?")
                report("UNKNOWN_FIELD", place, field=field, newest=NEWEST_RELEASE)
    return root


_Version = tuple[int, int, int]


def _version(document: dict[str, Any]) -> _Version:
    """Return the release of Substrait that the plan states; 0 for a missing or invalid part."""
    version = document.get("version")
    if not isinstance(version, dict):
        return 0, 0, 0

    def part(name: str) -> int:
        """Return one number of the release."""
        number = version.get(f"{name}Number", version.get(f"{name}_number", 0))
        return number if isinstance(number, int) else 0

    return part("major"), part("minor"), part("patch")


def _is_removed(item: Field, value: Any, version: _Version) -> bool:
    """Return whether the release of the plan no longer has the name of an enum value."""
    if item.kind != ENUM or not isinstance(value, str):
        return False
    removed_in = VALUE_REMOVED_IN.get((item.type, value))
    return removed_in is not None and version >= (0, removed_in, 0)


def _report_removed(
    node: MessageNode, item: Field, value: str, version: _Version, report: Report
) -> None:
    report(
        "FIELD_REMOVED", node.at(item.name), what="value", field=value, message=item.type,
        release=f"0.{VALUE_REMOVED_IN[item.type, value]}", version=".".join(map(str, version)),
    )  # fmt: skip


def _to_list(node: MessageNode, item: Field, value: Any, minor: int) -> Any:
    """Return the value, as a list if the field was not repeated when the plan was written."""
    until = SINGLE_BEFORE.get((node.shape.name, item.name), 0)
    return [value] if isinstance(value, dict) and minor < until else value


def _read_field(
    node: MessageNode,
    item: Field,
    value: Any,
    pending: list[tuple[MessageNode, dict[str, Any]]],
    report: Report,
) -> None:
    if value is None:
        return
    other = item.name if item.name in node.values else node.other_member(item)
    if other is not None:
        report("FIELD_CONFLICT", node.at(item.name), field=item.name, other=other)
        return
    if item.repeated and not isinstance(value, list):
        report("VALUE_INVALID", node.at(item.name), field=item.name, reason="is not a list")
        return
    for index, single in enumerate(value if item.repeated else [value]):
        try:
            if item.kind != MESSAGE:
                node.put(item, _scalar(item, single))
            else:
                members = _object(single)
                pending.append((node.child(item), members))
        except _Invalid as problem:
            place = node.at(f"{item.name}[{index}]" if item.repeated else item.name)
            report("VALUE_INVALID", place, field=item.name, reason=str(problem))


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Invalid("is not an object")
    return value


def _scalar(item: Field, value: Any) -> Any:
    if item.kind == ENUM:
        return _enum(item, value)
    return _READERS[item.kind](value, item.kind)


def _enum(item: Field, value: Any) -> int:
    if isinstance(value, str):
        number = schema().enums[item.type].get(value)
        if number is None:
            raise _Invalid(f"has the unknown value {value[:80]!r}")
        return number
    return _integer(value, "int32")


def _integer(value: Any, kind: str) -> int:
    if isinstance(value, str):
        value = _number_in(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _Invalid("is not an integer")
    low, high = _RANGES[kind]
    if not low <= value <= high:
        raise _Invalid(f"does not fit {kind}")
    return value


def _number_in(text: str) -> int | float:
    try:
        return int(text) if text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        raise _Invalid("is not a number") from None


def _float(value: Any, kind: str) -> float:
    if isinstance(value, str):
        value = _FLOAT_WORDS.get(value) if value in _FLOAT_WORDS else _number_in(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Invalid("is not a number")
    try:
        number = float(value)
        if kind == "float":
            number = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        raise _Invalid(f"does not fit {kind}") from None
    return math.nan if math.isnan(number) else number


def _bool(value: Any, kind: str) -> bool:
    if not isinstance(value, bool):
        raise _Invalid(f"is not a {kind}")
    return value


def _string(value: Any, kind: str) -> str:
    if not isinstance(value, str):
        raise _Invalid(f"is not a {kind}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _Invalid("contains half of a surrogate pair") from None
    return value


def _bytes(value: Any, kind: str) -> bytes:
    """Decode base64 in either alphabet, with or without padding."""
    plain = _string(value, "string").replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise _Invalid(f"is not {kind} in base64") from None


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "bool": _bool, "string": _string, "bytes": _bytes, "float": _float, "double": _float,
    "int32": _integer, "int64": _integer, "uint32": _integer, "uint64": _integer,
}  # fmt: skip


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
        """Read the document and return its value."""
        self._skip()
        root = self._begin()
        while self.open:
            self._next_in(self.open[-1])
        self._skip()
        if self.at < len(self.text):
            raise _Malformed(self.at, "there is text after the plan")
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
            raise _Malformed(self.at, f"expected {mark!r}")
        self.at += 1

    def _key(self, container: dict[str, Any]) -> str:
        start = self.at
        if self._peek() != '"':
            raise _Malformed(start, "expected a key in quotes")
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
            raise _Malformed(self.at, "a string is not terminated")
        written = match.group()
        try:
            # Most strings have no escapes, and are what is between their quotes.
            value = json.loads(written, strict=False) if "\\" in written else written[1:-1]
        except json.JSONDecodeError as problem:
            raise _Malformed(self.at + problem.pos, problem.msg.lower()) from None
        self.at = match.end()
        return str(value)

    def _plain(self, mark: str) -> Any:
        if mark in "-0123456789":
            return self._number()
        match = _WORD.match(self.text, self.at)
        if match is None or match.group() not in _WORDS:
            raise _Malformed(self.at, "expected a value")
        self.at = match.end()
        return _WORDS[match.group()]

    def _number(self) -> int | float:
        match = _NUMBER.match(self.text, self.at)
        if match is None or match.end() - self.at > _MAX_DIGITS:
            raise _Malformed(self.at, "this is not a number")
        self.at = match.end()
        whole = match.group(1) is None and match.group(2) is None
        return int(match.group()) if whole else float(match.group())
