"""Sort problems by their places in the plan message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from substrait_agg.plan.messages.schema import Field, schema
from substrait_agg.problems import Problem

Step = tuple[str, int]
"""A step of a path: the name of a field, and an index or -1."""


def steps(path: str) -> Iterator[Step]:
    """Yield the steps of a path from the outermost to the innermost.

    >>> list(steps("relations[0].root.names[1]"))
    [('relations', 0), ('root', -1), ('names', 1)]
    """
    for step in path.split(".") if path else ():
        name, bracket, index = step.partition("[")
        number = index.removesuffix("]")
        yield (name, int(number)) if bracket and number.isdecimal() else (step, -1)


def in_plan_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return problems sorted by the place of their message or field.

    A message comes before its content, and fields come in the order of their declaration. A missing
    field has a place as well. A path that leaves the schema counts up to its last known step. The
    sort is stable.
    """
    return tuple(sorted(problems, key=lambda problem: _place(problem.path)))


def _place(path: str) -> tuple[int, ...]:
    """Return the position and the index for every step of a path that the schema knows."""
    place: list[int] = []
    shape = "Plan"
    for name, index in steps(path):
        entry = _positions(shape).get(name)
        if entry is None:
            break
        position, item = entry
        place += (position, index)
        shape = item.type
    return tuple(place)


@cache
def _positions(shape: str) -> dict[str, tuple[int, Field]]:
    """Return the fields of a message by name with their positions; empty for other shapes."""
    message = schema().messages.get(shape)
    fields = message.by_number.values() if message is not None else ()
    return {item.name: (at, item) for at, item in enumerate(fields)}
