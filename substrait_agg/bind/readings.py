"""Meanings that the text of a plan leaves open.

Two releases of a producer may write the same message and mean different things, and the plan does not say which
release wrote it. Then every possible `Reading` is bound, and the one that fits the plan's names and references is
taken (`bind.plan.binder`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from substrait_agg.plan import model

Version = tuple[int, int, int]

MAJOR_RELEASE = 1_000_000
"""Stands for the minor version of releases 1.0 and later: it is above every minor version of 0."""


def release_of(version: Version | None) -> int | None:
    """The minor version that tells releases apart; None where the plan states none."""
    if version is None or version[:2] == (0, 0):
        return None
    return version[1] if version[0] == 0 else MAJOR_RELEASE


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read a plan.

    Attributes:
        project_replaces: a project without output mapping gives its expressions alone, not the input's columns too.
        keys_repeated: an expression that an old-form grouping set names twice is two columns, not one.
    """

    project_replaces: bool = False
    keys_repeated: bool = False


@dataclass(frozen=True, slots=True)
class DirectProject:
    """What a producer means by a project without output mapping, by the minor version of Substrait in its plans.

    Attributes:
        replaces_until: the last minor version with which its expressions alone are meant; None: never.
        appends_from: the first minor version with which the specification's meaning is possible; None: never.
    """

    replaces_until: int | None = None
    appends_from: int | None = 0

    def meanings(self, version: Version | None) -> tuple[bool, ...]:
        """The values of `Reading.project_replaces` that are possible; both where the plan states no version."""
        replaces, appends = self.replaces_until is not None, self.appends_from is not None
        release = release_of(version)
        if release is not None:
            replaces = self.replaces_until is not None and release <= self.replaces_until
            appends = self.appends_from is not None and release >= self.appends_from
        return tuple(value for value, possible in ((False, appends), (True, replaces)) if possible)


BY_THE_SPECIFICATION = Reading()
APPENDS = DirectProject()
"""A project without output mapping gives the input's columns and its expressions, in plans of every release."""


def possible_readings(
    plan: model.DecodedPlan, direct_project: DirectProject, *, merges_keys: bool
) -> tuple[Reading, ...]:
    """All ways to read the plan, the one by the specification first.

    Args:
        plan: as decoded.
        direct_project: what the producer means by a project without output mapping.
        merges_keys: the producer merges equal grouping expressions itself.
    """
    projects: tuple[bool, ...] = (False,)
    keys: tuple[bool, ...] = (False,)
    if direct_project_in(plan) is not None:
        projects = direct_project.meanings(plan.version) or (False,)
    if not merges_keys and any(map(repeats_key, _aggregates(plan))):
        keys = (False, True)
    return tuple(Reading(*values) for values in product(projects, keys))


def direct_project_in(plan: model.DecodedPlan) -> model.Project | None:
    """A project without output mapping in the plan; the first, seen from the root."""
    found = (r for r in relations_of(plan) if isinstance(r, model.Project) and r.emit is None)
    return next(found, None)


def repeats_key(aggregate: model.Aggregate) -> bool:
    """Whether an old-form grouping set names an expression twice."""
    return aggregate.inline and any(len(set(refs)) < len(refs) for refs in aggregate.groupings)


def relations_of(plan: model.DecodedPlan) -> Iterator[Any]:
    """Every relation of the plan, each once, from the root down."""
    waiting: list[Any] = [*reversed(plan.others), plan.root]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        waiting.extend(reversed(inputs_of(node)))


def inputs_of(node: Any) -> tuple[Any, ...]:
    """The relations that a decoded relation reads."""
    if isinstance(node, model.Union | model.Unsupported):
        return node.inputs
    return (node.input,) if hasattr(node, "input") else ()


def _aggregates(plan: model.DecodedPlan) -> Iterator[model.Aggregate]:
    return (r for r in relations_of(plan) if isinstance(r, model.Aggregate))
