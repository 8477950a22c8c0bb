"""Decide by the extremes of an input whether a value compares with one of its rows.

``v > w`` is true for a row of the other input if it is for the least ``w``, so one row of extremes
answers for all rows. A mark join asks this where its keys are null and so find no rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from substrait_agg.bind.bound import BoundMeasure, Call, Expr
from substrait_agg.bind.joins.conjunctions import TRUE, disjunction, sides_of
from substrait_agg.bind.joins.failing import can_fail
from substrait_agg.bind.joins.keys import shift_columns
from substrait_agg.functions.aggregates.kinds import MeasureKind
from substrait_agg.functions.aggregates.types import INTEGERS, POINTS
from substrait_agg.functions.signatures.derive import TEXTS
from substrait_agg.plan.types import BOOL, Type

TURNED = {"lt": "gt", "lte": "gte", "gt": "lt", "gte": "lte", "not_equal": "not_equal"}
"""Comparison -> the same one with its arguments swapped."""

EXTREMES: dict[str, tuple[MeasureKind, ...]] = {
    "lt": ("max",), "lte": ("max",), "gt": ("min",), "gte": ("min",), "not_equal": ("min", "max"),
}  # fmt: skip
"""Comparison -> the values of the right input that decide whether it is true for any."""

DECIDED = frozenset({*INTEGERS, "decimal", *TEXTS, *POINTS})
"""Type kinds whose extremes decide. Those of floating-point values do not, because of NaN."""

TESTS = {"is_true": False, "is_not_false": True}
"""Test of a comparison -> whether it is met where the comparison is null."""

ALWAYS = BOOL.as_nullable(False)
COUNT = Type("i64", nullable=False)


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
            BoundMeasure(kind, value, where, type_, kind, path) for kind in EXTREMES[self.function]
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


def comparison_of(part: Expr, width: int) -> Comparison | None:
    """Return the comparison that a condition on both inputs of a join is, or None.

    A value whose computation can fail has none, as it is computed for all rows.

    Args:
        part: a condition over the columns of both inputs.
        width: number of columns of the left input.
    """
    nulls_match = True
    if isinstance(part, Call) and part.function in TESTS:
        nulls_match, (part,) = TESTS[part.function], part.arguments
    if not isinstance(part, Call) or part.function not in TURNED:
        return None
    function, (left, right) = part.function, part.arguments
    if sides_of(left, width) == {"right"}:
        function, left, right = TURNED[function], right, left
    if sides_of(left, width) != {"left"} or sides_of(right, width) != {"right"}:
        return None
    if not left.type.same_kind(right.type) or right.type.kind not in DECIDED:
        return None
    if can_fail(left) or can_fail(right):
        return None
    return Comparison(function, left, shift_columns(right, -width), nulls_match)
