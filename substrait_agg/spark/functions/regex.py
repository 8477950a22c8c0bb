"""Build functions of regular expressions.

The Substrait specification uses the syntax of ICU; Spark runs that of Java.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.bind.bound import Constant
from substrait_agg.functions.scalars.patterns import ANY_DIFFERENCE, REPLACEMENT_PARTS
from substrait_agg.spark.functions.parts import Arguments, Builder, failure
from substrait_agg.spark.types.decimals import let

_FLAGS = {
    ("CASE_SENSITIVITY", "CASE_INSENSITIVE"): "i",
    ("CASE_SENSITIVITY", "CASE_INSENSITIVE_ASCII"): "i",
    ("MULTILINE", "MULTILINE_ENABLED"): "m",
    ("DOTALL", "DOTALL_ENABLED"): "s",
}

_AT_CHARACTER = r"(?![\x{DC00}-\x{DFFF}])"
"""Prevents empty matches inside a surrogate pair, which Java finds and ICU does not."""


def pattern(a: Arguments, ordinal: int = 1) -> Column:
    r"""Return the pattern of an argument with the options of the call.

    ``\w``, ``\d``, ``\b`` and ``\s`` follow Unicode, as in ICU. Constant patterns are checked with
    the plan. Any other pattern that ICU and Java interpret differently fails the batch.
    """
    flags = "".join(f for (name, value), f in _FLAGS.items() if a.option(name) == value)
    if a.option("CASE_SENSITIVITY") == "CASE_INSENSITIVE_ASCII":
        # The flag U alone would ignore the case of all letters.
        flags += "-u"
    text = a[ordinal]
    if not isinstance(a.call.arguments[ordinal], Constant):
        what = "a regular expression has different meanings in ICU and Java"
        fault = failure("DOMAIN_ERROR", what).cast("string")
        text = F.when(F.rlike(text, F.lit(ANY_DIFFERENCE)), fault).otherwise(text)
    return F.concat(F.lit(f"(?U{flags}){_AT_CHARACTER}(?:"), text, F.lit(")"))


def quoted(column: Column) -> Column:
    """Return a pattern that matches exactly the text."""
    return F.regexp_replace(column, r"([^\p{L}\p{N}\s])", r"\\$1")


def any_case(column: Column, *, ascii_only: bool = False) -> Column:
    """Return a pattern that matches the text in any case."""
    return F.concat(F.lit("(?i:" if ascii_only else "(?iu:"), quoted(column), F.lit(")"))


def literal_replacement(column: Column) -> Column:
    """Return a Java replacement that inserts exactly the text."""
    return F.regexp_replace(column, r"([\\$])", r"\\$1")


_MARKS = ("\uffff", "\ufffe", *map(chr, range(0xFDD0, 0xFDF0)))
"""Noncharacters of Unicode, which are for internal use and should not occur in texts."""

_LONGEST = 2**31 - 1


def _position(column: Column) -> Column:
    """Convert a position to an int; fail if it is before the first character."""
    wide = column.cast("bigint")
    error = failure("DOMAIN_ERROR", "a position in a text is less than 1").cast("int")
    last = F.lit(_LONGEST)
    return F.when(wide < 1, error).when(wide > last, last).otherwise(wide.cast("int"))


def _rest(a: Arguments, ordinal: int) -> Column:
    """Return the text from the position in an argument on; the whole text without the argument."""
    return F.substr(a[0], _position(a[ordinal])) if len(a) > ordinal else a[0]


def _all_matches(a: Arguments, group: Column) -> Column:
    return F.call_function("regexp_extract_all", _rest(a, 2), pattern(a), group)


def _match_substring(a: Arguments) -> Column:
    # The declared type is not nullable, so the result is empty if nothing matches.
    if len(a) == 2:
        return F.call_function("regexp_extract", a[0], pattern(a), F.lit(0))
    match = F.coalesce(F.get(_all_matches(a, a[4].cast("int")), _nth(a[3])), F.lit(""))
    has_arguments = a[0].isNotNull() & a[1].isNotNull() & a[2].isNotNull() & a[4].isNotNull()
    return F.when(has_arguments & a[3].isNotNull(), match)


def _nth(occurrence: Column) -> Column:
    """Convert an occurrence, counted from 1, to an index from 0."""
    wide = F.least(occurrence.cast("bigint"), F.lit(_LONGEST).cast("bigint"))
    return (F.greatest(wide, F.lit(0)) - 1).cast("int")


def _count(a: Arguments) -> Column:
    return F.regexp_count(_rest(a, 2), pattern(a))


def _segments(text: Column, expression: Column, inside: Column) -> Column:
    """Return an array that alternates between the text outside of matches and each replaced match.

    Spark does not return the positions of matches. The function therefore surrounds each match with
    a mark that occurs neither in the text nor in the replacement, and splits the text at the marks.

    Args:
        text: the text.
        expression: the pattern.
        inside: the Java replacement of each match.
    """
    marks = F.array(*map(F.lit, _MARKS))
    free = F.filter(marks, lambda m: ~F.contains(text, m) & ~F.contains(inside, m))
    error = failure("DOMAIN_ERROR", "a text contains all noncharacters of Unicode").cast("string")
    mark = F.when(text.isNotNull() & inside.isNotNull(), F.coalesce(F.get(free, F.lit(0)), error))

    def cut(m: Column) -> Column:
        return F.split(F.regexp_replace(text, expression, F.concat(m, inside, m)), m, -1)

    return let(mark, cut)


def _strpos(a: Arguments) -> Column:
    text, nth = _rest(a, 2), _nth(a[3])
    segments = _segments(text, pattern(a), F.lit("$0"))

    def place(s: Column) -> Column:
        # The segments alternate: text, match, text, match, ..., text.
        before = F.slice(s, F.lit(1), nth.cast("int") * 2 + 1)
        length = F.aggregate(before, F.lit(0), lambda n, part: n + F.char_length(part))
        exists = (nth >= 0) & (nth.cast("bigint") < F.call_function("div", F.size(s), F.lit(2)))
        return F.when(exists, length + _position(a[2])).otherwise(F.lit(0))

    has_arguments = text.isNotNull() & a[1].isNotNull() & a[3].isNotNull()
    return F.when(has_arguments, let(segments, place))


def _replacement(a: Arguments) -> Column:
    r"""Convert a replacement to the syntax of Java, with ``$1`` instead of ``\1`` for a group."""
    text = a[2]
    if not isinstance(a.call.arguments[2], Constant):
        what = "a replacement contains a dollar sign or a backslash that is not part of a reference or an escape"
        fault = failure("DOMAIN_ERROR", what).cast("string")
        right = F.rlike(text, F.lit(rf"(?s)\A(?:{REPLACEMENT_PARTS})*+\z"))
        text = F.when(~right, fault).otherwise(text)
    return F.regexp_replace(text, r"\\([0-9])", "\\$$1")


def _replace(a: Arguments) -> Column:
    text, replacement = _rest(a, 3), _replacement(a)
    if len(a) == 3:
        return F.regexp_replace(text, pattern(a), replacement)
    head = F.left(a[0], _position(a[3]) - 1)
    every = F.regexp_replace(text, pattern(a), replacement)
    return F.concat(head, F.when(a[4] == 0, every).otherwise(_one_replaced(a, text, a[4])))


def _one_replaced(a: Arguments, text: Column, occurrence: Column) -> Column:
    replaced = _segments(text, pattern(a), _replacement(a))
    nth = _nth(occurrence)

    def joined(s: Column) -> Column:
        originals = _segments(text, pattern(a), F.lit("$0"))
        parts = F.transform(
            originals, lambda part, i: F.when(i == nth * 2 + 1, F.get(s, i)).otherwise(part)
        )
        return F.when(nth >= 0, F.array_join(parts, "")).otherwise(text)

    has_arguments = occurrence.isNotNull() & text.isNotNull() & a[2].isNotNull()
    return F.when(has_arguments, let(replaced, joined))


REGEX: dict[str, Builder] = {
    "regexp_match_substring": _match_substring,
    "regexp_match_substring_all": lambda a: _all_matches(a, a[3].cast("int")),
    "regexp_count_substring": _count,
    "regexp_strpos": _strpos,
    "regexp_replace": _replace,
    "regexp_replace_first": lambda a: _one_replaced(a, a[0], F.lit(1)),
    "regexp_string_split": lambda a: F.split(a[0], pattern(a), -1),
}
