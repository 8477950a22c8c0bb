"""The order in which the problems of a plan are told: that of their places in the plan message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from substrait_agg.plan.schema import Field, schema
from substrait_agg.problems import Problem

Step = tuple[str, int]
"""A step of a path: the name of a field, and the index in it or -1."""


def steps(path: str) -> Iterator[Step]:
    """The steps of a path such as ``relations[0].root.names[1]``, from the plan inwards."""
    for step in path.split(".") if path else ():
        name, bracket, index = step.partition("[")
        number = index.removesuffix("]")
        yield (name, int(number)) if bracket and number.isdecimal() else (step, -1)


def in_plan_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Problems by the place of their message or field: a message before what is in it, fields as the message declares them.

    A field that is not written has its place all the same; a path that leaves the schema counts as far as it is
    known. Problems of one place stay as they were found.
    """
    return tuple(sorted(problems, key=lambda problem: _place(problem.path)))


def _place(path: str) -> tuple[int, ...]:
    """Position of the field and index in it for every step of a path that the schema knows."""
    place: list[int] = []
    shape = "Plan"
    for name, index in steps(path):
        known = _positions(shape).get(name)
        if known is None:
            break
        position, item = known
        place += (position, index)
        shape = item.type
    return tuple(place)


@cache
def _positions(shape: str) -> dict[str, tuple[int, Field]]:
    """The fields of a message by name, with their position in its declaration; none for what is no message."""
    known = schema().messages.get(shape)
    fields = known.by_number.values() if known is not None else ()
    return {item.name: (at, item) for at, item in enumerate(fields)}
