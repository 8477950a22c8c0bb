"""Bind the parts of a measure before its rules are checked."""

from __future__ import annotations

from dataclasses import dataclass, replace

from substrait_agg.bind.aggregates.arguments import Matched, match_arguments
from substrait_agg.bind.aggregates.order import MeasureOrder, bind_order
from substrait_agg.bind.aggregates.states import OF_STATES, TO_STATES, match_state
from substrait_agg.bind.bound import Argument, Expr, value_arguments
from substrait_agg.bind.context import BindContext, GroupingInfo, Schema, is_unknown, unknown
from substrait_agg.bind.expressions.binder import bind_arguments, bind_expression
from substrait_agg.bind.expressions.function_names import is_foreign
from substrait_agg.bind.places import filter_place
from substrait_agg.bind.profiles import Profile
from substrait_agg.functions.aggregates.catalogue import AGGREGATES, find
from substrait_agg.functions.aggregates.registry import UserMeasure, find_user
from substrait_agg.functions.aggregates.row import AggregateFunction, Alias
from substrait_agg.functions.signatures.declarations import Section
from substrait_agg.plan import model


@dataclass(frozen=True, slots=True)
class MeasureCandidate:
    """A measure with its bound parts.

    Attributes:
        measure: the measure as the plan writes it.
        row: its entry in the catalogue, or an entry made from the user's declaration; None if the
            function or its extension is unknown.
        alias: the name by which the plan calls the function, and what that name decides.
        user: the user's declaration of the function, if there is one.
        arguments: bound arguments, including unknown ones.
        comparable: whether everything that determines the arguments is known.
        matched: the arguments matched with `row`; None if they do not fit or are unknown.
        filter: the bound condition.
        order: the bound sort keys.
        grouping: keys and sets of the aggregate.
        section: the section of extension files that declares the function.
    """

    measure: model.MeasureCall
    row: AggregateFunction | None
    alias: Alias
    user: UserMeasure | None
    arguments: tuple[Argument, ...]
    comparable: bool
    matched: Matched | None
    filter: Expr | None
    order: MeasureOrder
    grouping: GroupingInfo | None
    section: Section

    @property
    def name(self) -> str:
        """The function's name for messages."""
        return self.measure.function.name or self.measure.function.declared

    @property
    def asks_distinct(self) -> bool:
        """Whether the invocation or the name of the function asks for distinct values."""
        return self.measure.invocation == "distinct" or self.alias.distinct

    @property
    def distinct(self) -> bool:
        """Whether equal values count once."""
        if self.row is None:
            return False
        return self.row.always_distinct or (
            self.asks_distinct and self.row.distinct.handling == "honoured"
        )

    @property
    def options(self) -> dict[str, tuple[str, ...]]:
        """The options that the plan can set, with their supported values, the default first.

        Options that the function, its name or an argument of the call decides are excluded.
        """
        if self.row is None:
            return {}
        types = self.matched.types if self.matched else ()
        # Without matching arguments it is unknown which options they decide.
        fitting = self.row.option_values(types[0].kind if types else "")
        supported = fitting if self.matched else self.row.options
        decided = dict(self.decided)
        accepted = {name: o.accepted for name, o in supported.items() if name not in decided}
        if "OVERFLOW" in accepted and self.measure.phase in TO_STATES:
            # A state that is not exact could not be merged.
            accepted["OVERFLOW"] = ("ERROR",)
        return accepted

    @property
    def decided(self) -> tuple[tuple[str, str], ...]:
        """The options that the function, its name and the enumeration arguments decide."""
        settings = self.row.settings if self.row else ()
        return (*settings, *self.alias.presets, *(self.matched.words if self.matched else ()))


def make_candidate(
    measure: model.MeasureCall,
    schema: Schema | None,
    context: BindContext,
    grouping: GroupingInfo | None,
    section: Section,
) -> MeasureCandidate:
    """Bind the parts of a measure and report the problems of its expressions."""
    row, alias, user = _resolve(measure, context.profile)
    arguments = bind_arguments(measure.arguments, schema, context)
    order = bind_order(measure, schema, context)
    comparable = row is not None and _comparable(row, arguments, order)
    matched = None
    if row is not None and comparable and measure.phase in OF_STATES:
        matched = match_state(row, arguments, measure.function, section)
    elif row is not None and comparable:
        matched = match_arguments(row, arguments, order.expressions)
    return MeasureCandidate(
        measure, _by_order(row, order), alias, user, arguments, comparable, matched,
        _condition(measure, schema, context), order, grouping, section,
    )  # fmt: skip


def _condition(
    measure: model.MeasureCall, schema: Schema | None, context: BindContext
) -> Expr | None:
    if measure.filter is None:
        return None
    bound = bind_expression(measure.filter, schema, context)
    if bound.type.kind in ("bool", "unknown"):
        return bound
    name = measure.function.name or measure.function.declared
    context.report("MEASURE_FILTER_NOT_BOOLEAN", filter_place(measure), name=name, type=bound.type)
    return unknown()


def _comparable(
    row: AggregateFunction, arguments: tuple[Argument, ...], order: MeasureOrder
) -> bool:
    """Return whether everything that determines the arguments is known."""
    return not is_unknown(*value_arguments(arguments)) and (
        order.known or not row.order_on_argument
    )


def _resolve(
    measure: model.MeasureCall, profile: Profile
) -> tuple[AggregateFunction | None, Alias, UserMeasure | None]:
    function = measure.function
    alias = Alias(function.name)
    user = find_user(function.urn, function.name) if function.known else None
    if user is not None:
        return user.row, alias, user
    entry = None if is_foreign(function) else find(function.name)
    if entry is None:
        return None, alias, None
    row, alias = entry
    decided = profile.settings.get(row.name, ())
    return (replace(row, settings=(*row.settings, *decided)) if decided else row), alias, None


def _by_order(row: AggregateFunction | None, order: MeasureOrder) -> AggregateFunction | None:
    """Return the function for these sorts; without an order, first means first to arrive."""
    if row is None:
        return None
    other = row.ordered_form if order.keys else row.unordered_form
    return AGGREGATES[other] if other else row
