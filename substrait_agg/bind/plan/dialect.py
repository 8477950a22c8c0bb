"""List what is supported as a Substrait dialect: types, relations, expressions and functions.

Everything comes from the tables that binding uses: type kinds from `bind.context`, relations and
expressions from the decoded tree. Functions are supported if their declaration can be bound
(`bind.plan.dialect_support`).

Source: ``dialect_schema.yaml`` of the Substrait project.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, get_args

from substrait_agg.bind.aggregates.order import DIRECTIONS
from substrait_agg.bind.context import FRACTIONAL, KEYABLE, MAX_TIME_DIGITS, READABLE
from substrait_agg.bind.expressions.conversions import fits_decimal
from substrait_agg.bind.plan.dialect_support import AS_CONSTANTS, Support, support_of
from substrait_agg.functions.aggregates.catalogue import AGGREGATES
from substrait_agg.functions.listing.catalogue_json import part, phases, urn_of
from substrait_agg.functions.scalars.catalogue import SCALAR_NAMES, SCALARS
from substrait_agg.functions.signatures.declarations import (
    Signature,
    scalar_signatures,
    signatures,
    window_signatures,
)
from substrait_agg.functions.signatures.derive import MAX_PRECISION, UNSIGNED
from substrait_agg.plan import model
from substrait_agg.plan.types import NESTED_KINDS, PARAMETER_KINDS, SIMPLE_KINDS, decimal

Entry = dict[str, Any]

_UNSIGNED_SOURCE = "unsigned_integers"
_TYPE_NAMES = {"fixedchar": "FIXED_CHAR", "fixedbinary": "FIXED_BINARY"}
"""Type kind -> its name in dialects, if that is not the kind in upper case."""

_DIGITS = FRACTIONAL | {"interval_compound"}

_JOIN_TYPES = [
    "INNER", "OUTER", "LEFT", "RIGHT", "LEFT_SEMI", "RIGHT_SEMI", "LEFT_ANTI", "RIGHT_ANTI",
    "LEFT_SINGLE", "RIGHT_SINGLE", "LEFT_MARK", "RIGHT_MARK",
]  # fmt: skip

RELATIONS: dict[type, tuple[Entry, ...]] = {
    model.ReadRel: ({"relation": "READ", "read_types": ["NAMED_TABLE", "VIRTUAL_TABLE"]},),
    model.FilterRel: ({"relation": "FILTER"},),
    model.ProjectRel: ({"relation": "PROJECT"},),
    model.AggregateRel: (
        {
            "relation": "AGGREGATE",
            "metadata": {"grouping_sets": "any number, including duplicates"},
        },
    ),
    model.SetRel: (
        {
            "relation": "SET",
            "operations": [kind.upper() for kind in get_args(model.SetOperationKind)],
        },
    ),
    model.SortRel: (
        {
            "relation": "SORT",
            "metadata": {
                "place": "at the root of the plan, where it orders the view when it is read"
            },
        },
    ),
    model.JoinRel: (
        {"relation": "JOIN", "join_types": _JOIN_TYPES},
        {"relation": "CROSS"},
        *(
            {"relation": f"{algorithm}_JOIN", "join_types": _JOIN_TYPES}
            for algorithm in ("HASH", "MERGE", "NESTED_LOOP")
        ),
    ),
    model.FetchRel: ({"relation": "FETCH"}, {"relation": "TOP_N"}),
}
"""Relation of the decoded tree -> its entries in the dialect."""

EXPRESSIONS: dict[type, Entry] = {
    model.Literal: {"expression": "LITERAL"},
    model.FieldRef: {"expression": "SELECTION"},
    model.ScalarCall: {"expression": "SCALAR_FUNCTION"},
    model.Cast: {
        "expression": "CAST",
        "failure_options": ["RETURN_NULL", "THROW_EXCEPTION"],
    },
    model.IfThen: {"expression": "IF_THEN"},
    model.Switch: {"expression": "SWITCH"},
    model.SingularOrList: {"expression": "SINGULAR_OR_LIST"},
    model.LambdaExpression: {"expression": "LAMBDA"},
    model.Subquery: {
        "expression": "SUBQUERY",
        "subquery_types": ["SCALAR", "IN_PREDICATE", "SET_PREDICATE", "SET_COMPARISON"],
    },
    model.NestedExpression: {"expression": "NESTED", "nested_types": ["STRUCT", "LIST", "MAP"]},
}
"""Expression of the decoded tree -> its entry in the dialect."""


def dialect(version: str) -> Entry:
    """Return the dialect as values that YAML and JSON can represent."""
    declared = (*scalar_signatures(), *window_signatures())
    scalars = tuple(support_of(s, aggregate=False) for s in declared)
    measures = tuple(support_of(s, aggregate=True) for s in signatures())
    scalar_entries = _functions(scalars, _scalar_metadata)
    aggregate_entries = _functions(measures, _aggregate_metadata)
    used = {e["source"] for e in (*scalar_entries, *aggregate_entries)} | {_UNSIGNED_SOURCE}
    urns = {_alias(s.urn): urn_of(s.urn) for s in (*signatures(), *declared)}
    return {
        "name": "substrait-agg",
        "metadata": {
            "version": version,
            "measures": {
                "phases": {name: part(signature) for name, signature in phases().items()},
                "sort_directions": sorted(name.upper() for name in DIRECTIONS),
            },
            "options": "the options in the metadata of a function may be set; the default is the first value",
        },
        "dependencies": {alias: urns[alias] for alias in sorted(used)},
        "supported_types": _types(),
        "supported_relations": _relations(),
        "supported_expressions": [EXPRESSIONS[kind] for kind in _members(model.Expression)],
        "supported_scalar_functions": scalar_entries,
        "supported_aggregate_functions": aggregate_entries,
        "supported_window_functions": [],
    }


def _relations() -> list[Entry]:
    return [entry for kind in _members(model.Relation) for entry in RELATIONS[kind]]


def _members(union: Any) -> tuple[type, ...]:
    # A parameter of a lambda and a column of an outer query are written as selections.
    left_out = (model.Unsupported, model.ParameterRef, model.OuterRef)
    return tuple(kind for kind in get_args(union) if kind not in left_out)


def _alias(urn: str) -> str:
    return urn.rpartition(":")[2].removeprefix("functions_")


# --- types -----------------------------------------------------------------------------------


def _types() -> list[Entry]:
    kinds = (*SIMPLE_KINDS, *PARAMETER_KINDS, *NESTED_KINDS)
    return [_type(kind) for kind in kinds if kind in READABLE]


def _type(kind: str) -> Entry:
    entry: Entry = {"type": _TYPE_NAMES.get(kind, kind.upper())}
    if kind in UNSIGNED:
        entry = {"type": "USER_DEFINED", "source": _UNSIGNED_SOURCE, "name": kind}
    if kind in _DIGITS:
        entry["max_precision"] = MAX_TIME_DIGITS
    if kind == "decimal":
        entry["max_precision"] = MAX_PRECISION
        entry["max_scale"] = max(
            s for s in range(MAX_PRECISION + 1) if fits_decimal(decimal(MAX_PRECISION, s))
        )
    entry["system_metadata"] = {"supported_as_column": kind in KEYABLE}
    return entry


# --- functions -------------------------------------------------------------------------------


def _functions(supports: Iterable[Support], metadata: Any) -> list[Entry]:
    """Return one entry per function with a supported implementation, by extension and name."""
    supported = sorted((s for s in supports if s.supported), key=_key)
    return [_function(key, tuple(group), metadata) for key, group in groupby(supported, key=_key)]


def _key(support: Support) -> tuple[str, str]:
    return _alias(support.signature.urn), support.signature.name


def _function(key: tuple[str, str], group: tuple[Support, ...], metadata: Any) -> Entry:
    source, name = key
    entry: Entry = {"source": source, "name": name}
    said = {**_accepted(group), **metadata(name.lower())}
    if said:
        entry["metadata"] = said
    entry["supported_impls"] = [_arguments(s.signature) for s in group]
    least = [s.signature.variadic for s in group if s.signature.variadic is not None]
    if least:
        # The schema has no variadic functions without arguments, so a minimum of zero becomes one.
        entry["variadic"] = {"min": max(1, *least)}
    return entry


def _arguments(signature: Signature) -> str:
    return signature.signature.partition(":")[2]


def _accepted(group: tuple[Support, ...]) -> Entry:
    """Return accepted values of options and enumeration arguments per set of implementations."""
    said: Entry = {}
    for what in ("options", "words"):
        implementations: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for support in group:
            for name, values in getattr(support, what).items():
                implementations.setdefault((name, values), []).append(_arguments(support.signature))
        if implementations:
            said[what] = [
                {"name": name, "values": list(values), "impls": impls}
                for (name, values), impls in implementations.items()
            ]
    return said


def _scalar_metadata(name: str) -> Mapping[str, Any]:
    aliases = SCALARS[SCALAR_NAMES[name]].aliases
    constants = [argument for function, argument in sorted(AS_CONSTANTS) if function == name]
    said = {"aliases": list(aliases), "constant_arguments": constants}
    return {what: values for what, values in said.items() if values}


def _aggregate_metadata(name: str) -> Mapping[str, Any]:
    row = AGGREGATES[name]
    said: Entry = {
        "distinct": part(row.distinct),
        "order_by": part(row.order_by),
        "filter": part(row.filter),
        "state": row.state,
    }
    if row.aliases:
        said["aliases"] = [a.name for a in row.aliases]
    return said
