"""Build functions of text and of lists."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from string import ascii_lowercase, ascii_uppercase

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.spark.functions.parts import Arguments, Builder, plain
from substrait_agg.spark.functions.regex import any_case, literal_replacement, quote


def _sort(args: Arguments) -> Column:
    """Sort elements in Spark's order: NaN is the greatest float, text is ordered by UTF-8 bytes."""
    direction = args.option("DIRECTION", "ASC_NULLS_LAST")
    if direction == "ASC_NULLS_FIRST":
        return F.sort_array(args[0], asc=True)
    if direction == "DESC_NULLS_LAST":
        return F.sort_array(args[0], asc=False)
    ascending = F.array_sort(args[0])
    return F.reverse(ascending) if direction == "DESC_NULLS_FIRST" else ascending


def _string_split(args: Arguments) -> Column:
    """Split a text at a separator; if the separator is null or empty, the text is the only part."""
    parts = F.split(args[0], quote(args[1]), -1)
    whole = F.array(args[0])
    return F.when(args[0].isNotNull(), F.when(F.length(args[1]) > 0, parts).otherwise(whole))


def _index_in(args: Arguments) -> Column:
    """Return the index of the first equal element, from 0; null if there is none.

    NaN equals NaN, unless the option NAN_EQUALITY is NAN_IS_NOT_NAN; -0.0 equals 0.0.
    """
    place = F.array_position(args[1], args[0])
    index = F.when(place > 0, place - 1)
    floats = args.type(0).kind in ("fp32", "fp64")
    if floats and args.option("NAN_EQUALITY") == "NAN_IS_NOT_NAN":
        return F.when(~F.isnan(args[0]), index)
    return index


def _list_element(args: Arguments) -> Column:
    """Return an element by its position from 1, or from -1 at the end; null if there is none."""
    place = _count(args[1])
    return F.when(place != 0, F.try_element_at(args[0], place))


def _list_contains(args: Arguments) -> Column:
    """Return whether an element equals a value, also NaN; false if others are null."""
    return F.array_position(args[0], args[1]) > 0


def _map_value(args: Arguments) -> Column:
    return F.try_element_at(args[0], args[1])


LISTS: dict[str, Builder] = {
    "sort": _sort,
    "string_split": _string_split,
    "index_in": _index_in,
    "list_element": _list_element,
    "list_contains": _list_contains,
    "map_value": _map_value,
}


_LONGEST = 2**31 - 1
NO_ESCAPE = "\uffff"
"""A noncharacter of Unicode. It is the escape character of `like` if none is given, because Spark's
default is a backslash."""


def _count(column: Column) -> Column:
    """Convert an integer of any width to an int, limited to the range of lengths."""
    wide = column.cast("bigint")
    cut = F.least(F.greatest(wide, F.lit(-_LONGEST)), F.lit(_LONGEST))
    return F.when(wide.isNotNull(), cut).cast("int")


def _substring(args: Arguments) -> Column:
    start = args[1].cast("bigint")
    length = args[2].cast("bigint") if len(args) > 2 else F.when(start.isNotNull(), F.lit(_LONGEST))
    if args.option("NEGATIVE_START", "LEFT_OF_BEGINNING") == "WRAP_FROM_END":
        return F.substr(args[0], _count(start), _count(length))
    first = F.greatest(start, F.lit(1))
    # Positions before the first character count towards the length, if there is a length.
    remaining = _left_over(start, length) if len(args) > 2 else length
    part = F.substr(args[0], _count(first), _count(remaining))
    return F.when(start.isNotNull() & length.isNotNull(), part)


def _left_over(start: Column, length: Column) -> Column:
    """Return the part of a length that begins at the first character, without overflows."""
    positive_length = F.greatest(length, F.lit(0))
    used = F.greatest(positive_length + F.least(start, F.lit(0)), F.lit(1)) - F.lit(1)
    return F.when(start >= 1, positive_length).otherwise(used)


def _part(args: Arguments, *, left: bool) -> Column:
    """Return the first or last characters.

    A negative count removes that many characters at the other end, as in PostgreSQL.
    """
    count = _count(args[1])
    if left:
        rest = F.left(args[0], F.greatest(F.char_length(args[0]) + count, F.lit(0)))
        return F.when(count < 0, rest).otherwise(F.left(args[0], count))
    rest = F.substr(args[0], _count(F.lit(1) - F.least(count.cast("bigint"), F.lit(0))))
    return F.when(count < 0, rest).otherwise(F.right(args[0], count))


_SMALL, _LARGE = ascii_lowercase, ascii_uppercase


def _ascii_only(args: Arguments) -> bool:
    return args.option("CHAR_SET") == "ASCII_ONLY"


def ascii_lower(column: Column) -> Column:
    """Return the text with only the letters A to Z converted to lower case."""
    return F.translate(column, _LARGE, _SMALL)


def _upper(args: Arguments, column: Column) -> Column:
    return F.translate(column, _SMALL, _LARGE) if _ascii_only(args) else F.upper(column)


def _lower(args: Arguments, column: Column) -> Column:
    return ascii_lower(column) if _ascii_only(args) else F.lower(column)


def _first_upper(args: Arguments, column: Column) -> Column:
    return F.concat(_upper(args, F.left(column, F.lit(1))), F.substr(column, F.lit(2)))


def _initcap(args: Arguments) -> Column:
    """Capitalise words, runs of letters and digits; Spark's function splits at blanks only."""
    # Each piece ends with a separator: "it's a" gives "it'", "s " and "a".
    pieces = F.split(_lower(args, args[0]), r"(?<=[^\p{L}\p{M}\p{N}])")
    return F.array_join(F.transform(pieces, lambda p: _first_upper(args, p)), "")


def _capitalize(args: Arguments) -> Column:
    """Convert the first character to upper case; the others stay."""
    return _first_upper(args, args[0])


def _swapcase(args: Arguments) -> Column:
    """Swap the case of each letter; characters without case stay."""
    if _ascii_only(args):
        return F.translate(args[0], _SMALL + _LARGE, _LARGE + _SMALL)
    characters = F.regexp_extract_all(args[0], F.lit("(?s)(.)"), F.lit(1))

    def swap(character: Column) -> Column:
        """Return the character in the other case."""
        small = F.when(F.rlike(character, F.lit(r"\p{IsLowercase}")), F.upper(character)).otherwise(
            character
        )
        return F.when(F.rlike(character, F.lit(r"\p{IsUppercase}")), F.lower(character)).otherwise(
            small
        )

    return F.array_join(F.transform(characters, swap), "")


def _count_substring(args: Arguments) -> Column:
    """Count occurrences that do not overlap, from the left.

    An empty text occurs before and after each character.
    """
    text, part = _comparable(args)
    rest = F.replace(text, part, F.lit(""))
    removed_bytes = F.octet_length(text) - F.octet_length(rest)
    count = F.call_function("div", removed_bytes, F.greatest(F.octet_length(part), F.lit(1)))
    return F.when(F.octet_length(part) == 0, F.char_length(text) + 1).otherwise(count)


def _replace_slice(args: Arguments) -> Column:
    """Replace a slice of a text; null if the slice starts outside or has a negative length."""
    start, length = args[1].cast("bigint"), args[2].cast("bigint")
    inside = (start >= 1) & (start <= F.char_length(args[0])) & (length >= 0)
    # The limit prevents an overflow of the sum. A slice beyond the end stops at the end.
    after = start + F.least(length, F.lit(_LONGEST).cast("bigint"))
    head = F.left(args[0], _count(start - 1))
    return F.when(inside, F.concat(head, args[3], F.substr(args[0], _count(after))))


def _center(args: Arguments) -> Column:
    missing = F.greatest(_count(args[1]) - F.char_length(args[0]), F.lit(0))
    # Spark's greatest skips nulls.
    missing = F.when(args[0].isNotNull() & args[1].isNotNull(), missing)
    smaller = F.call_function("div", missing, F.lit(2)).cast("int")
    left = smaller if args.option("PADDING", "RIGHT") == "RIGHT" else missing - smaller
    return F.concat(F.repeat(args[2], left), args[0], F.repeat(args[2], missing - left))


def _like(args: Arguments) -> Column:
    ignore = args.call.function == "ilike" or args.option("CASE_SENSITIVITY") == "CASE_INSENSITIVE"
    match = F.ilike if ignore else F.like
    if len(args) == 2:
        text, like_pattern = (args[0], args[1]) if ignore else _comparable(args)
        return match(text, like_pattern, F.lit(NO_ESCAPE))
    escape = str(args.constant(2))
    like_pattern = _escaped_fully(args[1], escape)
    if args.option("CASE_SENSITIVITY") == "CASE_INSENSITIVE_ASCII":
        # The escape character may be a letter, so another one replaces it before the case changes.
        pairs = F.regexp_replace(like_pattern, f"(?s)\\x{{{ord(escape):x}}}(.)", NO_ESCAPE + "$1")
        plain = F.call_function("replace", pairs, F.lit(NO_ESCAPE + escape), F.lit(escape))
        return match(ascii_lower(args[0]), ascii_lower(plain), F.lit(NO_ESCAPE))
    return match(args[0], like_pattern, F.lit(escape))


def _escaped_fully(pattern: Column, escape: str) -> Column:
    """Return the pattern with the escape character only before wildcards and itself.

    Spark requires this form. Before any other character the escape character is dropped. At the end
    of the pattern it is doubled, so that it matches itself.
    """
    mark = f"\\x{{{ord(escape):x}}}"
    doubled = "$1" + f"\\{escape}" * 2
    ended = F.regexp_replace(pattern, rf"(?s)^((?:[^{mark}]|{mark}.)*+){mark}\z", doubled)
    return F.regexp_replace(ended, f"({mark}[%_{mark}])|{mark}", "$1")


def _comparable(args: Arguments) -> tuple[Column, Column]:
    """Return the first two arguments, in lower case if the option ignores case."""
    change = {"CASE_INSENSITIVE": F.lower, "CASE_INSENSITIVE_ASCII": ascii_lower}.get(
        args.option("CASE_SENSITIVITY")
    )
    return (args[0], args[1]) if change is None else (change(args[0]), change(args[1]))


def _search(function: Callable[[Column, Column], Column]) -> Builder:
    return lambda args: function(*_comparable(args))


def _strpos(args: Arguments) -> Column:
    if args.option("CASE_SENSITIVITY") != "CASE_INSENSITIVE":
        text, part = _comparable(args)
        return F.call_function("position", part, text)
    # Lower case can change the number of characters, so count the original ones before the match.
    expression = any_case(args[1])
    before = F.call_function(
        "regexp_extract", args[0], F.concat(F.lit("(?s)^(.*?)"), expression), F.lit(1)
    )
    return F.when(F.rlike(args[0], expression), F.char_length(before) + 1).otherwise(
        F.when(args[0].isNotNull() & args[1].isNotNull(), F.lit(0))
    )


def _replace(args: Arguments) -> Column:
    if args.option("CASE_SENSITIVITY", "CASE_SENSITIVE") == "CASE_SENSITIVE":
        return F.call_function("replace", *args.columns)
    expression = any_case(
        args[1], ascii_only=args.option("CASE_SENSITIVITY") == "CASE_INSENSITIVE_ASCII"
    )
    replaced = F.regexp_replace(args[0], expression, literal_replacement(args[2]))
    # An empty search text replaces nothing.
    return F.when(F.octet_length(args[1]) == 0, F.when(args[2].isNotNull(), args[0])).otherwise(
        replaced
    )


def _pad(args: Arguments, *, name: str) -> Column:
    filler = args[2] if len(args) > 2 else F.lit(" ")
    return F.call_function(name, args[0], _count(args[1]), filler)


def _concat(args: Arguments) -> Column:
    if args.option("NULL_HANDLING", "ACCEPT_NULLS") == "IGNORE_NULLS":
        return F.concat(*(F.coalesce(c, F.lit("")) for c in args.columns))
    return F.concat(*args.columns)


def _split_part(args: Arguments) -> Column:
    """Return a part of a text by its position from 1, or from -1 at the end; empty if there is none.

    An empty separator does not split. Position 0 fails.
    """
    return F.split_part(args[0], args[1], _count(args[2]))


TEXT: dict[str, Builder] = {
    "split_part": _split_part,
    "upper": lambda args: _upper(args, args[0]),
    "lower": lambda args: _lower(args, args[0]),
    "initcap": _initcap,
    "substring": _substring,
    "left": lambda args: _part(args, left=True),
    "right": lambda args: _part(args, left=False),
    "like": _like,
    "ilike": _like,
    "starts_with": _search(F.startswith),
    "ends_with": _search(F.endswith),
    "contains": _search(F.contains),
    "strpos": _strpos,
    "ltrim": plain(F.ltrim),
    "rtrim": plain(F.rtrim),
    "trim": plain(F.trim),
    "lpad": partial(_pad, name="lpad"),
    "rpad": partial(_pad, name="rpad"),
    "replace": _replace,
    "repeat": lambda args: F.repeat(args[0], _count(args[1])),
    "concat": _concat,
    "swapcase": _swapcase,
    "capitalize": _capitalize,
    "count_substring": _count_substring,
    "replace_slice": _replace_slice,
    "center": _center,
}
