"""A measure against the signature that the plan declares for it, and against the standard's declaration of that signature."""

from __future__ import annotations

from substrait_agg.bind.context import Context
from substrait_agg.bind.measure_arguments import Matched
from substrait_agg.bind.measure_draft import Draft
from substrait_agg.bind.measure_faults import report_type
from substrait_agg.bind.measure_places import argument_place
from substrait_agg.bind.signature_words import ENUM, type_of_word, words_of, written
from substrait_agg.bind.signatures import (
    NUMBER,
    Declared,
    check_declaration,
    declared_signature,
    misfit,
    types_of,
)
from substrait_agg.functions.aggregate_types import COUNTS, RESULTS, convertible
from substrait_agg.functions.aggregates import STANDARD_URNS
from substrait_agg.functions.signatures import Section, Signature, declarations

SECTION: Section = "aggregate_functions"


def check_extension(draft: Draft, context: Context) -> None:
    """Report a function that is declared under another extension than the standard's, or in a form that it has not."""
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
        # Other extensions of that name, which a producer ships, are not the standard's to judge.
        check_declaration(function, SECTION, path, context)


def signature_fits(draft: Draft, matched: Matched, context: Context) -> bool:
    """Report arguments that are not those of the declared signature; False where the measure cannot be meant.

    It cannot where the plan declares the result of that signature, and what the arguments give does not convert to it.
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


def output_explained(draft: Draft) -> bool:
    """Whether the declared output type is that of the declared signature, and it is the arguments that differ from it."""
    return _misfit(draft)[1] is not None and _means_signature(draft)


def not_decomposable(draft: Draft) -> str:
    """The declaration of the standard that says of the measure that it has no partial results; empty where none does."""
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


def _misfit(draft: Draft) -> tuple[Declared | None, int | None]:
    declared = declared_signature(draft.measure.function, SECTION)
    if declared is None or draft.row is None:
        return None, None
    return declared, misfit(declared, draft.arguments)


def _means_signature(draft: Draft) -> bool:
    """Whether the declared output type is of the kind that the declared signature gives."""
    row, output = draft.row, draft.measure.output_type
    signature = draft.measure.function.signature
    if row is None or output is None or signature is None or row.result not in RESULTS:
        return False
    types = tuple(type_of_word(word) for word in words_of(signature) if word != ENUM)
    known = tuple(t for t in types if t is not None)
    if len(known) < len(types) or not (known or row.result in COUNTS):
        return False
    return RESULTS[row.result](known, draft.measure.function.urn, "standard").kind == output.kind


def _holds(draft: Draft, matched: Matched, context: Context) -> bool:
    """Whether what the arguments give can be given as the declared output type."""
    row, output = draft.row, draft.measure.output_type
    if row is None or output is None or row.result not in RESULTS:
        return True
    rules = context.profile.derivation
    derived = RESULTS[row.result](matched.types, draft.measure.function.urn, rules)
    return convertible(row.result, matched.types, derived, output)


def _taken(declared: Declared) -> str:
    if declared.standard is None:
        return f"({', '.join(declared.words)})"
    return f"({', '.join(map(written, declared.standard.arguments))})"
