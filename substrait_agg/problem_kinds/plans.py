"""Problems of a plan as a message: what cannot be read, is not known, or contradicts itself."""

from __future__ import annotations

from substrait_agg.problem_kinds.kind import ProblemKind, kinds

PLANS: tuple[ProblemKind, ...] = kinds(
    "plans",
    (
        "PLAN_UNREADABLE", "error", "error",
        "not a Substrait plan: {reason}",
        "give a Substrait plan as protobuf or protobuf-JSON",
        "",
    ),
    (
        "UNKNOWN_FIELD", "error", "error",
        "field {field} is not known in any Substrait release read here",
        "write the plan for a Substrait release up to {newest}, or remove the field",
        "",
    ),
    (
        "PLAN_TOO_LARGE", "error", "error",
        "the plan exceeds {limit}",
        "split the plan, or keep rows and file lists out of it",
        "",
    ),
    (
        "PLAN_TOO_DEEP", "error", "error",
        "messages are nested more than {limit} levels deep",
        "write long chains of AND, OR or CASE flat",
        "",
    ),
    (
        "TOO_MANY_PROBLEMS", "error", "error",
        "more than {limit} problems were found while decoding; the rest is not read",
        "correct those that are listed first",
        "",
    ),
    (
        "FIELD_CONFLICT", "error", "error",
        "{field} and {other} are both written and do not say the same",
        "write only one of them",
        "",
    ),
    (
        "VALUE_INVALID", "error", "error",
        "{field} {reason}",
        "correct the value",
        "",
    ),
    (
        "FIELD_MISSING", "error", "error",
        "{message} has no {field}",
        "write {field}",
        "",
    ),
    (
        "FIELD_NOT_SUPPORTED", "error", "error",
        "field {field} of {message} is not supported",
        "write the plan without it",
        "",
    ),
    (
        "FIELD_REMOVED", "warning", "error",
        "the plan is written for Substrait {version}, but field {field} of {message} was removed in {release}",
        "write what took its place, or state the release that the plan is written for",
        "",
    ),
    (
        "ENHANCEMENT_NOT_SUPPORTED", "error", "error",
        "enhancement {type} changes what {message} means and is not known",
        "write the plan without the enhancement",
        "",
    ),
    (
        "BEST_EFFORT_FILTER", "info", "info",
        "the best effort filter is not applied, which the specification allows",
        "put conditions that must hold in filter",
        "",
    ),
    (
        "RELATION_NOT_SUPPORTED", "error", "error",
        "relation {kind} is not supported",
        "use read, filter, project, aggregate, set (union all) and sort relations",
        "",
    ),
    (
        "EXPRESSION_NOT_SUPPORTED", "error", "error",
        "expression {kind} is not supported",
        "use field references, literals, scalar functions, casts, if-then, switch and IN lists",
        "",
    ),
    (
        "NULLABILITY_MISSING", "info", "error",
        "type {type} does not say whether it is nullable; it is taken as nullable",
        "set the nullability",
        "",
    ),
    (
        "TYPE_VARIATION", "warning", "error",
        "variation {variation} of type {type} is read as the type itself",
        "use the type without a variation",
        "",
    ),
    (
        "NAMES_COUNT", "error", "error",
        "{count} names are given for {needed} fields (nested ones included)",
        "give one name per field, depth first",
        "",
    ),
    (
        "REFERENCE_INVALID", "error", "error",
        "{what} {index} does not exist: the plan has {count}",
        "refer to one of them, counted from 0",
        "",
    ),
    (
        "REFERENCE_CYCLE", "error", "error",
        "{what} {index} refers to itself",
        "remove the cycle",
        "",
    ),
    (
        "ROOT_COUNT", "error", "error",
        "the plan has {count} root relations, one is read",
        "write one plan per root",
        "",
    ),
    (
        "VERSION_MISSING", "info", "warning",
        "the plan does not say which Substrait release it is written for",
        "set version",
        "",
    ),
    (
        "NAMES_TOP_LEVEL", "warning", "error",
        "{count} names are given for {needed} fields: only the columns are named, not what is nested",
        "give one name per field, depth first",
        "",
    ),
)  # fmt: skip
