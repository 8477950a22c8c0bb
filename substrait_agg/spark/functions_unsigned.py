"""Arithmetic of unsigned integers, in decimals that hold every exact result."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.spark.columns import in_range, integer_range
from substrait_agg.spark.parts import Arguments, Builder

_OPERAND = "decimal(20,0)"
_WHOLE = "decimal(38,0)"


def _number(value: int) -> Column:
    return F.lit(str(value)).cast(_WHOLE)


def _operands(a: Arguments) -> tuple[Column, Column]:
    return a[0].cast(_OPERAND), a[1].cast(_OPERAND)


def _bounded(exact: Column, a: Arguments) -> Column:
    """An exact result as the overflow option says."""
    low, high = integer_range(a.call.type.kind)
    overflow = a.option("OVERFLOW", "ERROR")
    if overflow == "ERROR":
        return in_range(exact, a.call.type, f"a result of {a.call.function}")
    if overflow == "SATURATE":
        bounded = F.least(F.greatest(exact, _number(low)), _number(high))
    else:
        bounded = F.pmod(exact, _number(high + 1))
    # Spark's least and greatest pass over nulls.
    return F.when(exact.isNotNull(), bounded)


def _add(a: Arguments) -> Column:
    x, y = _operands(a)
    return _bounded((x + y).cast(_WHOLE), a)


def _subtract(a: Arguments) -> Column:
    x, y = _operands(a)
    return _bounded((x - y).cast(_WHOLE), a)


def _multiply(a: Arguments) -> Column:
    x, y = _operands(a)
    # A product of more than 38 digits is beyond every range, as is the greatest number of 38 digits.
    product = F.coalesce(F.try_multiply(x, y).cast(_WHOLE), _number(10**38 - 1))
    return _bounded(F.when(x.isNotNull() & y.isNotNull(), product), a)


def _divide(a: Arguments) -> Column:
    x, y = _operands(a)
    if a.option("ON_DIVISION_BY_ZERO") == "NULL":
        y = F.when(y != _number(0), y)
    # The dividend without its rest, so that the quotient is whole.
    return ((x - x % y) / y).cast(_OPERAND)


UNSIGNED: dict[str, Builder] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
}
