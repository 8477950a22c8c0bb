"""Parse the signatures of plans: words in long and in short form, of every Substrait release."""

from __future__ import annotations

import re
from functools import lru_cache

from substrait_agg.functions.signatures.declarations import SHORT_NAMES as OF_FILES
from substrait_agg.functions.signatures.declarations import Signature, SignatureArgument
from substrait_agg.plan.types import Type, decimal

ENUM = "req"
"""The word of an enumeration argument."""

ANY = "any"

KINDS: dict[str, frozenset[str]] = {
    **{
        kind: frozenset({kind})
        for kind in ("i8", "i16", "i32", "i64", "fp32", "fp64", "bool", "date", "struct", "list", "map")
    },
    **dict.fromkeys(("str", "vchar", "fchar"), frozenset({"string", "varchar", "fixedchar"})),
    **dict.fromkeys(("vbin", "fbin"), frozenset({"binary", "fixedbinary"})),
    "dec": frozenset({"decimal"}),
    "pt": frozenset({"precision_time"}),
    "pts": frozenset({"precision_timestamp"}),
    "ptstz": frozenset({"precision_timestamp_tz"}),
    "iyear": frozenset({"interval_year"}),
    "iday": frozenset({"interval_day"}),
    "icompound": frozenset({"interval_compound"}),
    **{f"u!{kind}": frozenset({kind}) for kind in ("u8", "u16", "u32", "u64")},
}  # fmt: skip
"""Short type name of a signature -> type kinds of the arguments that match it."""

OLDER = {
    # Up to release 0.87 these types had microseconds.
    "time": "pt", "ts": "pts", "tstz": "ptstz", "opt": ENUM, "any1": ANY, "any2": ANY, "any3": ANY,
}  # fmt: skip
"""Word of an older release -> word of the newest release."""

_LONG = {**OF_FILES, "timestamp": "pts", "timestamp_tz": "ptstz", "enum": ENUM}
_NEWEST = {**_LONG, **OLDER}
_LONGEST_FIRST = sorted((w for w in _LONG if "_" in w), key=len, reverse=True)
_WORD = re.compile("|".join((*map(re.escape, _LONGEST_FIRST), "[^_]+")))


@lru_cache(maxsize=1024)
def words_of(signature: str) -> tuple[str, ...]:
    """Return the words of a signature in the form of the newest release. Unknown words stay.

    >>> words_of("decimal_any1?_interval_day")
    ('dec', 'any', 'iday')
    """
    words = (word.rstrip("?") for word in _WORD.findall(signature.lower()))
    return tuple(_NEWEST.get(word, word) for word in words)


def as_spelled(signature: str) -> tuple[str, ...]:
    """Split a signature at underscores and replace the words of older releases."""
    words = signature.lower().split("_") if signature else ()
    return tuple(OLDER.get(word, word) for word in words)


def words_declared(signature: Signature) -> tuple[str, ...]:
    """Return the words of a declaration of the standard."""
    return words_of(signature.signature.partition(":")[2])


def takes(word: str, kind: str) -> bool:
    """Return whether an argument of a type kind matches a word.

    An unknown word matches every kind.
    """
    return kind == "unknown" or word not in KINDS or kind in KINDS[word]


def type_of_word(word: str) -> Type | None:
    """Return a type whose short name is the word, or None if the word does not name one type."""
    kinds = KINDS.get(word, frozenset())
    if word == "dec":
        return decimal(38, 0)
    if word in ("str", "vchar", "fchar"):
        return Type("string")
    return Type(min(kinds)) if len(kinds) == 1 else None


def written(argument: SignatureArgument) -> str:
    """Format a declared argument for a message.

    Examples: ``x: i64``, ``distribution: SAMPLE or POPULATION``.
    """
    said = " or ".join(argument.words) if argument.words else argument.type
    return f"{argument.name}: {said}" if argument.name else said
