"""Write mark joins whose mark can be null as joins whose marks are true or false.

The mark of a row is true if the condition is true for a row of the other side, else null if it is
null for one, else false (specification, Join Types). With ``equal`` as the condition this is SQL's
``IN``, and its negation is ``NOT IN``.

A condition is a conjunction, so it is null for a pair of rows if none of its parts is false and it
is not true. The mark is null if no row has the true condition, and one has no false part.

The extremes of an input decide whether a value compares with one of its rows. ``v > w`` is true for
a row of the other input if it is for the least ``w``, so one row of extremes answers for all rows. A
mark join asks this where its keys are null and so find no rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from substrait_agg.bind.bound import (
    BoundAggregate,
    BoundFilter,
    BoundMeasure,
    BoundProject,
    BoundRelation,
    Call,
    Column,
    Conditional,
    Constant,
    Expr,
    JoinKey,
)
from substrait_agg.bind.context import columns, is_unknown
from substrait_agg.bind.joins.conjunctions import (
    TRUE,
    conjunction,
    conjuncts,
    disjunction,
    sides_of,
)
from substrait_agg.bind.joins.failing import can_fail
from substrait_agg.bind.joins.keys import as_condition, make_join
from substrait_agg.bind.joins.single_rows import has_one_row
from substrait_agg.bind.rewrite import rewrite, shift_columns
from substrait_agg.functions.aggregates.kinds import MeasureKind
from substrait_agg.functions.aggregates.types import INTEGERS, POINTS
from substrait_agg.functions.scalars.catalogue import SCALARS, true_for, turn
from substrait_agg.functions.signatures.derive import TEXTS
from substrait_agg.plan.types import BOOL, Type

MOST_NULLABLE_KEYS = 3
"""Maximal number of equalities that can be null, if none cannot: there is a join for each set of them."""

_EXTREMES: dict[int, MeasureKind] = {1: "min", -1: "max"}
"""Sign for which a comparison is true -> the value of the right input that decides whether it is for any."""

_DECIDED = frozenset({*INTEGERS, "decimal", *TEXTS, *POINTS})
"""Type kinds whose extremes decide. Those of floating-point values do not, because of NaN."""

_TESTS = {"is_true": False, "is_not_false": True}
"""Test of a comparison -> whether it is met where the comparison is null."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a value of each input of a join.

    Attributes:
        function: the comparison, with the left value as its first argument.
        left: the value of the left input.
        right: the value of the right input, over its columns.
        nulls_match: whether a pair counts for which the comparison is null.
    """

    function: str
    left: Expr
    right: Expr
    nulls_match: bool

    @property
    def counts_nulls(self) -> bool:
        """Return whether rows of the right input with a null count."""
        return self.nulls_match and self.right.type.nullable

    def measures(self, where: Expr | None, path: str) -> tuple[BoundMeasure, ...]:
        """Return the measures over rows of the right input that `may_match` reads.

        Args:
            where: which of the rows count; None for all.
            path: path in the plan.
        """
        value, type_ = (self.right,), self.right.type.as_nullable()
        extremes = tuple(
            BoundMeasure(kind, value, where, type_, kind, path)
            for sign, kind in _EXTREMES.items()
            if sign in true_for(self.function)
        )
        if not self.counts_nulls:
            return extremes
        is_null: Expr = Call(ALWAYS, "is_null", value)
        nulls = is_null if where is None else Call(ALWAYS, "and", (where, is_null))
        return (BoundMeasure("count", (), nulls, COUNT, "count", path), *extremes)

    def may_match(self, values: Sequence[Expr]) -> Expr:
        """Return whether the comparison counts for a pair of the left row and one of the rows.

        A null means that it counts for none, as false does.

        Args:
            values: whether there are rows, then the values of `measures`, of which a count says
                whether it is above zero.
        """
        present, *others = values
        alternatives = list[Expr]()
        if self.nulls_match and self.left.type.nullable:
            is_null = Call(ALWAYS, "is_null", (self.left,))
            alternatives.append(Call(ALWAYS, "and", (present, is_null)))
        if self.counts_nulls:
            alternatives.append(others.pop(0))
        alternatives += (Call(BOOL, self.function, (self.left, extreme)) for extreme in others)
        return disjunction(alternatives) or TRUE


def _comparison_of(part: Expr, width: int) -> Comparison | None:
    """Return the comparison that a condition on both inputs of a join is, or None.

    A value whose computation can fail has none, as it is computed for all rows.

    Args:
        part: a condition over the columns of both inputs.
        width: number of columns of the left input.
    """
    nulls_match = True
    if isinstance(part, Call) and part.function in _TESTS:
        nulls_match, (part,) = _TESTS[part.function], part.arguments
    if not isinstance(part, Call) or set(true_for(part.function)) <= {0}:
        return None
    function, (left, right) = part.function, part.arguments
    if sides_of(left, width) == {"right"}:
        function, left, right = turn(function), right, left
    if sides_of(left, width) != {"left"} or sides_of(right, width) != {"right"}:
        return None
    if not left.type.same_kind(right.type) or right.type.kind not in _DECIDED:
        return None
    if can_fail(left) or can_fail(right):
        return None
    return Comparison(function, left, shift_columns(right, -width), nulls_match)


ALWAYS = BOOL.as_nullable(False)
COUNT = Type("i64", nullable=False)


def can_be_null(expression: Expr) -> bool:
    """Return whether an expression can be null.

    Tests and logic are null only if an argument is, also if the plan declares them nullable.
    """
    row = SCALARS.get(expression.function) if isinstance(expression, Call) else None
    is_test = expression.type.kind == "bool" and row is not None and row.nulls == "mirror"
    if isinstance(expression, Call) and is_test:
        return any(map(can_be_null, expression.arguments))
    return expression.type.nullable and not is_unknown(expression)


def is_nullable_key(key: JoinKey) -> bool:
    """Return whether the comparison of a key can be null."""
    return not key.null_safe and (key.left.type.nullable or key.right.type.nullable)


def mark_join(
    left: BoundRelation,
    right: BoundRelation,
    keys: tuple[JoinKey, ...],
    residual: Expr | None,
    path: str,
) -> BoundRelation:
    """Return the rows of the left input and their marks.

    Every row of the left input is compared with all rows of the right one if the rows for which the
    condition is null cannot be found by keys: none of the equalities cannot be null, and more than
    `MOST_NULLABLE_KEYS` can, or one and conditions on both inputs that are not a single comparison.
    """
    first = make_join("mark", left, right, keys, residual, path)
    parts = conjuncts(residual)
    nullable = tuple(key for key in keys if is_nullable_key(key))
    if not nullable and not any(map(can_be_null, parts)):
        return first
    join = _Marked(first, right, len(left.types), nullable, tuple(map(_not_false, parts)), path)
    exact = tuple(key for key in keys if key not in nullable)
    if exact or not nullable or has_one_row(right):
        return join.by_keys(exact)
    doubtful, few = any(map(can_be_null, parts)), len(nullable) <= MOST_NULLABLE_KEYS
    pairs = [part for part in parts if len(sides_of(part, join.width)) > 1]
    if few and not pairs:
        of_nulls = join.by_counts if len(nullable) == 1 else join.by_subsets
        return of_nulls(doubtful=doubtful)
    comparison = _comparison_of(pairs[0], join.width) if len(pairs) == 1 else None
    if not few or comparison is None:
        return join.by_keys(())
    return join.by_subsets(doubtful=doubtful, comparison=comparison)


@dataclass(frozen=True, slots=True)
class _Marked:
    """A join with marks that are true or false, and the null marks that are added to it.

    Attributes:
        first: the join whose mark says whether the condition is true for a row.
        right: its right input.
        width: number of columns of its left input.
        nullable: the keys whose comparison can be null.
        parts: that each other part of the condition is not false.
        path: path in the plan.
    """

    first: BoundRelation
    right: BoundRelation
    width: int
    nullable: tuple[JoinKey, ...]
    parts: tuple[Expr, ...]
    path: str

    def by_keys(self, exact: tuple[JoinKey, ...]) -> BoundRelation:
        """Find the rows with a null condition by the keys that cannot be null."""
        compared = (
            _not_false(as_condition(k, k.left, shift_columns(k.right, self.width)))
            for k in self.nullable
        )
        second = self._second(exact, (*compared, *self.parts))
        return self._project(second, Column(ALWAYS, self.width + 1))

    def by_counts(self, *, doubtful: bool) -> BoundRelation:
        """Find them for a single key: where a side is null, only the other parts decide.

        Args:
            doubtful: whether the other parts can be null.
        """
        (key,) = self.nullable
        own, other = self._one_sided()
        source = self._second((key,), self.parts) if doubtful else self.first
        doubts = [Column(ALWAYS, self.width + 1)] if doubtful else []
        counted = _presence(self.right, key.right, other, self.path)
        joined_rows = make_join("inner", source, counted, (), None, self.path)
        row_count, has_null = columns(counted.types)
        row_count, has_null = (shift_columns(e, len(source.types)) for e in (row_count, has_null))
        is_null = Call(ALWAYS, "is_null", (key.left,))
        alternatives = (*doubts, has_null, Call(ALWAYS, "and", (row_count, is_null)))
        any_of = disjunction(alternatives) or TRUE
        return self._project(joined_rows, conjunction((*own, any_of)) or TRUE)

    def by_subsets(self, *, doubtful: bool, comparison: Comparison | None = None) -> BoundRelation:
        """Find them for several keys: some are equal, and a side of each other one is null.

        There is a join for each set of keys that are equal. Where none is, the nulls of the row
        decide which rows of the other side count: those with nulls in the remaining keys.

        Args:
            doubtful: whether the other parts can be null.
            comparison: the part that reads both inputs, if there is one.
        """
        own, other = self._one_sided()
        source, marks = self.first, list[Expr]()
        for size in range(1, len(self.nullable) + doubtful):
            for equal in combinations(self.nullable, size):
                nulls = tuple(
                    Call(
                        ALWAYS,
                        "or",
                        (_is_null(k.left), _is_null(shift_columns(k.right, self.width))),
                    )
                    for k in self.nullable
                    if k not in equal
                )
                marks.append(Column(ALWAYS, len(source.types)))
                source = self._mark(source, equal, (*nulls, *self.parts))
        counted = _presences(self.right, self.nullable, other, self.path, comparison)
        joined_rows = make_join("inner", source, counted, (), None, self.path)
        shown = [shift_columns(e, len(source.types)) for e in columns(counted.types)]
        subsets = _subsets(self.nullable)
        each = len(shown) // len(subsets)
        for number, nulls_right in enumerate(subsets):
            nulls_left = (_is_null(k.left) for k in self.nullable if k not in nulls_right)
            of_set = shown[number * each : (number + 1) * each]
            present = of_set[0] if comparison is None else comparison.may_match(of_set)
            marks.append(conjunction((present, *nulls_left)) or TRUE)
        any_of = disjunction(tuple(marks)) or TRUE
        return self._project(joined_rows, conjunction((*own, any_of)) or TRUE)

    def _one_sided(self) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        """Return the parts that read the left input alone, and the others that do not read it.

        The latter are conditions on the rows of the right input.
        """
        sides = [(part, sides_of(part, self.width)) for part in self.parts]
        own = tuple(part for part, read in sides if read == {"left"})
        other = tuple(
            shift_columns(part, -self.width) for part, read in sides if "left" not in read
        )
        return own, other

    def _second(self, keys: tuple[JoinKey, ...], parts: tuple[Expr, ...]) -> BoundRelation:
        """Join the rows with their first mark once more, for a second one."""
        return self._mark(self.first, keys, parts)

    def _mark(
        self, source: BoundRelation, keys: tuple[JoinKey, ...], parts: tuple[Expr, ...]
    ) -> BoundRelation:
        """Join rows that have marks after their columns once more, for a further mark."""
        marks = len(source.types) - self.width

        def behind_marks(column: Column) -> Column:
            """Move a column of the right side behind the marks."""
            by = 0 if column.ordinal < self.width else marks
            return Column(column.type, column.ordinal + by)

        moved = tuple(rewrite(part, behind_marks) for part in parts)
        return make_join("mark", source, self.right, keys, conjunction(moved), self.path)

    def _project(self, relation: BoundRelation, is_null: Expr) -> BoundRelation:
        """Return the left columns and the mark, given the condition under which it is null."""
        first = Column(ALWAYS, self.width)
        null, no = Constant(BOOL, None), Constant(ALWAYS, False)
        mark = Conditional(BOOL, ((first, TRUE), (is_null, null)), no)
        expressions = (*columns(relation.types)[: self.width], mark)
        return BoundProject(relation, expressions, tuple(e.type for e in expressions), self.path)


def _not_false(part: Expr) -> Expr:
    return Call(ALWAYS, "is_not_false", (part,)) if can_be_null(part) else part


def _is_null(value: Expr) -> Expr:
    return Call(ALWAYS, "is_null", (value,))


def _subsets(keys: tuple[JoinKey, ...]) -> list[tuple[JoinKey, ...]]:
    sizes = range(len(keys) + 1)
    return [some for size in sizes for some in combinations(keys, size)]


def _presences(
    relation: BoundRelation,
    keys: tuple[JoinKey, ...],
    conditions: tuple[Expr, ...],
    path: str,
    comparison: Comparison | None,
) -> BoundRelation:
    """Return one row: per set of keys, whether a relation has rows in which all of them are null.

    Only rows that meet the conditions count. With a comparison, its values follow for each set.
    """
    condition = conjunction(conditions)
    if condition is not None:
        relation = BoundFilter(relation, condition, relation.types, path)
    measures = list[BoundMeasure]()
    for some in _subsets(keys):
        where = conjunction(tuple(_is_null(k.right) for k in some))
        measures.append(BoundMeasure("count", (), where, COUNT, "count", path))
        measures += () if comparison is None else comparison.measures(where, path)
    types = tuple(measure.type for measure in measures)
    counts = BoundAggregate(relation, (), tuple(measures), types, path)
    zero = Constant(COUNT, 0)
    present = tuple(
        Call(ALWAYS, "gt", (value, zero)) if measure.kind == "count" else value
        for measure, value in zip(measures, columns(types), strict=True)
    )
    return BoundProject(counts, present, tuple(e.type for e in present), path)


def _presence(
    relation: BoundRelation, value: Expr, conditions: tuple[Expr, ...], path: str
) -> BoundRelation:
    """Return one row: whether a relation has rows that meet conditions, and any whose value is null."""
    condition = conjunction(conditions)
    if condition is not None:
        relation = BoundFilter(relation, condition, relation.types, path)
    every = BoundMeasure("count", (), None, COUNT, "count", path)
    filled = BoundMeasure("count", (value,), None, COUNT, "count", path)
    counts = BoundAggregate(relation, (), (every, filled), (COUNT, COUNT), path)
    rows, values = columns(counts.types)
    some = Call(ALWAYS, "gt", (rows, Constant(COUNT, 0)))
    null = Call(ALWAYS, "gt", (rows, values))
    return BoundProject(counts, (some, null), (ALWAYS, ALWAYS), path)
