"""Build linear paths from an origin to the operator above, with only the columns that are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from substrait_agg.bind.bound import Column, Constant, Expr
from substrait_agg.bind.rewrite import columns_in, renumber, rewrite
from substrait_agg.flow.graph.graph import (
    Branch,
    FilterStep,
    OperatorOrigin,
    Origin,
    ProjectStep,
    RowsOrigin,
    Step,
    TableOrigin,
    UnnestStep,
)

Exprs = tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class RawBranch:
    """A branch as the plan writes it, with every column of the origin and every step."""

    origin: Origin
    steps: tuple[Step, ...]

    def then(self, step: Step) -> RawBranch:
        """Return the branch with one more step."""
        return replace(self, steps=(*self.steps, step))


def find_needed(expressions: Sequence[Expr]) -> tuple[int, ...]:
    """Return the ordinals of the columns that the expressions read, ascending."""
    return tuple(sorted({c.ordinal for e in expressions for c in columns_in(e)}))


def positions_of(ordinals: tuple[int, ...]) -> dict[int, int]:
    """Map each ordinal to its position among `ordinals`."""
    return {ordinal: place for place, ordinal in enumerate(ordinals)}


def prune(raw: RawBranch, expressions: Exprs) -> Branch:
    """Return the branch whose rows are the expressions `expressions` over the rows of `raw`.

    Unread columns are dropped from every step and from the origin. Consecutive projects are merged
    if the result computes no expression twice.
    """
    if not raw.steps:
        return _from_origin(raw.origin, expressions)
    below, step = replace(raw, steps=raw.steps[:-1]), raw.steps[-1]
    if isinstance(step, ProjectStep):
        return _through_project(below, step.expressions, expressions)
    if isinstance(step, UnnestStep):
        return _through_unnest(below, step, expressions)
    ordinals = find_needed((*expressions, step.condition))
    places = positions_of(ordinals)
    types = {c.ordinal: c.type for e in (*expressions, step.condition) for c in columns_in(e)}
    inner = prune(below, tuple(Column(types[o], o) for o in ordinals))
    filtered = replace(inner, steps=(*inner.steps, FilterStep(renumber(step.condition, places))))
    return _then_project(filtered, expressions, ordinals)


def _through_project(below: RawBranch, expressions: Exprs, outputs: Exprs) -> Branch:
    uses = Counter(c.ordinal for e in outputs for c in columns_in(e))
    if all(count == 1 or _free(expressions[o]) for o, count in uses.items()):
        return prune(below, tuple(rewrite(e, lambda c: expressions[c.ordinal]) for e in outputs))
    ordinals = tuple(sorted(uses))
    inner = prune(below, tuple(expressions[o] for o in ordinals))
    return _then_project(inner, outputs, ordinals)


def _through_unnest(below: RawBranch, step: UnnestStep, outputs: Exprs) -> Branch:
    """Return the branch with only the columns below that the list and the outputs read."""
    width = _width(below)
    read = {c.ordinal: c.type for e in (*outputs, step.values) for c in columns_in(e)}
    ordinals = tuple(sorted(o for o in read if o < width))
    places = {**positions_of(ordinals), width: len(ordinals)}
    inner = prune(below, tuple(Column(read[o], o) for o in ordinals))
    unnest = UnnestStep(renumber(step.values, places))
    unnested = replace(inner, steps=(*inner.steps, unnest))
    return _then_project(unnested, outputs, (*ordinals, width))


def _width(branch: RawBranch) -> int:
    """Return the number of columns after the steps of a branch."""
    width = len(branch.origin.types)
    for step in branch.steps:
        if isinstance(step, ProjectStep):
            width = len(step.expressions)
        elif isinstance(step, UnnestStep):
            width += 1
    return width


def _from_origin(origin: Origin, expressions: Exprs) -> Branch:
    ordinals = find_needed(expressions)
    if isinstance(origin, OperatorOrigin):
        # An operator passes whole rows.
        return _then_project(Branch(origin, ()), expressions, tuple(range(len(origin.types))))
    types = tuple(origin.types[o] for o in ordinals)
    narrow: Origin
    if isinstance(origin, TableOrigin):
        narrow = TableOrigin(origin.table, tuple(origin.names[o] for o in ordinals), types)
    elif isinstance(origin, RowsOrigin):
        rows = tuple(tuple(row[o] for o in ordinals) for row in origin.rows)
        narrow = RowsOrigin(types, rows)
    else:
        raise TypeError(origin)  # feedback is wired when all operators exist
    return _then_project(Branch(narrow, ()), expressions, ordinals)


def _then_project(branch: Branch, expressions: Exprs, ordinals: tuple[int, ...]) -> Branch:
    """Append a projection to a branch with the columns `ordinals`, unless it changes nothing."""
    places = positions_of(ordinals)
    moved = tuple(renumber(e, places) for e in expressions)
    as_is = len(moved) == len(ordinals) and all(
        isinstance(e, Column) and e.ordinal == place for place, e in enumerate(moved)
    )
    if as_is:
        return branch
    return replace(branch, steps=(*branch.steps, ProjectStep(moved)))


def _free(expression: Expr) -> bool:
    return isinstance(expression, Column | Constant)
