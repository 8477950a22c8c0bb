"""Where places of a plan stand in its JSON text: one pass, without recursion, as the text is written."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from substrait_agg.plan.schema import Field, Shape, schema
from substrait_agg.report.wanted import Wanted

_BETWEEN = re.compile(r"(?:[ \t\r\n,:]++|//[^\n]*+|/\*(?s:.*?)\*/)*+")
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_PLAIN = re.compile(r'[^ \t\r\n,:\[\]{}"/]++')
# Everything up to the next bracket that is one: brackets in texts and comments are not.
_FLAT = re.compile(
    r'(?:[^"{}\[\]/]++|"(?:[^"\\]++|\\.)*+"|//[^\n]*+|/\*.*?\*/|/)*+', re.DOTALL
)  # fmt: skip


class _Broken(Exception):
    """The text is not JSON from here on."""


@dataclass(slots=True)
class _Open:
    """An object or a list that is not closed yet, on the way to a place that is looked for.

    Attributes:
        place: the message; of a list, the message that it is a field of.
        shape: of the message, or of those in the list; None for scalars.
        field: name of the list's field; empty for an object.
        itself: what is looked for at this object or list itself.
        index: of the list's last item.
    """

    start: int
    place: Wanted
    shape: Shape | None
    field: str = ""
    itself: Wanted | None = None
    index: int = -1


def find_in_json(text: str, root: Wanted) -> None:
    """Note the spans of all places inside `root` that `text` has; of text that is not JSON, those before it breaks."""
    walk = _Walk(text)
    try:
        walk.run(root)
    except _Broken:
        return


class _Walk:
    """Goes through a text; `open` holds what it is in."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.open: list[_Open] = []

    def run(self, root: Wanted) -> None:
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
                    inside.itself.found(inside.start, self.at)
            elif inside.field:
                self._item(inside)
            else:
                self._member(inside)

    def _next(self) -> str:
        """What comes after spaces, comments, commas and colons."""
        found = _BETWEEN.match(self.text, self.at)
        self.at = found.end() if found else self.at
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
        """The field of a key, and its name; a key that no release knows is its own name."""
        found = _STRING.match(self.text, self.at)
        if found is None:
            raise _Broken
        self.at = found.end()
        key = found.group()[1:-1]
        if "\\" in key:
            key = _unescaped(found.group())
        item = shape.by_json_name.get(key) if shape is not None else None
        return item, item.name if item is not None else key[:80]

    def _item(self, inside: _Open) -> None:
        inside.index += 1
        itself = inside.place.inside.get((inside.field, inside.index))
        self._value(self._next(), itself, inside.shape)

    def _value(self, mark: str, itself: Wanted | None, shape: Shape | None) -> None:
        """Enter a value that has places inside, pass over any other."""
        if itself is not None and itself.inside and shape is not None and mark == "{":
            self._enter(_Open(self.at, itself, shape, itself=itself))
            return
        start = self.at
        self._pass_over(mark)
        if itself is not None:
            itself.found(start, self.at)

    def _enter(self, inside: _Open) -> None:
        self.open.append(inside)
        self.at += 1

    def _pass_over(self, mark: str) -> None:
        if mark in "{[":
            self._pass_over_container()
            return
        found = (_STRING if mark == '"' else _PLAIN).match(self.text, self.at)
        if found is None:
            raise _Broken
        self.at = found.end()

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
            found = _FLAT.match(text, at)
            at = found.end() if found else at


def _unescaped(quoted: str) -> str:
    try:
        return str(json.loads(quoted, strict=False))
    except json.JSONDecodeError:
        raise _Broken from None
