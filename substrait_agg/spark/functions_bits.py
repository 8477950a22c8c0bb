"""Operations on the bits of integers, and of whole decimals as two's complement of 128 bits."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.spark import decimals
from substrait_agg.spark.parts import Arguments, Builder, plain

_WHOLE = "decimal(38,0)"
_HALF = "decimal(20,0)"

Operation = Callable[[Column, Column], Column]


def _number(value: int) -> Column:
    return F.lit(str(value)).cast(_HALF)


def _signed(half: Column) -> Column:
    """64 bits without sign as the bigint of the same bits."""
    wrapped = F.when(half >= _number(2**63), half - _number(2**64)).otherwise(half)
    return wrapped.cast("bigint")


def _unsigned(bits: Column) -> Column:
    """A bigint's bits as a number without sign."""
    wide = bits.cast(_HALF)
    return F.when(bits < 0, wide + _number(2**64)).otherwise(wide).cast(_HALF)


def _halves(x: Column) -> Column:
    """Upper and lower 64 bits of a decimal(38,0) as bigints: a struct of `high` and `low`."""
    minus = decimals.is_negative(x, (38, 0))
    # Of a negative number the complement is split: it never leaves the range of the type on the way.
    size = F.when(minus, F.lit("-1").cast(_WHOLE) - x).otherwise(x).cast(_WHOLE)

    def split(v: Column) -> Column:
        low = (v["size"] % _number(2**64)).cast(_HALF)
        high = ((v["size"] - low) / _number(2**64)).cast("bigint")
        return F.struct(v["minus"], high.alias("high"), low.alias("low"))

    def complemented(v: Column) -> Column:
        halves = {"high": v["high"], "low": _signed(v["low"])}
        return F.struct(
            *(
                F.when(v["minus"], F.bitwise_not(half)).otherwise(half).alias(name)
                for name, half in halves.items()
            )
        )

    parts = F.struct(minus.alias("minus"), size.alias("size"))
    return decimals.let(decimals.let(parts, split), complemented)


def _joined(high: Column, low: Column) -> Column:
    """The decimal(38,0) of two halves; fails where it has more digits."""

    def join(v: Column) -> Column:
        minus = v["high"] < 0
        upper, lower = (
            F.when(minus, F.bitwise_not(v[name])).otherwise(v[name]) for name in ("high", "low")
        )
        size = (upper.cast(_HALF) * _number(2**64) + _unsigned(lower)).cast(_WHOLE)
        return F.when(minus, (F.lit("-1").cast(_WHOLE) - size).cast(_WHOLE)).otherwise(size)

    return decimals.let(F.struct(high.alias("high"), low.alias("low")), join)


def _bitwise(operate: Operation) -> Builder:
    def build(a: Arguments) -> Column:
        if a.type(0).kind != "decimal":
            return operate(a[0], a[1])
        left, right = (_halves(c.cast(_WHOLE)) for c in a.columns)

        def both(v: Column) -> Column:
            x, y = v["x"], v["y"]
            return _joined(operate(x["high"], y["high"]), operate(x["low"], y["low"]))

        return decimals.let(F.struct(left.alias("x"), right.alias("y")), both)

    return build


BITS: dict[str, Builder] = {
    "bitwise_not": plain(F.bitwise_not),
    "bitwise_and": _bitwise(lambda x, y: x.bitwiseAND(y)),
    "bitwise_or": _bitwise(lambda x, y: x.bitwiseOR(y)),
    "bitwise_xor": _bitwise(lambda x, y: x.bitwiseXOR(y)),
}
