"""Check the rules for measures, and bind a measure that passes all of them.

The type of a measure's column is the declared type if the exact value converts to it, else the
derived type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from substrait_agg.bind.aggregates.arguments import Matched
from substrait_agg.bind.aggregates.candidate import MeasureCandidate, make_candidate
from substrait_agg.bind.aggregates.faults import report_faults, report_incomparable, report_type
from substrait_agg.bind.aggregates.grouping_sets import grouping_values
from substrait_agg.bind.aggregates.order import check_order, resolve_order
from substrait_agg.bind.aggregates.states import (
    OF_STATES,
    PARTIAL,
    TO_STATES,
    describe_state,
    merging_kind,
    not_decomposable,
    rounds_state,
    state_type,
)
from substrait_agg.bind.bound import BoundMeasure, Call, Constant, Expr, value_arguments
from substrait_agg.bind.context import (
    UNKNOWN,
    BindContext,
    GroupingInfo,
    Schema,
    is_keyable,
    is_unknown,
    list_types,
)
from substrait_agg.bind.conversions import convert, fits_decimal, loses_digits
from substrait_agg.bind.expressions.binder import constant_in
from substrait_agg.bind.expressions.calls import arguments_given, arguments_needed
from substrait_agg.bind.expressions.function_names import check_declared
from substrait_agg.bind.expressions.options import choose_options
from substrait_agg.bind.expressions.signatures import (
    ENUM,
    NUMBER,
    ComparableSignature,
    check_declaration,
    declared_signature,
    format_argument,
    inexact,
    misfit,
    type_of_word,
    types_of,
    words_of,
)
from substrait_agg.bind.places import argument_place, filter_place
from substrait_agg.functions.aggregates.catalogue import (
    MAINTAINED,
    STANDARD_URNS,
    WINDOW_FUNCTIONS,
    find,
)
from substrait_agg.functions.aggregates.registry import UserMeasure
from substrait_agg.functions.aggregates.row import NO_STATE, AggregateFunction
from substrait_agg.functions.aggregates.types import COUNTS, MIRRORING, RESULTS, convertible
from substrait_agg.functions.scalars.catalogue import SCALAR_NAMES
from substrait_agg.functions.signatures.declarations import Section, declarations
from substrait_agg.functions.signatures.derive import FLOATS, widen
from substrait_agg.plan import model
from substrait_agg.plan.types import BOOL, FP64, Type

Rule = Callable[[MeasureCandidate, BindContext], bool]


def _is_supported(candidate: MeasureCandidate, context: BindContext) -> bool:
    function, path = candidate.measure.function, candidate.measure.path
    if candidate.user is not None:
        return True
    if not check_declared(function, path, context):
        return False
    if candidate.row is not None:
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


def _is_maintained(candidate: MeasureCandidate, context: BindContext) -> bool:
    row = candidate.row
    if row is None or row.kind is not None:
        return True
    context.report(
        "AGGREGATE_FUNCTION_NOT_SUPPORTED", candidate.measure.path,
        name=candidate.name, reason=row.reason, maintained=", ".join(MAINTAINED),
    )  # fmt: skip
    return False


def _extension(candidate: MeasureCandidate, context: BindContext) -> bool:
    check_extension(candidate, context)
    return True


def _distinct(candidate: MeasureCandidate, context: BindContext) -> bool:
    row, path = candidate.row, candidate.measure.path
    if candidate.measure.invocation == "distinct":
        path = f"{path}.invocation"
    if row is None or row.kind is None or not candidate.asks_distinct:
        return True
    over_rows = row.distinct_rows.handling == "refused" and not value_arguments(candidate.arguments)
    part = row.distinct_rows if over_rows else row.distinct
    if part.handling == "refused":
        context.report("DISTINCT_NOT_SUPPORTED", path, name=candidate.name, reason=part.reason)
        return False
    if part.handling == "no-op":
        context.report("DISTINCT_NO_EFFECT", path, name=candidate.name, reason=part.reason)
    elif candidate.measure.phase in PARTIAL and row.intermediate:
        reason = "its intermediate state does not contain the values"
        context.report("DISTINCT_NOT_SUPPORTED", path, name=candidate.name, reason=reason)
        return False
    return True


def _order(candidate: MeasureCandidate, context: BindContext) -> bool:
    if candidate.row is None or candidate.row.kind is None:
        return True
    return check_order(
        candidate.row,
        candidate.order,
        candidate.matched,
        candidate.measure,
        candidate.asks_distinct,
        context,
    )


def _order_missing(candidate: MeasureCandidate, context: BindContext) -> bool:
    entry = find(candidate.measure.function.name)
    row = entry[0] if entry and candidate.user is None and candidate.row is not None else None
    if row is not None and row.order_else and not candidate.measure.sorts:
        context.report(
            "ORDER_MISSING", candidate.measure.path, name=candidate.name, taken=row.order_else
        )
    return True


def _phase(candidate: MeasureCandidate, context: BindContext) -> bool:
    phase, path = candidate.measure.phase, f"{candidate.measure.path}.phase"
    row, function = candidate.row, candidate.measure.function
    if phase == "unspecified":
        context.report("PHASE_UNSPECIFIED", path, name=candidate.name)
    if phase not in PARTIAL or row is None or row.kind is None:
        return True
    whole = candidate.user is None and not_decomposable(row, function, candidate.section)
    if whole:
        context.report(
            "PHASE_NOT_DECOMPOSABLE", path, name=candidate.name, phase=phase.upper(), declared=whole
        )
        return False
    reason = _why_no_state(candidate, row)
    if reason:
        context.report(
            "PHASE_NOT_SUPPORTED", path, name=candidate.name, phase=phase.upper(), reason=reason
        )
    return not reason


def _why_no_state(candidate: MeasureCandidate, row: AggregateFunction) -> str:
    """Return why the intermediate state of a measure is not supported; empty if it is."""
    types = candidate.matched.types if candidate.matched else ()
    if not row.intermediate:
        return NO_STATE
    if types and candidate.measure.phase in TO_STATES and rounds_state(row, types):
        type_ = state_type(row, types, candidate.measure.function.urn)
        return f"its intermediate type {type_} rounds exact sums and products of {types[0].kind}"
    return ""


def _arguments(candidate: MeasureCandidate, context: BindContext) -> bool:
    row, matched = candidate.row, candidate.matched
    if row is None or row.kind is None:
        return True
    if candidate.measure.phase in OF_STATES:
        return _state_argument(candidate, row, context)
    if not candidate.comparable:
        return False
    if matched is None:
        report_faults(candidate, row, context)
        return False
    if not _is_comparable_or_sum(candidate, matched):
        report_incomparable(candidate, row, context)
        return False
    fits = signature_fits(candidate, matched, context)
    for parameter in matched.assumed:
        context.report(
            "ARGUMENT_ASSUMED", f"{candidate.measure.path}.arguments",
            function=candidate.name, argument=parameter.name, value=repr(parameter.default),
        )  # fmt: skip
    for fault in matched.faults:
        position = next(i for i, a in enumerate(candidate.arguments) if a is fault.argument)
        context.report(
            "CONSTANT_ARGUMENT_INVALID", argument_place(candidate.measure, position),
            function=candidate.name, argument=fault.name, reason=fault.reason,
        )  # fmt: skip
    return fits and not matched.faults


def _state_argument(
    candidate: MeasureCandidate, row: AggregateFunction, context: BindContext
) -> bool:
    """Check the argument of a measure that merges states, if its function has states."""
    if not candidate.comparable or candidate.matched is not None:
        return candidate.matched is not None
    function, section = candidate.measure.function, candidate.section
    if not row.intermediate or not_decomposable(row, function, section):
        return False
    takes = describe_state(row, function, section)
    if len(candidate.arguments) == 1:
        report_type(candidate, 0, takes, context)
    else:
        context.report(
            "ARGUMENT_COUNT", f"{candidate.measure.path}.arguments", function=candidate.name,
            needed=arguments_needed(1, 1, more=False), count=arguments_given(len(candidate.arguments)), takes=takes,
        )  # fmt: skip
    return False


def _is_comparable_or_sum(candidate: MeasureCandidate, matched: Matched) -> bool:
    """Return whether the values have an equality, or the measure stores only sums."""
    summed = (
        candidate.row is not None and candidate.row.state == "additive" and not candidate.distinct
    )
    return summed or all(map(is_keyable, matched.types))


def _filter(candidate: MeasureCandidate, context: BindContext) -> bool:
    if candidate.filter is None:
        return True
    path = filter_place(candidate.measure)
    if candidate.row is not None and candidate.row.kind is not None:
        part = candidate.row.filter
        if part.handling == "refused":
            context.report(
                "MEASURE_FILTER_NOT_SUPPORTED", path, name=candidate.name, reason=part.reason
            )
            return False
    if is_unknown(candidate.filter):
        return False
    constant = constant_in(candidate.filter)
    if constant is not None:
        value, effect = _CONSTANT_FILTERS[constant.value]
        context.report(
            "MEASURE_FILTER_CONSTANT", path, name=candidate.name, value=value, effect=effect
        )
    return True


_CONSTANT_FILTERS = {
    True: ("true", "it changes nothing"),
    False: ("false", "no row counts"),
    None: ("null", "no row counts"),
}

RULES: tuple[Rule, ...] = (
    _is_supported,
    _is_maintained,
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
    section: Section = "aggregate_functions",
) -> BoundMeasure | None:
    """Bind a measure, or report its problems and return None."""
    if measure.function == model.NO_FUNCTION:
        return None
    candidate = make_candidate(measure, schema, context, grouping, section)
    passed = {rule: rule(candidate, context) for rule in RULES}
    row, matched = candidate.row, candidate.matched
    if row is None or row.kind is None:
        return None
    options = choose_options(row.name, measure.options, candidate.options, context, measure.path)
    if matched is None or not (passed[_arguments] and passed[_phase]):
        return None
    type_ = output_type(candidate, matched.types, context)
    if type_.kind == "unknown" or not all(passed.values()):
        return None
    if type_.kind == "decimal" and ("OVERFLOW", "SILENT") in options:
        type_ = _make_nullable(type_, candidate, context)
    order, constants = resolve_order(row, candidate.order, matched)
    effective = dict(sorted((*options, *candidate.decided)))
    kind = merging_kind(row.kind) if measure.phase in OF_STATES else row.kind
    bound = BoundMeasure(
        kind, matched.values, candidate.filter, type_, candidate.name, measure.path, candidate.distinct,
        order, tuple(effective.items()), constants,
        row.keep_nulls and effective.get("IGNORE_NULLS") != "TRUE",
        candidate.user.key if candidate.user else "",
    )  # fmt: skip
    return _finish(bound, candidate, matched, context)


def _make_nullable(type_: Type, candidate: MeasureCandidate, context: BindContext) -> Type:
    """Make a decimal type nullable, because a result that does not fit becomes null."""
    if not type_.nullable and candidate.measure.output_type is not None:
        context.report(
            "NULL_BY_OPTION", f"{candidate.measure.path}.output_type",
            function=candidate.name, declared=type_, option="OVERFLOW",
        )  # fmt: skip
    return type_.as_nullable()


def _finish(
    measure: BoundMeasure, candidate: MeasureCandidate, matched: Matched, context: BindContext
) -> BoundMeasure | None:
    """Complete the measure with the specifics of counts, products and ``grouping()``."""
    if candidate.row is not None and candidate.row.name == "count_if":
        return replace(measure, arguments=(), filter=_both(measure.filter, matched.values[0]))
    if measure.kind == "count" and not measure.distinct:
        # A constant that is not null counts in every row.
        return replace(measure, arguments=tuple(v for v in measure.arguments if not _present(v)))
    if measure.kind == "product" and measure.type.kind in FLOATS:
        return replace(measure, arguments=tuple(map(_as_float, measure.arguments)))
    if measure.kind == "grouping":
        constants = grouping_values(matched.values, candidate.grouping, candidate.measure, context)
        return None if constants is None else replace(measure, arguments=(), constants=constants)
    return measure


def _as_float(value: Expr) -> Expr:
    return value if value.type.kind in FLOATS else convert(value, FP64)


def _present(value: Expr) -> bool:
    return isinstance(value, Constant) and value.value is not None


def _both(condition: Expr | None, other: Expr) -> Expr:
    if condition is None:
        return other
    nullable = condition.type.nullable or other.type.nullable
    return Call(BOOL.as_nullable(nullable), "and", (condition, other))


def output_type(candidate: MeasureCandidate, types: Schema, context: BindContext) -> Type:
    """Return the type of the column; report an impossible declared type and return `UNKNOWN`."""
    row, measure = candidate.row, candidate.measure
    if row is None:
        return UNKNOWN
    derived = _derive_type(candidate, row, types, context)
    declared, path = measure.output_type, f"{measure.path}.output_type"
    if UNKNOWN.kind in (derived.kind, declared.kind if declared else ""):
        return UNKNOWN
    if declared is None:
        context.report("OUTPUT_TYPE_MISSING", path, name=candidate.name, type=derived)
        return _with_null(candidate, row, derived)
    to_state = measure.phase in TO_STATES
    converts = (
        derived.same_kind(declared)
        if to_state
        else convertible(row.result, types, derived, declared)
    )
    if not converts or not fits_decimal(declared):
        context.report(
            "OUTPUT_TYPE_NOT_SUPPORTED", path, name=candidate.name,
            argument=list_types(types) or "rows", declared=declared, derived=derived,
        )  # fmt: skip
        return UNKNOWN
    if output_explained(candidate):
        return _with_null(candidate, row, widen(declared, derived))
    never_null = derived.nullable and not declared.nullable
    if never_null:
        context.report("OUTPUT_NULLABILITY", path, name=candidate.name, declared=declared)
    if derived != (declared.as_nullable() if never_null else declared):
        if loses_digits(derived, declared):
            context.report(
                "RESULT_TYPE_LOSSY", path,
                function=candidate.name, declared=declared, derived=derived,
            )  # fmt: skip
        else:
            context.report(
                "OUTPUT_TYPE_DIFFERS", path, name=candidate.name, declared=declared, derived=derived
            )
    return _with_null(candidate, row, widen(declared, derived))


def _derive_type(
    candidate: MeasureCandidate, row: AggregateFunction, types: Schema, context: BindContext
) -> Type:
    if candidate.user is not None:
        return _derive_user_type(candidate, candidate.user, types, context)
    if candidate.measure.phase in TO_STATES:
        return state_type(row, types, candidate.measure.function.urn)
    rule = RESULTS[row.result]
    derived = rule(types, candidate.measure.function.urn, context.profile.derivation)
    constant = candidate.matched is not None and candidate.matched.nullable_constant
    return derived.as_nullable() if constant and row.result in MIRRORING else derived


def _derive_user_type(
    candidate: MeasureCandidate, user: UserMeasure, types: Schema, context: BindContext
) -> Type:
    """Return the type that the embedding program derives. Report exceptions of its code."""
    try:
        declared: object = user.result_type(types)
    except Exception as error:  # noqa: BLE001 - whatever it raises is the reason
        reason = f"the method result raised {type(error).__name__}: {error}"
    else:
        if isinstance(declared, Type):
            return declared
        reason = f"the method result returned {type(declared).__name__}, not a type"
    path = candidate.measure.path
    context.report("USER_MEASURE_FAILED", path, name=candidate.name, reason=reason)
    return UNKNOWN


def _with_null(candidate: MeasureCandidate, row: AggregateFunction, type_: Type) -> Type:
    # The declaration may mirror the argument's nullability, but a group without counted rows is
    # null. The declaration of a state says how it represents such a group.
    empty = row.empty == "null" and candidate.measure.phase not in TO_STATES
    return type_.as_nullable() if empty or ("EMPTY", "NULL") in row.settings else type_


def check_extension(candidate: MeasureCandidate, context: BindContext) -> None:
    """Report a function of the wrong extension, or with a signature that the extension lacks."""
    function, row, path = candidate.measure.function, candidate.row, candidate.measure.path
    urn, section = function.urn, candidate.section
    if row is None or row.kind is None or candidate.user is not None or urn not in STANDARD_URNS:
        return
    if row.urns and urn not in row.urns:
        context.report(
            "FUNCTION_URN_DIFFERS", function.path or path,
            name=candidate.name, urn=urn, expected=" or ".join(row.urns),
        )  # fmt: skip
        return
    named = function.name in declarations(urn, section) if function.signature is not None else False
    if named or not (row.producers and row.urns):
        # A producer's own extension of that name is not checked against the standard.
        check_declaration(function, section, path, context)


def signature_fits(candidate: MeasureCandidate, matched: Matched, context: BindContext) -> bool:
    """Report arguments that do not match the declared signature.

    Return False if the call is impossible.

    A call is impossible if the plan declares the result of that signature, and the result for the
    actual arguments does not convert to it.
    """
    declared, place = _misfit(candidate)
    if declared is None:
        return True
    if place is None:
        _report_inexact(candidate, declared, context)
        return True
    if place != NUMBER and _means_signature(candidate) and not _holds(candidate, matched, context):
        report_type(candidate, place, _describe_taken(declared), context)
        return False
    path = candidate.measure.path
    at = f"{path}.arguments" if place == NUMBER else argument_place(candidate.measure, place)
    context.report(
        "SIGNATURE_DIFFERS", at,
        name=candidate.measure.function.declared, types=types_of(candidate.arguments),
    )  # fmt: skip
    return True


def _report_inexact(
    candidate: MeasureCandidate, declared: ComparableSignature, context: BindContext
) -> None:
    kind = inexact(declared, candidate.arguments)
    # A signature that no extension has is reported, and its types say nothing of the call.
    if kind and declared.standard is not None:
        context.report(
            "ARGUMENTS_PROMOTED", f"{candidate.measure.path}.arguments",
            function=candidate.name, types=types_of(candidate.arguments), type=kind,
        )  # fmt: skip


def output_explained(candidate: MeasureCandidate) -> bool:
    """Return whether the output type fits the declared signature while the arguments do not."""
    return _misfit(candidate)[1] is not None and _means_signature(candidate)


def _misfit(candidate: MeasureCandidate) -> tuple[ComparableSignature | None, int | None]:
    declared = declared_signature(candidate.measure.function, candidate.section)
    if declared is None or candidate.row is None or candidate.measure.phase in OF_STATES:
        return None, None
    return declared, misfit(declared, candidate.arguments)


def _means_signature(candidate: MeasureCandidate) -> bool:
    """Return whether the declared output type has the kind that the declared signature returns."""
    row, output = candidate.row, candidate.measure.output_type
    signature = candidate.measure.function.signature
    if row is None or output is None or signature is None or row.result not in RESULTS:
        return False
    types = tuple(type_of_word(word) for word in words_of(signature) if word != ENUM)
    typed = tuple(t for t in types if t is not None)
    if len(typed) < len(types) or not (typed or row.result in COUNTS):
        return False
    return (
        RESULTS[row.result](typed, candidate.measure.function.urn, "standard").kind == output.kind
    )


def _holds(candidate: MeasureCandidate, matched: Matched, context: BindContext) -> bool:
    """Return whether the result for the actual arguments converts to the declared output type."""
    row, output = candidate.row, candidate.measure.output_type
    if row is None or output is None or row.result not in RESULTS:
        return True
    rules = context.profile.derivation
    derived = RESULTS[row.result](matched.types, candidate.measure.function.urn, rules)
    return convertible(row.result, matched.types, derived, output)


def _describe_taken(declared: ComparableSignature) -> str:
    if declared.standard is None:
        return f"({', '.join(declared.words)})"
    return f"({', '.join(map(format_argument, declared.standard.arguments))})"
