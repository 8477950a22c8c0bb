"""Define the rows of the table of scalar functions: signatures, results, null handling, options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal as OneOf

from substrait_agg.plan.types import PARAMETER_KINDS, SIMPLE_KINDS, UNSIGNED

Nulls = OneOf["mirror", "never", "always", "all", "undeclared"]
"""When the result can be null: if any argument can; never; always; only if every argument can.

``undeclared``: always, although the standard declares it nullable only if an argument is.
"""

Fails = OneOf["maybe", "never", "overflow", "pattern"]
"""Whether a call can fail for some values.

``never``: unless an option says ERROR. ``overflow``: unless the result is a float or a decimal that
holds every value. ``pattern``: unless the pattern is a constant whose escape characters escape
something. ``maybe`` is always correct.
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
        checks: position of a text -> ``pattern`` or ``replacement``, if a constant there can be
            invalid; a ``format`` is always checked.
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
    checks: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A row of the table.

    Attributes:
        name: canonical name, in lower case.
        overloads: signatures, tried in order.
        nulls: when the result can be null.
        aliases: other names with the same meaning.
        fails: whether a call can fail.
        compares: whether it only compares its arguments.
        true_for: the signs of the difference of two values for which their comparison is true.
        symbol: how a call is written as in SQL: an operator between the arguments, or a text in
            which ``_`` stands for the only one; empty if it is written with its name.
        spark: Spark's function that has the same values for the same arguments; empty if a call
            needs more than that (`spark.functions`).
        durations: for a window over time, the names of the arguments after the time.
        groups_only: whether it is not a value of a row: only a whole grouping expression of an
            aggregate can call it.
    """

    name: str
    overloads: tuple[Overload, ...]
    nulls: Nulls = "mirror"
    aliases: tuple[str, ...] = ()
    fails: Fails = "maybe"
    compares: bool = False
    true_for: tuple[int, ...] = ()
    symbol: str = ""
    spark: str = ""
    durations: tuple[str, ...] = ()
    groups_only: bool = False

    def takes(self, count: int) -> bool:
        """Return whether some overload accepts `count` arguments."""
        return any(
            count == len(o.params) or (o.variadic and count >= len(o.params))
            for o in self.overloads
        )

    def has_option(self, name: str) -> bool:
        """Return whether some overload has an option."""
        return any(name in o.options for o in self.overloads)

    def needs_constant(self, position: int, count: int) -> bool:
        """Return whether an argument of a call with `count` arguments is a format or digits."""
        return any(
            o.params[position] in ("format", "digits")
            for o in self.overloads
            if len(o.params) == count
        )

    @property
    def tests_any_type(self) -> bool:
        """Return whether it is a test of values of any type, such as a comparison."""
        return all(o.result == "bool" and o.params[0] in OF_MANY_KINDS for o in self.overloads)

    @property
    def has_escape(self) -> bool:
        """Return whether its third argument can be the escape character of a pattern."""
        return any(o.params[2:] == ("escape",) for o in self.overloads)

    def write(self, operands: Sequence[str]) -> str:
        """Return a call with its `symbol`; empty if it has none for this number of operands."""
        if "_" in self.symbol:
            return self.symbol.replace("_", operands[0]) if len(operands) == 1 else ""
        if not self.symbol or len(operands) < 2:
            return ""
        if self.has_escape and len(operands) == 3:
            return f"{operands[0]} {self.symbol} {operands[1]} ESCAPE {operands[2]}"
        return f" {self.symbol} ".join(operands)


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
