"""Compute functions of text. They compare bytes and count characters (code points)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.bind.bound import Call
from substrait_agg.evaluation.columns import null_unless
from substrait_agg.evaluation.kernels import (
    Kernel,
    KernelArguments,
    Kernels,
    constant_of,
    constants_after_first,
    option,
    with_options,
)

TEXTS = ("string", "varchar", "fixedchar")
NO_ESCAPE = "\uffff"
"""The noncharacter that Spark gets as escape character if a LIKE has none."""
_LONGEST = 2**31 - 1
"""Spark's greatest length of a text."""


def _is_text(call: Call) -> bool:
    return call.arguments[0].type.kind in TEXTS


def characters(column: pa.Array) -> pa.Array:
    """Return the column; fail if a text is not valid UTF-8, where characters are undefined."""
    column.validate(full=True)
    return column


def _all_texts(call: Call) -> bool:
    return all(a.type.kind in TEXTS for a in call.arguments)


_CASE_SENSITIVE = with_options(_all_texts, case_sensitivity=("CASE_SENSITIVE",))
_SEARCH = constants_after_first(_CASE_SENSITIVE)


def _search(find: Callable[..., pa.Array]) -> tuple[Kernel, ...]:
    return (Kernel(_SEARCH, lambda args: find(args[0], args.constant(1))),)


# --- LIKE ---------------------------------------------------------------------------------------


def _pieces(pattern: str, escape: str | None) -> list[tuple[bool, str]]:
    """Split a pattern into characters, each with a flag for wildcards.

    The escape character before any character makes that a plain one. At the end of the pattern it
    is a plain character.
    """
    pieces, escaped = [], False
    for character in pattern:
        if character == escape and not escaped:
            escaped = True
            continue
        pieces.append((character in "%_" and not escaped, character))
        escaped = False
    return [*pieces, (False, escape)] if escaped and escape else pieces


def like_test(pattern: str, escape: str | None) -> Callable[[pa.Array], pa.Array]:
    """Return the test whether texts match a pattern of LIKE."""
    pieces = _pieces(pattern, escape)
    inner = list(pieces)
    begins = bool(inner) and inner[0] == (True, "%")
    inner = inner[1:] if begins else inner
    ends = bool(inner) and inner[-1] == (True, "%")
    inner = inner[:-1] if ends else inner
    if any(wild for wild, _ in inner):
        return partial(_matches, _regex(pieces))
    text = "".join(character for _, character in inner)
    if begins and (ends or not text):
        return lambda column: pc.match_substring(column, text)
    if begins:
        return lambda column: pc.ends_with(column, text)
    if ends:
        return lambda column: pc.starts_with(column, text)
    return lambda column: pc.equal(column, pa.scalar(text))


_WILD = {"%": ".*", "_": "."}


def _regex(pieces: list[tuple[bool, str]]) -> str:
    body = "".join(_WILD[c] if wild else _quote(c) for wild, c in pieces)
    return rf"(?s)\A{body}\z"


def _quote(character: str) -> str:
    plain = character.isascii() and re.fullmatch("[A-Za-z0-9 ]", character)
    return character if plain else rf"\x{{{ord(character):x}}}"


def _matches(regex: str, column: pa.Array) -> pa.Array:
    return pc.match_substring_regex(characters(column), regex)


def _can_match(call: Call) -> bool:
    if not _SEARCH(call) or NO_ESCAPE in constant_of(call, 1):
        return False
    try:
        like_test(constant_of(call, 1), constant_of(call, 2))(pa.array([], pa.string()))
    except pa.ArrowInvalid:  # the pattern is too long for the regular expressions of Arrow
        return False
    return True


def _like(args: KernelArguments) -> pa.Array:
    return like_test(args.constant(1), args.constant(2))(args[0])


# --- parts of texts -----------------------------------------------------------------------------


def slice_text(column: pa.Array, first: int, length: int) -> pa.Array:
    """Return `length` characters from ordinal `first` on, counted from 0."""
    if length <= 0:
        return pc.if_else(pc.is_valid(column), pa.scalar("", column.type), column)
    return pc.utf8_slice_codeunits(characters(column), first, min(first + length, _LONGEST))


def _substring(args: KernelArguments) -> pa.Array:
    start = args.constant(1)
    if len(args) < 3:
        return slice_text(args[0], min(max(start, 1), _LONGEST) - 1, _LONGEST)
    count = max(args.constant(2), 0)
    # Positions before the first character count towards the length.
    length = count if start >= 1 else max(count + start, 1) - 1
    return slice_text(args[0], min(max(start, 1), _LONGEST) - 1, length)


def _can_cut(call: Call) -> bool:
    """Return whether the number of characters is not negative."""
    count = constant_of(call, 1)
    return _is_text(call) and count is not None and count >= 0


def _right(args: KernelArguments) -> pa.Array:
    count = min(args.constant(1), _LONGEST)
    if not count:
        return slice_text(args[0], 0, 0)
    return pc.utf8_slice_codeunits(characters(args[0]), -count)


_SLICES = constants_after_first(with_options(_is_text, negative_start=("LEFT_OF_BEGINNING",)))
_ASCII = with_options(_is_text, char_set=("UTF8", "ASCII_ONLY"))


def _ascii_only(call: Call) -> bool:
    return _ASCII(call) and option(call, "CHAR_SET") == "ASCII_ONLY"


def _to_case(convert: Callable[[pa.Array], pa.Array]) -> tuple[Kernel, ...]:
    """Return the kernels of `upper` and `lower`: other letters than those of ASCII are left to Spark."""

    def convert_plain(args: KernelArguments) -> pa.Array:
        """Convert texts; fail if one has other characters than those of ASCII."""
        if pc.all(pc.string_is_ascii(args[0])).as_py() is False:
            raise pa.ArrowInvalid("a text has other characters than those of ASCII")
        return convert(args[0])

    return (
        Kernel(_ascii_only, lambda args: convert(args[0])),
        Kernel(_ASCII, convert_plain, all_values=False),
    )


def _join(args: KernelArguments) -> pa.Array:
    parts = args.columns
    if option(args.call, "NULL_HANDLING", "ACCEPT_NULLS") == "IGNORE_NULLS":
        parts = tuple(pc.fill_null(part, "") for part in parts)
    return pc.binary_join_element_wise(*parts, pa.scalar(""))


def _can_replace(call: Call) -> bool:
    return constants_after_first(_CASE_SENSITIVE)(call) and constant_of(call, 1) != ""


def _can_split(call: Call) -> bool:
    separator, place = (constant_of(call, i) for i in (1, 2))
    return _is_text(call) and bool(separator) and bool(place)


def _split_part(args: KernelArguments) -> pa.Array:
    """Return a part of each text by its position, counted from the end if it is negative; empty without one."""
    parts, place = pc.split_pattern(args[0], args.constant(1)), args.constant(2)
    first, end = (
        parts.offsets.to_numpy()[edge].astype(np.int64) for edge in (np.s_[:-1], np.s_[1:])
    )
    at = first + place - 1 if place > 0 else end + place
    inside = (first <= at) & (at < end)
    text = pc.fill_null(parts.values.take(pa.array(at, mask=~inside)), "")
    return null_unless(pc.is_valid(args[0]), text)


def _count(measure: Callable[[pa.Array], pa.Array], factor: int = 1) -> tuple[Kernel, ...]:
    def compute(args: KernelArguments) -> pa.Array:
        """Return the count as an integer of the type of the result."""
        counts = pc.cast(measure(args[0]), pa.int64())
        return pc.cast(pc.multiply_checked(counts, pa.scalar(factor, pa.int64())), args.result)

    return (Kernel(_is_text, compute),)


def _to_trimming(trim: Callable[..., pa.Array]) -> tuple[Kernel, ...]:
    def takes(call: Call) -> bool:
        return _is_text(call) and len(call.arguments) == 1

    return (Kernel(takes, lambda args: trim(args[0], " ")),)


TEXT: Kernels = {
    "like": (Kernel(_can_match, _like),),
    "starts_with": _search(pc.starts_with),
    "ends_with": _search(pc.ends_with),
    "contains": _search(pc.match_substring),
    "substring": (Kernel(_SLICES, _substring),),
    "left": (Kernel(_can_cut, lambda args: slice_text(args[0], 0, args.constant(1))),),
    "right": (Kernel(_can_cut, _right),),
    "upper": _to_case(pc.ascii_upper),
    "lower": _to_case(pc.ascii_lower),
    "concat": (Kernel(_all_texts, _join),),
    "replace": (
        Kernel(
            _can_replace,
            lambda args: pc.replace_substring(args[0], args.constant(1), args.constant(2)),
        ),
    ),
    "split_part": (Kernel(_can_split, _split_part),),
    "trim": _to_trimming(pc.ascii_trim),
    "ltrim": _to_trimming(pc.ascii_ltrim),
    "rtrim": _to_trimming(pc.ascii_rtrim),
    "char_length": _count(lambda x: pc.utf8_length(characters(x))),
    "octet_length": _count(pc.binary_length),
    "bit_length": _count(pc.binary_length, 8),
}
