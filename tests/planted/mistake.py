"""A planted mistake: a change of a plan, and the problems that must be reported for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.planted.changes import Change
from tests.planted.places import Finder, Place

PRODUCERS = ("DataFusion", "substrait-python")


@dataclass(frozen=True)
class Planted:
    """A mistake in a plan: its path, and the problems (code, path) that must be reported."""

    place: str
    problems: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Mistake:
    """A kind of mistake.

    Attributes:
        name: what is wrong, in words.
        code: what it is reported as.
        find: the place where it is planted.
        change: plants it.
        where: from the place that `change` returns (else the one found) to that of the problem, such as ``.phase``.
        also: (code, where) of problems that the same change truly is at once; `because` says why.
        producers: in whose plans it can be made.
        json: whether protobuf-JSON can say it.
    """

    name: str
    code: str
    find: Finder
    change: Change
    where: str = ""
    also: tuple[tuple[str, str], ...] = ()
    because: str = ""
    producers: tuple[str, ...] = PRODUCERS
    json: bool = True

    def plant(self, plan: Any) -> Planted | None:
        """Change `plan`; None where it has no place for the mistake."""
        place = self.find(plan)
        if place is None:
            return None
        moved = self.change(place)
        path = moved.path if isinstance(moved, Place) else place.path if moved is None else moved
        codes = ((self.code, self.where), *self.also)
        return Planted(place.path, tuple((code, path + where) for code, where in codes))
