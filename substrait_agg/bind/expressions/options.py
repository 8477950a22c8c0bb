"""Function options: the first supported preference wins, an unknown option or value refuses the plan.

Source: Substrait specification, scalar functions, "Option Preference".
"""

from __future__ import annotations

from collections.abc import Mapping

from substrait_agg.bind.context import BindContext
from substrait_agg.plan.model import Option


def choose_options(
    function: str,
    options: tuple[Option, ...],
    honoured: Mapping[str, tuple[str, ...]],
    context: BindContext,
    path: str,
) -> tuple[tuple[str, str], ...]:
    """Every option of the function with the value that holds, sorted by name, upper case.

    Args:
        function: the name the plan uses, which profiles tell apart (``concat`` and ``str_concat``).
        options: what the plan sets.
        honoured: option name -> values that are honoured, the default first.
        context: takes the problems.
        path: of the call, where what its producer decides for it is noted.
    """
    chosen = {name: values[0] for name, values in honoured.items()}
    chosen |= _assumed(function, options, honoured, context, path)
    set_before: dict[str, str] = {}
    for option in options:
        wanted = _wanted(function, option, honoured, context)
        if wanted is None:
            continue
        name = option.name.upper()
        if set_before.setdefault(name, wanted) != wanted:
            context.report(
                "FIELD_CONFLICT", option.path,
                field=f"{option.name} = {wanted}", other=f"{option.name} = {set_before[name]}",
            )  # fmt: skip
        chosen[name] = wanted
    return tuple(sorted(chosen.items()))


def _wanted(
    function: str, option: Option, honoured: Mapping[str, tuple[str, ...]], context: BindContext
) -> str | None:
    """The first preference that is honoured, upper case; None once it is reported that there is none."""
    values, given = honoured.get(option.name.upper()), f"{option.path}.preference"
    if values is None:
        known = ", ".join(sorted(honoured)) or "none"
        context.report(
            "OPTION_UNKNOWN", f"{option.path}.name",
            function=function, option=option.name, known=known,
        )  # fmt: skip
        return None
    if not option.preferences:
        known = ", ".join(values)
        context.report(
            "OPTION_NO_PREFERENCE", given, function=function, option=option.name, known=known
        )
        return None
    wanted = next((p.upper() for p in option.preferences if p.upper() in values), None)
    if wanted is None:
        context.report(
            "OPTION_VALUE_NOT_SUPPORTED", given, function=function, option=option.name,
            values=", ".join(option.preferences), known=", ".join(values),
        )  # fmt: skip
    return wanted


def _assumed(
    function: str,
    options: tuple[Option, ...],
    honoured: Mapping[str, tuple[str, ...]],
    context: BindContext,
    path: str,
) -> dict[str, str]:
    """Values that the producer takes where its plan does not set the option."""
    written = {option.name.upper() for option in options}
    known = context.profile.defaults
    assumed = {
        name: known[function, name]
        for name in honoured
        if (function, name) in known and name not in written
    }
    for name, value in assumed.items():
        context.report(
            "OPTION_ASSUMED", path, function=function, option=name, value=value,
            producer=context.profile.name,
        )  # fmt: skip
    return assumed
