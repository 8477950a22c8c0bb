"""Find the supported implementations of the standard's functions by binding each declaration.

A dialect therefore lists what binding accepts. There is no second list to maintain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from substrait_agg.bind.aggregates.rules import bind_measure
from substrait_agg.bind.bound import Argument, BoundLambda, Call, Column, Constant, Conversion
from substrait_agg.bind.context import BindContext, Schema
from substrait_agg.bind.expressions.calls import bind_call
from substrait_agg.bind.profiles import STANDARD
from substrait_agg.functions.signatures.declarations import Signature, SignatureArgument
from substrait_agg.plan.model import (
    EnumArgument,
    FieldRef,
    FunctionName,
    Literal,
    MeasureCall,
    OptionPreferences,
    ScalarCall,
)
from substrait_agg.plan.types import Type
from substrait_agg.problems import Problem, Problems

_KINDS = {"boolean": "bool"}
_PARAMETERS = {"P": 12, "S": 2, "L": 20}
"""First letter of a type parameter -> a value: digits, digits after the point, length."""

_TIME_DIGITS = 6
_ANY = Type("i64", nullable=False)
_TYPE = re.compile(r"(?P<word>u!\w+|\w+)(?P<mark>\??)(?:<(?P<inside>.*)>)?")
_OUTER_COMMA = re.compile(r",(?![^<]*>)")
Options = tuple[tuple[str, str], ...]

AS_CONSTANTS = frozenset(
    {
        ("assume_timezone", "precision"),
        ("strftime", "format"),
        *((f"strptime_{kind}", "format") for kind in ("date", "time", "timestamp")),
        *((f"strptime_{kind}", "precision") for kind in ("time", "timestamp")),
    }
)
"""(function, argument) pairs that require a constant although the declaration does not say so."""

_LITERALS: dict[str, object] = {
    **dict.fromkeys(("string", "varchar", "fixedchar"), ","),
    "i8": _TIME_DIGITS,
    # One minute.
    "interval_day": (0, 60_000_000),
    "interval_compound": (0, 0, 60_000_000),
}


_FORMATS = {
    "strftime": "%H", "strptime_date": "%F", "strptime_time": "%T", "strptime_timestamp": "%F %T",
}  # fmt: skip
"""Function -> a valid format for it."""


@dataclass(frozen=True, slots=True)
class Support:
    """The result of binding a declared implementation.

    Attributes:
        signature: the declaration.
        problems: why a call as declared is refused; empty if it is supported.
        options: option name -> declared values that are accepted, the default first; empty if it is
            not supported.
        words: enumeration argument -> words that are accepted.
    """

    signature: Signature
    problems: tuple[Problem, ...]
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)
    words: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def supported(self) -> bool:
        """Whether a call as declared can run."""
        return not self.problems


def type_of(expression: str) -> Type | None:
    """Return a type expression of the extension files with a value for every parameter.

    Return None for a computed type.

    >>> str(type_of("DECIMAL?<38,S>"))
    'decimal?<38,2>'
    """
    match = _TYPE.fullmatch("".join(expression.split()))
    if match is None:
        return None
    word, nullable = match["word"].lower(), bool(match["mark"])
    if word.startswith("any"):
        return _ANY.as_nullable(nullable)
    if word.startswith("u!"):
        kind = word[2:]
        unsigned = kind in ("u8", "u16", "u32", "u64")
        return Type(kind, nullable) if unsigned else Type("user_defined", nullable, name=kind)
    return _parametrised(_KINDS.get(word, word), nullable, match["inside"] or "")


def _parametrised(kind: str, nullable: bool, inside: str) -> Type | None:
    if kind == "list":
        element = type_of(inside)
        return None if element is None else Type(kind, nullable, children=(element,))
    if kind == "struct":
        fields = tuple(map(type_of, _OUTER_COMMA.split(inside)))
        typed = tuple(f for f in fields if f is not None)
        return Type(kind, nullable, children=typed) if len(typed) == len(fields) else None
    if kind == "func":
        parameter, _, result = inside.partition("->")
        children = (type_of(result), type_of(parameter))
        typed = tuple(child for child in children if child is not None)
        return Type(kind, nullable, children=typed) if len(typed) == len(children) else None
    parts = [part for part in inside.split(",") if part]
    return Type(kind, nullable, tuple(_parameter(kind, part) for part in parts))


def _parameter(kind: str, text: str) -> int:
    if text.isdigit():
        return int(text)
    letter = text[0].upper()
    return _TIME_DIGITS if letter == "P" and kind != "decimal" else _PARAMETERS[letter]


def support_of(signature: Signature, *, aggregate: bool) -> Support:
    """Bind an implementation with every enumeration word and every option value."""
    choices = [a.words or ("",) for a in signature.arguments]
    refused: list[tuple[Problem, ...]] = []
    accepted: list[tuple[str, ...]] = []
    defaults: dict[str, str] = {}
    for words in product(*choices):
        problems, settled = _bound(signature, words, (), aggregate)
        if problems:
            refused.append(problems)
        else:
            accepted.append(words)
            defaults = settled
    if not accepted:
        return Support(signature, refused[0])
    return Support(
        signature,
        (),
        dict(_options(signature, accepted[0], defaults, aggregate)),
        {
            a.name: tuple(w for w in a.words if any(words[i] == w for words in accepted))
            for i, a in enumerate(signature.arguments)
            if a.words
        },
    )


def _options(
    signature: Signature, words: tuple[str, ...], defaults: Mapping[str, str], aggregate: bool
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for name, values in sorted(signature.options.items()):
        accepted = [
            value
            for value in values
            if not _bound(signature, words, (OptionPreferences(name, (value,), ""),), aggregate)[0]
        ]
        if accepted:
            default = defaults.get(name.upper())
            yield name, tuple(sorted(accepted, key=lambda value: value != default))


def _bound(
    signature: Signature,
    words: tuple[str, ...],
    options: tuple[OptionPreferences, ...],
    aggregate: bool,
) -> tuple[tuple[Problem, ...], dict[str, str]]:
    """Return the errors of the call, and every option with its effective value.

    The declared result type is part of the call unless it is computed.
    """
    context = BindContext(Problems("lenient"), STANDARD)
    types = tuple(_argument_type(a) for a in signature.arguments)
    bind = _bind_measure if aggregate else _bind_call
    settled = bind(signature, types, words, options, context)
    return context.problems.errors, dict(settled)


def _argument_type(argument: SignatureArgument) -> Type:
    # An enumeration word has no type. The placeholder keeps its position in the row.
    return (None if argument.words else type_of(argument.type)) or _ANY


def _name(signature: Signature) -> FunctionName:
    _, _, arguments = signature.signature.partition(":")
    return FunctionName(signature.name.lower(), arguments, signature.urn, signature.signature)


def _bind_call(
    signature: Signature,
    types: Schema,
    words: tuple[str, ...],
    options: tuple[OptionPreferences, ...],
    context: BindContext,
) -> Options:
    arguments: list[Argument] = []
    for place, (declared, type_, word) in enumerate(
        zip(signature.arguments, types, words, strict=True)
    ):
        if declared.words:
            arguments.append(EnumArgument(word, ""))
        elif type_.kind == "func":
            arguments.append(BoundLambda(type_, Constant(type_.children[0], None)))
        elif declared.constant or (signature.name, declared.name) in AS_CONSTANTS:
            literal = _LITERALS.get(type_.kind, 1)
            formatted = declared.name == "format"
            arguments.append(Constant(type_, _FORMATS[signature.name] if formatted else literal))
        else:
            arguments.append(Column(type_, place))
    call = ScalarCall(_name(signature), (), options, type_of(signature.returns), "")
    bound = bind_call(call, tuple(arguments), context)
    for argument in arguments:
        if isinstance(argument, Column) and not context.check_type(argument.type, ""):
            return ()
    inner = bound.input if isinstance(bound, Conversion) else bound
    return inner.options if isinstance(inner, Call) else ()


def _bind_measure(
    signature: Signature,
    types: Schema,
    words: tuple[str, ...],
    options: tuple[OptionPreferences, ...],
    context: BindContext,
) -> Options:
    arguments: list[EnumArgument | Literal | FieldRef] = []
    for place, (declared, type_, word) in enumerate(
        zip(signature.arguments, types, words, strict=True)
    ):
        if declared.words:
            arguments.append(EnumArgument(word, ""))
        elif declared.constant:
            arguments.append(Literal(type_, _LITERALS.get(type_.kind, 1), ""))
        else:
            arguments.append(FieldRef((place,), ""))
    measure = MeasureCall(
        _name(signature), tuple(arguments), options, type_of(signature.returns),
        "initial_to_result", "all", (), None, "",
    )  # fmt: skip
    bound = bind_measure(measure, types, context)
    return bound.options if bound else ()
