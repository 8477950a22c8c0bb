"""Rewrite a bound relation so that its joins have keys and read as few rows as possible."""

from __future__ import annotations

from dataclasses import replace

from substrait_agg.bind.bound import (
    BoundFetch,
    BoundFilter,
    BoundJoin,
    BoundProject,
    BoundRelation,
    Expr,
    JoinKind,
)
from substrait_agg.bind.joins.conjunctions import conjunction, factor_out, sides_of
from substrait_agg.bind.joins.failing import can_fail
from substrait_agg.bind.joins.keys import make_join, split_condition
from substrait_agg.bind.joins.multi_join import (
    Exprs,
    MultiJoin,
    is_large,
    is_multi_join,
    substitute,
)
from substrait_agg.bind.joins.row_numbers import (
    is_numbered,
    limits_numbers,
    with_numbers_limited,
)
from substrait_agg.bind.rewrite import columns_in, inputs_of, shift_columns, with_inputs

FILTERED_SIDES: dict[JoinKind, frozenset[str]] = {
    "inner": frozenset({"left", "right"}),
    "semi": frozenset({"left", "right"}),
    "left": frozenset({"right"}),
    "single": frozenset({"right"}),
    "anti": frozenset({"right"}),
    "mark": frozenset({"right"}),
    "full": frozenset(),
}
"""Kind of a join -> the inputs that a part of its condition filters if it reads no other."""

KEEPS_LEFT = frozenset[JoinKind]({"left", "single", "semi", "anti", "mark"})
"""Kinds of joins whose result rows have the left columns of one row of the left input."""


def normal_form(root: BoundRelation) -> BoundRelation:
    """Return a relation with the same rows whose joins are in normal form.

    Nested inner joins, with the filters and projections between them, become a chain of inner joins
    on equalities, with the filters on several inputs above it and one projection at the top.
    Conditions on one input are filters of that input. Conditions that can fail are tested last.
    Conditions on the numbers of rows limit which rows are numbered. Relations without either are
    returned as they are. Shared relations stay shared.

    The function recurses into the relation: call it within `bind.deep_stack.deep_call`.
    """
    return _Rewriter().place(root, ())


class _Rewriter:
    """Rewrites relations once each."""

    def __init__(self) -> None:
        self._made: dict[int, BoundRelation] = {}
        self._takers: dict[int, bool] = {}

    def place(self, relation: BoundRelation, conditions: Exprs) -> BoundRelation:
        """Return the normal form of a relation whose rows meet conditions that cannot fail."""
        if not conditions:
            if id(relation) not in self._made:
                self._made[id(relation)] = self._place(relation, ())
            return self._made[id(relation)]
        return self._place(relation, conditions)

    def _place(self, relation: BoundRelation, conditions: Exprs) -> BoundRelation:
        if not self._takes_conditions(relation):
            return self._below(relation, conditions)
        match relation:
            case BoundFilter():
                return self._filter(relation, conditions)
            case BoundProject():
                return self._project(relation, conditions)
            case BoundJoin(kind="inner"):
                return self._inner(relation, conditions)
            case BoundJoin():
                return self._other_join(relation, conditions)
            case _:
                return self._below(relation, conditions)

    def _takes_conditions(self, relation: BoundRelation) -> bool:
        """Return whether there is a join or a numbering of rows below filters and projections."""
        if id(relation) not in self._takers:
            source = relation
            while isinstance(source, BoundFilter | BoundProject):
                source = source.input
            self._takers[id(relation)] = isinstance(source, BoundJoin) or is_numbered(source)
        return self._takers[id(relation)]

    def _below(self, relation: BoundRelation, conditions: Exprs) -> BoundRelation:
        """Rewrite the inputs of a relation, and filter its rows."""
        relation, conditions = with_numbers_limited(relation, conditions)
        inputs = inputs_of(relation)
        rewritten = tuple(self.place(source, ()) for source in inputs)
        if any(new is not old for new, old in zip(rewritten, inputs, strict=True)):
            relation = with_inputs(relation, rewritten)
        if isinstance(relation, BoundFetch):
            relation = merge_fetches(relation)
        return filter_rows(relation, conditions, relation.path)

    def _filter(self, relation: BoundFilter, conditions: Exprs) -> BoundRelation:
        if is_multi_join(relation):
            return self._inner(relation, conditions)
        parts = factor_out(relation.condition)
        source = relation.input
        safe = tuple(p for p in parts if not can_fail(p) or limits_numbers(source, p))
        late = tuple(part for part in parts if part not in safe)
        return filter_rows(self.place(source, (*safe, *conditions)), late, relation.path)

    def _project(self, relation: BoundProject, conditions: Exprs) -> BoundRelation:
        if is_multi_join(relation):
            join = MultiJoin()
            outputs = join.absorb(relation)
            if not (len(join.inputs) == 1 and join.inputs[0] is relation):
                return self._write(join, outputs, relation, conditions)
        below, above = _move_conditions(conditions, relation.expressions, relation.input)
        source = self.place(relation.input, below)
        project = relation if source is relation.input else replace(relation, input=source)
        return filter_rows(project, above, relation.path)

    def _inner(self, relation: BoundRelation, conditions: Exprs) -> BoundRelation:
        join = MultiJoin()
        return self._write(join, join.absorb(relation), relation, conditions)

    def _write(
        self, join: MultiJoin, outputs: Exprs, relation: BoundRelation, conditions: Exprs
    ) -> BoundRelation:
        """Write the multi-way join that a relation is."""
        below, above = _move_conditions(conditions, outputs)
        join.require(below)
        return filter_rows(join.write(outputs, self.place, relation.path), above, relation.path)

    def _other_join(self, join: BoundJoin, conditions: Exprs) -> BoundRelation:
        width, kind = len(join.left.types), join.kind
        keys, rest = split_condition(conjunction(factor_out(join.residual)), width)
        left: list[Expr] = []
        right: list[Expr] = []
        residual: list[Expr] = []
        above: list[Expr] = []
        for part in factor_out(rest):
            side = _only_side(part, width)
            if side not in FILTERED_SIDES[kind] or can_fail(part):
                residual.append(part)
            else:
                (left if side == "left" else right).append(part)
        for condition in conditions:
            own = all(c.ordinal < width for c in columns_in(condition))
            (left if own and kind in KEEPS_LEFT else above).append(condition)
        rewritten = make_join(
            kind,
            self.place(join.left, tuple(left)),
            self.place(join.right, tuple(shift_columns(part, -width) for part in right)),
            (*join.keys, *keys),
            conjunction(residual),
            join.path,
        )
        return filter_rows(rewritten, tuple(above), join.path)


def _move_conditions(
    conditions: Exprs, outputs: Exprs, source: BoundRelation | None = None
) -> tuple[Exprs, Exprs]:
    """Move conditions below a projection; return them, and those that are large or could fail.

    Args:
        conditions: conditions on the columns of the projection.
        outputs: its expressions.
        source: its input, if that is one relation.
    """
    below: list[Expr] = []
    above: list[Expr] = []
    for condition in conditions:
        moved = substitute(condition, outputs)
        if is_large(moved) or (can_fail(moved) and not _limits_numbers(source, moved)):
            above.append(condition)
        else:
            below.append(moved)
    return tuple(below), tuple(above)


def _limits_numbers(source: BoundRelation | None, condition: Expr) -> bool:
    return source is not None and limits_numbers(source, condition)


def _only_side(part: Expr, width: int) -> str:
    """Return the side of a join that a condition reads; empty for none or both."""
    sides = sides_of(part, width)
    return next(iter(sides)) if len(sides) == 1 else ""


def filter_rows(relation: BoundRelation, conditions: Exprs, path: str) -> BoundRelation:
    """Return the rows of a relation that meet the conditions."""
    condition = conjunction(dict.fromkeys(conditions))
    return relation if condition is None else BoundFilter(relation, condition, relation.types, path)


def merge_fetches(fetch: BoundFetch) -> BoundFetch:
    """Return two nested fetches in the same order as one."""
    inner = fetch.input
    if not isinstance(inner, BoundFetch) or inner.sorts != fetch.sorts:
        return fetch
    if inner.partitions != fetch.partitions or inner.numbered or fetch.numbered:
        return fetch
    left = None if inner.count is None else max(inner.count - fetch.offset, 0)
    counts = [count for count in (left, fetch.count) if count is not None]
    offset = inner.offset + fetch.offset
    return replace(fetch, input=inner.input, offset=offset, count=min(counts, default=None))
