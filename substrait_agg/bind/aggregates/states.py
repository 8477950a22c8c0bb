"""Bind the phases of measures: the intermediate states of groups that they return and merge.

A state has the intermediate type that the standard declares for the function. It is computed by
ordinary measures: the state of a sum is a sum, and merging sums sums them. A state of several parts
is a struct in a projection above the aggregate, with one measure per part.
"""

from __future__ import annotations

from dataclasses import replace

from substrait_agg.bind.aggregates.arguments import Matched
from substrait_agg.bind.bound import (
    Argument,
    BoundAggregate,
    BoundMeasure,
    BoundNestedValue,
    BoundProject,
    BoundRelation,
    Column,
    Expr,
    NestedPart,
    value_arguments,
)
from substrait_agg.bind.context import Schema
from substrait_agg.bind.expressions.signatures import (
    ANY,
    declared_signature,
    takes,
    type_of_word,
)
from substrait_agg.functions.aggregates.catalogue import STANDARD_URNS
from substrait_agg.functions.aggregates.kinds import MeasureKind
from substrait_agg.functions.aggregates.row import AggregateFunction
from substrait_agg.functions.aggregates.types import (
    COUNTS,
    INTEGERS,
    INTERMEDIATE_TEXTS,
    INTERMEDIATES,
    ROUNDED_STATES,
)
from substrait_agg.functions.signatures.declarations import Section, Signature, declarations
from substrait_agg.functions.signatures.derive import FLOATS
from substrait_agg.plan.model import FunctionName
from substrait_agg.plan.types import Type

OF_STATES = frozenset({"intermediate_to_intermediate", "intermediate_to_result"})
"""Phases whose argument is an intermediate state."""

TO_STATES = frozenset({"initial_to_intermediate", "intermediate_to_intermediate"})
"""Phases that return an intermediate state."""

PARTIAL = OF_STATES | TO_STATES
"""Phases other than the complete aggregate."""

_MERGES: dict[MeasureKind, MeasureKind] = {"count": "sum0"}
"""Kind of a measure -> kind of the measure that merges its states, if that is another one."""

_WIDENED = (*INTEGERS, *FLOATS)
"""Kinds of values whose state may have another type."""


def merging_kind(kind: MeasureKind) -> MeasureKind:
    """Return the kind of measure that merges the states of measures of a kind."""
    return _MERGES.get(kind, kind)


def state_type(row: AggregateFunction, types: Schema, urn: str | None) -> Type:
    """Return the intermediate type of a function over values of these types."""
    return INTERMEDIATES[row.intermediate](types, urn, "standard")


def rounds_state(row: AggregateFunction, types: Schema) -> bool:
    """Return whether the intermediate type cannot represent the exact state of these values."""
    return row.intermediate in ROUNDED_STATES and types[0].kind in FLOATS


def describe_state(row: AggregateFunction, function: FunctionName, section: Section) -> str:
    """Describe the argument of a measure that merges states, for a message."""
    declared = declared_signature(function, section)
    standard = None if declared is None else declared.standard
    text = INTERMEDIATE_TEXTS[row.intermediate].replace("`", "")
    return f"(state: {text if standard is None else standard.intermediate})"


def match_state(
    row: AggregateFunction,
    arguments: tuple[Argument, ...],
    function: FunctionName,
    section: Section,
) -> Matched | None:
    """Match the argument of a measure that merges states. Return None if it is not a state."""
    values = value_arguments(arguments)
    if not row.intermediate or len(arguments) != 1 or not values:
        return None
    types = _types_before(row, values[0].type, function, section)
    if types is None or not state_type(row, types, function.urn).same_kind(values[0].type):
        return None
    return Matched(_parts(values[0]) if row.kind == "avg" else values, state_of=types)


def _types_before(
    row: AggregateFunction, state: Type, function: FunctionName, section: Section
) -> Schema | None:
    """Return the types of the values that a state was computed from, as far as they matter.

    The signature states them; without one they are the widest that have this state.
    """
    if row.result in COUNTS:
        return ()
    whole = state.children[0] if row.kind == "avg" and state.children else state
    declared = declared_signature(function, section)
    word = declared.words[0] if declared is not None and declared.words else ANY
    named = type_of_word(word)
    type_ = named if named is not None and named.kind in _WIDENED else whole
    kinds = row.parameters[0].kinds
    if not takes(word, type_.kind) or (kinds and type_.kind not in kinds):
        return None
    return (type_.as_nullable(state.nullable),)


def _parts(state: Expr) -> tuple[Expr, ...]:
    return tuple(
        NestedPart(type_.as_nullable(type_.nullable or state.type.nullable), state, ordinal)
        for ordinal, type_ in enumerate(state.type.children)
    )


def not_decomposable(row: AggregateFunction, function: FunctionName, section: Section) -> str:
    """Return the signature with which the standard declares a function as not decomposable.

    The text is empty if there is none.
    """
    declared = declared_signature(function, section)
    signatures: tuple[Signature, ...] = ()
    if declared is not None and declared.standard is not None:
        signatures = (declared.standard,)
    else:
        urns = (urn for urn in row.urns if urn in STANDARD_URNS)
        signatures = tuple(s for urn in urns for s in declarations(urn, section).get(row.name, ()))
    whole = bool(signatures) and all(s.decomposable == "NONE" for s in signatures)
    return signatures[0].signature if whole else ""


# --- states of several parts -------------------------------------------------------------------


def compose_states(aggregate: BoundAggregate) -> BoundRelation:
    """Return the same columns, with the states of several parts from one measure per part."""
    if not any(map(_has_parts, aggregate.measures)):
        return aggregate
    keys = len(aggregate.keys)
    measures: list[BoundMeasure] = []
    expressions: list[Expr] = [Column(t, i) for i, t in enumerate(aggregate.types[:keys])]
    for measure in aggregate.measures:
        parts = _measure_parts(measure) if _has_parts(measure) else (measure,)
        columns = [Column(p.type, keys + len(measures) + i) for i, p in enumerate(parts)]
        measures.extend(parts)
        whole = _has_parts(measure)
        expressions.append(BoundNestedValue(measure.type, tuple(columns)) if whole else columns[0])
    index = aggregate.types[keys + len(aggregate.measures) :]
    expressions.extend(Column(t, keys + len(measures)) for t in index)
    types = (*aggregate.types[:keys], *(m.type for m in measures), *index)
    parted = replace(aggregate, measures=tuple(measures), types=types)
    return BoundProject(parted, tuple(expressions), aggregate.types, aggregate.path)


def _has_parts(measure: BoundMeasure) -> bool:
    return measure.kind == "avg" and measure.type.kind == "struct"


def _measure_parts(measure: BoundMeasure) -> tuple[BoundMeasure, BoundMeasure]:
    """Return the sum and the count of the state of an average."""
    total, count = measure.type.children
    if len(measure.arguments) == 1:
        return replace(measure, kind="sum0", type=total), replace(measure, kind="count", type=count)
    sums, counts = measure.arguments
    return (
        replace(measure, kind="sum0", arguments=(sums,), type=total),
        replace(measure, kind="sum0", arguments=(counts,), type=count),
    )
