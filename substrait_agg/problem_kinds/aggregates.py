"""Problems of aggregates, their grouping sets and their measures."""

from __future__ import annotations

from substrait_agg.problem_kinds.kind import ProblemKind, kinds

AGGREGATES: tuple[ProblemKind, ...] = kinds(
    "aggregates",
    (
        "GROUPING_INDEX_NOT_NAMED", "warning", "error",
        "the column that says which grouping set made a row has no name; it is left out",
        "name it, or leave it out with an output mapping",
        "",
    ),
    (
        "GROUPING_EXPRESSION_UNUSED", "error", "error",
        "grouping expression {ordinal} is in no grouping set",
        "refer to it from a grouping set, or remove it",
        "",
    ),
    (
        "GROUPING_REFERENCE_OUT_OF_RANGE", "error", "error",
        "the grouping set refers to expression {ordinal}, but there are {count}",
        "refer to grouping expressions 0 to {last}",
        "",
    ),
    (
        "AGGREGATE_EMPTY", "error", "error",
        "the aggregate has neither grouping expressions nor measures",
        "add a measure or a grouping expression",
        "",
    ),
    (
        "KEY_TYPE_NOT_SUPPORTED", "error", "error",
        "rows cannot be grouped by values of type {type}",
        "group by a column of another type",
        "",
    ),
    (
        "AGGREGATE_FUNCTION_UNKNOWN", "error", "error",
        "aggregate function {name} is not known",
        "use one of: {maintained}",
        "",
    ),
    (
        "AGGREGATE_FUNCTION_NOT_SUPPORTED", "error", "error",
        "aggregate function {name} is known, but not maintained: {reason}",
        "use one of: {maintained}",
        "",
    ),
    (
        "FUNCTION_NOT_AGGREGATE", "error", "error",
        "{name} is a {what} function; a measure needs an aggregate function",
        "compute it in a projection, or use an aggregate function",
        "",
    ),
    (
        "CONSTANT_ARGUMENT_INVALID", "error", "error",
        "argument {argument} of {function} has to be a constant within its bounds: {reason}",
        "write it as such a literal",
        "",
    ),
    (
        "DISTINCT_NOT_SUPPORTED", "error", "error",
        "{name} cannot be over distinct values: {reason}",
        "use the invocation ALL",
        "",
    ),
    (
        "DISTINCT_NO_EFFECT", "info", "info",
        "{name} is over distinct values, which changes nothing: {reason}",
        "use the invocation ALL",
        "",
    ),
    (
        "ORDER_BY_NOT_SUPPORTED", "error", "error",
        "{name} cannot have an order of rows: {reason}",
        "remove the sorts of the measure",
        "",
    ),
    (
        "ORDER_BY_NO_EFFECT", "warning", "warning",
        "{name} has an order of rows, which changes nothing: {reason}",
        "remove the sorts of the measure",
        "",
    ),
    (
        "ORDER_DIRECTION_NOT_SUPPORTED", "error", "error",
        "the order of {name} has direction {direction}, which says no order of values",
        "use ascending or descending with nulls first or last, or clustered",
        "",
    ),
    (
        "ORDER_KEY_NOT_SUPPORTED", "error", "error",
        "{name} is ordered by values of type {type}, which have no order",
        "order by a column of another type",
        "",
    ),
    (
        "ORDER_NOT_BY_ARGUMENT", "error", "error",
        "{name} is ordered by something else than what it aggregates",
        "sort by the aggregated argument",
        "",
    ),
    (
        "DISTINCT_ORDER_OUTSIDE", "error", "error",
        "{name} is over distinct values, but ordered by an expression that is not among its arguments",
        "sort by the arguments, or do not ask for distinct values",
        "",
    ),
    (
        "MEASURE_FILTER_NOT_SUPPORTED", "error", "error",
        "{name} cannot have a filter: {reason}",
        "remove the filter of the measure",
        "",
    ),
    (
        "GROUPING_ARGUMENT", "error", "error",
        "argument {position} of {name} is not one of the aggregate's grouping expressions",
        "name grouping expressions of the same aggregate, at most {most}",
        "",
    ),
    (
        "PHASE_UNSPECIFIED", "warning", "error",
        "{name} states no phase; the complete aggregate is computed",
        "set the phase to INITIAL_TO_RESULT",
        "",
    ),
    (
        "PHASE_NOT_SUPPORTED", "error", "error",
        "{name} is in phase {phase}; only complete aggregates are computed",
        "set the phase to INITIAL_TO_RESULT",
        "",
    ),
    (
        "MEASURE_FILTER_NOT_BOOLEAN", "error", "error",
        "the filter of {name} is {type}, not boolean",
        "write a filter whose type is boolean",
        "",
    ),
    (
        "OUTPUT_TYPE_MISSING", "warning", "error",
        "{name} declares no output type; {type} is derived",
        "declare the output type",
        "",
    ),
    (
        "OUTPUT_TYPE_DIFFERS", "info", "error",
        "{name} declares {declared}, its arguments give {derived}; the exact value is converted",
        "declare {derived}",
        "",
    ),
    (
        "OUTPUT_TYPE_NOT_SUPPORTED", "error", "error",
        "{name} of {argument} cannot be given as {declared}",
        "declare {derived}",
        "",
    ),
    (
        "OUTPUT_NULLABILITY", "warning", "error",
        "{name} declares {declared}, but is null when no value counts; the column is nullable",
        "declare the output type nullable",
        "",
    ),
)  # fmt: skip
