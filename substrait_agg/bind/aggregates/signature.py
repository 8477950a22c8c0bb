"""Determine the type of a measure's column.

It is the declared type if the exact value converts to it, else the derived type.
"""

from __future__ import annotations

from substrait_agg.bind.aggregates.arguments import Matched
from substrait_agg.bind.aggregates.candidate import MeasureCandidate
from substrait_agg.bind.aggregates.faults import report_type
from substrait_agg.bind.context import UNKNOWN, BindContext, Schema, listed
from substrait_agg.bind.expressions.conversions import fits_decimal
from substrait_agg.bind.expressions.signature_words import ENUM, type_of_word, words_of, written
from substrait_agg.bind.expressions.signatures import (
    NUMBER,
    ComparableSignature,
    check_declaration,
    declared_signature,
    misfit,
    types_of,
)
from substrait_agg.bind.places import argument_place
from substrait_agg.functions.aggregates.catalogue import STANDARD_URNS
from substrait_agg.functions.aggregates.registry import UserMeasure
from substrait_agg.functions.aggregates.row import AggregateFunction
from substrait_agg.functions.aggregates.types import COUNTS, MIRRORING, RESULTS, convertible
from substrait_agg.functions.signatures.declarations import Section, Signature, declarations
from substrait_agg.functions.signatures.derive import widened
from substrait_agg.plan.types import Type


def output_type(draft: MeasureCandidate, types: Schema, context: BindContext) -> Type:
    """Return the type of the column.

    Report a declared type that is impossible and return `UNKNOWN`.

    Args:
        draft: the measure.
        types: types of its value arguments after conversion.
        context: collects the problems.
    """
    row, measure = draft.row, draft.measure
    if row is None:
        return UNKNOWN
    derived = _derived(draft, row, types, context)
    declared, path = measure.output_type, f"{measure.path}.output_type"
    if UNKNOWN.kind in (derived.kind, declared.kind if declared else ""):
        return UNKNOWN
    if declared is None:
        context.report("OUTPUT_TYPE_MISSING", path, name=draft.name, type=derived)
        return _with_null(row, derived)
    if not convertible(row.result, types, derived, declared) or not fits_decimal(declared):
        context.report(
            "OUTPUT_TYPE_NOT_SUPPORTED", path, name=draft.name,
            argument=listed(types) or "rows", declared=declared, derived=derived,
        )  # fmt: skip
        return UNKNOWN
    if output_explained(draft):
        return _with_null(row, widened(declared, derived))
    never_null = derived.nullable and not declared.nullable
    if never_null:
        context.report("OUTPUT_NULLABILITY", path, name=draft.name, declared=declared)
    if derived != (declared.as_nullable() if never_null else declared):
        context.report(
            "OUTPUT_TYPE_DIFFERS", path, name=draft.name, declared=declared, derived=derived
        )
    return _with_null(row, widened(declared, derived))


def _derived(
    draft: MeasureCandidate, row: AggregateFunction, types: Schema, context: BindContext
) -> Type:
    if draft.user is not None:
        return _given(draft, draft.user, types, context)
    rule = RESULTS[row.result]
    derived = rule(types, draft.measure.function.urn, context.profile.derivation)
    constant = draft.matched is not None and draft.matched.nullable_constant
    return derived.as_nullable() if constant and row.result in MIRRORING else derived


def _given(draft: MeasureCandidate, user: UserMeasure, types: Schema, context: BindContext) -> Type:
    """Return the type that the embedding program derives. Report exceptions of its code."""
    try:
        made: object = user.result_type(types)
    except Exception as error:  # noqa: BLE001 - whatever it raises is the reason
        reason = f"result raised {type(error).__name__}: {error}"
    else:
        if isinstance(made, Type):
            return made
        reason = f"result gave {type(made).__name__}, not a type"
    path = draft.measure.path
    context.report("USER_MEASURE_FAILED", path, name=draft.name, reason=reason)
    return UNKNOWN


def _with_null(row: AggregateFunction, type_: Type) -> Type:
    # The declaration may mirror the argument's nullability, but a group without counted rows is
    # null.
    empty = row.empty == "null" or ("EMPTY", "NULL") in row.settings
    return type_.as_nullable() if empty else type_


SECTION: Section = "aggregate_functions"


def check_extension(draft: MeasureCandidate, context: BindContext) -> None:
    """Report a function of the wrong extension, or with a signature that the extension lacks."""
    function, row, path = draft.measure.function, draft.row, draft.measure.path
    urn = function.urn
    if row is None or row.kind is None or draft.user is not None or urn not in STANDARD_URNS:
        return
    if row.urns and urn not in row.urns:
        context.report(
            "FUNCTION_URN_DIFFERS", function.path or path,
            name=draft.name, urn=urn, expected=" or ".join(row.urns),
        )  # fmt: skip
        return
    named = function.name in declarations(urn, SECTION) if function.signature is not None else False
    if named or not (row.producers and row.urns):
        # A producer's own extension of that name is not checked against the standard.
        check_declaration(function, SECTION, path, context)


def signature_fits(draft: MeasureCandidate, matched: Matched, context: BindContext) -> bool:
    """Report arguments that do not match the declared signature.

    Return False if the call is impossible.

    A call is impossible if the plan declares the result of that signature, and the result for the
    actual arguments does not convert to it.
    """
    declared, place = _misfit(draft)
    if declared is None or place is None:
        return True
    if place != NUMBER and _means_signature(draft) and not _holds(draft, matched, context):
        report_type(draft, place, _taken(declared), context)
        return False
    path = draft.measure.path
    at = f"{path}.arguments" if place == NUMBER else argument_place(draft.measure, place)
    context.report(
        "SIGNATURE_DIFFERS", at,
        name=draft.measure.function.declared, types=types_of(draft.arguments),
    )  # fmt: skip
    return True


def output_explained(draft: MeasureCandidate) -> bool:
    """Return whether the output type fits the declared signature while the arguments do not."""
    return _misfit(draft)[1] is not None and _means_signature(draft)


def not_decomposable(draft: MeasureCandidate) -> str:
    """Return the signature with which the standard declares the measure as not decomposable.

    The text is empty if there is none.
    """
    row, function = draft.row, draft.measure.function
    if row is None or draft.user is not None:
        return ""
    declared = declared_signature(function, SECTION)
    found: tuple[Signature, ...] = ()
    if declared is not None and declared.standard is not None:
        found = (declared.standard,)
    else:
        urns = (urn for urn in row.urns if urn in STANDARD_URNS)
        found = tuple(s for urn in urns for s in declarations(urn, SECTION).get(row.name, ()))
    whole = bool(found) and all(s.decomposable == "NONE" for s in found)
    return found[0].signature if whole else ""


def _misfit(draft: MeasureCandidate) -> tuple[ComparableSignature | None, int | None]:
    declared = declared_signature(draft.measure.function, SECTION)
    if declared is None or draft.row is None:
        return None, None
    return declared, misfit(declared, draft.arguments)


def _means_signature(draft: MeasureCandidate) -> bool:
    """Return whether the declared output type has the kind that the declared signature returns."""
    row, output = draft.row, draft.measure.output_type
    signature = draft.measure.function.signature
    if row is None or output is None or signature is None or row.result not in RESULTS:
        return False
    types = tuple(type_of_word(word) for word in words_of(signature) if word != ENUM)
    known = tuple(t for t in types if t is not None)
    if len(known) < len(types) or not (known or row.result in COUNTS):
        return False
    return RESULTS[row.result](known, draft.measure.function.urn, "standard").kind == output.kind


def _holds(draft: MeasureCandidate, matched: Matched, context: BindContext) -> bool:
    """Return whether the result for the actual arguments converts to the declared output type."""
    row, output = draft.row, draft.measure.output_type
    if row is None or output is None or row.result not in RESULTS:
        return True
    rules = context.profile.derivation
    derived = RESULTS[row.result](matched.types, draft.measure.function.urn, rules)
    return convertible(row.result, matched.types, derived, output)


def _taken(declared: ComparableSignature) -> str:
    if declared.standard is None:
        return f"({', '.join(declared.words)})"
    return f"({', '.join(map(written, declared.standard.arguments))})"
