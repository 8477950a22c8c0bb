"""List what is supported as a Substrait dialect: types, relations, expressions and functions.

Everything comes from the tables that binding uses: type kinds from `bind.context`, relations and
expressions from the decoded tree. Functions are supported if their declaration can be bound.

Source: ``dialect_schema.yaml`` of the Substrait project.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby, product
from typing import Any, get_args

from substrait_agg.bind.aggregates.order import DIRECTIONS
from substrait_agg.bind.aggregates.rules import bind_measure
from substrait_agg.bind.bound import Argument, BoundLambda, Call, Column, Constant, Conversion
from substrait_agg.bind.context import (
    FRACTIONAL,
    KEYABLE,
    MAX_TIME_DIGITS,
    READABLE,
    BindContext,
    Schema,
)
from substrait_agg.bind.conversions import fits_decimal
from substrait_agg.bind.expressions.calls import bind_call
from substrait_agg.bind.profiles import STANDARD
from substrait_agg.functions.aggregates.catalogue import AGGREGATES, WINDOW_FUNCTIONS
from substrait_agg.functions.aggregates.parts import ARITHMETIC
from substrait_agg.functions.listing.catalogue_json import part, phases, urn_of
from substrait_agg.functions.scalars.catalogue import SCALAR_NAMES, SCALARS
from substrait_agg.functions.signatures.declarations import (
    Signature,
    SignatureArgument,
    declarations,
    scalar_signatures,
    signatures,
    window_signatures,
)
from substrait_agg.functions.signatures.derive import MAX_PRECISION
from substrait_agg.plan import model
from substrait_agg.plan.model import (
    EnumArgument,
    FieldRef,
    FunctionName,
    Literal,
    MeasureCall,
    OptionPreferences,
    ScalarCall,
)
from substrait_agg.plan.types import (
    NESTED_KINDS,
    PARAMETER_KINDS,
    SIMPLE_KINDS,
    UNSIGNED,
    Type,
    decimal,
)
from substrait_agg.problems import Problem, Problems

_KINDS = {"boolean": "bool"}
_PARAMETERS = {"P": 12, "S": 2, "L": 20}
"""First letter of a type parameter -> a value: digits, digits after the point, length."""

_TIME_DIGITS = 6
_ANY = Type("i64", nullable=False)
_TYPE = re.compile(r"(?P<word>u!\w+|\w+)(?P<mark>\??)(?:<(?P<inside>.*)>)?")
_OUTER_COMMA = re.compile(r",(?![^<]*>)")
Options = tuple[tuple[str, str], ...]

_LITERALS: dict[str, object] = {
    **dict.fromkeys(("string", "varchar", "fixedchar"), ","),
    "i8": _TIME_DIGITS,
    # One minute.
    "interval_day": (0, 60_000_000),
    "interval_compound": (0, 0, 60_000_000),
}


_FORMATS = {
    "string": "%H", "date": "%F", "precision_time": "%T", "precision_timestamp_tz": "%F %T",
}  # fmt: skip
"""Type kind of a result -> a format that is valid for it."""


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
        unsigned = kind in UNSIGNED
        return Type(kind, nullable) if unsigned else Type("user_defined", nullable, name=kind)
    return _parse_parameters(_KINDS.get(word, word), nullable, match["inside"] or "")


def _parse_parameters(kind: str, nullable: bool, inside: str) -> Type | None:
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
        problems, settled = _check_call(signature, words, (), aggregate)
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
            if not _check_call(
                signature, words, (OptionPreferences(name, (value,), ""),), aggregate
            )[0]
        ]
        if accepted:
            default = defaults.get(name.upper())
            yield name, tuple(sorted(accepted, key=lambda value: value != default))


def _check_call(
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


def constant_arguments(signature: Signature) -> tuple[str, ...]:
    """Return the arguments that must be constants although the declaration does not say so."""
    row = SCALARS.get(SCALAR_NAMES.get(signature.name.lower(), ""))
    count = len(signature.arguments)
    return tuple(
        argument.name
        for place, argument in enumerate(signature.arguments)
        if row is not None and not argument.constant and row.needs_constant(place, count)
    )


def _result_kind(signature: Signature) -> str:
    row = SCALARS[SCALAR_NAMES[signature.name.lower()]]
    return row.overloads[0].result.removeprefix("digits:")


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
        elif declared.constant or declared.name in constant_arguments(signature):
            literal = _LITERALS.get(type_.kind, 1)
            formatted = declared.name == "format"
            arguments.append(
                Constant(type_, _FORMATS[_result_kind(signature)] if formatted else literal)
            )
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


Entry = dict[str, Any]

_UNSIGNED_SOURCE = "unsigned_integers"
_TYPE_NAMES = {"fixedchar": "FIXED_CHAR", "fixedbinary": "FIXED_BINARY"}
"""Type kind -> its name in dialects, if that is not the kind in upper case."""

_DIGITS = FRACTIONAL | {"interval_compound"}

_JOIN_TYPES = [
    "INNER", "OUTER", "LEFT", "RIGHT", "LEFT_SEMI", "RIGHT_SEMI", "LEFT_ANTI", "RIGHT_ANTI",
    "LEFT_SINGLE", "RIGHT_SINGLE", "LEFT_MARK", "RIGHT_MARK",
]  # fmt: skip

RELATIONS: dict[type, tuple[Entry, ...]] = {
    model.ReadRel: ({"relation": "READ", "read_types": ["NAMED_TABLE", "VIRTUAL_TABLE"]},),
    model.FilterRel: ({"relation": "FILTER"},),
    model.ProjectRel: ({"relation": "PROJECT"},),
    model.AggregateRel: (
        {
            "relation": "AGGREGATE",
            "metadata": {"grouping_sets": "any number, including duplicates"},
        },
    ),
    model.SetRel: (
        {
            "relation": "SET",
            "operations": [kind.upper() for kind in get_args(model.SetOperationKind)],
        },
    ),
    model.SortRel: (
        {
            "relation": "SORT",
            "metadata": {
                "place": "at the root of the plan, where it orders the view when it is read"
            },
        },
    ),
    model.JoinRel: (
        {"relation": "JOIN", "join_types": _JOIN_TYPES},
        {"relation": "CROSS"},
        *(
            {"relation": f"{algorithm}_JOIN", "join_types": _JOIN_TYPES}
            for algorithm in ("HASH", "MERGE", "NESTED_LOOP")
        ),
    ),
    model.FetchRel: ({"relation": "FETCH"}, {"relation": "TOP_N"}),
    model.WindowRel: ({"relation": "CONSISTENT_PARTITION_WINDOW"},),
}
"""Relation of the decoded tree -> its entries in the dialect."""

EXPRESSIONS: dict[type, Entry] = {
    model.Literal: {"expression": "LITERAL"},
    model.FieldRef: {"expression": "SELECTION"},
    model.ScalarCall: {"expression": "SCALAR_FUNCTION"},
    model.Cast: {
        "expression": "CAST",
        "failure_options": ["RETURN_NULL", "THROW_EXCEPTION"],
    },
    model.IfThen: {"expression": "IF_THEN"},
    model.Switch: {"expression": "SWITCH"},
    model.SingularOrList: {"expression": "SINGULAR_OR_LIST"},
    model.LambdaExpression: {"expression": "LAMBDA"},
    model.Subquery: {
        "expression": "SUBQUERY",
        "subquery_types": ["SCALAR", "IN_PREDICATE", "SET_PREDICATE", "SET_COMPARISON"],
    },
    model.ContextVariable: {"expression": "EXECUTION_CONTEXT_VARIABLE"},
    model.WindowCall: {"expression": "WINDOW_FUNCTION"},
    model.NestedExpression: {"expression": "NESTED", "nested_types": ["STRUCT", "LIST", "MAP"]},
}
"""Expression of the decoded tree -> its entry in the dialect."""


_PLACES = ("first_value", "last_value", "nth_value")
_FRAMES = "rows with constant distances, or a range from or to the current row"


def _window_metadata(name: str) -> Entry:
    frame = _FRAMES if name in _PLACES else "ignored"
    return {"frame": frame, "also": "aggregate functions over partitions and frames"}


def dialect(version: str) -> Entry:
    """Return the dialect as values that YAML and JSON can represent."""
    declared = (*scalar_signatures(), *window_signatures())
    scalars = tuple(support_of(s, aggregate=False) for s in declared)
    measures = tuple(support_of(s, aggregate=True) for s in signatures())
    by_name = declarations(ARITHMETIC, "window_functions")
    windows = tuple(Support(s, ()) for n in (*WINDOW_FUNCTIONS, *_PLACES) for s in by_name[n])
    scalar_entries = _functions(scalars, _scalar_metadata)
    aggregate_entries = _functions(measures, _aggregate_metadata)
    used = {e["source"] for e in (*scalar_entries, *aggregate_entries)} | {_UNSIGNED_SOURCE}
    urns = {_alias(s.urn): urn_of(s.urn) for s in (*signatures(), *declared)}
    return {
        "name": "substrait-agg",
        "metadata": {
            "version": version,
            "measures": {
                "sort_directions": sorted(name.upper() for name in DIRECTIONS),
            },
            "options": "the options in the metadata of a function may be set; the default is the first value",
        },
        "dependencies": {alias: urns[alias] for alias in sorted(used)},
        "supported_types": _types(),
        "supported_relations": _relations(),
        "supported_expressions": [EXPRESSIONS[kind] for kind in _members(model.Expression)],
        "supported_scalar_functions": scalar_entries,
        "supported_aggregate_functions": aggregate_entries,
        "supported_window_functions": _functions(windows, _window_metadata),
    }


def _relations() -> list[Entry]:
    return [entry for kind in _members(model.Relation) for entry in RELATIONS[kind]]


def _members(union: Any) -> tuple[type, ...]:
    # Parameters of lambdas, columns of outer queries and parts of values are written as selections.
    left_out = (model.Unsupported, model.ParameterRef, model.OuterRef, model.ExpressionPart)
    return tuple(kind for kind in get_args(union) if kind not in left_out)


def _alias(urn: str) -> str:
    return urn.rpartition(":")[2].removeprefix("functions_")


# --- types -----------------------------------------------------------------------------------


def _types() -> list[Entry]:
    kinds = (*SIMPLE_KINDS, *PARAMETER_KINDS, *NESTED_KINDS)
    return [_type(kind) for kind in kinds if kind in READABLE]


def _type(kind: str) -> Entry:
    entry: Entry = {"type": _TYPE_NAMES.get(kind, kind.upper())}
    if kind in UNSIGNED:
        entry = {"type": "USER_DEFINED", "source": _UNSIGNED_SOURCE, "name": kind}
    if kind in _DIGITS:
        entry["max_precision"] = MAX_TIME_DIGITS
    if kind == "decimal":
        entry["max_precision"] = MAX_PRECISION
        entry["max_scale"] = max(
            s for s in range(MAX_PRECISION + 1) if fits_decimal(decimal(MAX_PRECISION, s))
        )
    entry["system_metadata"] = {"supported_as_column": kind in KEYABLE}
    return entry


# --- functions -------------------------------------------------------------------------------


def _functions(supports: Iterable[Support], metadata: Any) -> list[Entry]:
    """Return one entry per function with a supported implementation, by extension and name."""
    supported = sorted((s for s in supports if s.supported), key=_key)
    return [_function(key, tuple(group), metadata) for key, group in groupby(supported, key=_key)]


def _key(support: Support) -> tuple[str, str]:
    return _alias(support.signature.urn), support.signature.name


def _function(key: tuple[str, str], group: tuple[Support, ...], metadata: Any) -> Entry:
    source, name = key
    entry: Entry = {"source": source, "name": name}
    said = {**_describe_accepted(group), **metadata(name.lower())}
    if said:
        entry["metadata"] = said
    entry["supported_impls"] = [_arguments(s.signature) for s in group]
    least = [s.signature.variadic for s in group if s.signature.variadic is not None]
    if least:
        # The schema has no variadic functions without arguments, so a minimum of zero becomes one.
        entry["variadic"] = {"min": max(1, *least)}
    return entry


def _arguments(signature: Signature) -> str:
    return signature.signature.partition(":")[2]


def _describe_accepted(group: tuple[Support, ...]) -> Entry:
    """Return accepted values of options and enumeration arguments per set of implementations."""
    said: Entry = {}
    for what in ("options", "words"):
        implementations: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for support in group:
            for name, values in getattr(support, what).items():
                implementations.setdefault((name, values), []).append(_arguments(support.signature))
        if implementations:
            said[what] = [
                {"name": name, "values": list(values), "impls": impls}
                for (name, values), impls in implementations.items()
            ]
    return said


def _scalar_metadata(name: str) -> Mapping[str, Any]:
    aliases = SCALARS[SCALAR_NAMES[name]].aliases
    declared = [s for s in scalar_signatures() if s.name.lower() == name]
    constants = sorted({argument for s in declared for argument in constant_arguments(s)})
    said = {"aliases": list(aliases), "constant_arguments": constants}
    return {what: values for what, values in said.items() if values}


def _aggregate_metadata(name: str) -> Mapping[str, Any]:
    row = AGGREGATES[name]
    said: Entry = {
        "distinct": part(row.distinct),
        "order_by": part(row.order_by),
        "filter": part(row.filter),
        "state": row.state,
        "phases": {name: part(handling) for name, handling in phases(row).items()},
    }
    if row.aliases:
        said["aliases"] = [a.name for a in row.aliases]
    return said
