"""Convert the tables of functions to plain values for ``substrait-agg functions --format json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from substrait_agg.functions.aggregates.catalogue import AGGREGATES
from substrait_agg.functions.aggregates.row import (
    HONOURED,
    NO_STATE,
    AggregateFunction,
    Alias,
    FieldHandling,
    FunctionOption,
    FunctionParameter,
    no_op,
    refuse,
)
from substrait_agg.functions.aggregates.types import (
    INTERMEDIATE_TEXTS,
    RESULT_TEXTS,
    ROUNDED_STATES,
)
from substrait_agg.functions.scalars.catalogue import SCALARS
from substrait_agg.functions.scalars.forms import FAMILIES, WORDS, Overload, ScalarFunction
from substrait_agg.functions.scalars.refused import REFUSED_SCALARS
from substrait_agg.functions.signatures.declarations import (
    Signature,
    scalar_signatures,
    signatures,
    window_signatures,
)

Entry = dict[str, Any]

URN_OF = "extension:io.substrait:{}"
"""The URN of a standard extension by its last part."""


def urn_of(urn: str) -> str:
    """Return the whole URN of an extension. `urn` is the last part for a standard one."""
    return f"extension:{urn}" if ":" in urn else URN_OF.format(urn)


_READ_AS_COMPLETE = no_op("the complete aggregate is computed; strict mode refuses the plan")
_NOT_OF_FLOATS = FieldHandling(
    "honoured", "of floats refused, because the intermediate type rounds"
)


PARTIAL_PHASES = (
    "INITIAL_TO_INTERMEDIATE", "INTERMEDIATE_TO_INTERMEDIATE", "INTERMEDIATE_TO_RESULT",
)  # fmt: skip
"""The phases that return or merge intermediate states."""


def phases(row: AggregateFunction) -> Mapping[str, FieldHandling]:
    """Return the handling of each phase of a measure."""
    merged = HONOURED if row.intermediate else refuse(NO_STATE)
    state = _NOT_OF_FLOATS if row.intermediate in ROUNDED_STATES else merged
    return {
        "UNSPECIFIED": _READ_AS_COMPLETE,
        "INITIAL_TO_RESULT": HONOURED,
        "INITIAL_TO_INTERMEDIATE": state,
        "INTERMEDIATE_TO_INTERMEDIATE": state,
        "INTERMEDIATE_TO_RESULT": merged,
    }


def part(handling: FieldHandling) -> Entry:
    """Return ``{"handling": ...}``, with the reason if there is one."""
    return {
        "handling": handling.handling,
        **({"reason": handling.reason} if handling.reason else {}),
    }


def standard_aggregates(name: str) -> tuple[Signature, ...]:
    """Return the standard's declarations under the canonical name of an aggregate function."""
    return tuple(s for s in signatures() if s.name.lower() == name)


def standard_scalars(name: str) -> tuple[Signature, ...]:
    """Return all declarations of a scalar function, in the standard or in this program's extension.

    All names of the function count.
    """
    row = SCALARS[name]
    declared = window_signatures() if row.durations else scalar_signatures()
    return tuple(s for s in declared if s.name.lower() in (row.name, *row.aliases))


# --- aggregate functions ---------------------------------------------------------------------


def aggregate(row: AggregateFunction) -> Entry:
    """Return a row of the aggregate catalogue with the standard's declarations."""
    entry: Entry = {
        "name": row.name,
        "maintained": row.kind is not None,
        "producers": list(row.producers),
        "urns": [URN_OF.format(urn) for urn in row.urns],
        "standard": [signature(s) for s in standard_aggregates(row.name)],
    }
    if row.kind is None:
        return {**entry, "reason": row.reason}
    return {
        **entry,
        "aliases": [_alias(a) for a in sorted(row.aliases, key=lambda a: a.name)],
        "parameters": [_parameter(p) for p in row.parameters],
        "signature": row.signature,
        "result": RESULT_TEXTS[row.result].replace("`", ""),
        "state": row.state,
        "options": {name: _option(o) for name, o in row.options.items()},
        "settings": dict(row.settings),
        "distinct": part(row.distinct),
        "distinct_without_arguments": part(row.distinct_rows) if takes_rows(row) else None,
        "always_distinct": row.always_distinct,
        "order_by": part(row.order_by),
        "order_only_by_argument": row.order_on_argument,
        "with_order": row.ordered_form or row.name,
        "without_order": row.unordered_form or row.name,
        "filter": part(row.filter),
        "intermediate": INTERMEDIATE_TEXTS[row.intermediate].replace("`", "")
        if row.intermediate
        else None,
        "phases": {name: part(value) for name, value in phases(row).items()},
        "nulls": row.nulls,
        "where_nothing_counts": row.empty,
    }


def takes_rows(row: AggregateFunction) -> bool:
    """Return whether the function counts rows if it has no argument."""
    return bool(row.parameters) and all(p.optional for p in row.parameters)


def _alias(alias: Alias) -> Entry:
    return {
        "name": alias.name,
        "producers": list(alias.producers),
        "options": dict(alias.presets),
        "distinct": alias.distinct,
    }


def _parameter(parameter: FunctionParameter) -> Entry:
    entry: Entry = {
        "name": parameter.name,
        "role": parameter.role,
        "optional": parameter.optional,
        "repeats": parameter.repeats,
    }
    if parameter.role == "enum":
        entry["words"] = {word: part(value) for word, value in parameter.words.items()}
    elif parameter.role == "constant":
        entry.update(rule=parameter.rule, default=parameter.default)
    else:
        entry["types"] = sorted(parameter.kinds) or "any"
        entry["converted_to_fp64"] = sorted(parameter.as_float)
    return entry


def _option(option: FunctionOption) -> Entry:
    return {
        "default": option.accepted[0],
        "types": sorted(option.kinds) or "any",
        "values": {value: part(allowed) for value, allowed in option.values.items()},
    }


# --- scalar functions ------------------------------------------------------------------------


def scalar(row: ScalarFunction) -> Entry:
    """Return a row of the table of scalar functions with the standard's declarations."""
    return {
        "name": row.name,
        "aliases": sorted(row.aliases),
        "nulls": NULLS[row.nulls],
        "overloads": [_overload(o) for o in row.overloads],
        "standard": [signature(s) for s in standard_scalars(row.name)],
    }


def _overload(overload: Overload) -> Entry:
    return {
        "arguments": list(overload.params),
        "result": SCALAR_RESULTS[overload.result],
        "options": {
            name: {"default": values[0], "values": list(values)}
            for name, values in overload.options.items()
        },
        "common_type": overload.unify,
        "variadic": overload.variadic,
    }


NULLS: Mapping[str, str] = {
    "mirror": "nullable if any argument is",
    "never": "never nullable",
    "always": "always nullable",
    "all": "nullable only if all arguments are",
    "undeclared": "nullable, although declared like its arguments",
}
"""Whether the result of a scalar function can be null, by the word in its row."""

SCALAR_RESULTS: Mapping[str, str] = {
    **{kind: kind for kind in ("bool", "i32", "i64", "fp64", "date", "string")},
    "length": "i64, for DataFusion i32",
    "first": "type of the first argument",
    "second": "type of the second argument",
    "unified": "common type of the arguments",
    "text": "string, or varchar if all arguments are varchar",
    "first_text": "string, or the varchar type of the first argument if all arguments are varchar",
    "joined_text": "string, or varchar if the separator and all other arguments are varchar",
    "window": "struct of start and end, each with the type of the first argument",
    "list_of_first": "list of the type of the first argument",
    "element": "type of the elements",
    "value": "type of the values",
    "list_of_results": "list of the results of the function",
    "decimal_longest": "decimal of scale 0 with the larger precision",
    "decimal_widest": "decimal<38,0>",
    "decimal_add": "decimal with room for the sum",
    "decimal_multiply": "decimal with room for the product",
    "decimal_divide": "decimal with more decimal places",
    "decimal_modulus": "decimal with the larger scale",
    "decimal_whole": "decimal of scale 0",
    "decimal_round": "decimal with one more digit",
    "date_and_days": "precision_timestamp, for DataFusion date",
    "local_first": "precision_timestamp with the digits of the first argument",
    "zoned_first": "precision_timestamp_tz with the digits of the first argument",
    "digits:precision_time": "precision_time with these digits",
    "digits:precision_timestamp_tz": "precision_timestamp_tz with these digits",
}
"""Results of scalar functions, by the word of `derive.RESULT_RULES`."""


# --- documents -------------------------------------------------------------------------------


def signature(declaration: Signature) -> Entry:
    """Return a declaration of the standard."""
    return {
        "urn": urn_of(declaration.urn),
        "signature": declaration.signature,
        "arguments": [
            {
                "name": a.name,
                "type": a.type,
                **({"words": list(a.words)} if a.words else {}),
                **({"constant": True} if a.constant else {}),
            }
            for a in declaration.arguments
        ],
        "returns": declaration.returns.strip(),
        "nullability": declaration.nullability,
        "intermediate": declaration.intermediate,
        "decomposable": declaration.decomposable,
        "ordered": declaration.ordered,
        "options": {name: list(values) for name, values in declaration.options.items()},
        "deprecated": declaration.deprecated,
        "variadic": declaration.variadic,
    }


def aggregate_document() -> Entry:
    """Return all aggregate functions, sorted by name."""
    return {"aggregate_functions": [aggregate(AGGREGATES[name]) for name in sorted(AGGREGATES)]}


def scalar_document() -> Entry:
    """Return all scalar functions, sorted by name, and the words that describe their arguments."""
    return {
        "scalar_functions": [scalar(SCALARS[name]) for name in sorted(SCALARS)],
        "refused_scalar_functions": dict(sorted(REFUSED_SCALARS.items())),
        "families": {name: sorted(kinds) or "any" for name, kinds in FAMILIES.items()},
        "words": {name: sorted(words) for name, words in WORDS.items()},
    }
