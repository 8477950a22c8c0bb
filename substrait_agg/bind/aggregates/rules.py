"""Check the rules for measures, and bind a measure that passes all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from substrait_agg.bind.aggregates.arguments import Matched, expressions_of
from substrait_agg.bind.aggregates.candidate import MeasureCandidate, make_candidate
from substrait_agg.bind.aggregates.faults import report_faults, report_incomparable
from substrait_agg.bind.aggregates.grouping_sets import grouping_values
from substrait_agg.bind.aggregates.order import check_order, resolve_order
from substrait_agg.bind.aggregates.signature import (
    check_extension,
    not_decomposable,
    output_type,
    signature_fits,
)
from substrait_agg.bind.bound import BoundMeasure, Call, Constant, Expr
from substrait_agg.bind.context import (
    BindContext,
    GroupingInfo,
    Schema,
    is_keyable,
    is_unknown,
)
from substrait_agg.bind.expressions.binder import constant_in
from substrait_agg.bind.expressions.conversions import convert
from substrait_agg.bind.expressions.function_names import check_declared
from substrait_agg.bind.expressions.options import choose_options
from substrait_agg.bind.places import argument_place, filter_place
from substrait_agg.functions.aggregates.catalogue import MAINTAINED, WINDOW_FUNCTIONS, find
from substrait_agg.functions.scalars.catalogue import SCALAR_NAMES
from substrait_agg.functions.signatures.derive import FLOATS
from substrait_agg.plan import model
from substrait_agg.plan.types import BOOL, FP64, Type

Rule = Callable[[MeasureCandidate, BindContext], bool]


def _is_supported(draft: MeasureCandidate, context: BindContext) -> bool:
    function, path = draft.measure.function, draft.measure.path
    if draft.user is not None:
        return True
    if not check_declared(function, path, context):
        return False
    if draft.row is not None:
        return True
    what = "window" if function.name in WINDOW_FUNCTIONS else "scalar"
    if what == "window" or function.name in SCALAR_NAMES:
        context.report("FUNCTION_NOT_AGGREGATE", path, name=function.declared, what=what)
        return False
    context.report(
        "AGGREGATE_FUNCTION_UNKNOWN", path,
        name=function.declared, maintained=", ".join(MAINTAINED),
    )  # fmt: skip
    return False


def _maintained(draft: MeasureCandidate, context: BindContext) -> bool:
    row = draft.row
    if row is None or row.kind is not None:
        return True
    context.report(
        "AGGREGATE_FUNCTION_NOT_SUPPORTED", draft.measure.path,
        name=draft.name, reason=row.reason, maintained=", ".join(MAINTAINED),
    )  # fmt: skip
    return False


def _extension(draft: MeasureCandidate, context: BindContext) -> bool:
    check_extension(draft, context)
    return True


def _distinct(draft: MeasureCandidate, context: BindContext) -> bool:
    row, path = draft.row, draft.measure.path
    if draft.measure.invocation == "distinct":
        path = f"{path}.invocation"
    if row is None or row.kind is None or not draft.asks_distinct:
        return True
    over_rows = row.distinct_rows.handling == "refused" and not expressions_of(draft.arguments)
    part = row.distinct_rows if over_rows else row.distinct
    if part.handling == "refused":
        context.report("DISTINCT_NOT_SUPPORTED", path, name=draft.name, reason=part.reason)
        return False
    if part.handling == "no-op":
        context.report("DISTINCT_NO_EFFECT", path, name=draft.name, reason=part.reason)
    return True


def _order(draft: MeasureCandidate, context: BindContext) -> bool:
    if draft.row is None or draft.row.kind is None:
        return True
    return check_order(
        draft.row, draft.order, draft.matched, draft.measure, draft.asks_distinct, context
    )


def _order_missing(draft: MeasureCandidate, context: BindContext) -> bool:
    found = find(draft.measure.function.name)
    row = found[0] if found and draft.user is None and draft.row is not None else None
    if row is not None and row.order_else and not draft.measure.sorts:
        context.report("ORDER_MISSING", draft.measure.path, name=draft.name, taken=row.order_else)
    return True


def _phase(draft: MeasureCandidate, context: BindContext) -> bool:
    phase, path = draft.measure.phase, f"{draft.measure.path}.phase"
    if phase in ("initial_to_result", "invalid"):
        return True
    if phase == "unspecified":
        context.report("PHASE_UNSPECIFIED", path, name=draft.name)
        return True
    declared = not_decomposable(draft)
    if declared:
        context.report(
            "PHASE_NOT_DECOMPOSABLE", path, name=draft.name, phase=phase.upper(), declared=declared
        )
    else:
        context.report("PHASE_NOT_SUPPORTED", path, name=draft.name, phase=phase.upper())
    return False


def _arguments(draft: MeasureCandidate, context: BindContext) -> bool:
    row, matched = draft.row, draft.matched
    if row is None or row.kind is None or draft.measure.phase in _OF_PARTS:
        return True
    if not draft.comparable:
        return False
    if matched is None:
        report_faults(draft, row, context)
        return False
    if not _is_comparable_or_sum(draft, matched):
        report_incomparable(draft, row, context)
        return False
    fits = signature_fits(draft, matched, context)
    for parameter in matched.assumed:
        context.report(
            "ARGUMENT_ASSUMED", f"{draft.measure.path}.arguments",
            function=draft.name, argument=parameter.name, value=repr(parameter.default),
        )  # fmt: skip
    for fault in matched.faults:
        position = next(i for i, a in enumerate(draft.arguments) if a is fault.argument)
        context.report(
            "CONSTANT_ARGUMENT_INVALID", argument_place(draft.measure, position),
            function=draft.name, argument=fault.name, reason=fault.reason,
        )  # fmt: skip
    return fits and not matched.faults


def _is_comparable_or_sum(draft: MeasureCandidate, matched: Matched) -> bool:
    """Return whether the values have an equality, or the measure stores only sums."""
    summed = draft.row is not None and draft.row.state == "additive" and not draft.distinct
    return summed or all(map(is_keyable, matched.types))


def _filter(draft: MeasureCandidate, context: BindContext) -> bool:
    if draft.filter is None:
        return True
    path = filter_place(draft.measure)
    if draft.row is not None and draft.row.kind is not None:
        part = draft.row.filter
        if part.handling == "refused":
            context.report(
                "MEASURE_FILTER_NOT_SUPPORTED", path, name=draft.name, reason=part.reason
            )
            return False
    if is_unknown(draft.filter):
        return False
    constant = constant_in(draft.filter)
    if constant is not None:
        value, effect = _CONSTANT_FILTERS[constant.value]
        context.report("MEASURE_FILTER_CONSTANT", path, name=draft.name, value=value, effect=effect)
    return True


_OF_PARTS = frozenset({"intermediate_to_intermediate", "intermediate_to_result"})
"""Phases whose argument is a partial result."""

PARTIAL = _OF_PARTS | {"initial_to_intermediate"}
"""Phases other than the complete aggregate."""

_CONSTANT_FILTERS = {
    True: ("true", "it changes nothing"),
    False: ("false", "no row counts"),
    None: ("null", "no row counts"),
}

RULES: tuple[Rule, ...] = (
    _is_supported,
    _maintained,
    _extension,
    _distinct,
    _order,
    _order_missing,
    _phase,
    _arguments,
    _filter,
)
"""Every rule runs for every measure, so that all problems of a measure are reported at once."""


def bind_measure(
    measure: model.MeasureCall,
    schema: Schema | None,
    context: BindContext,
    grouping: GroupingInfo | None = None,
) -> BoundMeasure | None:
    """Bind a measure, or report its problems and return None.

    Args:
        measure: the measure as the plan writes it.
        schema: columns of the aggregate's input; None if they are unknown.
        context: collects the problems.
        grouping: keys and sets of the aggregate, for ``grouping()``.
    """
    if measure.function == model.NO_FUNCTION:
        return None
    draft = make_candidate(measure, schema, context, grouping)
    passed = {rule: rule(draft, context) for rule in RULES}
    row, matched = draft.row, draft.matched
    if row is None or row.kind is None:
        return None
    options = choose_options(row.name, measure.options, draft.options, context, measure.path)
    if matched is None or not passed[_arguments] or measure.phase in PARTIAL:
        return None
    type_ = output_type(draft, matched.types, context)
    if type_.kind == "unknown" or not all(passed.values()):
        return None
    if type_.kind == "decimal" and ("OVERFLOW", "SILENT") in options:
        type_ = _silenced(type_, draft, context)
    order, constants = resolve_order(row, draft.order, matched)
    chosen = dict(sorted((*options, *draft.decided)))
    made = BoundMeasure(
        row.kind, matched.values, draft.filter, type_, draft.name, measure.path, draft.distinct,
        order, tuple(chosen.items()), constants,
        row.keep_nulls and chosen.get("IGNORE_NULLS") != "TRUE",
        draft.user.key if draft.user else "",
    )  # fmt: skip
    return _finished(made, draft, matched, context)


def _silenced(type_: Type, draft: MeasureCandidate, context: BindContext) -> Type:
    """Make a decimal type nullable, because a result that does not fit becomes null."""
    if not type_.nullable and draft.measure.output_type is not None:
        context.report(
            "NULL_BY_OPTION", f"{draft.measure.path}.output_type",
            function=draft.name, declared=type_, option="OVERFLOW",
        )  # fmt: skip
    return type_.as_nullable()


def _finished(
    made: BoundMeasure, draft: MeasureCandidate, matched: Matched, context: BindContext
) -> BoundMeasure | None:
    """Complete the measure with the specifics of counts, products and ``grouping()``."""
    if draft.row is not None and draft.row.name == "count_if":
        return replace(made, arguments=(), filter=_both(made.filter, matched.values[0]))
    if made.kind == "count" and not made.distinct:
        # A constant that is not null counts in every row.
        return replace(made, arguments=tuple(v for v in made.arguments if not _present(v)))
    if made.kind == "product" and made.type.kind in FLOATS:
        return replace(made, arguments=tuple(map(_as_float, made.arguments)))
    if made.kind == "grouping":
        found = grouping_values(matched.values, draft.grouping, draft.measure, context)
        return None if found is None else replace(made, arguments=(), constants=found)
    return made


def _as_float(value: Expr) -> Expr:
    return value if value.type.kind in FLOATS else convert(value, FP64)


def _present(value: Expr) -> bool:
    return isinstance(value, Constant) and value.value is not None


def _both(condition: Expr | None, other: Expr) -> Expr:
    if condition is None:
        return other
    nullable = condition.type.nullable or other.type.nullable
    return Call(BOOL.as_nullable(nullable), "and", (condition, other))
