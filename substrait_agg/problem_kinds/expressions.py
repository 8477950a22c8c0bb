"""Problems of expressions and function calls, when a plan is bound."""

from __future__ import annotations

from substrait_agg.problem_kinds.kind import ProblemKind, kinds

EXPRESSIONS: tuple[ProblemKind, ...] = kinds(
    "expressions",
    (
        "TYPE_NOT_SUPPORTED", "error", "error",
        "values of type {type} are not supported",
        "use {instead} in its place: a column is cast in the source, a computed value in the query",
        "",
    ),
    (
        "TIME_DIGITS_NOT_KEPT", "warning", "error",
        "values of type {type} are kept in microseconds",
        "use a type of at most 6 digits of a second",
        "",
    ),
    (
        "TIME_TOO_FINE", "error", "error",
        "the value of type {type} has digits finer than a microsecond: {ticks} ticks",
        "write a value of whole microseconds",
        "",
    ),
    (
        "FUNCTION_UNDECLARED", "error", "error",
        "the plan declares no function for {name}",
        "declare the function among the plan's extensions",
        "",
    ),
    (
        "FUNCTION_NAME_BARE", "warning", "error",
        "function {name} is declared without {what}; it is taken by its name",
        "declare it under a URN with its signature",
        "",
    ),
    (
        "FUNCTION_URN_UNKNOWN", "error", "error",
        "function {name} belongs to extension {urn}, which is not known",
        "use a function of the standard extensions, or register the measure in this program first",
        "",
    ),
    (
        "USER_MEASURE_FAILED", "error", "error",
        "the type of {name} is not known: {reason}",
        "correct the class that computes the measure",
        "",
    ),
    (
        "FUNCTION_URN_DIFFERS", "warning", "error",
        "function {name} is declared under {urn}, the standard has it under {expected}",
        "declare the function under {expected}",
        "",
    ),
    (
        "SIGNATURE_DIFFERS", "warning", "error",
        "function {name} is called with ({types})",
        "declare the signature of the call, or convert the arguments to it",
        "",
    ),
    (
        "SCALAR_FUNCTION_UNKNOWN", "error", "error",
        "scalar function {name} is not known",
        "compute the column in the source, or write it with known functions",
        "",
    ),
    (
        "FUNCTION_ARGUMENTS", "error", "error",
        "{function} does not take ({types})",
        "{function} takes {takes}",
        "",
    ),
    (
        "ARGUMENTS_PROMOTED", "info", "error",
        "{function} is given ({types}); they are converted to {type}",
        "convert the arguments to one type in the plan",
        "",
    ),
    (
        "OPTION_UNKNOWN", "error", "error",
        "{function} has no option {option}",
        "remove the option; known are: {known}",
        "",
    ),
    (
        "OPTION_VALUE_NOT_SUPPORTED", "error", "error",
        "none of the preferences of option {option} of {function} is supported: {values}",
        "prefer one of: {known}",
        "",
    ),
    (
        "RESULT_TYPE_MISSING", "warning", "error",
        "{function} declares no result type; {type} is derived",
        "declare the result type",
        "",
    ),
    (
        "RESULT_TYPE_DIFFERS", "info", "error",
        "{function} declares {declared}, its arguments give {derived}; the value is converted",
        "declare the type that the function's declaration derives",
        "",
    ),
    (
        "RESULT_NULLABILITY", "warning", "error",
        "{function} declares {declared}, but null is possible; the column is nullable",
        "declare the type nullable",
        "",
    ),
    (
        "RESULT_TYPE_NOT_SUPPORTED", "error", "error",
        "{function} declares {declared}, to which {derived} cannot be converted",
        "declare {derived}",
        "",
    ),
    (
        "CAST_NOT_SUPPORTED", "error", "error",
        "no conversion from {source} to {target}",
        "convert through another type, or in the source",
        "",
    ),
    (
        "EXPRESSION_TOO_LARGE", "error", "error",
        "the switch compares what it matches in every case, which makes more than {limit} expressions",
        "compute the matched value in a projection below, and match its column",
        "",
    ),
    (
        "BRANCH_TYPES_DIFFER", "error", "error",
        "the values have no common type: {types}",
        "cast the values to one type",
        "",
    ),
)  # fmt: skip
