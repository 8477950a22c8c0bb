"""Samples of texts and regular expressions, with Python as the model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from substrait_agg.plan.types import Type
from tests.spark.evaluating import BOOL, I32, I64, STRING, call
from tests.spark.samples import FACES, FAILS, TEXTS, Sample


def sample(
    name: str, type_: Type, given: Iterable[str | int | None], wanted: Any, **options: str
) -> Sample:
    """A call with texts and numbers."""
    arguments = [(I64 if isinstance(value, int) else STRING, value) for value in given]
    return Sample(call(name, type_, *arguments, enums=(), **options), wanted)


def texts() -> Iterator[Sample]:
    for text in ("", "abc", "Ab1 é", "ÀB", "straße", "Ǆ", FACES, "İ"):
        for name, upper in (
            ("capitalize", text[:1].upper() + text[1:]),
            ("swapcase", text.swapcase()),
        ):
            yield Sample(call(name, STRING, (STRING, text)), upper)
    ascii_swapped = {"abC": "ABc", "éA": "éa", FACES: FACES.swapcase()}
    for text, wanted in ascii_swapped.items():
        yield Sample(call("swapcase", STRING, (STRING, text), char_set="ASCII_ONLY"), wanted)
    yield Sample(call("capitalize", STRING, (STRING, "éa"), char_set="ASCII_ONLY"), "éa")
    yield Sample(call("upper", STRING, (STRING, "éaß"), char_set="ASCII_ONLY"), "éAß")
    yield Sample(call("lower", STRING, (STRING, "ÉAİ"), char_set="ASCII_ONLY"), "Éaİ")
    yield Sample(call("initcap", STRING, (STRING, "éa BC"), char_set="ASCII_ONLY"), "éa Bc")
    for text, part in (
        ("aaaa", "aa"),
        ("abcabc", "bc"),
        (FACES, "\U0001f600"),
        ("abc", ""),
        ("", "a"),
        ("", ""),
    ):
        yield Sample(call("count_substring", I64, (STRING, text), (STRING, part)), text.count(part))
    yield Sample(call("count_substring", I64, (STRING, None), (STRING, "a")), None)
    yield Sample(call("count_substring", I64, (STRING, "a"), (STRING, None)), None)
    folded = {
        "CASE_INSENSITIVE": (3, 2),
        "CASE_INSENSITIVE_ASCII": (1, 2),
        "CASE_SENSITIVE": (1, 1),
    }
    for option, (accented, plain) in folded.items():
        both = call(
            "count_substring", I64, (STRING, "é-É-é"), (STRING, "É"), case_sensitivity=option
        )
        yield Sample(both, accented)
        some = call(
            "count_substring", I64, (STRING, "aA-É"), (STRING, "a"), case_sensitivity=option
        )
        yield Sample(some, plain)
    for padding, wanted in (("RIGHT", "*ab**"), ("LEFT", "**ab*")):
        yield Sample(
            call("center", STRING, (STRING, "ab"), (I32, 5), (STRING, "*"), padding=padding), wanted
        )
    yield Sample(call("center", STRING, (STRING, FACES), (I32, 6), (STRING, "\U0001f600")),
                 "\U0001f600" + FACES + "\U0001f600")  # fmt: skip
    for length in (1, -3, None):
        same = None if length is None else "ab"
        yield Sample(call("center", STRING, (STRING, "ab"), (I32, length), (STRING, "*")), same)


def sliced(text: str, start: int, length: int, new: str) -> str | None:
    if not 1 <= start <= len(text) or length < 0:
        return None
    return text[: start - 1] + new + text[start - 1 + length :]


def slices() -> Iterator[Sample]:
    for start in (-1, 0, 1, 2, 4, 5, 2**63 - 1):
        for length in (-1, 0, 1, 2**63 - 1):
            for text in ("abcd", FACES, ""):
                made = call(
                    "replace_slice",
                    STRING,
                    (STRING, text),
                    (I64, start),
                    (I64, length),
                    (STRING, "xy"),
                )
                yield Sample(made, sliced(text, start, length, "xy"))
    yield Sample(
        call("replace_slice", STRING, (STRING, "a"), (I64, 1), (I64, 1), (STRING, None)), None
    )


ANYWHERE, ASCII = "CASE_INSENSITIVE", "CASE_INSENSITIVE_ASCII"

FOUND = (
    ("contains", BOOL, True),
    ("starts_with", BOOL, True),
    ("like", BOOL, True),
    ("strpos", I64, 1),
)
"""A function, its type, and its value where the texts are equal without regard to case."""

CASES: tuple[tuple[str, Type, tuple[str | None, ...], str, Any], ...] = (
    ("strpos", I64, ("\u0130\U0001f600xY", "XY"), ANYWHERE, 3),
    ("strpos", I64, (None, "X"), ANYWHERE, None),
    ("strpos", I64, ("a.c", "A.C"), ANYWHERE, 1),
    ("strpos", I64, ("abc", "A.C"), ANYWHERE, 0),
    ("like", BOOL, ("A%b", "a|%B", "|"), ASCII, True),
    ("like", BOOL, ("Axb", "a|%B", "|"), ASCII, False),
    ("like", BOOL, ("xA%", "xaA%", "A"), ASCII, True),
    ("like", BOOL, ("xAz", "xaA%", "A"), ASCII, False),
    ("like", BOOL, ("aXA", "_xAA", "A"), ASCII, True),
    ("replace", STRING, ("$1Éé", "É", "-"), ANYWHERE, "$1--"),
    ("replace", STRING, ("$1Éé", "É", "-"), ASCII, "$1-é"),
    ("replace", STRING, ("aA", "A", "$0\\"), ANYWHERE, "$0\\$0\\"),
    ("replace", STRING, ("aA", "", "x"), ANYWHERE, "aA"),
)
"""A function, its type, its texts, case_sensitivity, and its value."""


def cases() -> Iterator[Sample]:
    """The option case_sensitivity: without regard to case everywhere, or of the letters A to Z only."""
    for name, type_, wanted in FOUND:
        for given, option in product((("AB", "ab"), ("ÉB", "éb")), (ANYWHERE, ASCII)):
            found = given[0] == "AB" or option == ANYWHERE
            yield sample(
                name, type_, given, wanted if found else type(wanted)(0), case_sensitivity=option
            )
    for name, type_, texts_, option, wanted in CASES:
        yield sample(name, type_, texts_, wanted, case_sensitivity=option)


# --- regular expressions ---------------------------------------------------------------------------

SUBJECTS = ("", "a1b22c333", FACES, "x\ny", "aaa", "A1é2")
PATTERNS = ("[0-9]+", "a*", "(.)([0-9])", "^.", "\U0001f600", "(?=b)", "b|$", "\\s", "[^a-z]")


def model_matches(pattern: str, text: str) -> list[re.Match[str]]:
    return list(re.finditer(pattern, text))


def model_replace(pattern: str, text: str, new: str, occurrence: int) -> str:
    """As Java replaces: every match, or the one at a place."""
    parts, last = [], 0
    for number, found in enumerate(model_matches(pattern, text), 1):
        chosen = occurrence in (0, number)
        parts += [text[last : found.start()], found.expand(new) if chosen else found[0]]
        last = found.end()
    return "".join(parts) + text[last:]


MULTILINE = {"multiline": "MULTILINE_ENABLED"}

REPLACED: tuple[tuple[str, tuple[str | int | None, ...], Any], ...] = (
    ("regexp_replace", ("aXbX", "X", "-"), "a-b-"),
    ("regexp_replace_first", ("aXbX", "X", "-"), "a-bX"),
    ("regexp_replace", ("a", "a", "\\$1\\\\"), "$1\\"),
    ("regexp_replace", ("aXbX", "X", "-", 0, 0), FAILS),
    ("regexp_replace", ("aXbX", "X", "-", 9, 1), "aXbX"),
)
"""A function, its arguments and its value."""

COUNTED: tuple[tuple[tuple[str, str], str, Mapping[str, str], int], ...] = (
    (("Éé\nx", "É.$"), ANYWHERE, MULTILINE, 1),
    (("Éé\nx", "É.$"), ASCII, MULTILINE, 1),
    (("Éé\nx", "É.$"), "CASE_SENSITIVE", MULTILINE, 1),
    (("éÉ", "É"), ANYWHERE, {}, 2),
    (("éA", "\\wa"), ANYWHERE, {}, 1),  # letters of Unicode are letters all the same
    (("éÉ", "É"), ASCII, {}, 1),
    (("éA", "\\wa"), ASCII, {}, 1),
)
"""A text and a pattern, case_sensitivity, further options, and the number of matches."""


def patterns() -> Iterator[Sample]:
    for subject, pattern, position in product(SUBJECTS, PATTERNS, (1, 2)):
        yield from matches(subject, pattern, position)
        yield from replacements(subject, pattern, position)
    for name, given, wanted in REPLACED:
        yield sample(name, STRING, given, wanted)
    types = (STRING, STRING, STRING, I64, I64)
    for place in range(len(types)):
        values = [None if i == place else v for i, v in enumerate(("aXbX", "X", "-", 1, 1))]
        yield Sample(call("regexp_replace", STRING, *zip(types, values, strict=True)), None)
    for two, option, more, count in COUNTED:
        yield sample("regexp_count_substring", I64, two, count, case_sensitivity=option, **more)


def matches(subject: str, pattern: str, position: int) -> Iterator[Sample]:
    """Functions that find the matches from a position on."""
    found = model_matches(pattern, subject[position - 1 :])
    group, two = min(1, re.compile(pattern).groups), (subject, pattern)
    every = [f[group] for f in found]
    yield sample("regexp_match_substring_all", TEXTS, (*two, position, group), every)
    yield sample("regexp_count_substring", I64, (*two, position), len(found))
    for nth in (1, 2):
        match = found[nth - 1] if len(found) >= nth else None
        place = 0 if match is None else match.start() + position
        yield sample("regexp_strpos", I64, (*two, position, nth), place)
        text = "" if match is None else match[group]
        yield sample("regexp_match_substring", STRING, (*two, position, nth, group), text)


def replacements(subject: str, pattern: str, position: int) -> Iterator[Sample]:
    """Every match replaced from a position on, or one of them."""
    new = "<\\1>" if re.compile(pattern).groups else "<\\0>"
    before, text = subject[: position - 1], subject[position - 1 :]
    for nth in (0, 1, 2):
        replaced = model_replace(pattern, text, new.replace("\\0", "\\g<0>"), nth)
        given = (subject, pattern, new, position, nth)
        yield sample("regexp_replace", STRING, given, before + replaced)
