"""Find the places of problems in the file: lines and columns of JSON, bytes of protobuf.

Only messages on the way to a searched place are parsed; all others are skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from substrait_agg.plan.messages.node import Unreadable
from substrait_agg.plan.messages.schema import Field, Shape, schema
from substrait_agg.plan.messages.source import json_text
from substrait_agg.plan.messages.wire import field_ranges
from substrait_agg.report.places.order import Step, steps

Span = tuple[int, int]
"""Start and end offset of a part of the content."""


@dataclass(slots=True)
class PathTrie:
    """A searched place, or a message on the way to one.

    Attributes:
        inside: searched places inside, by the step that leads there.
        span: position in the content, once found.
    """

    inside: dict[Step, PathTrie] = field(default_factory=dict)
    span: Span | None = None

    def record_span(self, start: int, end: int) -> None:
        """Record the position of the place; the first occurrence counts."""
        self.span = self.span or (start, end)


def tree(paths: Iterable[str]) -> tuple[PathTrie, dict[str, tuple[PathTrie, ...]]]:
    """Return the tree of all places on the way to `paths`, and the places of each path from the root.

    The list comes before its items, because packed numbers have no position of their own.
    """
    root = PathTrie()
    ways: dict[str, tuple[PathTrie, ...]] = {}
    for path in dict.fromkeys(paths):
        way = [root]
        for name, index in steps(path):
            inside = way[-1].inside
            way.append(inside.setdefault((name, -1), PathTrie()))
            if index >= 0:
                way.append(inside.setdefault((name, index), PathTrie()))
        ways[path] = tuple(way)
    return root, ways


def innermost(way: tuple[PathTrie, ...]) -> Span | None:
    """Return the span of the last place of a path that was found."""
    return next((place.span for place in reversed(way) if place.span is not None), None)


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the content of a plan.

    Attributes:
        start: offset of its start, in characters of JSON or bytes of protobuf.
        end: offset of its end, exclusive.
        line: line of its start, from 1; 0 in protobuf.
        column: column of its start in characters, from 1; 0 in protobuf.
        end_line: line of its last character; 0 in protobuf.
        end_column: column after its last character; 0 in protobuf.
    """

    start: int
    end: int
    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0

    @property
    def is_text(self) -> bool:
        """Return whether the region has lines and columns."""
        return self.line > 0

    def __str__(self) -> str:
        if self.is_text:
            return f"{self.line}:{self.column}"
        last = max(self.start, self.end - 1)
        return f"byte {self.start}" if last == self.start else f"bytes {self.start}-{last}"


def locate(content: bytes, paths: Iterable[str]) -> dict[str, Region]:
    """Return the part of the content that each path names, found in one pass.

    If the place is not written, the nearest enclosing message is returned instead. A path is
    missing from the result if that message is the plan itself, or if the content cannot be read.
    """
    try:
        text = json_text(content)
    except Unreadable:
        return {}
    root, ways = tree(paths)
    if text is None:
        _find_in_wire(content, root)
    else:
        find_in_json(text, root)
    spans = {path: innermost(way) for path, way in ways.items()}
    regions = {path: span for path, span in spans.items() if span is not None}
    if text is None:
        return {path: Region(*span) for path, span in regions.items()}
    places = _lines(text, {offset for span in regions.values() for offset in span})
    return {
        path: Region(*span, *places[span[0]], *places[span[1]]) for path, span in regions.items()
    }


def text_region(text: str, offset: int) -> Region:
    """Return the region of the character at `offset` of `text`."""
    places = _lines(text, {offset, offset + 1})
    return Region(offset, offset + 1, *places[offset], *places[offset + 1])


def _find_in_wire(data: bytes, root: PathTrie) -> None:
    pending = [(root, schema().messages["Plan"], 0, len(data))]
    while pending:
        place, shape, start, end = pending.pop()
        counts: dict[int, int] = {}
        for number, at, inside, after in field_ranges(data, start, end):
            item = shape.by_number.get(number)
            index = counts[number] = counts.get(number, -1) + 1
            below = schema().messages.get(item.type) if item is not None else None
            for place_below in _searched_places(place, item, number, index):
                place_below.record_span(at, after)
                if below is not None and place_below.inside:
                    pending.append((place_below, below, inside, after))


def _searched_places(
    place: PathTrie, item: Field | None, number: int, index: int
) -> Iterator[PathTrie]:
    """Yield the searched places of a field: the list it belongs to, and the item itself."""
    name = str(number) if item is None else item.name
    for step in ((name, -1), (name, index)):
        if step in place.inside:
            yield place.inside[step]


def _lines(text: str, offsets: set[int]) -> dict[int, tuple[int, int]]:
    """Return the line and the column, both from 1, of every offset."""
    places = {}
    line, counted = 1, 0
    for offset in sorted(offsets):
        line += text.count("\n", counted, offset)
        counted = offset
        places[offset] = line, offset - text.rfind("\n", 0, offset)
    return places


_BETWEEN = re.compile(r"(?:[ \t\r\n,:]++|//[^\n]*+|/\*(?s:.*?)\*/)*+")
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_PLAIN = re.compile(r'[^ \t\r\n,:\[\]{}"/]++')
# Everything up to the next bracket outside of strings and comments.
_FLAT = re.compile(
    r'(?:[^"{}\[\]/]++|"(?:[^"\\]++|\\.)*+"|//[^\n]*+|/\*.*?\*/|/)*+', re.DOTALL
)  # fmt: skip


class _Broken(Exception):
    """The text is not JSON from this position on."""


@dataclass(slots=True)
class _Open:
    """An open object or list on the way to a searched place.

    Attributes:
        start: offset of its opening bracket.
        place: the message; for a list, the message that has the list as a field.
        shape: schema of the message, or of the messages in the list; None for scalars.
        field: name of the list's field; empty for an object.
        index: index of the last item read from a list.
    """

    start: int
    place: PathTrie
    shape: Shape | None
    field: str = ""
    itself: PathTrie | None = None
    index: int = -1


def find_in_json(text: str, root: PathTrie) -> None:
    """Record the spans of all places inside `root` that occur in `text`.

    If the text is not valid JSON, only places before the error are found.
    """
    walk = _Walk(text)
    try:
        walk.run(root)
    except _Broken:
        return


class _Walk:
    """Walks through a text; `open` is the stack of open objects and lists."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.open: list[_Open] = []

    def run(self, root: PathTrie) -> None:
        """Walk through the whole text, and record the places of `root`."""
        if self._next() != "{":
            raise _Broken
        self.open.append(_Open(self.at, root, schema().messages["Plan"]))
        self.at += 1
        while self.open:
            inside = self.open[-1]
            mark = self._next()
            if mark in "}]":
                self.at += 1
                self.open.pop()
                if inside.itself is not None:
                    inside.itself.record_span(inside.start, self.at)
            elif inside.field:
                self._item(inside)
            else:
                self._member(inside)

    def _next(self) -> str:
        """Skip spaces, comments, commas and colons; return the next character."""
        match = _BETWEEN.match(self.text, self.at)
        self.at = match.end() if match else self.at
        if self.at >= len(self.text):
            raise _Broken
        return self.text[self.at]

    def _member(self, inside: _Open) -> None:
        item, name = self._key(inside.shape)
        mark = self._next()
        itself = inside.place.inside.get((name, -1))
        shape = schema().messages.get(item.type) if item is not None else None
        if mark == "[" and itself is not None and item is not None and item.repeated:
            self._enter(_Open(self.at, inside.place, shape, name, itself))
        else:
            self._value(mark, itself, shape)

    def _key(self, shape: Shape | None) -> tuple[Field | None, str]:
        """Return the field of a key and its name; an unknown key is its own name, shortened."""
        match = _STRING.match(self.text, self.at)
        if match is None:
            raise _Broken
        self.at = match.end()
        key = match.group()[1:-1]
        if "\\" in key:
            key = _unescape(match.group())
        item = shape.by_json_name.get(key) if shape is not None else None
        return item, item.name if item is not None else key[:80]

    def _item(self, inside: _Open) -> None:
        inside.index += 1
        itself = inside.place.inside.get((inside.field, inside.index))
        self._value(self._next(), itself, inside.shape)

    def _value(self, mark: str, itself: PathTrie | None, shape: Shape | None) -> None:
        """Enter a value that contains searched places; skip any other."""
        if itself is not None and itself.inside and shape is not None and mark == "{":
            self._enter(_Open(self.at, itself, shape, itself=itself))
            return
        start = self.at
        self._pass_over(mark)
        if itself is not None:
            itself.record_span(start, self.at)

    def _enter(self, inside: _Open) -> None:
        self.open.append(inside)
        self.at += 1

    def _pass_over(self, mark: str) -> None:
        if mark in "{[":
            self._pass_over_container()
            return
        match = (_STRING if mark == '"' else _PLAIN).match(self.text, self.at)
        if match is None:
            raise _Broken
        self.at = match.end()

    def _pass_over_container(self) -> None:
        text, at, levels = self.text, self.at, 0
        while True:
            mark = text[at : at + 1]
            if mark in ("", '"'):
                raise _Broken
            levels += 1 if mark in "{[" else -1
            at += 1
            if levels == 0:
                self.at = at
                return
            match = _FLAT.match(text, at)
            at = match.end() if match else at


def _unescape(quoted: str) -> str:
    try:
        return str(json.loads(quoted, strict=False))
    except json.JSONDecodeError:
        raise _Broken from None
