"""The type of a measure's column: as declared where the exact value converts to it, else as derived."""

from __future__ import annotations

from substrait_agg.bind.context import UNKNOWN, Context, Schema, listed
from substrait_agg.bind.convert import fits_decimal
from substrait_agg.bind.measure_draft import Draft
from substrait_agg.bind.measure_signature import output_explained
from substrait_agg.functions.aggregate_row import AggregateFunction
from substrait_agg.functions.aggregate_types import MIRRORING, RESULTS, convertible
from substrait_agg.functions.derive import widened
from substrait_agg.functions.registry import UserMeasure
from substrait_agg.plan.types import Type


def output_type(draft: Draft, types: Schema, context: Context) -> Type:
    """The type of the column, `UNKNOWN` once it has been reported that the declared one cannot hold.

    Args:
        draft: the measure.
        types: of its value arguments, as converted.
        context: takes the problems.
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


def _derived(draft: Draft, row: AggregateFunction, types: Schema, context: Context) -> Type:
    if draft.user is not None:
        return _given(draft, draft.user, types, context)
    rule = RESULTS[row.result]
    derived = rule(types, draft.measure.function.urn, context.profile.derivation)
    constant = draft.matched is not None and draft.matched.nullable_constant
    return derived.as_nullable() if constant and row.result in MIRRORING else derived


def _given(draft: Draft, user: UserMeasure, types: Schema, context: Context) -> Type:
    """What the embedding program says; its code may fail."""
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
    # Where the declaration mirrors the argument's nullability, a group in which nothing counts is null all the same.
    empty = row.empty == "null" or ("EMPTY", "NULL") in row.settings
    return type_.as_nullable() if empty else type_
