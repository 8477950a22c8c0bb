"""Where the places that problems name stand in the file: lines and columns of JSON, bytes of protobuf.

Only what lies on the way to a place is looked into; everything beside it is passed over as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from substrait_agg.plan.node import Unreadable
from substrait_agg.plan.schema import Field, schema
from substrait_agg.plan.source import json_text
from substrait_agg.plan.wire import field_ranges
from substrait_agg.report.jsonplaces import find_in_json
from substrait_agg.report.wanted import Wanted, innermost, tree


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the content of a plan.

    Attributes:
        start: where it begins, in characters of JSON or bytes of protobuf.
        end: where it ends; what stands there is outside.
        line: line of its beginning, from 1; 0 in protobuf.
        column: column of its beginning in characters, from 1; 0 in protobuf.
        end_line: line of its last character; 0 in protobuf.
        end_column: column behind its last character; 0 in protobuf.
    """

    start: int
    end: int
    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0

    @property
    def is_text(self) -> bool:
        """Whether it has lines and columns."""
        return self.line > 0

    def __str__(self) -> str:
        if self.is_text:
            return f"{self.line}:{self.column}"
        last = max(self.start, self.end - 1)
        return f"byte {self.start}" if last == self.start else f"bytes {self.start}-{last}"


def locate(content: bytes, paths: Iterable[str]) -> dict[str, Region]:
    """The part of the content that each path names, found in one pass.

    Where a path names what is not written, it is the nearest message that is; where that is the plan itself, or the
    content cannot be read, the path is not in the answer.
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
    found = {path: span for path, span in spans.items() if span is not None}
    if text is None:
        return {path: Region(*span) for path, span in found.items()}
    places = _lines(text, {offset for span in found.values() for offset in span})
    return {path: Region(*span, *places[span[0]], *places[span[1]]) for path, span in found.items()}


def text_region(text: str, offset: int) -> Region:
    """The character at `offset` of `text`."""
    places = _lines(text, {offset, offset + 1})
    return Region(offset, offset + 1, *places[offset], *places[offset + 1])


def _find_in_wire(data: bytes, root: Wanted) -> None:
    pending = [(root, schema().messages["Plan"], 0, len(data))]
    while pending:
        place, shape, start, end = pending.pop()
        counts: dict[int, int] = {}
        for number, at, inside, after in field_ranges(data, start, end):
            item = shape.by_number.get(number)
            index = counts[number] = counts.get(number, -1) + 1
            below = schema().messages.get(item.type) if item is not None else None
            for wanted in _wanted(place, item, number, index):
                wanted.found(at, after)
                if below is not None and wanted.inside:
                    pending.append((wanted, below, inside, after))


def _wanted(place: Wanted, item: Field | None, number: int, index: int) -> Iterator[Wanted]:
    """What is looked for in the field that comes `index`-th under its number: itself, or the list it is in.

    A field that no release knows is named by its number.
    """
    name = str(number) if item is None else item.name
    for step in ((name, -1), (name, index)):
        if step in place.inside:
            yield place.inside[step]


def _lines(text: str, offsets: set[int]) -> dict[int, tuple[int, int]]:
    """Line and column, both from 1, of every offset."""
    places = {}
    line, counted = 1, 0
    for offset in sorted(offsets):
        line += text.count("\n", counted, offset)
        counted = offset
        places[offset] = line, offset - text.rfind("\n", 0, offset)
    return places
