"""Arguments that a scalar function does not take: which of them, and what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from substrait_agg.bind.bound import Argument
from substrait_agg.bind.context import Context
from substrait_agg.functions.scalars import WORDS, Overload, ScalarFunction
from substrait_agg.plan.model import EnumArgument, ScalarCall

if TYPE_CHECKING:
    from collections.abc import Callable


Params = tuple[str, ...]


def expanded(overload: Overload, count: int) -> Params | None:
    """The parameter of each of `count` arguments, None where the overload takes another number."""
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
    context: Context,
) -> None:
    """Report why no overload takes the arguments: their number, a word, or the type of one.

    Args:
        row: the function.
        call: as the plan writes it; one that is not from a plan has no arguments of its own.
        arguments: bound.
        fits: whether a parameter takes an argument.
        texts: the arguments, and what the function takes, for the message.
        context: takes the problem.
    """
    given, takes = texts
    forms = [p for o in row.overloads if (p := expanded(o, len(arguments))) is not None]
    if not forms:
        context.report(
            "ARGUMENT_COUNT", f"{call.path}.scalar_function.arguments", function=row.name,
            needed=_needed(row), count=_given(len(arguments)), takes=takes,
        )  # fmt: skip
        return
    position, params = _furthest(forms, arguments, fits)
    if position is None:
        context.report("FUNCTION_ARGUMENTS", call.path, function=row.name, types=given, takes=takes)
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
    context.report("FUNCTION_ARGUMENTS", place, function=row.name, types=given, takes=takes)


def _furthest(
    forms: list[Params], arguments: tuple[Argument, ...], fits: Callable[[str, Argument], bool]
) -> tuple[int | None, Params]:
    """The first argument that does not fit, in the overload that takes the most before it; None where all fit."""
    found: list[tuple[int, Params]] = []
    for params in forms:
        misfits = (i for i, p in enumerate(params) if not fits(p, arguments[i]))
        position = next(misfits, None)
        if position is None:
            return None, params
        found.append((position, params))
    return max(found, key=lambda item: item[0])


def _needed(row: ScalarFunction) -> str:
    counts = sorted({len(o.params) for o in row.overloads})
    if any(o.variadic for o in row.overloads):
        return f"at least {_arguments(counts[0])}"
    least, most = counts[0], counts[-1]
    return _arguments(most) if least == most else f"{least} to {_arguments(most)}"


def _arguments(count: int) -> str:
    return f"{count} argument" if count == 1 else f"{count or 'no'} arguments"


def _given(count: int) -> str:
    return f"{count or 'none'} {'is' if count == 1 else 'are'}"
