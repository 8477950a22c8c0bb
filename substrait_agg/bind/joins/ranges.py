"""Find the range that the condition of a join without a key asks for.

A range says that a value of one side, the *point*, lies within an *interval* of the other side:
``a.t BETWEEN b.start AND b.end``, ``a.t >= b.start``, ``a.t BETWEEN b.t - 5 AND b.t + 5``. An end
may be missing, and an equality that is no key is an interval of one value. Whether the ends belong to the interval does not matter here, because the join
tests the whole condition on the pairs that the range finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from substrait_agg.bind.bound import Call, Column, Constant, Conversion, Expr
from substrait_agg.bind.joins.conjunctions import conjuncts, sides_of
from substrait_agg.bind.rewrite import shift_columns
from substrait_agg.functions.scalars.catalogue import true_for
from substrait_agg.plan.types import INTEGER_BITS

ORDERED = frozenset(
    {*INTEGER_BITS, "fp32", "fp64", "decimal", "string", "varchar", "date", "precision_time",
     "precision_timestamp", "precision_timestamp_tz"}
)  # fmt: skip
"""Kinds of types by whose values an arrangement can be ordered (`operator.join.lookup`)."""

_CONVERTED = (
    frozenset({*INTEGER_BITS, "decimal"}),
    frozenset({"date", "precision_timestamp", "precision_timestamp_tz"}),
)
"""Kinds between whose types every operator converts values."""


@dataclass(frozen=True, slots=True)
class JoinRange:
    """A range, with expressions over the columns of their own side.

    Attributes:
        point_port: the side of the point, 0 for the left one.
        point: the value that lies within the interval.
        least: the least end of the interval, over the columns of the other side; None for none.
        most: the greatest end; None for none.
        is_whole: whether the condition says nothing else.
    """

    point_port: int
    point: Expr
    least: Expr | None
    most: Expr | None
    is_whole: bool = False

    @property
    def is_closed(self) -> bool:
        """Return whether the interval has both ends."""
        return self.least is not None and self.most is not None


@dataclass(frozen=True, slots=True)
class _Comparison:
    """``point >= end`` (`at_least`) or ``point <= end``, over the columns of both sides."""

    port: int
    point: Expr
    end: Expr
    at_least: bool


def find_range(condition: Expr | None, width: int) -> JoinRange | None:
    """Return the range that a condition of a join implies, with both ends if it has any such.

    Args:
        condition: a condition over the columns of the left and then of the right side.
        width: number of columns of the left side.
    """
    steps = [_compare(*step, width) for part in conjuncts(condition) for step in _steps(part)]
    by_point: dict[tuple[int, Expr], dict[bool, Expr]] = {}
    for one in chain.from_iterable(steps):
        by_point.setdefault((one.port, one.point), {}).setdefault(one.at_least, one.end)
    ranges = []
    for (port, point), ends in by_point.items():
        own = {at_least: _over_side(end, 1 - port, width) for at_least, end in ends.items()}
        tested = {_Comparison(port, point, end, at_least) for at_least, end in ends.items()}
        is_whole = all(any(one in tested for one in step) for step in steps)
        ranges.append(
            JoinRange(port, _over_side(point, port, width), own.get(True), own.get(False), is_whole)
        )
    return next((one for one in ranges if one.is_closed), next(iter(ranges), None))


def is_range(condition: Expr, width: int) -> bool:
    """Return whether a condition compares values of both sides that a join can be ordered by.

    The values are columns, with constants added or subtracted: every operator computes them.
    """
    plain = all(map(_is_plain, _operands(condition)))
    return plain and all(_compare(*step, width) for step in _steps(condition))


def _over_side(expression: Expr, port: int, width: int) -> Expr:
    return shift_columns(expression, -width) if port else expression


def _steps(part: Expr) -> Iterator[tuple[Expr, Expr | None, bool]]:
    """Yield the comparisons that a condition consists of: a value, an end, and whether it is the least.

    What is no comparison by order is yielded without an end.
    """
    signs = true_for(part.function) if isinstance(part, Call) else ()
    if isinstance(part, Call) and part.function == "between":
        value, least, most = part.arguments
        yield value, least, True
        yield value, most, False
    elif isinstance(part, Call) and len(signs) and not {-1, 1} <= set(signs):
        left, right = part.arguments
        yield from ((left, right, sign < 0) for sign in (-1, 1) if sign not in signs)
    else:
        yield part, None, False


def _compare(value: Expr, end: Expr | None, at_least: bool, width: int) -> tuple[_Comparison, ...]:
    """Return a comparison of both sides from the view of both of its operands; none for others."""
    if end is None or value.type.kind not in ORDERED or not value.type.same_kind(end.type):
        return ()
    sides = sides_of(value, width), sides_of(end, width)
    if {frozenset({"left"}), frozenset({"right"})} != set(sides):
        return ()
    port = int("right" in sides[0])
    return (
        _Comparison(port, value, end, at_least),
        _Comparison(1 - port, end, value, not at_least),
    )


def _operands(condition: Expr) -> tuple[Expr, ...]:
    return condition.arguments if isinstance(condition, Call) else ()


def _is_plain(expression: Expr) -> bool:
    """Return whether an expression is a column, with constants added, or as another type."""
    match expression:
        case Call(function="add" | "subtract", arguments=arguments):
            parts = all(_is_plain(a) or isinstance(a, Constant) for a in arguments)
            return parts and _has_kernel(expression)
        case Conversion(type=target, input=inner):
            kinds = {target.kind, inner.type.kind}
            converted = any(kinds <= group for group in _CONVERTED) and _is_plain(inner)
            return converted and not target.kind.startswith("u")
        case _:
            return isinstance(expression, Column)


def _has_kernel(call: Call) -> bool:
    """Return whether operators compute a sum: not of unsigned numbers, nor with a wrong one kept."""
    overflow = dict(call.options).get("OVERFLOW", "ERROR")
    return overflow == "ERROR" and not call.type.kind.startswith("u")
