"""Define the rows of the aggregate catalogue: parameters, options and handling of measure parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal as OneOf

from substrait_agg.functions.aggregates.kinds import KINDS, MeasureKind
from substrait_agg.functions.aggregates.types import FAMILIES

Handling = OneOf["honoured", "no-op", "refused"]
"""Handling of a part of a measure.

It is applied, provably changes nothing, or makes the plan invalid.
"""

ConstantRule = OneOf["text", "integer", "count", "position", "size", "fraction", "deviation"]
"""Rules for constant arguments.

In order: a text; any integer; an integer or null; an integer other than 0; an integer above 0; a number
from 0 to 1; a number from 0.001 to 0.39.
"""


@dataclass(frozen=True, slots=True)
class FieldHandling:
    """The handling of a part of a measure and its reason. Only ``honoured`` needs no reason."""

    handling: Handling
    reason: str = ""


HONOURED = FieldHandling("honoured")


def no_op(reason: str) -> FieldHandling:
    """Return a part that changes nothing because of `reason`."""
    return FieldHandling("no-op", reason)


def refuse(reason: str) -> FieldHandling:
    """Return a part that is refused because of `reason`."""
    return FieldHandling("refused", reason)


NO_STATE = "the standard does not state the form of its intermediate state"
"""Why a function has no partial phases."""


@dataclass(frozen=True, slots=True)
class FunctionParameter:
    """A parameter of a function.

    Attributes:
        name: as in the declaration.
        role: ``value`` (an expression per row), ``constant`` (a literal) or ``enum`` (a word).
        kinds: type kinds of a value or constant; empty for any.
        optional: whether it may be left out.
        repeats: whether all further arguments are of this kind too; only for the last parameter.
        as_float: type kinds whose values are converted to ``fp64``.
        default: value of a constant that is left out; None if the measure then lacks the constant.
        words: words of an enumeration argument, in upper case; the argument sets the option `name`,
            in upper case.
    """

    name: str
    role: OneOf["value", "constant", "enum"] = "value"
    kinds: tuple[str, ...] = ()
    optional: bool = False
    repeats: bool = False
    as_float: tuple[str, ...] = ()
    rule: ConstantRule = "integer"
    default: str | int | float | None = None
    words: Mapping[str, FieldHandling] = field(default_factory=dict)

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
    """An option: its values in upper case, the default first, and the handling of each.

    `kinds`: type kinds of the first value argument for which the function has the option; empty for
    all.
    """

    values: Mapping[str, FieldHandling]
    kinds: tuple[str, ...] = ()

    @property
    def accepted(self) -> tuple[str, ...]:
        """The values that are not refused, the default first."""
        return tuple(v for v, part in self.values.items() if part.handling != "refused")


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name of a function.

    Attributes:
        name: in lower case.
        producers: the producers that write it; empty if it is common.
        presets: options that the name decides (``var_pop`` decides the distribution).
        distinct: whether the name asks for distinct values (``collect_set``).
    """

    name: str
    producers: tuple[str, ...] = ()
    presets: tuple[tuple[str, str], ...] = ()
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """A row of the catalogue.

    Attributes:
        name: canonical name, in lower case.
        kind: the kind of measure; None if the function is known but cannot be maintained
            (`reason`).
        result: a key of `functions.aggregates.types.RESULTS`.
        urns: last parts of the URNs of the extensions that declare it; empty if only producers know
            it.
        producers: the producers that write it, if the standard does not declare it.
        aliases: other names with the same meaning.
        options: option name in upper case -> values.
        distinct, order_by, filter: handling of these parts of a measure.
        distinct_rows: handling of DISTINCT without an argument, which counts rows.
        nulls: how null arguments count, a phrase.
        empty: the value of a group without counted rows, a phrase.
        keep_nulls: whether null values count.
        settings: options that the function decides and that plans cannot set.
        always_distinct: whether equal values always count once.
        order_on_argument: whether the sort key must be the aggregated argument.
        ordered_form, unordered_form: name of the row to use instead if the measure has sorts, or
            has none.
        order_else: the order used for a measure without sorts whose result depends on an order, a
            sentence; empty if it does not depend on one.
        intermediate: a key of `functions.aggregates.types.INTERMEDIATES`; empty if a group has no
            state that another measure could merge.
        reason: why it cannot be maintained.
    """

    name: str
    kind: MeasureKind | None
    parameters: tuple[FunctionParameter, ...] = ()
    result: str = "first"
    urns: tuple[str, ...] = ()
    producers: tuple[str, ...] = ()
    aliases: tuple[Alias, ...] = ()
    options: Mapping[str, FunctionOption] = field(default_factory=dict)
    distinct: FieldHandling = HONOURED
    order_by: FieldHandling = HONOURED
    filter: FieldHandling = HONOURED
    distinct_rows: FieldHandling = HONOURED
    nulls: str = "skipped"
    empty: str = "null"
    keep_nulls: bool = False
    settings: tuple[tuple[str, str], ...] = ()
    always_distinct: bool = False
    order_on_argument: bool = False
    ordered_form: str = ""
    unordered_form: str = ""
    order_else: str = ""
    intermediate: str = ""
    reason: str = ""

    @property
    def state(self) -> str:
        """The state of a plain measure: ``additive``, ``shared tree``, ``own tree`` or ``none``."""
        if self.kind is None:
            return "none"
        return "shared tree" if self.always_distinct else KINDS[self.kind].state

    @property
    def names(self) -> tuple[str, ...]:
        """The canonical name, then all aliases."""
        return (self.name, *(a.name for a in self.aliases))

    @property
    def signature(self) -> str:
        """The parameters as text: ``(x: i8 or i16, ...)``."""
        return "(" + ", ".join(map(str, self.parameters)) + ")"

    def option_values(self, argument_kind: str) -> Mapping[str, FunctionOption]:
        """Return the options for a first argument of this type kind (empty: no argument)."""
        return {
            name: option
            for name, option in self.options.items()
            if not option.kinds or argument_kind in option.kinds
        }
