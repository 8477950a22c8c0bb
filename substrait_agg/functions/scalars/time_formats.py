"""Parse formats of ``strftime`` and ``strptime``, as man7.org describes them for the C locale.

A format is parsed once, when the plan is checked. Spark expressions are built from its pieces.

Source: https://man7.org/linux/man-pages/man3/strftime.3.html and strptime.3.html.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")

_COMPOSED: Mapping[str, str] = {
    "D": "%m/%d/%y",
    "F": "%Y-%m-%d",
    "R": "%H:%M",
    "T": "%H:%M:%S",
    "r": "%I:%M:%S %p",
    "c": "%a %b %e %H:%M:%S %Y",
    "x": "%m/%d/%y",
    "X": "%H:%M:%S",
    "h": "%b",
}
"""Conversion -> its expansion in the C locale."""

_PLAIN: Mapping[str, str] = {"n": "\n", "t": "\t", "%": "%"}

_OF_DATES = frozenset("YmdeyCjaAbBuwUWVGg")
_OF_TIMES = frozenset("HMSIklpP")
_OF_INSTANTS = frozenset("sz")

WRITTEN: Mapping[str, frozenset[str]] = {
    "date": _OF_DATES | _OF_TIMES,
    "precision_timestamp": _OF_DATES | _OF_TIMES,
    "precision_timestamp_tz": _OF_DATES | _OF_TIMES | _OF_INSTANTS,
    "precision_time": _OF_TIMES,
}
"""Type kind -> the conversions with which `strftime` formats it."""

FIELDS: Mapping[str, str] = {
    "Y": "year", "y": "year", "m": "month", "b": "month", "B": "month", "d": "day", "e": "day",
    "j": "day_of_year", "a": "weekday", "A": "weekday", "H": "hour", "k": "hour", "I": "hour",
    "l": "hour", "M": "minute", "S": "second", "p": "half", "z": "offset",
}  # fmt: skip
"""Conversion of `strptime` -> the field that it sets."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a format: the letter of a conversion, or else a literal text."""

    conversion: str
    text: str = ""


class FormatError(ValueError):
    """A format that cannot be parsed. The message gives the reason."""


def pieces(format: str) -> tuple[Piece, ...]:
    """Split a format into pieces, and expand conversions that abbreviate others.

    >>> [p.conversion or p.text for p in pieces("%R, 100%%")]
    ['H', ':', 'M', ', 100', '%']

    Raises:
        FormatError: the format ends with a percent sign.
    """
    result: list[Piece] = []
    head, *rest = format.split("%")
    waiting = iter(rest)
    result.append(Piece("", head))
    for part in waiting:
        if not part:
            # Two percent signs. The text after them is the next part.
            following = next(waiting, None)
            if following is None:
                raise FormatError("it ends with a percent sign")
            result += [Piece("", "%"), Piece("", following)]
            continue
        letter, text = part[0], part[1:]
        if letter in _COMPOSED:
            result += pieces(_COMPOSED[letter])
        elif letter in _PLAIN:
            result.append(Piece("", _PLAIN[letter]))
        else:
            result.append(Piece(letter))
        result.append(Piece("", text))
    return tuple(p for p in result if p.conversion or p.text)


def parse_writing(format: str, kind: str) -> tuple[Piece, ...]:
    """Return the pieces of a format with which `strftime` formats a value of a type kind.

    Raises:
        FormatError: a conversion is unknown, or the value has no such field.
    """
    parts = pieces(format)
    for piece in parts:
        letter = piece.conversion
        if not letter or letter in WRITTEN[kind]:
            continue
        if letter in _OF_DATES | _OF_TIMES | _OF_INSTANTS:
            raise FormatError(f"a {kind} has nothing for %{letter}")
        raise FormatError(f"the conversion %{letter} is not supported")
    return parts


def parse_reading(format: str, kind: str, *, zoned: bool = False) -> tuple[Piece, ...]:
    """Return the pieces of a format with which `strptime` parses a value of a type kind.

    Args:
        format: the format of the call.
        kind: ``date``, ``precision_time`` or ``precision_timestamp_tz``.
        zoned: whether the call names a time zone.

    Raises:
        FormatError: a conversion is unknown, a field is read twice, or the date is incomplete.
    """
    parts = pieces(format)
    letters = [p.conversion for p in parts if p.conversion]
    for letter in letters:
        if letter not in FIELDS:
            raise FormatError(f"the conversion %{letter} is not supported")
    fields = [FIELDS[letter] for letter in letters]
    repeated = next((f for f in fields if fields.count(f) > 1), None)
    if repeated:
        raise FormatError(f"it reads the {repeated.replace('_', ' ')} twice")
    if "day_of_year" in fields and {"month", "day"} & {*fields}:
        raise FormatError("it reads the day twice")
    complete = {"year", "month", "day"} <= {*fields} or {"year", "day_of_year"} <= {*fields}
    if kind != "precision_time" and not complete:
        raise FormatError("it does not read a complete date")
    if "offset" in fields and (zoned or kind != "precision_timestamp_tz"):
        raise FormatError("it reads an offset (%z), for which there is no place")
    return parts


_SPACES = "[ \\t\\n\\u000B\\f\\r]*+"


def _match_names(names: tuple[str, ...]) -> str:
    return "((?>(?i:" + "|".join((*names, *(n[:3] for n in names))) + ")))"


_PATTERNS: Mapping[str, str] = {
    # Like glibc, read digits of a number while it can stay in its range.
    "Y": " *+([0-9]{1,4}+)",
    "y": " *+((?>[0-9]{2}|[0-9]))",
    "m": " *+((?>[01][0-9]|[0-9]))",
    "d": " *+((?>[0-3][0-9]|[0-9]))",
    "j": " *+((?>(?:[0-2][0-9]|3[0-6])[0-9]|[0-9]{1,2}))",
    "H": " *+((?>[0-2][0-9]|[0-9]))",
    "I": " *+((?>[01][0-9]|[0-9]))",
    "M": " *+((?>[0-5][0-9]|[0-9]))",
    "S": " *+((?>[0-6][0-9]|[0-9]))",
    "b": _match_names(MONTHS),
    "a": _match_names(DAYS),
    "p": "((?i:AM|PM))",
    "z": " *+(Z|[+-](?:0[0-9]|1[0-4])(?::?[0-5][0-9])?)",
}
_SAME = {"e": "d", "k": "H", "l": "I", "B": "b", "A": "a"}


def pattern(format_pieces: tuple[Piece, ...]) -> tuple[str, dict[str, int]]:
    """Return a Java regular expression for the pieces, and the group of each conversion."""
    parts: list[str] = []
    groups: dict[str, int] = {}
    for piece in format_pieces:
        if piece.conversion:
            letter = _SAME.get(piece.conversion, piece.conversion)
            parts.append(_PATTERNS[letter])
            groups[letter] = len(groups) + 1
            continue
        # A blank matches any number of blanks.
        parts += [_SPACES if c in " \t\n\v\f\r" else _quote(c) for c in piece.text]
    return "\\A" + "".join(parts) + "\\z", groups


def _quote(character: str) -> str:
    return character if character.isalnum() else f"\\x{{{ord(character):x}}}"
