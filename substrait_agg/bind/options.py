"""Function options: the first supported preference wins, an unknown option or value refuses the plan.

Source: Substrait specification, scalar functions, "Option Preference".
"""

from __future__ import annotations

from collections.abc import Mapping

from substrait_agg.bind.context import Context
from substrait_agg.plan.model import Option


def choose_options(
    function: str,
    options: tuple[Option, ...],
    honoured: Mapping[str, tuple[str, ...]],
    context: Context,
) -> tuple[tuple[str, str], ...]:
    """Every option of the function with the value that holds, sorted by name, upper case.

    Args:
        function: the name the plan uses, which profiles tell apart (``concat`` and ``str_concat``).
        options: what the plan sets.
        honoured: option name -> values that are honoured, the default first.
        context: takes the problems.
    """
    chosen = {
        name: context.profile.defaults.get((function, name), values[0])
        for name, values in honoured.items()
    }
    set_before: dict[str, str] = {}
    for option in options:
        values = honoured.get(option.name.upper())
        if values is None:
            known = ", ".join(sorted(honoured)) or "none"
            context.report(
                "OPTION_UNKNOWN", option.path, function=function, option=option.name, known=known
            )
            continue
        wanted = next((p.upper() for p in option.preferences if p.upper() in values), None)
        if wanted is None:
            context.report(
                "OPTION_VALUE_NOT_SUPPORTED", option.path, function=function, option=option.name,
                values=", ".join(option.preferences) or "none given", known=", ".join(values),
            )  # fmt: skip
            continue
        name = option.name.upper()
        if set_before.setdefault(name, wanted) != wanted:
            context.report(
                "FIELD_CONFLICT", option.path,
                field=f"{option.name} = {wanted}", other=f"{option.name} = {set_before[name]}",
            )  # fmt: skip
        chosen[name] = wanted
    return tuple(sorted(chosen.items()))
