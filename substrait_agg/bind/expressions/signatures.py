"""Compare calls with declared signatures, and these with the standard's extension files.

Signatures of plans have words in long or in short form, depending on the Substrait release.

An extension file is read only if a plan declares a function of that extension with a signature.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from substrait_agg.bind.bound import Argument, Expr, value_arguments
from substrait_agg.bind.context import BindContext, list_types
from substrait_agg.functions.aggregates.catalogue import STANDARD_URNS
from substrait_agg.functions.signatures.declarations import SHORT_NAMES as OF_FILES
from substrait_agg.functions.signatures.declarations import (
    Section,
    Signature,
    SignatureArgument,
    declarations,
    scalar_signatures,
    signatures,
)
from substrait_agg.functions.windows import WINDOWS_URN
from substrait_agg.plan.model import EnumArgument, FunctionName, MeasureCall, TypeArgument
from substrait_agg.plan.types import UNSIGNED, Type, decimal

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
    **{f"u!{kind}": frozenset({kind}) for kind in UNSIGNED},
}  # fmt: skip
"""Short type name of a signature -> type kinds of the arguments that match it."""

EXACT = {
    "str": "string", "vchar": "varchar", "fchar": "fixedchar",
    "vbin": "binary", "fbin": "fixedbinary",
}  # fmt: skip
"""Word that like types match -> the type kind that it names."""

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
    """Return whether a type kind matches a word; an unknown word matches every kind."""
    return kind == "unknown" or word not in KINDS or kind in KINDS[word]


def type_of_word(word: str) -> Type | None:
    """Return a type whose short name is the word, or None if the word does not name one type."""
    kinds = KINDS.get(word, frozenset())
    if word == "dec":
        return decimal(38, 0)
    if word in ("str", "vchar", "fchar"):
        return Type("string")
    return Type(min(kinds)) if len(kinds) == 1 else None


def format_argument(argument: SignatureArgument) -> str:
    """Format a declared argument for a message.

    Examples: ``x: i64``, ``distribution: SAMPLE or POPULATION``.
    """
    said = " or ".join(argument.words) if argument.words else argument.type
    return f"{argument.name}: {said}" if argument.name else said


_DECLARING = STANDARD_URNS | {WINDOWS_URN}
"""URNs of extensions whose declarations are known."""

NUMBER = -1
"""Returned instead of a position if the number of arguments does not fit."""

MOST_NAMED = 12
"""Maximum number of signatures in a message."""


@dataclass(frozen=True, slots=True)
class ComparableSignature:
    """A signature that arguments can be compared with.

    Attributes:
        words: a short type name per argument.
        standard: the declaration in the standard; None if the standard has none of this signature.
        judged: whether another check reports that the standard has none.
    """

    words: tuple[str, ...]
    standard: Signature | None = None
    judged: bool = False

    @property
    def comparable(self) -> bool:
        """Whether every word is known and no other check rejects the signature."""
        all_known = all(word in KINDS or word in (ANY, ENUM) for word in self.words)
        return all_known and not self.judged


@lru_cache(maxsize=512)
def declared_signature(function: FunctionName, section: Section) -> ComparableSignature | None:
    """Return the signature that the plan declares for a function, or None if it declares none."""
    if function.signature is None:
        return None
    words = words_of(function.signature)
    same = (s for s in _of_name(function, section) if words_declared(s) == words)
    return ComparableSignature(words, next(same, None), function.urn in _DECLARING)


def check_declaration(
    function: FunctionName, section: Section, path: str, context: BindContext
) -> None:
    """Report a signature that its extension does not declare, or declares as deprecated.

    Args:
        function: the function, under a standard URN or not.
        section: the section of the extension file that would declare it.
        path: path of the call; used if the place of the declaration is unknown.
        context: collects the problems.
    """
    declared = declared_signature(function, section)
    if declared is None or function.urn not in _DECLARING:
        return
    place = function.path or path
    of_name = _of_name(function, section)
    standard = declared.standard
    homes = () if of_name else _homes(function.name, section)
    if homes:
        context.report(
            "FUNCTION_URN_DIFFERS", place,
            name=function.name, urn=function.urn, expected=" or ".join(homes),
        )  # fmt: skip
    elif (
        standard is None
        or as_spelled(function.signature or "") != words_declared(standard)
        or not _is_spelled(function.declared, standard.name)
    ):
        what = section.removesuffix("_functions")
        names = [s.signature for s in of_name[:MOST_NAMED]]
        more = ", ..." if len(of_name) > MOST_NAMED else ""
        declared_names = ", ".join(names) + more if names else f"no {what} function of this name"
        context.report(
            "SIGNATURE_UNKNOWN",
            place,
            name=function.declared,
            urn=function.urn,
            known=declared_names,
        )
    if standard is not None and standard.deprecated:
        context.report(
            "FUNCTION_DEPRECATED", place,
            name=standard.signature, since=standard.deprecated, instead=_sentence(standard.instead),
        )  # fmt: skip


def check_options(
    call: MeasureCall, section: Section, honoured: Iterable[str], context: BindContext
) -> None:
    """Report options of a function of the standard that its declaration does not have.

    Args:
        call: the call.
        section: the section of the extension file that declares the function.
        honoured: names of the options that this program honours. Others are reported elsewhere.
        context: collects the problems.
    """
    of_name = _of_name(call.function, section)
    declared = {name.upper() for signature in of_name for name in signature.options}
    for option in call.options:
        if of_name and option.name.upper() in {*honoured} - declared:
            context.report(
                "OPTION_NOT_STANDARD", f"{option.path}.name",
                function=call.function.name, option=option.name,
            )  # fmt: skip


def _is_spelled(declared: str, name: str) -> bool:
    """Return whether the case of a declared signature is that of the standard, whose types are lower case."""
    spelled, _, types = declared.strip().partition(":")
    return spelled == name and types == types.lower()


def _of_name(function: FunctionName, section: Section) -> tuple[Signature, ...]:
    if function.urn not in _DECLARING:
        return ()
    return declarations(function.urn, section).get(function.name, ())


def _homes(name: str, section: Section) -> tuple[str, ...]:
    """Return the extensions of the standard that declare a function of this name."""
    candidates = signatures() if section == "aggregate_functions" else scalar_signatures()
    return tuple(dict.fromkeys(s.urn for s in candidates if s.name.lower() == name))


def _sentence(text: str) -> str:
    """Turn the standard's text on a deprecated function into the help of a problem."""
    said = " ".join(text.split()).rstrip(".")
    return said[:1].lower() + said[1:] if said else "use the replacement that the standard declares"


def misfit(declared: ComparableSignature, arguments: tuple[Argument, ...]) -> int | None:
    """Return the first argument that does not match, `NUMBER` for a wrong number, None for none."""
    if declared.standard is not None:
        words = _repeat_words(declared.words, declared.standard.variadic, len(arguments))
        return _first_misfit(words, tuple(enumerate(arguments)))
    # Without a declaration it is unknown whether the last argument repeats. Some producers leave
    # out the words of enumerations.
    words = tuple(word for word in declared.words if word != ENUM)
    values = tuple((i, a) for i, a in enumerate(arguments) if not isinstance(a, EnumArgument))
    if not declared.comparable:
        return None
    return _first_misfit(_repeat_words(words, 1 if words else None, len(values)), values)


def inexact(declared: ComparableSignature, arguments: tuple[Argument, ...]) -> str:
    """Return the type kind of the first argument that has a like type instead; empty for none.

    Texts of all types, and bytes of all types, match each other's words.
    """
    variadic = 1 if declared.standard is None else declared.standard.variadic
    words = _repeat_words(declared.words, variadic, len(arguments)) or ()
    kinds = (
        EXACT[word]
        for word, a in zip(words, arguments, strict=False)
        if word in EXACT and isinstance(a, Expr) and a.type.kind not in (EXACT[word], "unknown")
    )
    return next(kinds, "")


def derives_required(
    function: FunctionName, section: Section, arguments: tuple[Argument, ...]
) -> bool:
    """Return whether the declaration in the standard derives a required result for the arguments."""
    declared = declared_signature(function, section)
    if declared is None or declared.standard is None:
        return False
    if declared.standard.nullability == "MIRROR":
        return not any(value.type.nullable for value in value_arguments(arguments))
    result = declared.standard.returns.strip().splitlines()[-1]
    return declared.standard.nullability == "DECLARED_OUTPUT" and "?" not in result


def _repeat_words(
    words: tuple[str, ...], variadic: int | None, count: int
) -> tuple[str, ...] | None:
    """Return one word per argument, or None if their number does not fit."""
    if variadic is None:
        return words if count == len(words) else None
    once = len(words) - 1
    return words[:-1] + words[-1:] * (count - once) if count >= once + variadic else None


def _first_misfit(
    words: tuple[str, ...] | None, arguments: tuple[tuple[int, Argument], ...]
) -> int | None:
    if words is None:
        return NUMBER
    pairs = zip(words, arguments, strict=True)
    return next((place for word, (place, a) in pairs if not _fits(word, a)), None)


def _fits(word: str, argument: Argument) -> bool:
    if isinstance(argument, EnumArgument):
        return word == ENUM
    if isinstance(argument, TypeArgument):
        return True
    return word != ENUM and takes(word, argument.type.kind)


def types_of(arguments: tuple[Argument, ...]) -> str:
    """List the types of the arguments that are expressions, for a message."""
    return list_types(tuple(v.type for v in value_arguments(arguments)))
