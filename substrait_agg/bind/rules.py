"""The rules a measure has to pass, each a small function; a measure that breaks one has an unknown type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from substrait_agg.bind.bound import BoundMeasure, Constant, Expr
from substrait_agg.bind.calls import Argument
from substrait_agg.bind.context import UNKNOWN, Context, Schema, is_unknown
from substrait_agg.bind.convert import fits_decimal
from substrait_agg.bind.expressions import bind_arguments, bind_condition
from substrait_agg.bind.names import check_declared, check_signature
from substrait_agg.bind.options import choose_options
from substrait_agg.functions.aggregates import (
    AGGREGATE_NAMES,
    AGGREGATES,
    MAINTAINED,
    STANDARD_URNS,
    AggregateFunction,
    converts,
    result_type,
)
from substrait_agg.plan import model
from substrait_agg.plan.types import Type


@dataclass(frozen=True, slots=True)
class Draft:
    """A measure on its way: its row of the table (None: not known) and its bound parts."""

    measure: model.Measure
    row: AggregateFunction | None
    arguments: tuple[Argument, ...]
    filter: Expr | None

    @property
    def name(self) -> str:
        """The function's name for messages."""
        return self.measure.function.name

    @property
    def values(self) -> tuple[Expr, ...]:
        """The arguments that are expressions."""
        enums = (model.EnumArgument, model.TypeArgument)
        return tuple(a for a in self.arguments if not isinstance(a, enums))

    @property
    def argument(self) -> Expr | None:
        """What is aggregated; None where rows are counted, as by ``count()`` and ``count(1)``."""
        if not self.values:
            return None
        value = self.values[0]
        counts = self.row is not None and self.row.kind == "count"
        constant = isinstance(value, Constant) and value.value is not None
        return None if counts and constant else value


Rule = Callable[[Draft, Context], bool]


def _declared(draft: Draft, context: Context) -> bool:
    function, path = draft.measure.function, draft.measure.path
    if not check_declared(function, path, context):
        return False
    if draft.row is None:
        context.report(
            "AGGREGATE_FUNCTION_UNKNOWN", path,
            name=function.declared, maintained=", ".join(MAINTAINED),
        )  # fmt: skip
        return False
    return True


def _maintained(draft: Draft, context: Context) -> bool:
    if draft.row is None or draft.row.kind is not None:
        return True
    context.report(
        "AGGREGATE_FUNCTION_NOT_SUPPORTED", draft.measure.path,
        name=draft.name, maintained=", ".join(MAINTAINED),
    )  # fmt: skip
    return False


def _extension(draft: Draft, context: Context) -> bool:
    urn, row = draft.measure.function.urn, draft.row
    if row is None or not row.urns or urn in row.urns or urn not in STANDARD_URNS:
        return True
    context.report(
        "FUNCTION_URN_DIFFERS", draft.measure.path,
        name=draft.name, urn=urn, expected=" or ".join(row.urns),
    )  # fmt: skip
    return True


def _invocation(draft: Draft, context: Context) -> bool:
    if draft.measure.invocation != "distinct":
        return True
    context.report("DISTINCT_NOT_SUPPORTED", f"{draft.measure.path}.invocation", name=draft.name)
    return False


def _sorts(draft: Draft, context: Context) -> bool:
    for sort in draft.measure.sorts:
        context.report("ORDER_BY_NOT_SUPPORTED", sort.path, name=draft.name)
    return not draft.measure.sorts


def _phase(draft: Draft, context: Context) -> bool:
    phase, path = draft.measure.phase, f"{draft.measure.path}.phase"
    if phase == "unspecified":
        context.report("PHASE_UNSPECIFIED", path, name=draft.name)
    elif phase != "initial_to_result":
        context.report("PHASE_NOT_SUPPORTED", path, name=draft.name, phase=phase.upper())
        return False
    return True


def _arguments(draft: Draft, context: Context) -> bool:
    row = draft.row
    if row is None or row.kind is None:
        return True
    if is_unknown(*draft.values):
        return False
    types: Schema = tuple(v.type for v in draft.values)
    least, most = row.arity
    plain = len(draft.values) == len(draft.arguments)
    fits = plain and least <= len(types) <= most
    if not fits or (row.kinds and any(t.kind not in row.kinds for t in types)):
        context.report(
            "FUNCTION_ARGUMENTS", draft.measure.path, function=draft.name,
            types=", ".join(map(str, types)), takes=_takes(row),
        )  # fmt: skip
        return False
    check_signature(draft.measure.function, types, draft.measure.path, context)
    return True


def _takes(row: AggregateFunction) -> str:
    if row.kinds:
        return "one argument of type " + ", ".join(row.kinds)
    return "no argument or one of any type"


def _filter(draft: Draft, _context: Context) -> bool:
    return draft.filter is None or not is_unknown(draft.filter)


RULES: tuple[Rule, ...] = (
    _declared,
    _maintained,
    _extension,
    _invocation,
    _sorts,
    _phase,
    _arguments,
    _filter,
)
"""All rules are applied to every measure, so that all that is wrong with it is reported at once."""


def bind_measure(
    measure: model.Measure, schema: Schema | None, context: Context
) -> BoundMeasure | None:
    """The measure, or None once what is wrong with it has been reported."""
    canonical = AGGREGATE_NAMES.get(measure.function.name)
    row = AGGREGATES[canonical] if canonical else None
    arguments = bind_arguments(measure.arguments, schema, context)
    condition = None
    if measure.filter is not None:
        code = "MEASURE_FILTER_NOT_BOOLEAN"
        condition = bind_condition(
            measure.filter, schema, context, code, name=measure.function.name
        )
    draft = Draft(measure, row, arguments, condition)
    passed = [rule(draft, context) for rule in RULES]
    options = _options(draft, context)
    if not all(passed) or row is None or row.kind is None:
        return None
    type_ = _output(draft, context)
    if type_.kind == "unknown":
        return None
    overflow = dict(options)["OVERFLOW"]
    return BoundMeasure(
        row.kind, draft.argument, condition, type_, overflow, draft.name, measure.path
    )


def _options(draft: Draft, context: Context) -> tuple[tuple[str, str], ...]:
    # The options of a function that is not maintained are not judged: what it knows is not in the table.
    if draft.row is None or draft.row.kind is None:
        return ()
    return choose_options(draft.row.name, draft.measure.options, draft.row.options, context)


def _output(draft: Draft, context: Context) -> Type:
    """The type of the measure's column: as declared where the exact value converts to it, else as derived."""
    row, measure = draft.row, draft.measure
    if row is None or row.kind is None:
        return UNKNOWN
    argument = draft.values[0].type if draft.values else None
    derived = result_type(row.kind, argument, measure.function.urn, context.profile.derivation)
    declared, path = measure.output_type, measure.path
    if declared is None:
        context.report("OUTPUT_TYPE_MISSING", path, name=draft.name, type=derived)
        return derived
    if not converts(row.kind, argument, declared) or not fits_decimal(declared):
        context.report(
            "OUTPUT_TYPE_NOT_SUPPORTED", path, name=draft.name,
            argument=argument or "rows", declared=declared, derived=derived,
        )  # fmt: skip
        return UNKNOWN
    if derived.nullable and not declared.nullable:
        context.report("OUTPUT_NULLABILITY", path, name=draft.name, declared=declared)
    elif derived != declared:
        context.report(
            "OUTPUT_TYPE_DIFFERS", path, name=draft.name, declared=declared, derived=derived
        )
    return declared.as_nullable(declared.nullable or derived.nullable)
