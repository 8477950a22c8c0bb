"""Samples of texts and regular expressions, with Python as the model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from substrait_agg.plan.types import Type
from tests.spark.evaluating import BOOL, I32, I64, STRING, call
from tests.spark.samples import FACES, FAILS, TEXTS, Sample


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


def cases() -> Iterator[Sample]:
    """The option case_sensitivity: without regard to case everywhere, or of the letters A to Z only."""
    anywhere, ascii_only = "CASE_INSENSITIVE", "CASE_INSENSITIVE_ASCII"
    for name, type_, wanted in (
        ("contains", BOOL, True),
        ("starts_with", BOOL, True),
        ("like", BOOL, True),
        ("strpos", I64, 1),
    ):
        none = False if type_ == BOOL else 0
        for text, part in (("AB", "ab"), ("ÉB", "éb")):
            for option in (anywhere, ascii_only):
                found = wanted if text == "AB" or option == anywhere else none
                yield Sample(
                    call(name, type_, (STRING, text), (STRING, part), case_sensitivity=option),
                    found,
                )
    yield Sample(
        call("strpos", I64, (STRING, "İ\U0001f600xY"), (STRING, "XY"), case_sensitivity=anywhere), 3
    )
    yield Sample(
        call("strpos", I64, (STRING, None), (STRING, "X"), case_sensitivity=anywhere), None
    )
    yield Sample(
        call("strpos", I64, (STRING, "a.c"), (STRING, "A.C"), case_sensitivity=anywhere), 1
    )
    yield Sample(
        call("strpos", I64, (STRING, "abc"), (STRING, "A.C"), case_sensitivity=anywhere), 0
    )
    for text, part, escape, found in (
        ("A%b", "a|%B", "|", True), ("Axb", "a|%B", "|", False), ("xA%", "xaA%", "A", True),
        ("xAz", "xaA%", "A", False), ("aXA", "_xAA", "A", True),
    ):  # fmt: skip
        three = ((STRING, text), (STRING, part), (STRING, escape))
        yield Sample(call("like", BOOL, *three, case_sensitivity=ascii_only), found)
    for option, text in ((anywhere, "$1--"), (ascii_only, "$1-é")):
        yield Sample(
            call(
                "replace",
                STRING,
                (STRING, "$1Éé"),
                (STRING, "É"),
                (STRING, "-"),
                case_sensitivity=option,
            ),
            text,
        )
    yield Sample(
        call(
            "replace",
            STRING,
            (STRING, "aA"),
            (STRING, "A"),
            (STRING, "$0\\"),
            case_sensitivity=anywhere,
        ),
        "$0\\$0\\",
    )
    yield Sample(
        call(
            "replace",
            STRING,
            (STRING, "aA"),
            (STRING, ""),
            (STRING, "x"),
            case_sensitivity=anywhere,
        ),
        "aA",
    )


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


def patterns() -> Iterator[Sample]:
    for subject in SUBJECTS:
        for pattern in PATTERNS:
            groups = re.compile(pattern).groups
            for position in (1, 2):
                text = subject[position - 1 :]
                found = model_matches(pattern, text)
                two = ((STRING, subject), (STRING, pattern))
                group = min(1, groups)
                yield Sample(
                    call("regexp_match_substring_all", TEXTS, *two, (I64, position), (I64, group)),
                    [f[group] for f in found],
                )
                yield Sample(call("regexp_count_substring", I64, *two, (I64, position)), len(found))
                for nth in (1, 2):
                    inside = len(found) >= nth
                    first = position if inside else 0
                    place = found[nth - 1].start() + first if inside else 0
                    yield Sample(
                        call("regexp_strpos", I64, *two, (I64, position), (I64, nth)), place
                    )
                    match = found[nth - 1][group] if inside else ""
                    numbers = ((I64, position), (I64, nth), (I64, group))
                    yield Sample(call("regexp_match_substring", STRING, *two, *numbers), match)
                for nth in (0, 1, 2):
                    new = "<\\1>" if groups else "<\\0>"
                    replaced = model_replace(pattern, text, new.replace("\\0", "\\g<0>"), nth)
                    at = ((I64, position), (I64, nth))
                    yield Sample(
                        call("regexp_replace", STRING, *two, (STRING, new), *at),
                        subject[: position - 1] + replaced,
                    )
    three = ((STRING, "aXbX"), (STRING, "X"), (STRING, "-"))
    yield Sample(call("regexp_replace", STRING, *three), "a-b-")
    yield Sample(call("regexp_replace_first", STRING, *three), "a-bX")
    yield Sample(
        call("regexp_replace", STRING, (STRING, "a"), (STRING, "a"), (STRING, "\\$1\\\\")), "$1\\"
    )
    yield Sample(call("regexp_replace", STRING, *three, (I64, 0), (I64, 0)), FAILS)
    yield Sample(call("regexp_replace", STRING, *three, (I64, 9), (I64, 1)), "aXbX")
    for place in range(5):
        given: list[tuple[Type, Any]] = [
            (STRING, "aXbX"),
            (STRING, "X"),
            (STRING, "-"),
            (I64, 1),
            (I64, 1),
        ]
        given[place] = (given[place][0], None)
        yield Sample(call("regexp_replace", STRING, *given), None)
    lines = ((STRING, "Éé\nx"), (STRING, "É.$"))
    for option, count in (
        ("CASE_INSENSITIVE", 1),
        ("CASE_INSENSITIVE_ASCII", 1),
        ("CASE_SENSITIVE", 1),
    ):
        made = call(
            "regexp_count_substring", I64, *lines,
            case_sensitivity=option, multiline="MULTILINE_ENABLED",
        )  # fmt: skip
        yield Sample(made, count)
    for option, count in (("CASE_INSENSITIVE", 2), ("CASE_INSENSITIVE_ASCII", 1)):
        yield Sample(
            call(
                "regexp_count_substring",
                I64,
                (STRING, "éÉ"),
                (STRING, "É"),
                case_sensitivity=option,
            ),
            count,
        )
        # Letters of Unicode are letters all the same.
        yield Sample(
            call(
                "regexp_count_substring",
                I64,
                (STRING, "éA"),
                (STRING, "\\wa"),
                case_sensitivity=option,
            ),
            1,
        )
