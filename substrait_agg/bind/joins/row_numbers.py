"""Use conditions on the numbers of rows to limit which rows are numbered."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil, floor

from substrait_agg.bind.bound import (
    BoundFetch,
    BoundFilter,
    BoundProject,
    BoundRelation,
    BoundWindowValues,
    Call,
    Column,
    Constant,
    Conversion,
    Expr,
    InList,
)
from substrait_agg.bind.joins.multi_join import is_large, substitute
from substrait_agg.functions.scalars.catalogue import true_for, turn
from substrait_agg.plan.types import INTEGER_BITS, Type

Exprs = tuple[Expr, ...]

_Range = tuple[int, int | None]
"""The least and the greatest number; None is no limit."""
ALL_NUMBERS: _Range = (1, None)

MOST_ADDED = 1 << 31
"""The greatest number that may be added to the number of a row, which is far from overflow."""


def is_numbered(relation: BoundRelation) -> bool:
    """Return whether a relation numbers its rows, by position or by rank."""
    match relation:
        case BoundFetch(numbered=numbered):
            return numbered
        case BoundWindowValues(functions=(function,)):
            return function.function in ("rank", "dense_rank")
    return False


def with_numbers_limited(relation: BoundRelation, conditions: Exprs) -> tuple[BoundRelation, Exprs]:
    """Number only the rows whose numbers can meet the conditions on a relation.

    Returns:
        The relation, and the conditions that it does not express.
    """
    match relation:
        case BoundFetch(numbered=True):
            return _limit(relation, conditions)
        case BoundWindowValues() if is_numbered(relation):
            return _with_last(relation, conditions), conditions
    return relation, conditions


def limits_numbers(relation: BoundRelation, condition: Expr) -> bool:
    """Return whether a condition on a relation is one on the numbers of rows.

    Such a condition may be tested where the rows are numbered, although the sum of a number and a
    constant, or a cast of it, can fail: only rows with numbers near the greatest integer make it fail.
    """
    while not is_numbered(relation):
        match relation:
            case BoundFilter(input=source):
                relation = source
            case BoundProject(input=source, expressions=outputs):
                relation, condition = source, substitute(condition, outputs)
                if is_large(condition):
                    return False
            case _:
                return False
    return _numbers(condition, len(relation.types) - 1) != (ALL_NUMBERS, False)


def _limit(fetch: BoundFetch, conditions: Exprs) -> tuple[BoundFetch, Exprs]:
    number, start, stop = len(fetch.types) - 1, fetch.offset, _stop(fetch)
    rest = []
    for condition in conditions:
        numbers, exact = _numbers(condition, number)
        start, stop = max(start, numbers[0] - 1), _least(stop, numbers[1])
        if not exact:
            rest.append(condition)
    count = None if stop is None else max(stop - start, 0)
    return replace(fetch, offset=start, count=count), tuple(rest)


def _with_last(ranks: BoundWindowValues, conditions: Exprs) -> BoundWindowValues:
    """Leave out the rows whose rank is greater than the conditions allow."""
    last = ranks.last
    for condition in conditions:
        last = _least(last, _numbers(condition, len(ranks.types) - 1)[0][1])
    return replace(ranks, last=None if last is None else max(last, 1))


def _stop(fetch: BoundFetch) -> int | None:
    return None if fetch.count is None else fetch.offset + fetch.count


def _least(left: int | None, right: int | None) -> int | None:
    limits = [limit for limit in (left, right) if limit is not None]
    return min(limits, default=None)


def _numbers(condition: Expr, ordinal: int) -> tuple[_Range, bool]:
    """Return the numbers in column `ordinal` for which a condition can be true.

    The second value is whether the condition says nothing else.
    """
    match condition:
        case InList(value=value, options=options):
            added = _find_addend(value, ordinal)
            limits = [_number(option) for option in options]
            numbers = [limit for limit in limits if limit is not None]
            if added is not None and numbers and len(numbers) == len(limits):
                return (ceil(min(numbers) - added), floor(max(numbers) - added)), False
        case Call(function="between", arguments=(value, low, high)):
            added, least, greatest = _find_addend(value, ordinal), _number(low), _number(high)
            if added is not None and least is not None and greatest is not None:
                return (ceil(least - added), floor(greatest - added)), True
        case Call(function=function, arguments=(left, right)) if len(
            {*true_for(function)} - {0}
        ) < 2 and true_for(function):
            if _number(right) is None:
                function, left, right = turn(function), right, left
            added, limit = _find_addend(left, ordinal), _number(right)
            if added is not None and limit is not None:
                return _numbers_within(function, limit - added), True
    return ALL_NUMBERS, False


def _numbers_within(function: str, limit: Fraction) -> _Range:
    """Return the numbers for which a comparison with a limit is true."""
    signs = true_for(function)
    least, greatest = (
        (ceil(limit), floor(limit)) if 0 in signs else (floor(limit) + 1, ceil(limit) - 1)
    )
    return (1 if -1 in signs else least, None if 1 in signs else greatest)


def _is_exact(type_: Type) -> bool:
    """Return whether values of a type are exact numbers."""
    return type_.kind in INTEGER_BITS or type_.kind == "decimal"


def _find_addend(expression: Expr, ordinal: int) -> int | None:
    """Return the integer that an expression adds to the column; None for other expressions.

    Casts to exact types keep the value, or fail. Those that give null instead are other expressions.
    """
    match expression:
        case Column(ordinal=column):
            return 0 if column == ordinal else None
        case Conversion(input=value, type=type_, null_on_failure=False) if _is_exact(type_):
            return _find_addend(value, ordinal)
        case Call(function="add" | "subtract", arguments=(left, right), type=type_):
            if expression.function == "add" and _number(left) is not None:
                left, right = right, left
            added, number = _find_addend(left, ordinal), _number(right)
            # A sum of a narrower type may wrap around, or fail for numbers that are not large.
            fails = ("OVERFLOW", "ERROR") in expression.options
            wide = type_.kind in ("i64", "decimal") or (type_.kind == "i32" and fails)
            if added is None or number is None or not wide:
                return None
            if number.denominator == 1 and abs(number) <= MOST_ADDED:
                return added + (int(number) if expression.function == "add" else -int(number))
    return None


def _number(expression: Expr) -> Fraction | None:
    """Return the value of a constant of an exact type; None for null and for other expressions."""
    if isinstance(expression, Conversion) and not expression.null_on_failure:
        number = _number(expression.input) if _is_exact(expression.type) else None
        return number if number is None or number.denominator == 1 else None
    if not isinstance(expression, Constant) or not _is_exact(expression.type):
        return None
    if expression.value is None:
        return None
    scale = expression.type.params[1] if expression.type.kind == "decimal" else 0
    return Fraction(expression.value, 10**scale)
