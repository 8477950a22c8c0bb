"""Choose function options.

The first supported preference wins. Unknown option names and values are errors.

Source: Substrait specification, scalar functions, "Option Preference".
"""

from __future__ import annotations

from collections.abc import Mapping

from substrait_agg.bind.context import BindContext
from substrait_agg.plan.model import OptionPreferences


def choose_options(
    function: str,
    options: tuple[OptionPreferences, ...],
    honoured: Mapping[str, tuple[str, ...]],
    context: BindContext,
    path: str,
) -> tuple[tuple[str, str], ...]:
    """Return every option of the function with its effective value, sorted by name, in upper case.

    Args:
        function: the name that the plan uses, which profiles distinguish (``concat`` and
            ``str_concat``).
        options: the options that the plan sets.
        honoured: option name -> supported values, the default first.
        context: collects the problems.
        path: path of the call, where the defaults of the producer are reported.
    """
    chosen = {name: values[0] for name, values in honoured.items()}
    chosen |= _assumed(function, options, honoured, context, path)
    set_before: dict[str, str] = {}
    for option in options:
        wanted = _first_supported(function, option, honoured, context)
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


def _first_supported(
    function: str,
    option: OptionPreferences,
    honoured: Mapping[str, tuple[str, ...]],
    context: BindContext,
) -> str | None:
    """Return the first supported preference in upper case.

    Report an option without one and return None.
    """
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
    options: tuple[OptionPreferences, ...],
    honoured: Mapping[str, tuple[str, ...]],
    context: BindContext,
    path: str,
) -> dict[str, str]:
    """Return the producer's defaults for options that the plan does not set."""
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
