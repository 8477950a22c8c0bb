"""Move the conditions of a subquery that read outer columns to the join with the outer query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from substrait_agg.bind.bound import (
    BoundAggregate,
    BoundFetch,
    BoundFilter,
    BoundInputs,
    BoundJoin,
    BoundMeasure,
    BoundProject,
    BoundRead,
    BoundRecursiveRows,
    BoundRelation,
    BoundRows,
    BoundUnnest,
    BoundWindowValues,
    Call,
    Column,
    Constant,
    Expr,
    JoinKey,
    OuterColumn,
)
from substrait_agg.bind.context import columns
from substrait_agg.bind.joins.conjunctions import EQUALITIES, conjunction, conjuncts, factor_out
from substrait_agg.bind.joins.keys import as_condition, is_comparable, make_join, split_condition
from substrait_agg.bind.rewrite import (
    columns_in,
    expressions_of,
    inputs_of,
    rewrite,
    shift_columns,
    subexpressions,
)
from substrait_agg.functions.aggregates.kinds import MeasureKind

Exprs = tuple[Expr, ...]

ZERO_FOR_NONE = frozenset[MeasureKind]({"count", "sum0"})
"""Measures that are zero for no rows."""
UNCLEAR_FOR_NONE = frozenset[MeasureKind](
    {"list", "list_union_distinct", "user", "surrogate_key", "grouping"}
)
"""Measures whose value for no rows is not always null."""


MAX_CONDITIONS = 1_000
"""Conditions on outer columns of one subquery. Shared relations can double them with each join."""


class NotDecorrelatedError(Exception):
    """A subquery that reads outer columns where no join can compute them; the text says where."""


@dataclass(frozen=True, slots=True)
class Decorrelated:
    """A subquery without outer columns, and the conditions that its join with the outer query has.

    Attributes:
        outputs: the columns of the subquery, over those of `relation` and outer columns.
        conditions: conditions that rows of `relation` and the outer row have to meet.
        for_none: if the subquery is an aggregate without keys, which has a row also if no row meets
            the conditions: the values of its measures then, by their ordinal in `relation`.
    """

    relation: BoundRelation
    outputs: Exprs
    conditions: Exprs = ()
    for_none: Mapping[int, Expr] | None = None


def decorrelate(relation: BoundRelation) -> Decorrelated:
    """Return a subquery without outer columns.

    Raises:
        NotDecorrelatedError: it reads outer columns other than in filters.
    """
    return _Decorrelation(_find_correlated(relation)).of(relation)


class _Decorrelation:
    """Moves the conditions of a subquery upwards. Shared relations are rewritten once.

    Args:
        correlated: ids of the relations that read outer columns, or whose inputs do.
    """

    def __init__(self, correlated: frozenset[int]) -> None:
        self._correlated = correlated
        self._made: dict[int, Decorrelated] = {}

    def of(self, relation: BoundRelation) -> Decorrelated:
        """Return a relation without outer columns."""
        if id(relation) not in self._correlated:
            return Decorrelated(relation, columns(relation.types))
        if id(relation) not in self._made:
            decorrelated = self._rewrite_relation(relation)
            if len(decorrelated.conditions) > MAX_CONDITIONS:
                raise NotDecorrelatedError(f"in more than {MAX_CONDITIONS} conditions")
            self._made[id(relation)] = decorrelated
        return self._made[id(relation)]

    def _rewrite_relation(self, relation: BoundRelation) -> Decorrelated:
        match relation:
            case BoundFilter():
                return _filter(relation, self.of(relation.input))
            case BoundProject():
                inner = self.of(relation.input)
                return replace(inner, outputs=_over(inner, relation.expressions))
            case BoundAggregate():
                return _aggregate(relation, self.of(relation.input))
            case BoundJoin():
                return _join(relation, self.of(relation.left), self.of(relation.right))
            case BoundInputs():
                raise NotDecorrelatedError("in an input of a set operation")
            case BoundFetch(numbered=numbered):
                raise NotDecorrelatedError(f"below a {'window function' if numbered else 'fetch'}")
            case BoundWindowValues():
                raise NotDecorrelatedError("below a window function")
            case BoundUnnest():
                raise NotDecorrelatedError("below a list that becomes rows")
            case BoundRead() | BoundRows() | BoundRecursiveRows():
                raise NotDecorrelatedError("in rows of the plan")


def has_outer(*expressions: Expr) -> bool:
    """Return whether an expression reads an outer column."""
    return any(isinstance(part, OuterColumn) for part in subexpressions(*expressions))


def _find_correlated(root: BoundRelation) -> frozenset[int]:
    """Return the ids of the relations that read outer columns, themselves or in their inputs."""
    correlated, visited = set[int](), set[int]()
    waiting = [root]
    while waiting:
        relation = waiting[-1]
        inputs = inputs_of(relation)
        new = [source for source in inputs if id(source) not in visited]
        if new and id(relation) not in visited:
            waiting.extend(new)
            continue
        waiting.pop()
        visited.add(id(relation))
        if has_outer(*expressions_of(relation)) or any(id(i) in correlated for i in inputs):
            correlated.add(id(relation))
    return frozenset(correlated)


def _over(inner: Decorrelated, expressions: Iterable[Expr]) -> Exprs:
    """Return expressions over the columns of a subquery over those of its relation."""
    return tuple(rewrite(e, lambda column: inner.outputs[column.ordinal]) for e in expressions)


def _filter(relation: BoundFilter, inner: Decorrelated) -> Decorrelated:
    if inner.for_none is not None:
        raise NotDecorrelatedError("below a filter of an aggregate without grouping")
    conditions = _over(inner, factor_out(relation.condition))
    own = conjunction(c for c in conditions if not has_outer(c))
    source = inner.relation
    if own is not None:
        source = BoundFilter(source, own, source.types, relation.path)
    outer = (c for c in conditions if has_outer(c))
    return replace(inner, relation=source, conditions=(*inner.conditions, *outer))


def _join(relation: BoundJoin, left: Decorrelated, right: Decorrelated) -> Decorrelated:
    if left.for_none is not None or right.for_none is not None:
        raise NotDecorrelatedError("below a join with an aggregate without grouping")
    inner = relation.kind == "inner"
    if not inner and (right.conditions or has_outer(*right.outputs)):
        raise NotDecorrelatedError(f"in the right input of a join of the kind {relation.kind}")
    if relation.kind == "full" and left.conditions:
        raise NotDecorrelatedError("in an input of a full join")
    width, old = len(left.relation.types), len(relation.left.types)
    right_outputs = tuple(shift_columns(e, width) for e in right.outputs)
    both = (*left.outputs, *right_outputs)
    conditions = [
        as_condition(key, key.left, shift_columns(key.right, old)) for key in relation.keys
    ]
    moved = [
        rewrite(c, lambda column: both[column.ordinal])
        for c in (*conditions, *conjuncts(relation.residual))
    ]
    outer = tuple(c for c in moved if has_outer(c))
    if outer and not inner:
        raise NotDecorrelatedError(f"in the condition of a join of the kind {relation.kind}")
    keys, residual = split_condition(conjunction(c for c in moved if not has_outer(c)), width)
    join = make_join(relation.kind, left.relation, right.relation, keys, residual, relation.path)
    if relation.kind in ("semi", "anti"):
        outputs = left.outputs
    elif relation.kind == "mark":
        outputs = (*left.outputs, Column(join.types[-1], width))
    else:
        padded = tuple(Column(join.types[width + i], width + i) for i in range(len(right.outputs)))
        outputs = (*left.outputs, *(right_outputs if inner else padded))
    shifted_conditions = (shift_columns(c, width) for c in right.conditions)
    return Decorrelated(join, outputs, (*left.conditions, *shifted_conditions, *outer))


def _aggregate(relation: BoundAggregate, inner: Decorrelated) -> Decorrelated:
    """Group by the columns that are compared with outer columns, too."""
    if relation.sets:
        raise NotDecorrelatedError("below an aggregate with grouping sets")
    if inner.for_none is not None:
        raise NotDecorrelatedError("below two aggregates without grouping")
    keys = _over(inner, relation.keys)
    measures = tuple(_moved_measure(measure, inner) for measure in relation.measures)
    if has_outer(*keys, *(e for m in measures for e in m.expressions)):
        raise NotDecorrelatedError("in a value that an aggregate reads")
    links = [_equality(condition) for condition in inner.conditions]
    width = len(keys)
    added = tuple(dict.fromkeys(link.right for link in links))
    every = (*keys, *added)
    types = (*(key.type for key in every), *relation.types[width:])
    aggregate = BoundAggregate(inner.relation, every, measures, types, relation.path)
    own = columns(types)
    conditions = tuple(
        as_condition(link, link.left, own[width + added.index(link.right)]) for link in links
    )
    outputs = (*own[:width], *own[len(every) :])
    for_none = None if keys else _values_for_none(measures, len(every))
    return Decorrelated(aggregate, outputs, conditions, for_none)


def _moved_measure(measure: BoundMeasure, inner: Decorrelated) -> BoundMeasure:
    condition = None if measure.filter is None else _over(inner, (measure.filter,))[0]
    order = tuple(
        replace(sort, expression=_over(inner, (sort.expression,))[0]) for sort in measure.order
    )
    arguments = _over(inner, measure.arguments)
    return replace(measure, arguments=arguments, filter=condition, order=order)


def _equality(condition: Expr) -> JoinKey:
    """Return the equality of an outer expression (left) and one of the subquery (right)."""
    if isinstance(condition, Call) and condition.function in EQUALITIES:
        outer = [side for side in condition.arguments if has_outer(side)]
        own = [side for side in condition.arguments if not has_outer(side)]
        if len(outer) == 1 and not any(True for _ in columns_in(outer[0])):
            right = own[0]
            if outer[0].type.same_kind(right.type) and is_comparable(right.type):
                return JoinKey(outer[0], right, EQUALITIES[condition.function])
    raise NotDecorrelatedError("below an aggregate other than in an equality with a column")


def _values_for_none(measures: tuple[BoundMeasure, ...], first: int) -> Mapping[int, Expr]:
    """Return the value of each measure for no rows, by its ordinal."""
    values: dict[int, Expr] = {}
    for ordinal, measure in enumerate(measures, first):
        if measure.kind in UNCLEAR_FOR_NONE:
            raise NotDecorrelatedError(f"below the measure {measure.name}")
        zero = measure.kind in ZERO_FOR_NONE
        values[ordinal] = Constant(measure.type.as_nullable(not zero), 0 if zero else None)
    return values
