"""What a row of the aggregate catalogue says: parameters, options, and what becomes of every part of a measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal as OneOf

from substrait_agg.functions.aggregates.kinds import KINDS, MeasureKind
from substrait_agg.functions.aggregates.types import FAMILIES

Handling = OneOf["honoured", "no-op", "refused"]
"""What becomes of a part of a measure: it is obeyed, provably changes nothing, or makes the plan be refused."""

ConstantRule = OneOf["text", "integer", "count", "position", "fraction"]
"""What a constant argument may be: a text; any integer; an integer or null; an integer other than 0; a number from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Part:
    """What becomes of a part of a measure, and why; only what is honoured needs no reason."""

    handling: Handling
    reason: str = ""


HONOURED = Part("honoured")


def no_op(reason: str) -> Part:
    """A part that changes nothing, because of `reason`."""
    return Part("no-op", reason)


def refused(reason: str) -> Part:
    """A part that makes the plan be refused, because of `reason`."""
    return Part("refused", reason)


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument that a function takes.

    Attributes:
        name: as in the declaration.
        role: ``value`` (an expression per row), ``constant`` (a literal) or ``enum`` (a word).
        kinds: type kinds of a value or constant; empty for any.
        optional: may be left out.
        repeats: any further arguments are of this kind too; only the last parameter.
        as_float: type kinds whose values are converted to ``fp64``.
        rule: what a constant may be.
        default: value of a constant that is left out; None where it then is no constant of the measure.
        words: what an enumeration argument may say, upper case; it sets the option `name`, upper case.
    """

    name: str
    role: OneOf["value", "constant", "enum"] = "value"
    kinds: tuple[str, ...] = ()
    optional: bool = False
    repeats: bool = False
    as_float: tuple[str, ...] = ()
    rule: ConstantRule = "integer"
    default: str | int | float | None = None
    words: Mapping[str, Part] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.role == "enum":
            shown = f"{self.name}: " + " or ".join(self.words)
        elif self.role == "constant":
            shown = f"{self.name}: constant {self.rule}"
            shown += "" if self.default is None else f" = {self.default!r}"
        else:
            kinds = FAMILIES.get(self.kinds) or " or ".join(self.kinds)
            shown = f"{self.name}: {kinds}"
        shown += ", ..." if self.repeats else ""
        return f"[{shown}]" if self.optional else shown


@dataclass(frozen=True, slots=True)
class FunctionOption:
    """An option: its values, upper case, the default first, and what becomes of each.

    `kinds`: type kinds of the first value argument for which the function has the option; empty for all.
    """

    values: Mapping[str, Part]
    kinds: tuple[str, ...] = ()

    @property
    def accepted(self) -> tuple[str, ...]:
        """The values that do not refuse the plan, the default first."""
        return tuple(v for v, part in self.values.items() if part.handling != "refused")


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name of a function.

    Attributes:
        name: lower case.
        producers: who writes it; empty where it is common.
        presets: options that the name itself decides (``var_pop`` the distribution).
        distinct: the name itself asks for distinct values (``collect_set``).
    """

    name: str
    producers: tuple[str, ...] = ()
    presets: tuple[tuple[str, str], ...] = ()
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """A row of the catalogue.

    Attributes:
        name: canonical name, lower case.
        kind: what is maintained, or None where the function is known but cannot be maintained (`reason`).
        parameters: what it takes.
        result: a word of `aggregate_types.RESULTS`.
        urns: last parts of the extensions that declare it; empty where only producers know it.
        producers: who writes it, where the standard does not declare it.
        aliases: other names that mean the same.
        options: option name, upper case -> values.
        distinct, order_by, filter: what becomes of these parts of a measure.
        distinct_rows: what becomes of DISTINCT where rows are counted, that is without an argument.
        nulls: how null arguments count, a phrase.
        empty: the value where nothing counts, a phrase.
        keep_nulls: null values count.
        settings: options that the function itself decides, which no plan can set.
        always_distinct: equal values count once by the function's own meaning.
        order_on_argument: the sort key must be the aggregated argument.
        ordered_form, unordered_form: the row that holds instead when the measure has sorts, or has none.
        order_else: what is taken where the result depends on an order and the measure has no sorts, a sentence; empty
            where it does not depend on one.
        reason: why it is not maintained.
    """

    name: str
    kind: MeasureKind | None
    parameters: tuple[Parameter, ...] = ()
    result: str = "first"
    urns: tuple[str, ...] = ()
    producers: tuple[str, ...] = ()
    aliases: tuple[Alias, ...] = ()
    options: Mapping[str, FunctionOption] = field(default_factory=dict)
    distinct: Part = HONOURED
    order_by: Part = HONOURED
    filter: Part = HONOURED
    distinct_rows: Part = HONOURED
    nulls: str = "skipped"
    empty: str = "null"
    keep_nulls: bool = False
    settings: tuple[tuple[str, str], ...] = ()
    always_distinct: bool = False
    order_on_argument: bool = False
    ordered_form: str = ""
    unordered_form: str = ""
    order_else: str = ""
    reason: str = ""

    @property
    def state(self) -> str:
        """Class of the state of a plain measure: ``additive``, ``shared tree``, ``own tree`` or ``none``."""
        if self.kind is None:
            return "none"
        return "shared tree" if self.always_distinct else KINDS[self.kind].state

    @property
    def names(self) -> tuple[str, ...]:
        """The canonical name, then all others."""
        return (self.name, *(a.name for a in self.aliases))

    @property
    def signature(self) -> str:
        """The parameters as text: ``(x: i8 or i16, ...)``."""
        return "(" + ", ".join(map(str, self.parameters)) + ")"

    def option_values(self, argument_kind: str) -> Mapping[str, FunctionOption]:
        """The options that the function has for a first argument of this type kind (empty: no argument)."""
        return {
            name: option
            for name, option in self.options.items()
            if not option.kinds or argument_kind in option.kinds
        }
