"""Find the places of problems in the file: lines and columns of JSON, bytes of protobuf.

Only messages on the way to a searched place are parsed; all others are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from substrait_agg.plan.messages.node import Unreadable
from substrait_agg.plan.messages.schema import Field, schema
from substrait_agg.plan.messages.source import json_text
from substrait_agg.plan.messages.wire import field_ranges
from substrait_agg.report.places.json_places import find_in_json
from substrait_agg.report.places.path_trie import PathTrie, innermost, tree


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
            for wanted in _searched_places(place, item, number, index):
                wanted.found(at, after)
                if below is not None and wanted.inside:
                    pending.append((wanted, below, inside, after))


def _searched_places(
    place: PathTrie, item: Field | None, number: int, index: int
) -> Iterator[PathTrie]:
    """Yield the searched places of a field: the list it belongs to, and the item itself.

    Args:
        place: the enclosing message.
        item: the field; None for an unknown field, which is named by its number.
        number: number of the field.
        index: index among the fields with this number.
    """
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
