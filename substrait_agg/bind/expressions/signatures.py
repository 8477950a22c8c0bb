"""Calls against the signatures that plans declare, and those against what the standard's extension files declare.

The files are read only where a plan declares a function with a signature under a standard URN, and of them only the one
of that extension.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from substrait_agg.bind.bound import Argument
from substrait_agg.bind.context import BindContext, listed
from substrait_agg.bind.expressions.signature_words import (
    ANY,
    ENUM,
    KINDS,
    as_spelled,
    takes,
    words_declared,
    words_of,
)
from substrait_agg.functions.aggregates.catalogue import STANDARD_URNS
from substrait_agg.functions.signatures.declarations import (
    Section,
    Signature,
    declarations,
    scalar_signatures,
    signatures,
)
from substrait_agg.functions.windows import WINDOWS_URN
from substrait_agg.plan.model import EnumArgument, FunctionName, TypeArgument

_DECLARING = STANDARD_URNS | {WINDOWS_URN}
"""URNs whose declarations are known."""

NUMBER = -1
"""Stands for the place of arguments whose number does not fit."""

MOST_NAMED = 12
"""Signatures that a message names."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A signature that arguments can be compared with.

    Attributes:
        words: a short type name per argument.
        standard: the declaration of the standard, None where it has none of this signature.
        judged: whether it is said elsewhere that the standard has none.
    """

    words: tuple[str, ...]
    standard: Signature | None = None
    judged: bool = False

    @property
    def comparable(self) -> bool:
        """Whether every word is known, and the signature the one that is meant."""
        known = all(word in KINDS or word in (ANY, ENUM) for word in self.words)
        return known and not self.judged


@lru_cache(maxsize=512)
def declared_signature(function: FunctionName, section: Section) -> Declared | None:
    """The signature that the plan declares for a function, None where it declares none."""
    if function.signature is None:
        return None
    words = words_of(function.signature)
    same = (s for s in _of_name(function, section) if words_declared(s) == words)
    return Declared(words, next(same, None), function.urn in _DECLARING)


def check_declaration(
    function: FunctionName, section: Section, path: str, context: BindContext
) -> None:
    """Report a signature that its extension does not declare, and one that should not be written any more.

    Args:
        function: under a standard URN or not.
        section: where its extension would declare it.
        path: of the call, which stands for a declaration whose place is not known.
        context: takes the problems.
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
    elif standard is None or as_spelled(function.signature or "") != words_declared(standard):
        what = section.removesuffix("_functions")
        names = [s.signature for s in of_name[:MOST_NAMED]]
        more = ", ..." if len(of_name) > MOST_NAMED else ""
        known = ", ".join(names) + more if names else f"no {what} function of this name"
        context.report(
            "SIGNATURE_UNKNOWN", place, name=function.declared, urn=function.urn, known=known
        )
    if standard is not None and standard.deprecated:
        context.report(
            "FUNCTION_DEPRECATED", place,
            name=standard.signature, since=standard.deprecated, instead=_sentence(standard.instead),
        )  # fmt: skip


def _of_name(function: FunctionName, section: Section) -> tuple[Signature, ...]:
    if function.urn not in _DECLARING:
        return ()
    return declarations(function.urn, section).get(function.name, ())


def _homes(name: str, section: Section) -> tuple[str, ...]:
    """The extensions of the standard that declare a function of this name."""
    found = signatures() if section == "aggregate_functions" else scalar_signatures()
    return tuple(dict.fromkeys(s.urn for s in found if s.name.lower() == name))


def _sentence(text: str) -> str:
    """What the standard says, as the help of a problem."""
    said = " ".join(text.split()).rstrip(".")
    return said[:1].lower() + said[1:] if said else "call what the standard declares in its place"


def misfit(declared: Declared, arguments: tuple[Argument, ...]) -> int | None:
    """Position of the first argument that the signature does not take, `NUMBER`, or None where all fit."""
    if declared.standard is not None:
        words = _repeated(declared.words, declared.standard.variadic, len(arguments))
        return _first_misfit(words, tuple(enumerate(arguments)))
    # Without the declaration nobody knows whether it repeats; words of enumerations are left out by some.
    words = tuple(word for word in declared.words if word != ENUM)
    values = tuple((i, a) for i, a in enumerate(arguments) if not isinstance(a, EnumArgument))
    if not declared.comparable:
        return None
    return _first_misfit(_repeated(words, 1 if words else None, len(values)), values)


def _repeated(words: tuple[str, ...], variadic: int | None, count: int) -> tuple[str, ...] | None:
    """One word per argument, None where their number does not fit."""
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
    """The types of the arguments that are expressions, for a message."""
    values = (a for a in arguments if not isinstance(a, EnumArgument | TypeArgument))
    return listed(tuple(v.type for v in values))
