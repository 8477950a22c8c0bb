"""The places that are looked for in the content of a plan, as a tree along their paths."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from substrait_agg.report.order import Step, steps

Span = tuple[int, int]
"""Offsets of the beginning and the end of a part of the content."""


@dataclass(slots=True)
class Wanted:
    """A place that is looked for, or that lies on the way to one.

    Attributes:
        inside: what is looked for in it, by the step that leads there.
        span: where it has been found.
    """

    inside: dict[Step, Wanted] = field(default_factory=dict)
    span: Span | None = None

    def found(self, start: int, end: int) -> None:
        """Note where the place is; of a field that is written twice, the first counts."""
        self.span = self.span or (start, end)


def tree(paths: Iterable[str]) -> tuple[Wanted, dict[str, tuple[Wanted, ...]]]:
    """The plan with all places on the way to `paths`, and the places of each path from the plan inwards.

    Before an item of a list comes the list: numbers that stand packed together have no place of their own.
    """
    root = Wanted()
    ways: dict[str, tuple[Wanted, ...]] = {}
    for path in dict.fromkeys(paths):
        way = [root]
        for name, index in steps(path):
            inside = way[-1].inside
            way.append(inside.setdefault((name, -1), Wanted()))
            if index >= 0:
                way.append(inside.setdefault((name, index), Wanted()))
        ways[path] = tuple(way)
    return root, ways


def innermost(way: tuple[Wanted, ...]) -> Span | None:
    """Where the last place of a way is that was found."""
    return next((place.span for place in reversed(way) if place.span is not None), None)
