"""Build bitwise functions and arithmetic of unsigned integers.

Bitwise functions treat decimals as two's complement numbers of 128 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.spark.functions.parts import Arguments, Builder, plain
from substrait_agg.spark.types import decimals
from substrait_agg.spark.types.source_columns import in_range, integer_range

_WHOLE = "decimal(38,0)"
_HALF = "decimal(20,0)"

Operation = Callable[[Column, Column], Column]


def _number(value: int) -> Column:
    return F.lit(str(value)).cast(_HALF)


def _to_signed(half: Column) -> Column:
    """Convert an unsigned 64-bit number to the bigint of the same bits."""
    wrapped = F.when(half >= _number(2**63), half - _number(2**64)).otherwise(half)
    return wrapped.cast("bigint")


def _to_unsigned(bits: Column) -> Column:
    """Convert a bigint to the unsigned number of the same bits."""
    wide = bits.cast(_HALF)
    return F.when(bits < 0, wide + _number(2**64)).otherwise(wide).cast(_HALF)


def _halves(x: Column) -> Column:
    """Return upper and lower 64 bits of a decimal(38,0): a struct of bigints `high` and `low`."""
    minus = decimals.is_negative(x, (38, 0))
    # For a negative number, split the complement, which stays within the range of the type.
    size = F.when(minus, F.lit("-1").cast(_WHOLE) - x).otherwise(x).cast(_WHOLE)

    def split(values: Column) -> Column:
        """Return the sign and the halves of the magnitude."""
        low = (values["size"] % _number(2**64)).cast(_HALF)
        high = ((values["size"] - low) / _number(2**64)).cast("bigint")
        return F.struct(values["minus"], high.alias("high"), low.alias("low"))

    def complement(values: Column) -> Column:
        """Return the halves of a negative number in two's complement."""
        halves = {"high": values["high"], "low": _to_signed(values["low"])}
        return F.struct(
            *(
                F.when(values["minus"], F.bitwise_not(half)).otherwise(half).alias(name)
                for name, half in halves.items()
            )
        )

    parts = F.struct(minus.alias("minus"), size.alias("size"))
    return decimals.let(decimals.let(parts, split), complement)


def _join(high: Column, low: Column) -> Column:
    """Return the decimal(38,0) of two halves; fail if it has more digits."""

    def join(values: Column) -> Column:
        """Return the number of two halves in two's complement."""
        minus = values["high"] < 0
        upper, lower = (
            F.when(minus, F.bitwise_not(values[name])).otherwise(values[name])
            for name in ("high", "low")
        )
        size = (upper.cast(_HALF) * _number(2**64) + _to_unsigned(lower)).cast(_WHOLE)
        return F.when(minus, (F.lit("-1").cast(_WHOLE) - size).cast(_WHOLE)).otherwise(size)

    return decimals.let(F.struct(high.alias("high"), low.alias("low")), join)


def _bitwise(args: Arguments, *, operate: Operation) -> Column:
    """Apply the operation to integers, or to both halves of decimals."""
    if args.type(0).kind != "decimal":
        return operate(args[0], args[1])
    left, right = (_halves(c.cast(_WHOLE)) for c in args.columns)

    def both(values: Column) -> Column:
        """Apply the operation to both halves."""
        x, y = values["x"], values["y"]
        return _join(operate(x["high"], y["high"]), operate(x["low"], y["low"]))

    return decimals.let(F.struct(left.alias("x"), right.alias("y")), both)


BITS: dict[str, Builder] = {
    "bitwise_not": plain(F.bitwise_not),
    "bitwise_and": partial(_bitwise, operate=lambda x, y: x.bitwiseAND(y)),
    "bitwise_or": partial(_bitwise, operate=lambda x, y: x.bitwiseOR(y)),
    "bitwise_xor": partial(_bitwise, operate=lambda x, y: x.bitwiseXOR(y)),
}


_OPERAND = "decimal(20,0)"
_UNSIGNED_WHOLE = "decimal(38,0)"


def _unsigned_number(value: int) -> Column:
    return F.lit(str(value)).cast(_UNSIGNED_WHOLE)


def _operands(args: Arguments) -> tuple[Column, Column]:
    return args[0].cast(_OPERAND), args[1].cast(_OPERAND)


def _bound(exact: Column, args: Arguments) -> Column:
    """Return an exact result bounded to its type by the option OVERFLOW."""
    low, high = integer_range(args.call.type.kind)
    overflow = args.option("OVERFLOW", "ERROR")
    if overflow == "ERROR":
        return in_range(exact, args.call.type, f"a result of {args.call.function}")
    if overflow == "SATURATE":
        bounded = F.least(F.greatest(exact, _unsigned_number(low)), _unsigned_number(high))
    else:
        bounded = F.pmod(exact, _unsigned_number(high + 1))
    # Spark's least and greatest skip nulls.
    return F.when(exact.isNotNull(), bounded)


def _add(args: Arguments) -> Column:
    x, y = _operands(args)
    return _bound((x + y).cast(_UNSIGNED_WHOLE), args)


def _subtract(args: Arguments) -> Column:
    x, y = _operands(args)
    return _bound((x - y).cast(_UNSIGNED_WHOLE), args)


def _multiply(args: Arguments) -> Column:
    x, y = _operands(args)
    # A product of more than 38 digits is out of every range, like the greatest number of 38 digits.
    product = F.coalesce(F.try_multiply(x, y).cast(_UNSIGNED_WHOLE), _unsigned_number(10**38 - 1))
    return _bound(F.when(x.isNotNull() & y.isNotNull(), product), args)


def _divide(args: Arguments) -> Column:
    x, y = _operands(args)
    if args.option("ON_DIVISION_BY_ZERO") == "NULL":
        y = F.when(y != _unsigned_number(0), y)
    # Subtracting the remainder first makes the quotient a whole number.
    return ((x - x % y) / y).cast(_OPERAND)


UNSIGNED_CALLS: dict[str, Builder] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
}
