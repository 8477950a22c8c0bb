"""Write the subqueries of a relation's expressions as joins below the relation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from substrait_agg.bind.bound import (
    BoundAggregate,
    BoundFilter,
    BoundMeasure,
    BoundProject,
    BoundRelation,
    Call,
    Column,
    Constant,
    Expr,
    JoinKey,
    JoinKind,
    OuterColumn,
)
from substrait_agg.bind.context import BindContext, Bound, Opaque, columns
from substrait_agg.bind.joins.conjunctions import conjunction, conjuncts
from substrait_agg.bind.joins.keys import as_condition, make_join, split_condition
from substrait_agg.bind.joins.marks import mark_join
from substrait_agg.bind.joins.single_rows import has_one_row
from substrait_agg.bind.rewrite import (
    columns_in,
    renumber,
    rewrite,
    rewrite_leaves,
    shift_columns,
    subexpressions,
)
from substrait_agg.bind.subqueries.decorrelate import (
    Decorrelated,
    Exprs,
    NotDecorrelatedError,
    has_outer,
)
from substrait_agg.plan.model import SubqueryKind
from substrait_agg.plan.types import BOOL, Type

ALWAYS = BOOL.as_nullable(False)
COUNT = Type("i64", nullable=False)


@dataclass(frozen=True, slots=True)
class BoundSubquery:
    """A subquery of an expression, whose value is a column that a join adds.

    Attributes:
        kind: what it computes.
        values: the values of ``in`` and ``not_in``, of the same types as the outputs of `query`.
        path: path in the plan.
    """

    kind: SubqueryKind
    values: Exprs
    query: Decorrelated
    path: str

    @property
    def type(self) -> Type:
        """Return the type of its value."""
        if self.kind != "scalar":
            return BOOL
        (output,) = self.query.outputs
        if self.query.for_none is None and has_exactly_one_row(self.query.relation):
            return output.type
        return output.type.as_nullable()

    @property
    def reads(self) -> frozenset[int]:
        """Return the columns of the outer row that it reads."""
        own = (c.ordinal for value in self.values for c in columns_in(value))
        inside = subexpressions(*self.query.outputs, *self.query.conditions)
        return frozenset((*own, *(e.ordinal for e in inside if isinstance(e, OuterColumn))))

    def renumber(self, places: Mapping[int, int]) -> BoundSubquery:
        """Return the subquery over an outer row in which column `o` has the ordinal ``places[o]``."""

        def move(leaf: Expr) -> Expr:
            """Return a leaf over the other outer row."""
            if isinstance(leaf, OuterColumn):
                return replace(leaf, ordinal=places[leaf.ordinal])
            return leaf

        query = self.query
        outputs, conditions = (
            tuple(rewrite_leaves(e, move) for e in part)
            for part in (query.outputs, query.conditions)
        )
        return replace(
            self,
            values=tuple(renumber(value, places) for value in self.values),
            query=replace(query, outputs=outputs, conditions=conditions),
        )

    def add_column(self, source: BoundRelation, places: dict[int, int]) -> BoundRelation:
        """Return a relation with one more column: the value of the subquery.

        Args:
            source: the relation.
            places: the ordinal of each column that `values` read in `source`.

        Raises:
            NotDecorrelatedError: no join computes it.
        """
        width = len(source.types)
        if self.kind == "scalar":
            return self._scalar(source)
        if self.kind == "exists":
            return self._exists(source)
        equalities, correlation, right = self._conditions(source, places, exact=True)
        keys, residual = split_condition(conjunction((*correlation, *equalities)), width)
        mark = mark_join(source, right, keys, residual, self.path)
        if self.kind == "in":
            return mark
        negated = Call(BOOL, "not", (Column(BOOL, width),))
        return _project(mark, (*columns(source.types), negated), self.path)

    def filter_rows(
        self, source: BoundRelation, places: dict[int, int], *, negated: bool
    ) -> BoundRelation:
        """Return the rows for which the subquery is true or, with `negated`, those of an EXISTS that is false."""
        equalities, correlation, right = self._conditions(source, places, exact=False)
        condition = conjunction((*correlation, *equalities))
        keys, residual = split_condition(condition, len(source.types))
        kind: JoinKind = "anti" if negated else "semi"
        return make_join(kind, source, right, keys, residual, self.path)

    @property
    def is_connected(self) -> bool:
        """Return whether anything connects its rows with the outer row."""
        return bool(self.values or self.query.conditions)

    def _conditions(
        self, source: BoundRelation, places: dict[int, int], *, exact: bool
    ) -> tuple[Exprs, Exprs, BoundRelation]:
        """Return the equalities of the values, the conditions of the subquery, and its relation.

        Args:
            source: the outer relation.
            places: the ordinal of each column that `values` read in `source`.
            exact: whether the conditions of the subquery are written so that they are never null:
                a null among them excludes a row, and does not make the result null.
        """
        width, right = len(source.types), self.query.relation
        equalities = tuple(
            as_condition(JoinKey(value, value, null_safe=False), renumber(value, places), output)
            for value, output in zip(
                self.values, self._join(self.query.outputs, width), strict=False
            )
        )
        conditions = self._join(self.query.conditions, width)
        if not exact:
            return equalities, conditions, right
        keys, residual = split_condition(conjunction(conditions), width)
        compared: list[Expr] = []
        for key in keys:
            if key.right.type.nullable and not key.null_safe:
                present = Call(ALWAYS, "is_not_null", (key.right,))
                right = BoundFilter(right, present, right.types, self.path)
            arguments = (key.left, shift_columns(key.right, width))
            compared.append(Call(ALWAYS, "is_not_distinct_from", arguments))
        rest = (Call(ALWAYS, "is_true", (c,)) for c in conjuncts(residual))
        return equalities, (*compared, *rest), right

    def _join(self, expressions: Sequence[Expr], width: int) -> Exprs:
        """Return expressions over the joined row of the outer query and the subquery."""
        return tuple(outer_as_columns(shift_columns(e, width)) for e in expressions)

    def _exists(self, source: BoundRelation) -> BoundRelation:
        if not self.query.conditions:
            counted = _count(self.query.relation, self.path)
            return make_join("inner", source, counted, (), None, self.path)
        _, conditions, right = self._conditions(source, {}, exact=False)
        keys, residual = split_condition(conjunction(conditions), len(source.types))
        return make_join("mark", source, right, keys, residual, self.path)

    def _scalar(self, source: BoundRelation) -> BoundRelation:
        query, width = self.query, len(source.types)
        (output,) = query.outputs
        if query.for_none is not None:
            return self._of_groups(source)
        if has_outer(output):
            raise NotDecorrelatedError("whose value reads outer columns")
        value = _project(query.relation, (output, *columns(query.relation.types)), self.path)
        conditions = self._join([shift_columns(c, 1) for c in query.conditions], width)
        keys, residual = split_condition(conjunction(conditions), width)
        kind: JoinKind = "single"
        if not query.conditions and has_one_row(query.relation):
            kind = "inner" if has_exactly_one_row(query.relation) else "left"
        join = make_join(kind, source, value, keys, residual, self.path)
        return _project(join, columns(join.types)[: width + 1], self.path)

    def _of_groups(self, source: BoundRelation) -> BoundRelation:
        """Join the groups of an aggregate without grouping; a row without a group has its value for no rows."""
        query, width = self.query, len(source.types)
        conditions = self._join(query.conditions, width)
        keys, residual = split_condition(conjunction(conditions), width)
        join = make_join("left", source, query.relation, keys, residual, self.path)

        def of_group(column: Column) -> Expr:
            """Return a column of the joined groups, with its value for no rows where none matches."""
            moved = Column(column.type.as_nullable(), column.ordinal + width)
            default = (query.for_none or {})[column.ordinal]
            if isinstance(default, Constant) and default.value is None:
                return moved
            return Call(column.type, "coalesce", (moved, default))

        value = outer_as_columns(rewrite(query.outputs[0], of_group))
        return _project(join, (*columns(source.types), value), self.path, self.type)


def outer_as_columns(expression: Expr) -> Expr:
    """Return an expression over the joined row, whose first columns are those of the outer row."""
    return rewrite_leaves(
        expression, lambda e: Column(e.type, e.ordinal) if isinstance(e, OuterColumn) else e
    )


def has_exactly_one_row(relation: BoundRelation) -> bool:
    """Return whether a relation always has one row: an aggregate without grouping, projected."""
    while isinstance(relation, BoundProject):
        relation = relation.input
    return isinstance(relation, BoundAggregate) and has_one_row(relation)


def _project(
    relation: BoundRelation, expressions: Exprs, path: str, last: Type | None = None
) -> BoundRelation:
    types = tuple(e.type for e in expressions)
    return BoundProject(relation, expressions, types if last is None else (*types[:-1], last), path)


def _count(relation: BoundRelation, path: str) -> BoundRelation:
    """Return one row: whether a relation has rows."""
    count = BoundMeasure("count", (), None, COUNT, "count", path)
    counts = BoundAggregate(relation, (), (count,), (COUNT,), path)
    some = Call(ALWAYS, "gt", (Column(COUNT, 0), Constant(COUNT, 0)))
    return _project(counts, (some,), path)


def with_subqueries(
    relation: Bound, subqueries: Sequence[BoundSubquery], path: str, context: BindContext
) -> Bound:
    """Return a relation with the values of subqueries as further columns; opaque after a problem."""
    if isinstance(relation, Opaque):
        return relation
    places = {o: o for o in range(len(relation.types) + len(subqueries))}
    try:
        for subquery in subqueries:
            relation = subquery.add_column(relation, places)
    except NotDecorrelatedError as error:
        context.report("SUBQUERY_NOT_SUPPORTED", path, place=str(error))
        return Opaque(path)
    return relation


def filter_by(
    relation: Bound,
    condition: Expr,
    subqueries: Sequence[BoundSubquery],
    paths: tuple[str, str],
    context: BindContext,
) -> Bound:
    """Return the rows for which a condition is true; opaque after a problem.

    Args:
        relation: the rows.
        condition: the condition; the value of subquery `i` is column ``width + i``.
        subqueries: its subqueries.
        paths: paths of the relation that filters and of its condition.
        context: collects the problems.
    """
    if isinstance(relation, Opaque):
        return relation
    path, place = paths
    if not subqueries:
        return BoundFilter(relation, condition, relation.types, path)
    try:
        return SubqueryJoins(relation, subqueries).filter_rows(condition, path)
    except NotDecorrelatedError as error:
        context.report("SUBQUERY_NOT_SUPPORTED", place, place=str(error))
        return Opaque(path)


@dataclass(slots=True)
class SubqueryJoins:
    """Joins a relation with the subqueries of the expressions above it.

    While the expressions are bound, the value of subquery `i` is column ``width + i``.

    Attributes:
        relation: the relation with what has been joined so far.
        subqueries: the subqueries, in the order in which they were bound.
    """

    relation: BoundRelation
    subqueries: Sequence[BoundSubquery]

    def filter_rows(self, condition: Expr, path: str) -> BoundRelation:
        """Return the rows for which a condition is true."""
        width = len(self.relation.types)
        places, conditions, joins = self._places(), list[Expr](), dict[int, bool]()
        tested = conjuncts(condition)
        reads = [c.ordinal for part in tested for c in columns_in(part)]
        for part in tested:
            test = self._test(part, width)
            if test is None or reads.count(test[0] + width) > 1 or self._is_read(test[0], width):
                conditions.append(part)
            else:
                joins[test[0]] = test[1]
        rest = [i for i in range(len(self.subqueries)) if i not in joins]
        self._add(rest, places)
        for number, negated in joins.items():
            self.relation = self.subqueries[number].filter_rows(
                self.relation, places, negated=negated
            )
        remaining = conjunction(renumber(part, places) for part in conditions)
        source = self.relation
        if remaining is not None:
            source = BoundFilter(source, remaining, source.types, path)
        if len(source.types) == width:
            return source
        return _project(source, columns(source.types)[:width], path)

    def _places(self) -> dict[int, int]:
        return {ordinal: ordinal for ordinal in range(len(self.relation.types))}

    def _is_read(self, number: int, width: int) -> bool:
        """Return whether the values of another subquery read the value of this one."""
        read = (c.ordinal for s in self.subqueries for v in s.values for c in columns_in(v))
        return number + width in read

    def _test(self, part: Expr, width: int) -> tuple[int, bool] | None:
        """Return the subquery that a part of a condition is, and whether it is negated."""
        negated = isinstance(part, Call) and part.function == "not"
        inner = part.arguments[0] if isinstance(part, Call) and negated else part
        if not isinstance(inner, Column) or inner.ordinal < width:
            return None
        subquery = self.subqueries[inner.ordinal - width]
        kinds = ("exists",) if negated else ("exists", "in")
        if subquery.kind not in kinds or not subquery.is_connected:
            return None
        return inner.ordinal - width, negated

    def _add(self, numbers: Sequence[int], places: dict[int, int]) -> None:
        """Add the value of subqueries as columns."""
        width = len(places)
        for number in numbers:
            self.relation = self.subqueries[number].add_column(self.relation, places)
            places[width + number] = len(self.relation.types) - 1
