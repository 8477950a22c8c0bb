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
    effective = {name: values[0] for name, values in honoured.items()}
    effective |= _assume_defaults(function, options, honoured, context, path)
    set_before: dict[str, str] = {}
    for option in options:
        preference = _first_supported(function, option, honoured, context)
        if preference is None:
            continue
        name = option.name.upper()
        if set_before.setdefault(name, preference) != preference:
            context.report(
                "FIELD_CONFLICT", option.path,
                field=f"{option.name} = {preference}", other=f"{option.name} = {set_before[name]}",
            )  # fmt: skip
        effective[name] = preference
    return tuple(sorted(effective.items()))


def _first_supported(
    function: str,
    option: OptionPreferences,
    honoured: Mapping[str, tuple[str, ...]],
    context: BindContext,
) -> str | None:
    """Return the first supported preference in upper case; report an option that has none."""
    values, place = honoured.get(option.name.upper()), f"{option.path}.preference"
    if values is None:
        alternatives = ", ".join(sorted(honoured)) or "none"
        context.report(
            "OPTION_UNKNOWN", f"{option.path}.name",
            function=function, option=option.name, known=alternatives,
        )  # fmt: skip
        return None
    if not option.preferences:
        alternatives = ", ".join(values)
        context.report(
            "OPTION_NO_PREFERENCE", place, function=function, option=option.name, known=alternatives
        )
        return None
    preference = next((p.upper() for p in option.preferences if p.upper() in values), None)
    if preference is None:
        context.report(
            "OPTION_VALUE_NOT_SUPPORTED", place, function=function, option=option.name,
            values=", ".join(option.preferences), known=", ".join(values),
        )  # fmt: skip
    return preference


def _assume_defaults(
    function: str,
    options: tuple[OptionPreferences, ...],
    honoured: Mapping[str, tuple[str, ...]],
    context: BindContext,
    path: str,
) -> dict[str, str]:
    """Return the producer's defaults for options that the plan does not set."""
    written = {option.name.upper() for option in options}
    defaults = context.profile.defaults
    assumed = {
        name: defaults[function, name]
        for name in honoured
        if defaults.get((function, name)) in honoured[name] and name not in written
    }
    for name, value in assumed.items():
        context.report(
            "OPTION_ASSUMED", path, function=function, option=name, value=value,
            producer=context.profile.name,
        )  # fmt: skip
    return assumed
