"""The signatures that the extension files declare, by which a plan names the functions of test cases."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from substrait_agg.plan.types import Type
from tests.conformance.cases import Argument, Call, Case, ColumnRef, Enum, Lambda, Literal

_SHORT = {
    "string": "str", "binary": "vbin", "boolean": "bool", "fixedchar": "fchar", "varchar": "vchar",
    "fixedbinary": "fbin", "decimal": "dec", "precision_time": "pt", "precision_timestamp": "pts",
    "precision_timestamp_tz": "ptstz", "interval_year": "iyear", "interval_day": "iday",
    "interval_compound": "icompound", "time": "time", "timestamp": "ts", "timestamp_tz": "tstz",
}  # fmt: skip
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Forms = dict[str, list[dict[str, Any]]]


@cache
def _functions(urn: str) -> Forms:
    """Name -> its implementations, of all three kinds of functions."""
    folder = files("substrait_extensions").joinpath("extensions")
    text = folder.joinpath(f"{urn}.yaml").read_text(encoding="utf-8")
    content = yaml.load(text, Loader=_LOADER)
    found: Forms = {}
    for kind in ("scalar_functions", "aggregate_functions"):
        for function in content.get(kind, ()):
            found.setdefault(function["name"].lower(), []).extend(function["impls"])
    return found


def short_name(word: str) -> str:
    """The short name of a type in signatures: ``dec`` of ``decimal?<P,S>``."""
    name = re.split(r"[<?]", word.lower(), maxsplit=1)[0].strip()
    return "any" if re.fullmatch(r"any\d*|t", name) else _SHORT.get(name, name)


def signature_of(case: Case) -> tuple[str, str]:
    """The extension that declares the case's function, and the name it is declared under.

    Where no declaration takes these arguments, the signature is made from their types.
    """
    name = case.call.function
    given = tuple(_word(a, case) for a in case.call.arguments)
    for urn in case.urns:
        for form in _functions(urn).get(name, ()):
            words = tuple(_declared_word(a) for a in form.get("args", ()))
            if _takes(words, given, variadic="variadic" in form):
                return urn, f"{name}:{'_'.join(words)}"
    return case.urns[0], f"{name}:{'_'.join(given)}"


def options_of(case: Case) -> frozenset[str]:
    """Names of options that some declaration of the case's function has, lower case."""
    return frozenset(
        option.lower()
        for urn in case.urns
        for form in _functions(urn).get(case.call.function, ())
        for option in form.get("options", {})
    )


def _declared_word(argument: dict[str, Any]) -> str:
    return "req" if "options" in argument else short_name(str(argument["value"]))


def _word(argument: Argument, case: Case) -> str:
    if isinstance(argument, Enum):
        return "req"
    if isinstance(argument, Literal | Lambda):
        return _type_word(argument.type)
    if isinstance(argument, ColumnRef) and case.table is not None:
        return _type_word(case.table.types[argument.ordinal])
    if isinstance(argument, Call):
        return "any"
    message = f"{argument} is no argument"
    raise TypeError(message)


def _type_word(type_: Type) -> str:
    return f"u!{type_.kind}" if type_.kind.startswith("u") else short_name(type_.kind)


def _takes(words: tuple[str, ...], given: tuple[str, ...], *, variadic: bool) -> bool:
    if variadic and len(given) > len(words):
        words += words[-1:] * (len(given) - len(words))
    fits = (w in (g, "any") or g == "any" for w, g in zip(words, given, strict=False))
    return len(words) == len(given) and all(fits)
