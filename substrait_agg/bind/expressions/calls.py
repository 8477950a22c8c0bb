"""Bind scalar calls: overload, conversions of arguments, options and result type."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from substrait_agg.bind.bound import (
    Argument,
    BoundLambda,
    Call,
    Constant,
    Expr,
    value_arguments,
)
from substrait_agg.bind.context import (
    KEYABLE,
    MAX_TIME_DIGITS,
    BindContext,
    Schema,
    is_unknown,
    unknown,
)
from substrait_agg.bind.conversions import (
    as_declared,
    call_loses_digits,
    can_cast,
    convert,
    fits_decimal,
    is_null,
    unify,
)
from substrait_agg.bind.expressions.constant_checks import constants_fit
from substrait_agg.bind.expressions.function_names import check_declared
from substrait_agg.bind.expressions.options import choose_options
from substrait_agg.bind.expressions.signatures import (
    check_declaration,
    declared_signature,
    derives_required,
    inexact,
    misfit,
    types_of,
)
from substrait_agg.bind.expressions.spark_calls import spark_call
from substrait_agg.bind.expressions.time_texts import read_time_texts
from substrait_agg.bind.expressions.windows import is_window, window_arguments
from substrait_agg.functions.aggregates.catalogue import find as find_aggregate
from substrait_agg.functions.scalars.catalogue import SCALAR_NAMES, SCALARS
from substrait_agg.functions.scalars.forms import (
    FAMILIES,
    OF_MANY_KINDS,
    WORDS,
    Overload,
    ScalarFunction,
    parameter_text,
)
from substrait_agg.functions.scalars.refused import refusal
from substrait_agg.functions.signatures.declarations import Section
from substrait_agg.functions.signatures.derive import (
    FLOATS,
    RESULT_RULES,
    as_decimal,
    common_type,
    is_numeric,
)
from substrait_agg.functions.spark_sql import SPARK_URN
from substrait_agg.functions.windows import WINDOWS_URN
from substrait_agg.plan.model import EnumArgument, ScalarCall, TypeArgument
from substrait_agg.plan.types import FP64, STRING, Type

if TYPE_CHECKING:
    from collections.abc import Callable


ESCAPE: Final = 2
"""Position of the escape character among the arguments of a pattern match."""

SECTION: Section = "scalar_functions"
"""Section of an extension file that declares scalar functions."""

_TIME_DIGITS = range(13)
_RESULTS = KEYABLE
"""Type kinds that a lambda argument may return: they become elements of lists."""
LONGEST_WORD = 40
"""Messages show constant texts up to this length."""


def bind_call(call: ScalarCall, arguments: tuple[Argument, ...], context: BindContext) -> Expr:
    """Resolve the function of a call. Report failures and return an unknown expression for them."""
    if not check_declared(call.function, call.path, context):
        return unknown()
    if call.function.urn == SPARK_URN:
        return spark_call(call, arguments, context)
    name = _scalar_name(call, context)
    if name is None:
        return unknown()
    check_declaration(call.function, SECTION, call.path, context)
    values = value_arguments(arguments)
    if is_unknown(*values) or _refuse_argument(name, arguments, call, context):
        return unknown()
    if SCALARS[name].has_escape:
        arguments = _with_escape(arguments, context.profile.like_escape)
    return _resolve(SCALARS[name], call, arguments, context)


def _scalar_name(call: ScalarCall, context: BindContext) -> str | None:
    """Return the canonical name of a scalar function; report any other function and return None."""
    function, spelling = call.function, call.function.name
    meaning = context.profile.meanings.get(spelling, spelling)
    name = SCALAR_NAMES.get(meaning)
    if name is None and refusal(spelling):
        reason = refusal(spelling)
        context.report(
            "SCALAR_FUNCTION_NOT_SUPPORTED", call.path, name=function.declared, reason=reason
        )
        return None
    if name is None or (function.urn == WINDOWS_URN and not SCALARS[name].durations):
        name = None
        aggregate = find_aggregate(spelling) is not None
        code = "FUNCTION_NOT_SCALAR" if aggregate else "SCALAR_FUNCTION_UNKNOWN"
        context.report(code, call.path, name=function.declared)
    elif meaning != spelling:
        producer = context.profile.name
        context.report(
            "FUNCTION_MEANING", call.path, function=spelling, meaning=meaning, producer=producer
        )
    return name


def _refuse_argument(
    name: str, arguments: tuple[Argument, ...], call: ScalarCall, context: BindContext
) -> bool:
    """Report a call that the standard declares but that is refused for one of its arguments."""
    parts = (a.value.upper() if isinstance(a, EnumArgument) else a.type.kind for a in arguments)
    reason = refusal(name, parts)
    if reason:
        context.report(
            "SCALAR_FUNCTION_NOT_SUPPORTED", call.path, name=call.function.declared, reason=reason
        )
    return bool(reason)


def _with_escape(arguments: tuple[Argument, ...], escape: str | None) -> tuple[Argument, ...]:
    """Add the producer's escape character to a pattern match that does not set one."""
    has_escape = len(arguments) > ESCAPE and not (
        isinstance(arguments[ESCAPE], Constant) and arguments[ESCAPE].value is None
    )
    if has_escape or escape is None:
        return arguments
    return (*arguments[:ESCAPE], Constant(STRING.as_nullable(False), escape))


def _resolve(
    row: ScalarFunction, call: ScalarCall, arguments: tuple[Argument, ...], context: BindContext
) -> Expr:
    read = _with_times(row, call, arguments, context)
    if read is None:
        return unknown()
    arguments = read
    match = _choose(row, arguments) or _choose(row, _promote(arguments))
    if match is None:
        texts = (", ".join(map(describe_argument, arguments)), _takes(row))
        report_faults(row, call, arguments, _fits, texts, context)
        return unknown()
    overload, values = match
    _check_signature(call, arguments, context)
    if not constants_fit(row.name, overload, arguments, call, context):
        return unknown()
    _report_promotion(row.name, arguments, values, call.path, context)
    if row.durations:
        durations = window_arguments(row, values, call, context)
        if durations is None:
            return unknown()
        values = durations
    options = choose_options(call.function.name, call.options, overload.options, context, call.path)
    nullable = _nullable(row, arguments)
    type_ = _result(overload, values, context).as_nullable(_with_options(nullable, options))
    enums = tuple(
        (i, a.value.upper()) for i, a in enumerate(arguments) if isinstance(a, EnumArgument)
    )
    bound = Call(type_, row.name, values, enums, options)
    null_option = "" if nullable else _null_option(options)
    # The plan follows the declaration, which does not mention this null, so nothing is reported.
    silent = row.nulls == "undeclared" and not any(v.type.nullable for v in values)
    resolved = _declare(
        bound, call.output_type, null_option, call.path, context,
        undeclared=silent,
        never_null=not type_.nullable and derives_required(call.function, SECTION, arguments),
    )  # fmt: skip
    if is_window(bound):
        # A converted window is no longer a window.
        context.windows[call.path] = resolved if is_window(resolved) else bound
    return resolved


def _with_times(
    row: ScalarFunction, call: ScalarCall, arguments: tuple[Argument, ...], context: BindContext
) -> tuple[Argument, ...] | None:
    """Read text arguments of a comparison as dates and times; report invalid ones, return None."""
    values = value_arguments(arguments)
    compares = any(o.unify and o.params[0] in OF_MANY_KINDS for o in row.overloads)
    if not compares or len(values) < len(arguments):
        return arguments
    # A call that does not come from a plan has no argument nodes.
    paths = [a.path for a in call.arguments] or [call.path] * len(arguments)
    return read_time_texts(row.name, values, paths, context)


def _check_signature(
    call: ScalarCall, arguments: tuple[Argument, ...], context: BindContext
) -> None:
    """Report arguments that the function accepts but the declared signature does not."""
    declared = declared_signature(call.function, SECTION)
    if declared is None:
        return
    types = types_of(arguments)
    if misfit(declared, arguments) is not None:
        context.report("SIGNATURE_DIFFERS", call.path, name=call.function.declared, types=types)
    elif kind := inexact(declared, arguments):
        name = call.function.name
        context.report("ARGUMENTS_PROMOTED", call.path, function=name, types=types, type=kind)


def _choose(
    row: ScalarFunction, arguments: tuple[Argument, ...]
) -> tuple[Overload, tuple[Expr, ...]] | None:
    for overload in row.overloads:
        params = expand(overload, len(arguments))
        if params is None or not all(map(_fits, params, arguments)):
            continue
        values: tuple[Expr, ...] | None = _values(params, arguments)
        if overload.unify and values is not None:
            values = unify(values)
        if overload.of_elements and not _of_elements(arguments):
            continue
        if overload.element is not None and values is not None:
            values = _with_element(values, overload.element)
        if values is not None:
            return overload, values
    return None


def _of_elements(arguments: tuple[Argument, ...]) -> bool:
    """Return whether a lambda takes exactly one parameter of the list's element type."""
    values, function = arguments
    if not isinstance(values, Expr) or not isinstance(function, BoundLambda):
        return False
    parameters = function.type.children[1:]
    return len(parameters) == 1 and parameters[0].same_kind(values.type.children[0])


def _with_element(values: tuple[Expr, ...], place: int) -> tuple[Expr, ...] | None:
    """Convert one of two values to the element or key type of the other, None if that is impossible."""
    value, container = values[place], values[1 - place]
    element = container.type.children[0]
    converted = convert(value, element)
    if not isinstance(converted, Constant):  # a constant is converted exactly
        common = common_type((value.type, element))
        if common is None or not common.same_kind(element):
            return None
    return (container, converted) if place else (converted, container)


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
    if isinstance(argument, BoundLambda) or word == "function":
        kind = argument.type.children[0].kind if isinstance(argument, BoundLambda) else ""
        return word == "function" and kind in ({table} if table else _RESULTS)
    if word == "span":
        return isinstance(argument, Constant) and argument.type.kind in FAMILIES[table]
    if word == "digits":
        return isinstance(argument, Constant) and argument.value in _TIME_DIGITS
    if word == "format":
        return isinstance(argument, Constant) and argument.type.kind in FAMILIES["text"]
    if word == "escape":
        return isinstance(argument, Constant) and (
            argument.value is None or (isinstance(argument.value, str) and len(argument.value) == 1)
        )
    return _is_of_family(argument.type, word, table)


def _is_of_family(type_: Type, family: str, only: str) -> bool:
    if family == "decimal" and only:
        return type_.kind == family and type_.params[1] == int(only)
    if "ordered" in (family, only) and type_.has_map():
        return False
    return family == "any" or type_.kind in FAMILIES[family]


def _values(params: tuple[str, ...], arguments: tuple[Argument, ...]) -> tuple[Expr, ...]:
    values: list[Expr] = []
    for param, argument in zip(params, arguments, strict=True):
        if isinstance(argument, EnumArgument | TypeArgument):
            continue
        if param.startswith("word:") and isinstance(argument, Constant):
            values.append(replace(argument, value=argument.value.lower()))
        elif param != "escape" or not is_null(argument):
            values.append(argument)
    return tuple(values)


def _promote(arguments: tuple[Argument, ...]) -> tuple[Argument, ...]:
    """Promote numeric arguments of several kinds to one kind: floats win, then decimals."""
    numbers = {v.type.kind for v in value_arguments(arguments) if is_numeric(v.type)}

    def promote(argument: Argument) -> Argument:
        """Convert a numeric argument to the common kind."""
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
    context: BindContext,
) -> None:
    pairs = zip(value_arguments(arguments), values, strict=False)
    changed = [v.type for a, v in pairs if not a.type.same_kind(v.type)]
    if changed:
        types = ", ".join(map(describe_argument, arguments))
        context.report("ARGUMENTS_PROMOTED", path, function=function, types=types, type=changed[0])


def _result(overload: Overload, values: tuple[Expr, ...], context: BindContext) -> Type:
    """Return the result type. `_nullable` decides its nullability."""
    types: Schema = tuple(v.type for v in values)
    rule, _, kind = overload.result.partition(":")
    if kind and isinstance(values[-1], Constant):
        return Type(kind, params=(min(int(values[-1].value), MAX_TIME_DIGITS),))
    return RESULT_RULES[rule](types, context.profile.derivation)


def _nullable(row: ScalarFunction, arguments: tuple[Argument, ...]) -> bool:
    """Return whether the declaration of a function derives a nullable result for the arguments.

    The type of a constant decides, also for a constant that does not become an argument of the
    bound call. A null escape character does not count.
    """
    considered = [
        a
        for position, a in enumerate(arguments)
        if not isinstance(a, EnumArgument | TypeArgument)
        and not (row.has_escape and position == ESCAPE and is_null(a))
    ]
    if row.nulls == "mirror":
        return any(a.type.nullable for a in considered)
    if row.nulls == "all":
        return all(map(_possibly_null, considered))
    return row.nulls in ("always", "undeclared")


def _possibly_null(argument: Expr) -> bool:
    """Return whether an argument can be null; a constant with a value cannot, whatever its type."""
    return argument.type.nullable and (not isinstance(argument, Constant) or is_null(argument))


def _with_options(nullable: bool, options: tuple[tuple[str, str], ...]) -> bool:
    """Return whether the result is nullable when the options of the call are considered too."""
    if _null_option(options):
        return True
    return nullable and ("NULL_HANDLING", "IGNORE_NULLS") not in options


def _null_option(options: tuple[tuple[str, str], ...]) -> str:
    """Return the option that makes a call return null in some cases; empty for none."""
    return next((name for name, value in options if value == "NULL"), "")


def _declare(
    call: Call,
    declared: Type | None,
    null_option: str,
    path: str,
    context: BindContext,
    *,
    undeclared: bool = False,
    never_null: bool = False,
) -> Expr:
    """Convert `call` to the result type that the plan declares. Report differences.

    Args:
        call: the call, with the type that its arguments give.
        declared: the type that the plan declares; None for none.
        null_option: the option that makes the result null; empty for none.
        path: path of the call.
        context: collects the problems.
        undeclared: the declaration of the function does not mention that the result can be null.
        never_null: the declaration of the function derives a required result for the arguments.
    """
    derived, function = call.type, call.function
    if declared is None:
        context.report("RESULT_TYPE_MISSING", path, function=function, type=derived)
        return call
    path = f"{path}.scalar_function.output_type"
    if not context.check_type(declared, path):
        return unknown()
    declared = context.limit_time_digits(declared, path)
    if _typed_as_column(call, declared, context):
        context.report(
            "RESULT_TYPE_OF_COLUMN", path, function=function, declared=declared, derived=derived
        )
        return call
    if not derived.same_kind(declared):
        if not can_cast(derived, declared) or not fits_decimal(declared):
            context.report(
                "RESULT_TYPE_NOT_SUPPORTED", path,
                function=function, declared=declared, derived=derived,
            )  # fmt: skip
            return unknown()
        code = "RESULT_TYPE_LOSSY" if call_loses_digits(call, declared) else "RESULT_TYPE_DIFFERS"
        context.report(code, path, function=function, declared=declared, derived=derived)
    elif declared.nullable and never_null:
        context.report(
            "RESULT_TYPE_DIFFERS", path, function=function, declared=declared, derived=derived
        )
    if derived.nullable and not declared.nullable and not undeclared:
        code, why = (
            ("NULL_BY_OPTION", {"option": null_option})
            if null_option
            else ("RESULT_NULLABILITY", {})
        )
        context.report(code, path, function=function, declared=declared, **why)
    return as_declared(call, declared)


def _typed_as_column(call: Call, declared: Type, context: BindContext) -> bool:
    """Return whether the producer gave the call the type of the column that it compares."""
    return (
        context.profile.column_typed
        and SCALARS[call.function].tests_any_type
        and not call.type.same_kind(declared)
        and call.arguments[0].type.same_kind(declared)
    )


def describe_argument(argument: Argument) -> str:
    """Describe an argument for a message: by its type, or a word as the plan writes it."""
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
    of_one_type = overload.unify and overload.params[0] in OF_MANY_KINDS
    return f"{form} of one type" if of_one_type else form


Params = tuple[str, ...]


def expand(overload: Overload, count: int) -> Params | None:
    """Return the parameters of `count` arguments, or None if the overload takes another number."""
    params = overload.params
    if overload.variadic and count > len(params):
        return params + params[-1:] * (count - len(params))
    return params if count == len(params) else None


def report_faults(
    row: ScalarFunction,
    call: ScalarCall,
    arguments: tuple[Argument, ...],
    fits: Callable[[str, Argument], bool],
    texts: tuple[str, str],
    context: BindContext,
) -> None:
    """Report why no overload takes the arguments: their number, a word, or the type of one.

    Args:
        row: the function.
        call: the call as the plan writes it; a call that does not come from a plan has no argument
            nodes.
        arguments: bound arguments.
        fits: returns whether a parameter takes an argument.
        texts: the arguments and what the function takes, for the message.
        context: collects the problem.
    """
    type_texts, takes = texts
    forms = [
        parameters for o in row.overloads if (parameters := expand(o, len(arguments))) is not None
    ]
    if not forms:
        context.report(
            "ARGUMENT_COUNT", f"{call.path}.scalar_function.arguments", function=row.name,
            needed=_describe_need(row), count=arguments_given(len(arguments)), takes=takes,
        )  # fmt: skip
        return
    position, params = _furthest(forms, arguments, fits)
    if position is None:
        context.report(
            "FUNCTION_ARGUMENTS", call.path, function=row.name, types=type_texts, takes=takes
        )
        return
    argument = arguments[position]
    place = call.arguments[position].path if call.arguments else call.path
    word, _, table = params[position].partition(":")
    if isinstance(argument, EnumArgument) and word == "enum":
        context.report(
            "ENUM_ARGUMENT_INVALID", f"{place}.enum", function=row.name, argument=table,
            word=repr(argument.value), words=", ".join(sorted(WORDS[table])),
        )  # fmt: skip
        return
    context.report("FUNCTION_ARGUMENTS", place, function=row.name, types=type_texts, takes=takes)


def _furthest(
    forms: list[Params], arguments: tuple[Argument, ...], fits: Callable[[str, Argument], bool]
) -> tuple[int | None, Params]:
    """Find the first argument that does not fit, in the overload where it comes last.

    Returns:
        The position of the argument and the parameters of the overload. The position is None if all
        arguments of an overload fit.
    """
    failures: list[tuple[int, Params]] = []
    for params in forms:
        misfits = (i for i, p in enumerate(params) if not fits(p, arguments[i]))
        position = next(misfits, None)
        if position is None:
            return None, params
        failures.append((position, params))
    return max(failures, key=lambda item: item[0])


def _describe_need(row: ScalarFunction) -> str:
    counts = {len(o.params) for o in row.overloads}
    return arguments_needed(min(counts), max(counts), more=any(o.variadic for o in row.overloads))


def arguments_needed(least: int, most: int, *, more: bool) -> str:
    """Return how many arguments a function takes, as text; with `more`, any number from `least` on."""
    if more:
        return f"at least {_arguments(least)}"
    return _arguments(most) if least == most else f"{least} to {_arguments(most)}"


def _arguments(count: int) -> str:
    return f"{count} argument" if count == 1 else f"{count or 'no'} arguments"


def arguments_given(count: int) -> str:
    """Return how many arguments there are, with the verb: ``none are``."""
    return f"{count or 'none'} {'is' if count == 1 else 'are'}"
