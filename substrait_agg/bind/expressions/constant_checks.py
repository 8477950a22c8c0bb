"""Check constant arguments that not every value is valid for: patterns, time formats, intervals of days."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from substrait_agg.bind.bound import Constant
from substrait_agg.bind.context import BindContext
from substrait_agg.functions.scalars.forms import Overload
from substrait_agg.functions.scalars.patterns import difference, replacement_fault
from substrait_agg.functions.scalars.time_formats import FormatError, parse_reading, parse_writing
from substrait_agg.plan.model import EnumArgument, ScalarCall, TypeArgument

if TYPE_CHECKING:
    from substrait_agg.bind.bound import Argument

_DAY_SECONDS = 86_400

Check = Callable[[str, tuple[str, ...], str], str]
"""Takes a constant text, the type kinds of all arguments, and `Overload.result`.

Returns why the text is refused, or an empty text.
"""


def _check_format(format: str, kinds: tuple[str, ...], result: str) -> str:
    if result == "string":
        return _fault(lambda: parse_writing(format, kinds[0]))
    # The arguments are text, format, zone and digits. Without a zone there are three.
    kind = result.removeprefix("digits:")
    return _fault(lambda: parse_reading(format, kind, zoned=len(kinds) > 3))


def _fault(read: Callable[[], object]) -> str:
    try:
        read()
    except FormatError as error:
        return str(error)
    return ""


CHECKS: Mapping[str, Check] = {
    "format": _check_format,
    "pattern": lambda text, _kinds, _result: difference(text),
    "replacement": lambda text, _kinds, _result: replacement_fault(text),
}
"""What a constant text is -> its check."""


def constants_fit(
    name: str,
    overload: Overload,
    arguments: tuple[Argument, ...],
    call: ScalarCall,
    context: BindContext,
) -> bool:
    """Report constant arguments that cannot be used. Return True if there are none."""
    kinds = tuple(_kinds(arguments))
    fit = True
    formats = {i: param for i, param in enumerate(overload.params) if param == "format"}
    for position, argument in {**overload.checks, **formats}.items():
        constant = arguments[position]
        if not isinstance(constant, Constant) or not isinstance(constant.value, str):
            continue
        reason = CHECKS[argument](constant.value, kinds, overload.result)
        if reason:
            place = call.arguments[position].path if call.arguments else call.path
            context.report(
                "CONSTANT_ARGUMENT_INVALID", place, function=name, argument=argument, reason=reason
            )
            fit = False
    return fit and _moves_dates_by_days(name, overload, arguments, call, context)


def _moves_dates_by_days(
    name: str,
    overload: Overload,
    arguments: tuple[Argument, ...],
    call: ScalarCall,
    context: BindContext,
) -> bool:
    """Report a constant interval with a time of day that is added to a date, if the sum is a date.

    In DataFusion it is, and the time of day is lost. In SQL the sum is a timestamp.
    """
    if overload.result != "date_and_days" or context.profile.derivation != "arrow":
        return True
    point, interval = arguments[:2]
    if not isinstance(interval, Constant) or interval.value is None or _kind(point) != "date":
        return True
    digits = interval.type.params[0] if interval.type.params else 6
    if not interval.value[-1] % (_DAY_SECONDS * 10**digits):
        return True
    reason = "a date plus or minus an interval is a date here, which has no time of day: cast the date to a timestamp"
    place = call.arguments[1].path
    context.report(
        "CONSTANT_ARGUMENT_INVALID", place, function=name, argument="interval", reason=reason
    )
    return False


def _kinds(arguments: Iterable[Argument]) -> Iterable[str]:
    yield from map(_kind, arguments)


def _kind(argument: Argument) -> str:
    return "" if isinstance(argument, EnumArgument | TypeArgument) else argument.type.kind
