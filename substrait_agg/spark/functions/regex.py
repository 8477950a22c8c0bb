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


def pattern(args: Arguments, ordinal: int = 1) -> Column:
    r"""Return the pattern of an argument with the options of the call.

    ``\w``, ``\d``, ``\b`` and ``\s`` follow Unicode, as in ICU. Constant patterns are checked with
    the plan. Any other pattern that ICU and Java interpret differently fails the batch.
    """
    flags = "".join(f for (name, value), f in _FLAGS.items() if args.option(name) == value)
    if args.option("CASE_SENSITIVITY") == "CASE_INSENSITIVE_ASCII":
        # The flag U alone would ignore the case of all letters.
        flags += "-u"
    text = args[ordinal]
    if not isinstance(args.call.arguments[ordinal], Constant):
        what = "a regular expression has different meanings in ICU and Java"
        fault = failure("DOMAIN_ERROR", what).cast("string")
        text = F.when(F.rlike(text, F.lit(ANY_DIFFERENCE)), fault).otherwise(text)
    return F.concat(F.lit(f"(?U{flags}){_AT_CHARACTER}(?:"), text, F.lit(")"))


def quote(column: Column) -> Column:
    """Return a pattern that matches exactly the text."""
    return F.regexp_replace(column, r"([^\p{L}\p{N}\s])", r"\\$1")


def any_case(column: Column, *, ascii_only: bool = False) -> Column:
    """Return a pattern that matches the text in any case."""
    return F.concat(F.lit("(?i:" if ascii_only else "(?iu:"), quote(column), F.lit(")"))


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


def _rest(args: Arguments, ordinal: int) -> Column:
    """Return the text from the position in an argument on; the whole text without the argument."""
    return F.substr(args[0], _position(args[ordinal])) if len(args) > ordinal else args[0]


def _all_matches(args: Arguments, group: Column) -> Column:
    return F.call_function("regexp_extract_all", _rest(args, 2), pattern(args), group)


def _match_substring(args: Arguments) -> Column:
    # The declared type is not nullable, so the result is empty if nothing matches.
    if len(args) == 2:
        return F.call_function("regexp_extract", args[0], pattern(args), F.lit(0))
    match = F.coalesce(F.get(_all_matches(args, args[4].cast("int")), _nth(args[3])), F.lit(""))
    has_arguments = (
        args[0].isNotNull() & args[1].isNotNull() & args[2].isNotNull() & args[4].isNotNull()
    )
    return F.when(has_arguments & args[3].isNotNull(), match)


def _nth(occurrence: Column) -> Column:
    """Convert an occurrence, counted from 1, to an index from 0."""
    wide = F.least(occurrence.cast("bigint"), F.lit(_LONGEST).cast("bigint"))
    return (F.greatest(wide, F.lit(0)) - 1).cast("int")


def _segments(text: Column, expression: Column, inside: Column) -> Column:
    """Return an array that alternates between the text outside of matches and each replaced match.

    Spark does not return the positions of matches. The function therefore surrounds each match with
    a mark that occurs neither in the text nor in the replacement, and splits the text at the marks.
    """
    marks = F.array(*map(F.lit, _MARKS))
    free = F.filter(marks, lambda m: ~F.contains(text, m) & ~F.contains(inside, m))
    error = failure("DOMAIN_ERROR", "a text contains all noncharacters of Unicode").cast("string")
    mark = F.when(text.isNotNull() & inside.isNotNull(), F.coalesce(F.get(free, F.lit(0)), error))

    def cut(mark: Column) -> Column:
        return F.split(F.regexp_replace(text, expression, F.concat(mark, inside, mark)), mark, -1)

    return let(mark, cut)


def _strpos(args: Arguments) -> Column:
    text, nth = _rest(args, 2), _nth(args[3])
    segments = _segments(text, pattern(args), F.lit("$0"))

    def place(segments: Column) -> Column:
        """Return the position of the nth match, 0 without one."""
        # The segments alternate: text, match, text, match, ..., text.
        before = F.slice(segments, F.lit(1), nth.cast("int") * 2 + 1)
        length = F.aggregate(before, F.lit(0), lambda n, part: n + F.char_length(part))
        exists = (nth >= 0) & (
            nth.cast("bigint") < F.call_function("div", F.size(segments), F.lit(2))
        )
        return F.when(exists, length + _position(args[2])).otherwise(F.lit(0))

    has_arguments = text.isNotNull() & args[1].isNotNull() & args[3].isNotNull()
    return F.when(has_arguments, let(segments, place))


def _replacement(args: Arguments) -> Column:
    r"""Convert a replacement to the syntax of Java, with ``$1`` instead of ``\1`` for a group."""
    text = args[2]
    if not isinstance(args.call.arguments[2], Constant):
        what = "a replacement contains a dollar sign or a backslash that is not part of a reference or an escape"
        fault = failure("DOMAIN_ERROR", what).cast("string")
        right = F.rlike(text, F.lit(rf"(?s)\A(?:{REPLACEMENT_PARTS})*+\z"))
        text = F.when(~right, fault).otherwise(text)
    return F.regexp_replace(text, r"\\([0-9])", "\\$$1")


def _replace(args: Arguments) -> Column:
    text, replacement = _rest(args, 3), _replacement(args)
    if len(args) == 3:
        return F.regexp_replace(text, pattern(args), replacement)
    head = F.left(args[0], _position(args[3]) - 1)
    every = F.regexp_replace(text, pattern(args), replacement)
    return F.concat(head, F.when(args[4] == 0, every).otherwise(_one_replaced(args, text, args[4])))


def _one_replaced(args: Arguments, text: Column, occurrence: Column) -> Column:
    replaced = _segments(text, pattern(args), _replacement(args))
    nth = _nth(occurrence)

    def join(segments: Column) -> Column:
        """Return the text in which only the nth match is replaced."""
        originals = _segments(text, pattern(args), F.lit("$0"))
        parts = F.transform(
            originals, lambda part, i: F.when(i == nth * 2 + 1, F.get(segments, i)).otherwise(part)
        )
        return F.when(nth >= 0, F.array_join(parts, "")).otherwise(text)

    has_arguments = occurrence.isNotNull() & text.isNotNull() & args[2].isNotNull()
    return F.when(has_arguments, let(replaced, join))


REGEX: dict[str, Builder] = {
    "regexp_match_substring": _match_substring,
    "regexp_match_substring_all": lambda args: _all_matches(args, args[3].cast("int")),
    "regexp_count_substring": lambda args: F.regexp_count(_rest(args, 2), pattern(args)),
    "regexp_strpos": _strpos,
    "regexp_replace": _replace,
    "regexp_replace_first": lambda args: _one_replaced(args, args[0], F.lit(1)),
    "regexp_string_split": lambda args: F.split(args[0], pattern(args), -1),
}
