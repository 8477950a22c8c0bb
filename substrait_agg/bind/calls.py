"""Scalar calls: overload, conversions of arguments, options, result type."""

from __future__ import annotations

from dataclasses import replace

from substrait_agg.bind.bound import Call, Constant, Expr
from substrait_agg.bind.context import Context, Schema, is_unknown, unknown
from substrait_agg.bind.convert import as_declared, can_cast, convert, fits_decimal, is_null, unify
from substrait_agg.bind.names import check_declared, check_signature
from substrait_agg.bind.options import choose_options
from substrait_agg.functions.derive import FLOATS, RESULT_RULES, as_decimal, is_numeric
from substrait_agg.functions.scalar_forms import parameter_text
from substrait_agg.functions.scalars import (
    FAMILIES,
    SCALAR_NAMES,
    SCALARS,
    WORDS,
    Overload,
    ScalarFunction,
)
from substrait_agg.plan.model import EnumArgument, ScalarCall, TypeArgument
from substrait_agg.plan.types import FP64, STRING, Type

Argument = Expr | EnumArgument | TypeArgument

_PATTERNS = frozenset({"like", "ilike"})
_INT32 = range(-(2**31), 2**31)
LONGEST_WORD = 40
"""Constant texts up to this length are shown in messages."""


def bind_call(call: ScalarCall, arguments: tuple[Argument, ...], context: Context) -> Expr:
    """The call with its function resolved, or an unknown expression once its problem has been reported.

    Args:
        call: the call as the plan writes it.
        arguments: its arguments, expressions already bound.
        context: takes the problems.
    """
    if not check_declared(call.function, call.path, context):
        return unknown()
    spelling = call.function.name
    name = SCALAR_NAMES.get(context.profile.meanings.get(spelling, spelling))
    if name is None:
        context.report("SCALAR_FUNCTION_UNKNOWN", call.path, name=call.function.declared)
        return unknown()
    values = tuple(a for a in arguments if not isinstance(a, EnumArgument | TypeArgument))
    if is_unknown(*values):
        return unknown()
    check_signature(call.function, tuple(v.type for v in values), call.path, context)
    if name in _PATTERNS:
        arguments = _with_escape(arguments, context.profile.like_escape)
    return _resolve(SCALARS[name], call, arguments, context)


def _with_escape(arguments: tuple[Argument, ...], escape: str | None) -> tuple[Argument, ...]:
    """Arguments of a pattern match with the producer's escape character where the plan gives none."""
    given = len(arguments) > 2 and not (
        isinstance(arguments[2], Constant) and arguments[2].value is None
    )
    if given or escape is None:
        return arguments
    return (*arguments[:2], Constant(STRING.as_nullable(False), escape))


def _resolve(
    row: ScalarFunction, call: ScalarCall, arguments: tuple[Argument, ...], context: Context
) -> Expr:
    found = _choose(row, arguments) or _choose(row, _promoted(arguments))
    if found is None:
        context.report(
            "FUNCTION_ARGUMENTS", call.path, function=row.name,
            types=", ".join(map(described, arguments)), takes=_takes(row),
        )  # fmt: skip
        return unknown()
    overload, values = found
    _report_promotion(row.name, arguments, values, call.path, context)
    options = choose_options(call.function.name, call.options, overload.options, context)
    type_ = _result(row, overload, values, options, context)
    enums = tuple(
        (i, a.value.upper()) for i, a in enumerate(arguments) if isinstance(a, EnumArgument)
    )
    bound = Call(type_, row.name, values, enums, options)
    return declare(bound, call.output_type, row.name, call.path, context)


def _choose(
    row: ScalarFunction, arguments: tuple[Argument, ...]
) -> tuple[Overload, tuple[Expr, ...]] | None:
    for overload in row.overloads:
        params = _expanded(overload, len(arguments))
        if params is None or not all(map(_fits, params, arguments)):
            continue
        values = _values(params, arguments)
        if overload.unify:
            unified = unify(values)
            if unified is None:
                continue
            values = unified
        return overload, values
    return None


def _expanded(overload: Overload, count: int) -> tuple[str, ...] | None:
    params = overload.params
    if overload.variadic and count > len(params):
        return params + params[-1:] * (count - len(params))
    return params if count == len(params) else None


def _fits(param: str, argument: Argument) -> bool:
    word, _, table = param.partition(":")
    if isinstance(argument, EnumArgument):
        return word == "enum" and argument.value.upper() in WORDS[table]
    if isinstance(argument, TypeArgument) or word == "enum":
        return False
    if word == "word":
        return (
            isinstance(argument, Constant)
            and isinstance(argument.value, str)
            and argument.value.lower() in WORDS[table]
        )
    if word == "constant":
        held = isinstance(argument, Constant) and (
            argument.value is None or argument.value in _INT32
        )
        return held and argument.type.kind in FAMILIES[table]
    if word == "number":
        return isinstance(argument, Constant) and argument.value == int(table)
    if word == "decimal" and table:
        return argument.type.kind == word and argument.type.params[1] == int(table)
    if word == "escape":
        return isinstance(argument, Constant) and (
            argument.value is None or (isinstance(argument.value, str) and len(argument.value) == 1)
        )
    return word == "any" or argument.type.kind in FAMILIES[word]


def _values(params: tuple[str, ...], arguments: tuple[Argument, ...]) -> tuple[Expr, ...]:
    values: list[Expr] = []
    for param, argument in zip(params, arguments, strict=True):
        if isinstance(argument, EnumArgument | TypeArgument) or param.startswith("number:"):
            continue
        if param.startswith("word:") and isinstance(argument, Constant):
            values.append(replace(argument, value=argument.value.lower()))
        elif param != "escape" or not is_null(argument):
            values.append(argument)
    return tuple(values)


def _promoted(arguments: tuple[Argument, ...]) -> tuple[Argument, ...]:
    """Numeric arguments of several kinds brought to one: floats win, then decimals."""
    numbers = {
        a.type.kind
        for a in arguments
        if not isinstance(a, EnumArgument | TypeArgument) and is_numeric(a.type)
    }

    def promote(argument: Argument) -> Argument:
        if isinstance(argument, EnumArgument | TypeArgument) or not is_numeric(argument.type):
            return argument
        if numbers & set(FLOATS):
            return convert(argument, FP64)
        return convert(argument, as_decimal(argument.type)) if "decimal" in numbers else argument

    return tuple(map(promote, arguments))


def _report_promotion(
    function: str,
    arguments: tuple[Argument, ...],
    values: tuple[Expr, ...],
    path: str,
    context: Context,
) -> None:
    given = [a.type for a in arguments if not isinstance(a, EnumArgument | TypeArgument)]
    changed = [v.type for g, v in zip(given, values, strict=False) if not g.same_kind(v.type)]
    if changed:
        types = ", ".join(map(described, arguments))
        context.report("ARGUMENTS_PROMOTED", path, function=function, types=types, type=changed[0])


def _result(
    row: ScalarFunction,
    overload: Overload,
    values: tuple[Expr, ...],
    options: tuple[tuple[str, str], ...],
    context: Context,
) -> Type:
    types: Schema = tuple(v.type for v in values)
    result = RESULT_RULES[overload.result](types, context.profile.derivation)
    return result.as_nullable(_nullable(row, types, dict(options)))


def _nullable(row: ScalarFunction, types: Schema, options: dict[str, str]) -> bool:
    if "NULL" in options.values():
        return True
    if options.get("NULL_HANDLING") == "IGNORE_NULLS":
        return False
    if row.nulls == "mirror":
        return any(t.nullable for t in types)
    if row.nulls == "all":
        return all(t.nullable for t in types)
    return row.nulls == "always"


def declare(call: Expr, declared: Type | None, function: str, path: str, context: Context) -> Expr:
    """`call` converted to the result type that the plan declares, with what is odd about that reported."""
    derived = call.type
    if declared is None:
        context.report("RESULT_TYPE_MISSING", path, function=function, type=derived)
        return call
    if not context.check_type(declared, path):
        return unknown()
    declared = context.kept(declared, path)
    if not derived.same_kind(declared):
        if not can_cast(derived, declared) or not fits_decimal(declared):
            context.report(
                "RESULT_TYPE_NOT_SUPPORTED", path,
                function=function, declared=declared, derived=derived,
            )  # fmt: skip
            return unknown()
        context.report(
            "RESULT_TYPE_DIFFERS", path, function=function, declared=declared, derived=derived
        )
    if derived.nullable and not declared.nullable:
        context.report("RESULT_NULLABILITY", path, function=function, declared=declared)
    return as_declared(call, declared)


def described(argument: Argument) -> str:
    """An argument for a message: its type, a word as it is written."""
    if isinstance(argument, EnumArgument):
        return argument.value
    if isinstance(argument, TypeArgument):
        return f"type {argument.type}"
    word = argument.value if isinstance(argument, Constant) else None
    shown = isinstance(word, str) and len(word) <= LONGEST_WORD
    return f"{argument.type} {word!r}" if shown else str(argument.type)


def _takes(row: ScalarFunction) -> str:
    params = {param for overload in row.overloads for param in overload.params}
    tables = sorted({param.partition(":")[2] for param in params} & WORDS.keys())
    said = (f"{table} is one of {', '.join(sorted(WORDS[table]))}" for table in tables)
    return "; ".join((" or ".join(dict.fromkeys(map(_form, row.overloads))), *said))


def _form(overload: Overload) -> str:
    more = ", ...)" if overload.variadic else ")"
    form = "(" + ", ".join(map(parameter_text, overload.params)) + more
    return f"{form} of one type" if overload.unify and overload.params[0] == "any" else form
