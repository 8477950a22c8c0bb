"""Compute the subqueries of a join's condition by its inputs: in filters and further columns of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from substrait_agg.bind.bound import BoundProject, Call, Column, Expr, JoinKind
from substrait_agg.bind.context import BindContext, Bound, Opaque, columns
from substrait_agg.bind.joins.conjunctions import conjunction, conjuncts
from substrait_agg.bind.rewrite import columns_in, rewrite
from substrait_agg.bind.subqueries.decorrelate import NotDecorrelatedError
from substrait_agg.bind.subqueries.joins import BoundSubquery, filter_by, with_subqueries

_FILTERED: Mapping[JoinKind, tuple[int, ...]] = {
    "inner": (0, 1), "semi": (0, 1), "left": (1,), "single": (1,), "anti": (1,),
}  # fmt: skip
"""Kind of a join -> the inputs whose rows matter only if they meet what the condition says of them alone."""


@dataclass(slots=True)
class _Row:
    """The row of an input of a join, or of both, with the values of subqueries as further columns.

    Attributes:
        start: ordinal of its first column in the row of both inputs.
        width: number of its columns without the values.
        total: number of columns of both inputs; in a condition, the value of subquery `i` is column
            ``total + i``.
        of_condition: the subqueries of the condition.
        subqueries: those whose values are columns of this row, over this row.
    """

    start: int
    width: int
    total: int
    of_condition: Sequence[BoundSubquery]
    subqueries: list[BoundSubquery] = field(default_factory=list)
    _places: dict[int, int] = field(default_factory=dict)

    def place(self, ordinal: int) -> int:
        """Return where a column of the condition is in this row; the value of a subquery is added."""
        if ordinal < self.total:
            return ordinal - self.start
        if ordinal not in self._places:
            subquery = self.of_condition[ordinal - self.total]
            moved = subquery.renumber({o: self.place(o) for o in subquery.reads})
            self.subqueries.append(moved)
            self._places[ordinal] = self.width + len(self.subqueries) - 1
        return self._places[ordinal]

    def move(self, expression: Expr) -> Expr:
        """Return an expression of the condition over this row."""
        return rewrite(expression, lambda c: replace(c, ordinal=self.place(c.ordinal)))


class SplitCondition:
    """A join's condition with subqueries, split into what the inputs compute and what the join tests.

    Args:
        kind: the kind of the join, and whether its inputs are swapped.
        widths: numbers of columns of the inputs.
        of_condition: the subqueries of the condition.
    """

    def __init__(
        self,
        kind: tuple[JoinKind, bool],
        widths: tuple[int, int],
        of_condition: Sequence[BoundSubquery],
    ) -> None:
        self._kind, self._swapped = kind
        self._total, self._subqueries = sum(widths), of_condition
        self._rows, self._filtered = (
            tuple(
                _Row(start, width, self._total, of_condition)
                for start, width in zip((0, widths[0]), widths, strict=True)
            )
            for _ in range(2)
        )
        self._filters: tuple[list[Expr], list[Expr]] = ([], [])
        self._joined = _Row(0, self._total, self._total, of_condition)
        self._above: list[Expr] = []
        self._tested: list[Expr] = []

    def add(self, condition: Expr | None) -> None:
        """Assign the parts of the condition.

        Raises:
            NotDecorrelatedError: a subquery reads both inputs of a join that is not an inner one.
        """
        sides = [side ^ self._swapped for side in _FILTERED.get(self._kind, ())]
        for part in conjuncts(condition):
            values = [c.ordinal for c in columns_in(part) if c.ordinal >= self._total]
            read = self._sides(part)
            deciding = next((side for side in sides if read <= {side}), None)
            if any(len(self._sides_of(value)) > 1 for value in values):
                if self._kind != "inner":
                    raise NotDecorrelatedError(f"of both inputs of a join of the kind {self._kind}")
                self._above.append(self._joined.move(part))
            elif values and deciding is not None:
                self._filters[deciding].append(self._filtered[deciding].move(part))
            else:
                self._tested.append(self._pair(part, read))

    def inputs(
        self, inputs: Sequence[Bound], paths: tuple[str, str], context: BindContext
    ) -> list[Bound]:
        """Return the inputs of the join with what they compute."""
        prepared: list[Bound] = []
        for relation, side in zip(inputs, (0, 1), strict=True):
            condition = conjunction(self._filters[side])
            below = relation
            if condition is not None:
                subqueries = self._filtered[side].subqueries
                below = filter_by(relation, condition, subqueries, paths, context)
            prepared.append(with_subqueries(below, self._rows[side].subqueries, paths[0], context))
        return prepared

    def condition(self) -> Expr | None:
        """Return the condition that the join tests, over the rows of its prepared inputs."""
        start = self._right_start()
        return conjunction(
            rewrite(p, lambda c: replace(c, ordinal=start - 1 - c.ordinal) if c.ordinal < 0 else c)
            for p in self._tested
        )

    def output(self, join: Bound, paths: tuple[str, str], context: BindContext) -> Bound:
        """Return the rows of the join of the prepared inputs with the columns of the plan's join."""
        if isinstance(join, Opaque):
            return join
        one_sided = self._kind in ("semi", "anti", "mark")
        left, right = self._rows
        places = [*range((right if one_sided and self._swapped else left).width)]
        if self._kind == "mark":
            places.append(len(join.types) - 1)
        elif not one_sided:
            start = self._right_start()
            places.extend(range(start, start + right.width))
        output = tuple(columns(join.types)[place] for place in places)
        shown = BoundProject(join, output, tuple(e.type for e in output), paths[0])
        condition = conjunction(self._above)
        if condition is None:
            return shown
        return filter_by(shown, condition, self._joined.subqueries, paths, context)

    def _right_start(self) -> int:
        left = self._rows[0]
        return left.width + len(left.subqueries)

    def _pair(self, part: Expr, read: frozenset[int]) -> Expr:
        """Return a condition of a pair of rows; columns of the right row are counted from -1 down.

        A value that reads no input is a column of that one with which it is compared.
        """
        if isinstance(part, Call):
            operands = (self._operand(a, self._sides(a) or read) for a in part.arguments)
            return replace(part, arguments=tuple(operands))
        return self._operand(part, read)

    def _operand(self, operand: Expr, read: frozenset[int]) -> Expr:
        def place(column: Column) -> Column:
            """Return a column over the row of the input that it reads."""
            side = min(self._sides_of(column.ordinal) or read, default=0)
            ordinal = self._rows[side].place(column.ordinal)
            return replace(column, ordinal=-1 - ordinal if side else ordinal)

        return rewrite(operand, place)

    def _sides(self, expression: Expr) -> frozenset[int]:
        """Return which inputs an expression reads: 0 for the left one, 1 for the right one."""
        sides = (self._sides_of(column.ordinal) for column in columns_in(expression))
        return frozenset[int]().union(*sides)

    def _sides_of(self, ordinal: int) -> frozenset[int]:
        if ordinal < self._total:
            return frozenset({int(ordinal >= self._rows[1].start)})
        reads = self._subqueries[ordinal - self._total].reads
        return frozenset[int]().union(*map(self._sides_of, reads))
