"""The searched places in the content of a plan, as a tree along their paths."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

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

    def found(self, start: int, end: int) -> None:
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
