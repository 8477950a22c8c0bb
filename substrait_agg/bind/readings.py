"""Find the possible meanings of an ambiguous plan.

Two releases of a producer may write the same message and mean different things, and the plan does
not say which release wrote it. In that case every possible `PlanReading` is bound. `bind.plan.binder`
takes the one that fits the plan's names and references.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from substrait_agg.plan import model

Version = tuple[int, int, int]

MAJOR_RELEASE = 1_000_000
"""The number of releases 1.0 and later. It is above every minor version of 0."""


def release_of(version: Version | None) -> int | None:
    """Return the number that orders releases; None if the plan states none."""
    if version is None or version[:2] == (0, 0):
        return None
    return version[1] if version[0] == 0 else MAJOR_RELEASE


@dataclass(frozen=True, slots=True)
class PlanReading:
    """One way to read a plan.

    Attributes:
        project_replaces: a project without output mapping returns its expressions only, without the
            columns of its input.
        keys_repeated: an expression that an old-form grouping set names twice is two columns, not
            one.
    """

    project_replaces: bool = False
    keys_repeated: bool = False


@dataclass(frozen=True, slots=True)
class DirectProject:
    """A producer's meaning of a project without output mapping, by Substrait release.

    Attributes:
        replaces_until: the last minor version at which such a project returns its expressions only;
            None: never.
        appends_from: the first minor version at which the specification's meaning is possible;
            None: never.
    """

    replaces_until: int | None = None
    appends_from: int | None = 0

    def meanings(self, version: Version | None) -> tuple[bool, ...]:
        """Return the possible values of `project_replaces`: both, if the plan states no version."""
        replaces, appends = self.replaces_until is not None, self.appends_from is not None
        release = release_of(version)
        if release is not None:
            replaces = self.replaces_until is not None and release <= self.replaces_until
            appends = self.appends_from is not None and release >= self.appends_from
        return tuple(value for value, possible in ((False, appends), (True, replaces)) if possible)


BY_THE_SPECIFICATION = PlanReading()
APPENDS = DirectProject()
"""A project without output mapping always returns the input's columns and its expressions."""


def possible_readings(
    plan: model.DecodedPlan, direct_project: DirectProject, *, merges_keys: bool
) -> tuple[PlanReading, ...]:
    """Return all ways to read the plan, the specification's first.

    Args:
        plan: the decoded plan.
        direct_project: the producer's meaning of a project without output mapping.
        merges_keys: whether the producer merges equal grouping expressions itself.
    """
    projects: tuple[bool, ...] = (False,)
    keys: tuple[bool, ...] = (False,)
    if direct_project_in(plan) is not None:
        projects = direct_project.meanings(plan.version) or (False,)
    if not merges_keys and any(map(repeats_key, _aggregates(plan))):
        keys = (False, True)
    return tuple(PlanReading(*values) for values in product(projects, keys))


def direct_project_in(plan: model.DecodedPlan) -> model.ProjectRel | None:
    """Return the first project without output mapping, seen from the root, or None."""
    projects = (r for r in relations_of(plan) if isinstance(r, model.ProjectRel) and r.emit is None)
    return next(projects, None)


def repeats_key(aggregate: model.AggregateRel) -> bool:
    """Return whether an old-form grouping set names an expression twice."""
    return aggregate.inline and any(len(set(refs)) < len(refs) for refs in aggregate.groupings)


def reads_of(plan: model.DecodedPlan) -> tuple[model.ReadRel, ...]:
    """Return the reads of tables and files in a plan."""
    reads = (r for r in relations_of(plan) if isinstance(r, model.ReadRel))
    return tuple(read for read in reads if read.table and read.rows is None)


def relations_of(plan: model.DecodedPlan) -> Iterator[Any]:
    """Yield every relation of the plan once, from the root down."""
    waiting: list[Any] = [*reversed(plan.others), plan.root]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        waiting.extend(reversed((*inputs_of(node), *_subqueries(node))))


def inputs_of(node: Any) -> tuple[Any, ...]:
    """Return the relations that a decoded relation reads."""
    if isinstance(node, model.SetRel | model.Unsupported):
        return node.inputs
    if isinstance(node, model.JoinRel):
        return (node.left, node.right)
    return (node.input,) if hasattr(node, "input") else ()


def aggregate_below(node: Any) -> model.AggregateRel | None:
    """Return the aggregate directly below that has no output mapping.

    Filters, sorts and fetches above it are ignored.
    """
    while isinstance(node, model.FilterRel | model.SortRel | model.FetchRel) and node.emit is None:
        node = node.input
    return node if isinstance(node, model.AggregateRel) and node.emit is None else None


def expressions_of(node: Any) -> Iterator[Any]:
    """Yield the expressions that a decoded relation computes itself; None for a missing one."""
    match node:
        case model.ProjectRel(expressions=expressions) | model.WindowRel(functions=expressions):
            yield from expressions
        case model.FilterRel(condition=condition) | model.ReadRel(filter=condition):
            yield condition
        case model.SortRel(sorts=sorts) | model.FetchRel(sorts=sorts):
            yield from (s.expression for s in sorts)
        case model.AggregateRel(grouping_expressions=keys, measures=measures):
            yield from keys
            for measure in measures:
                yield from (*measure.arguments, *(s.expression for s in measure.sorts))
                yield measure.filter
        case model.JoinRel(keys=pairs, condition=condition, post_filter=post_filter):
            yield from (side for pair in pairs for side in (pair.left, pair.right))
            yield from (condition, post_filter)


def _subqueries(node: Any) -> Iterator[Any]:
    """Yield the relations of the subqueries in the expressions of a relation."""
    waiting = [*expressions_of(node)][::-1]
    while waiting:
        expression = waiting.pop()
        if isinstance(expression, model.Subquery):
            yield expression.relation
        waiting.extend(reversed(model.parts_of(expression)))


def _aggregates(plan: model.DecodedPlan) -> Iterator[model.AggregateRel]:
    return (r for r in relations_of(plan) if isinstance(r, model.AggregateRel))
