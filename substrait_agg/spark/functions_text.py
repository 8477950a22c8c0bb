"""Functions of strings. Positions and lengths count code points, from 1; blanks are spaces only."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.spark.parts import Arguments, Builder, plain
from substrait_agg.spark.patterns import pattern

_LONGEST = 2**31 - 1
NO_ESCAPE = "\uffff"
"""Unicode's own word for "not a character": `like` has no escape character unless one is given."""


def _count(column: Column) -> Column:
    """An integer of any width as an int, cut to what lengths can be."""
    wide = column.cast("bigint")
    cut = F.least(F.greatest(wide, F.lit(-_LONGEST)), F.lit(_LONGEST))
    return F.when(wide.isNotNull(), cut).cast("int")


def _substring(a: Arguments) -> Column:
    start = a[1].cast("bigint")
    length = a[2].cast("bigint") if len(a) > 2 else F.when(start.isNotNull(), F.lit(_LONGEST))
    if a.option("NEGATIVE_START", "LEFT_OF_BEGINNING") == "WRAP_FROM_END":
        return F.substr(a[0], _count(start), _count(length))
    first = F.greatest(start, F.lit(1))
    # Characters left of the beginning use up the length; without a length there is nothing to use up.
    kept = _left_over(start, length) if len(a) > 2 else length
    found = F.substr(a[0], _count(first), _count(kept))
    return F.when(start.isNotNull() & length.isNotNull(), found)


def _left_over(start: Column, length: Column) -> Column:
    """The length from the first character on; no sum of 64-bit numbers is taken that could overflow."""
    asked = F.greatest(length, F.lit(0))
    used = F.greatest(asked + F.least(start, F.lit(0)), F.lit(1)) - F.lit(1)
    return F.when(start >= 1, asked).otherwise(used)


def _part(a: Arguments, *, left: bool) -> Column:
    """The first or last characters; a negative count leaves off that many at the other end, as in PostgreSQL."""
    count = _count(a[1])
    if left:
        rest = F.left(a[0], F.greatest(F.char_length(a[0]) + count, F.lit(0)))
        return F.when(count < 0, rest).otherwise(F.left(a[0], count))
    rest = F.substr(a[0], _count(F.lit(1) - F.least(count.cast("bigint"), F.lit(0))))
    return F.when(count < 0, rest).otherwise(F.right(a[0], count))


def _initcap(a: Arguments) -> Column:
    """Words are runs of letters and digits, where Spark's own function sees them between blanks only."""
    # Pieces end with a separator: "it's a" has "it'", "s " and "a".
    pieces = F.split(F.lower(a[0]), r"(?<=[^\p{L}\p{M}\p{N}])")
    whole = F.transform(
        pieces, lambda p: F.concat(F.upper(F.left(p, F.lit(1))), F.substr(p, F.lit(2)))
    )
    return F.array_join(whole, "")


def _like(a: Arguments) -> Column:
    ignore = a.call.function == "ilike" or a.option("CASE_SENSITIVITY") == "CASE_INSENSITIVE"
    match = F.ilike if ignore else F.like
    if len(a) == 2:
        return match(a[0], a[1], F.lit(NO_ESCAPE))
    escape = str(a.constant(2))
    return match(a[0], _escaped_fully(a[1], escape), F.lit(escape))


def _escaped_fully(pattern: Column, escape: str) -> Column:
    """The pattern with the escape character before wildcards and itself only, as Spark demands.

    Elsewhere it stands for the character after it, and at the end for itself.
    """
    mark = f"\\x{{{ord(escape):x}}}"
    doubled = "$1" + f"\\{escape}" * 2
    ended = F.regexp_replace(pattern, rf"(?s)^((?:[^{mark}]|{mark}.)*+){mark}\z", doubled)
    return F.regexp_replace(ended, f"({mark}[%_{mark}])|{mark}", "$1")


def _search(function: Callable[[Column, Column], Column]) -> Builder:
    def build(a: Arguments) -> Column:
        if a.option("CASE_SENSITIVITY") == "CASE_INSENSITIVE":
            return function(F.lower(a[0]), F.lower(a[1]))
        return function(a[0], a[1])

    return build


def _padded(name: str) -> Builder:
    def build(a: Arguments) -> Column:
        filler = a[2] if len(a) > 2 else F.lit(" ")
        return F.call_function(name, a[0], _count(a[1]), filler)

    return build


def _concat(a: Arguments) -> Column:
    if a.option("NULL_HANDLING", "ACCEPT_NULLS") == "IGNORE_NULLS":
        return F.concat(*(F.coalesce(c, F.lit("")) for c in a.columns))
    return F.concat(*a.columns)


TEXT: dict[str, Builder] = {
    "upper": plain(F.upper),
    "lower": plain(F.lower),
    "initcap": _initcap,
    "reverse": plain(F.reverse),
    "substring": _substring,
    "left": lambda a: _part(a, left=True),
    "right": lambda a: _part(a, left=False),
    "like": _like,
    "ilike": _like,
    "starts_with": _search(F.startswith),
    "ends_with": _search(F.endswith),
    "contains": _search(F.contains),
    "strpos": lambda a: F.call_function("position", a[1], a[0]),
    "ltrim": plain(F.ltrim),
    "rtrim": plain(F.rtrim),
    "trim": plain(F.trim),
    "lpad": _padded("lpad"),
    "rpad": _padded("rpad"),
    "replace": plain(F.replace),
    "repeat": lambda a: F.repeat(a[0], _count(a[1])),
    "char_length": plain(F.char_length),
    "octet_length": plain(F.octet_length),
    "bit_length": plain(F.bit_length),
    "concat": _concat,
    "concat_ws": lambda a: F.call_function("concat_ws", *a.columns),
    "regexp_count_substring": lambda a: F.regexp_count(a[0], pattern(a)),
    # Empty where nothing matches: the declared type has no null for it.
    "regexp_match_substring": lambda a: F.call_function(
        "regexp_extract", a[0], pattern(a), F.lit(0)
    ),
}
