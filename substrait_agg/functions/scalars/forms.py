"""Define the rows of the table of scalar functions: signatures, results, null handling, options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal as OneOf

from substrait_agg.plan.types import PARAMETER_KINDS, SIMPLE_KINDS, UNSIGNED

Nulls = OneOf["mirror", "never", "always", "all", "undeclared"]
"""When the result can be null: if any argument can; never; always; only if every argument can.

``undeclared``: always, although the standard declares it nullable only if an argument is.
"""


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a scalar function.

    Attributes:
        params: per argument a key of `FAMILIES` (``decimal:0`` accepts only decimals of scale 0,
            ``list:ordered`` only lists of `ordered` elements),
            ``enum:W`` (enumeration argument, one of ``WORDS[W]``, in upper case), ``word:W``
            (constant string, one of ``WORDS[W]``, in lower case in a bound call), ``escape``
            (constant string of one character; omitted from a bound call if it is null), ``span:F``
            (a constant of the family F), ``format`` (a constant string for `time_formats`, or
            null), ``function:K`` (a lambda whose result is of the kind K), or ``digits`` (a
            constant integer, the digits of a second from 0 to 12).
        result: a key of `derive.RESULT_RULES`, or ``digits:K``: the type kind K with the number of
            digits in the last argument.
        options: option name -> supported values, the default first; in upper case.
        unify: whether all arguments are converted to their common type.
        variadic: whether the last parameter may repeat.
        of_elements: whether the second argument is a function of one parameter: the elements of the
            list in the first one.
        element: which of the two arguments is converted to the element type of the list, or to the
            key type of the map, in the other one; None for neither.
    """

    params: tuple[str, ...]
    result: str
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unify: bool = False
    variadic: bool = False
    element: int | None = None
    of_elements: bool = False


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A row of the table.

    Attributes:
        name: canonical name, in lower case.
        overloads: signatures, tried in order.
        nulls: when the result can be null.
        aliases: other names with the same meaning.
    """

    name: str
    overloads: tuple[Overload, ...]
    nulls: Nulls = "mirror"
    aliases: tuple[str, ...] = ()

    def takes(self, count: int) -> bool:
        """Return whether some overload accepts `count` arguments."""
        return any(
            count == len(o.params) or (o.variadic and count >= len(o.params))
            for o in self.overloads
        )


FAMILIES: dict[str, frozenset[str]] = {
    "integer": frozenset({"i8", "i16", "i32", "i64"}),
    # u64 is a decimal on Spark, and decimals have no bits.
    "unsigned_bits": frozenset({"u8", "u16", "u32"}),
    "unsigned": frozenset(UNSIGNED),
    "float": frozenset({"fp32", "fp64"}),
    "decimal": frozenset({"decimal"}),
    "bool": frozenset({"bool"}),
    "text": frozenset({"string", "varchar", "fixedchar"}),
    "bytes": frozenset({"binary", "fixedbinary"}),
    "date": frozenset({"date"}),
    "timestamp": frozenset({"precision_timestamp"}),
    "timestamp_tz": frozenset({"precision_timestamp_tz"}),
    "time": frozenset({"precision_time"}),
    "months": frozenset({"interval_year"}),
    "days": frozenset({"interval_day"}),
    "months_days": frozenset({"interval_compound"}),
    "duration": frozenset({"interval_day", "interval_compound"}),
    "list": frozenset({"list"}),
    "map": frozenset({"map"}),
    "function": frozenset({"func"}),
    "ordered": frozenset({*SIMPLE_KINDS, *PARAMETER_KINDS, "struct", "list"}),
    "any": frozenset(),
}
"""Family -> accepted type kinds; ``any`` accepts all. No value of an ``ordered`` type contains a map."""
OF_MANY_KINDS = ("any", "ordered")
"""Families whose members have no conversion in common."""

_CLOCK_COMPONENTS = frozenset(
    {
        "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "NANOSECOND", "PICOSECOND",
        "SUBSECOND",
    }
)  # fmt: skip
_COMPONENTS = _CLOCK_COMPONENTS | {
    "YEAR", "ISO_YEAR", "US_YEAR", "QUARTER", "MONTH", "DAY", "DAY_OF_YEAR", "MONDAY_DAY_OF_WEEK",
    "SUNDAY_DAY_OF_WEEK", "MONDAY_WEEK", "SUNDAY_WEEK", "ISO_WEEK", "US_WEEK", "UNIX_TIME",
}  # fmt: skip
_DATE_UNITS = frozenset({"YEAR", "MONTH", "WEEK", "DAY"})
_TIME_UNITS = frozenset({"HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND"})
_DATE_ORIGINS = frozenset(
    {"YEAR", "MONTH", "MONDAY_WEEK", "SUNDAY_WEEK", "ISO_WEEK", "US_WEEK", "DAY"}
)
_TIME_ORIGINS = _TIME_UNITS - {"MICROSECOND"}

WORDS: dict[str, frozenset[str]] = {
    "component": _COMPONENTS,
    "clock_component": _CLOCK_COMPONENTS,
    "zoned_component": _COMPONENTS | {"TIMEZONE_OFFSET"},
    "boolean": frozenset({"IS_LEAP_YEAR"}),
    "rounding": frozenset({"FLOOR", "CEIL", "ROUND_TIE_DOWN", "ROUND_TIE_UP"}),
    "floor": frozenset({"FLOOR"}),
    "date_unit": _DATE_UNITS,
    "timestamp_unit": _DATE_UNITS | _TIME_UNITS,
    "time_unit": _TIME_UNITS,
    "time_of_day_unit": _TIME_UNITS | {"DAY"},
    "date_origin": _DATE_ORIGINS,
    "timestamp_origin": _DATE_ORIGINS | _TIME_ORIGINS,
    "time_origin": _TIME_ORIGINS | {"DAY"},
    "indexing": frozenset({"ONE", "ZERO"}),
    "part": frozenset(
        {
            "year", "quarter", "month", "week", "day", "doy", "dow", "isodow", "hour", "minute",
            "second", "millisecond", "microsecond",
        }
    ),
    "unit": frozenset(
        {"year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond"}
    ),
}  # fmt: skip
"""Values of enumeration arguments and of constant words."""


def parameter_text(param: str) -> str:
    """Return a parameter of an overload as text for people."""
    kind, _, name = param.partition(":")
    named = {
        "enum": name,
        "word": f"constant {name}",
        "span": f"constant {name}",
        "function": f"function with the result {name}",
        "decimal": f"decimal of scale {name}",
        "list": f"list of {name} elements",
    }
    plain = {"format": "constant format", "digits": "constant digits of a second"}
    return named[kind] if name else plain.get(param, param)
