"""The table of problems a plan can have: code, level per mode, message, what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

Level = OneOf["error", "warning", "info"]
Mode = OneOf["lenient", "strict"]
MODES: tuple[Mode, ...] = ("lenient", "strict")


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """A row of the table: levels per mode, message template, help line."""

    code: str
    lenient: Level
    strict: Level
    message: str
    help: str


def _kinds(*rows: tuple[str, Level, Level, str, str]) -> dict[str, ProblemKind]:
    return {row[0]: ProblemKind(*row) for row in rows}


KINDS: dict[str, ProblemKind] = _kinds(
    (
        "PLAN_UNREADABLE", "error", "error",
        "not a Substrait plan: {reason}",
        "give a Substrait plan as protobuf or protobuf-JSON",
    ),
    (
        "UNKNOWN_FIELD", "error", "error",
        "field {field} is not known in any Substrait release read here",
        "write the plan for a Substrait release up to {newest}, or remove the field",
    ),
    (
        "PLAN_TOO_LARGE", "error", "error",
        "the plan exceeds {limit}",
        "split the plan, or keep rows and file lists out of it",
    ),
    (
        "PLAN_TOO_DEEP", "error", "error",
        "messages are nested more than {limit} levels deep",
        "write long chains of AND, OR or CASE flat",
    ),
    (
        "TOO_MANY_PROBLEMS", "error", "error",
        "more than {limit} problems were found while decoding; the rest is not read",
        "correct those that are listed first",
    ),
    (
        "FIELD_CONFLICT", "error", "error",
        "{field} and {other} are both written and do not say the same",
        "write only one of them",
    ),
    (
        "VALUE_INVALID", "error", "error",
        "{field} {reason}",
        "correct the value",
    ),
    (
        "FIELD_MISSING", "error", "error",
        "{message} has no {field}",
        "write {field}",
    ),
    (
        "FIELD_NOT_SUPPORTED", "error", "error",
        "field {field} of {message} is not supported",
        "write the plan without it",
    ),
    (
        "FIELD_REMOVED", "warning", "error",
        "the plan is written for Substrait {version}, but field {field} of {message} was removed in {release}",
        "write what took its place, or state the release that the plan is written for",
    ),
    (
        "ENHANCEMENT_NOT_SUPPORTED", "error", "error",
        "enhancement {type} changes what {message} means and is not known",
        "write the plan without the enhancement",
    ),
    (
        "BEST_EFFORT_FILTER", "info", "info",
        "the best effort filter is not applied, which the specification allows",
        "put conditions that must hold in filter",
    ),
    (
        "RELATION_NOT_SUPPORTED", "error", "error",
        "relation {kind} is not supported",
        "use read, filter, project, aggregate, set (union all) and sort relations",
    ),
    (
        "EXPRESSION_NOT_SUPPORTED", "error", "error",
        "expression {kind} is not supported",
        "use field references, literals, scalar functions, casts, if-then, switch and IN lists",
    ),
    (
        "NULLABILITY_MISSING", "info", "error",
        "type {type} does not say whether it is nullable; it is taken as nullable",
        "set the nullability",
    ),
    (
        "TYPE_VARIATION", "warning", "error",
        "variation {variation} of type {type} is read as the type itself",
        "use the type without a variation",
    ),
    (
        "NAMES_COUNT", "error", "error",
        "{count} names are given for {needed} fields (nested ones included)",
        "give one name per field, depth first",
    ),
    (
        "REFERENCE_INVALID", "error", "error",
        "{what} {index} does not exist: the plan has {count}",
        "refer to one of them, counted from 0",
    ),
    (
        "REFERENCE_CYCLE", "error", "error",
        "{what} {index} refers to itself",
        "remove the cycle",
    ),
    (
        "ROOT_COUNT", "error", "error",
        "the plan has {count} root relations, one is read",
        "write one plan per root",
    ),
    (
        "VERSION_MISSING", "info", "warning",
        "the plan does not say which Substrait release it is written for",
        "set version",
    ),
    (
        "NAMES_TOP_LEVEL", "warning", "error",
        "{count} names are given for {needed} fields: only the columns are named, not what is nested",
        "give one name per field, depth first",
    ),
    # Of relations, when a plan is bound.
    (
        "FILES_NOT_ALLOWED", "error", "error",
        "the plan names files itself ({files})",
        "write the read as a named table and give its location as a source",
    ),
    (
        "FIELD_OUT_OF_RANGE", "error", "error",
        "reference to column {ordinal}, but the input has {count} columns",
        "refer to columns 0 to {last}",
    ),
    (
        "EMIT_OUT_OF_RANGE", "error", "error",
        "the output mapping names column {ordinal}, but there are {count} columns",
        "map columns 0 to {last}",
    ),
    (
        "NESTED_STEP_INVALID", "error", "error",
        "a value of type {type} has no part {step}",
        "refer to a field of a struct, an offset of a list or a key of a map",
    ),
    (
        "FILTER_NOT_BOOLEAN", "error", "error",
        "the condition is {type}, not boolean",
        "write a condition whose type is boolean",
    ),
    (
        "UNION_TYPES_DIFFER", "error", "error",
        "input {input} has columns ({other}), the first input has ({first})",
        "give all inputs of the union the same column types",
    ),
    (
        "ROW_NOT_CONSTANT", "error", "error",
        "a row written in the plan holds an expression that is not a constant",
        "write the rows as literals",
    ),
    (
        "ROW_WIDTH", "error", "error",
        "a row written in the plan has {count} values for {columns} columns",
        "give every row one value per column of the schema",
    ),
    (
        "PROJECT_REPLACES_COLUMNS", "info", "error",
        "a project without output mapping is read as {producer} means it: its expressions alone are its output",
        "write the output mapping",
    ),
    (
        "SORT_NO_EFFECT", "info", "info",
        "this sort changes nothing: what reads it does not depend on the order of rows",
        "remove the sort, or sort at the root",
    ),
    (
        "SORT_KEY_NOT_IN_OUTPUT", "error", "error",
        "the plan's order is by a column that is not among its output columns",
        "keep the sort key as an output column, or remove the sort",
    ),
    (
        "SORT_KEY_NOT_A_COLUMN", "error", "error",
        "the plan's order is by an expression",
        "compute the expression in a project below the sort and sort by that column",
    ),
    (
        "SORT_DIRECTION_NOT_SUPPORTED", "error", "error",
        "sort direction {direction} cannot be shown",
        "use ascending or descending with nulls first or last",
    ),
    (
        "ROOT_NAMES_MISSING", "warning", "error",
        "the plan names no output columns; they are called {names}",
        "write the relation as a root with names",
    ),
    (
        "OUTPUT_TYPE_NOT_KEPT", "error", "error",
        "output column {ordinal} has type {type}, whose rows cannot be told apart in the view",
        "remove the column, or convert it to a type with a total order",
    ),
    # Of expressions.
    (
        "TYPE_NOT_SUPPORTED", "error", "error",
        "values of type {type} are not supported",
        "use {instead} in its place: a column is cast in the source, a computed value in the query",
    ),
    (
        "TIME_DIGITS_NOT_KEPT", "warning", "error",
        "values of type {type} are kept in microseconds",
        "use a type of at most 6 digits of a second",
    ),
    (
        "TIME_TOO_FINE", "error", "error",
        "the value of type {type} has digits finer than a microsecond: {ticks} ticks",
        "write a value of whole microseconds",
    ),
    (
        "FUNCTION_UNDECLARED", "error", "error",
        "the plan declares no function for {name}",
        "declare the function among the plan's extensions",
    ),
    (
        "FUNCTION_NAME_BARE", "warning", "error",
        "function {name} is declared without {what}; it is taken by its name",
        "declare it under a URN with its signature",
    ),
    (
        "FUNCTION_URN_UNKNOWN", "error", "error",
        "function {name} belongs to extension {urn}, which is not known",
        "use a function of the standard extensions, or register the measure in this program first",
    ),
    (
        "USER_MEASURE_FAILED", "error", "error",
        "the type of {name} is not known: {reason}",
        "correct the class that computes the measure",
    ),
    (
        "FUNCTION_URN_DIFFERS", "warning", "error",
        "function {name} is declared under {urn}, the standard has it under {expected}",
        "declare the function under {expected}",
    ),
    (
        "SIGNATURE_DIFFERS", "warning", "error",
        "function {name} is called with ({types})",
        "declare the signature of the call, or convert the arguments to it",
    ),
    (
        "SCALAR_FUNCTION_UNKNOWN", "error", "error",
        "scalar function {name} is not known",
        "compute the column in the source, or write it with known functions",
    ),
    (
        "FUNCTION_ARGUMENTS", "error", "error",
        "{function} does not take ({types})",
        "{function} takes {takes}",
    ),
    (
        "ARGUMENTS_PROMOTED", "info", "error",
        "{function} is given ({types}); they are converted to {type}",
        "convert the arguments to one type in the plan",
    ),
    (
        "OPTION_UNKNOWN", "error", "error",
        "{function} has no option {option}",
        "remove the option; known are: {known}",
    ),
    (
        "OPTION_VALUE_NOT_SUPPORTED", "error", "error",
        "none of the preferences of option {option} of {function} is supported: {values}",
        "prefer one of: {known}",
    ),
    (
        "RESULT_TYPE_MISSING", "warning", "error",
        "{function} declares no result type; {type} is derived",
        "declare the result type",
    ),
    (
        "RESULT_TYPE_DIFFERS", "info", "error",
        "{function} declares {declared}, its arguments give {derived}; the value is converted",
        "declare the type that the function's declaration derives",
    ),
    (
        "RESULT_NULLABILITY", "warning", "error",
        "{function} declares {declared}, but null is possible; the column is nullable",
        "declare the type nullable",
    ),
    (
        "RESULT_TYPE_NOT_SUPPORTED", "error", "error",
        "{function} declares {declared}, to which {derived} cannot be converted",
        "declare {derived}",
    ),
    (
        "CAST_NOT_SUPPORTED", "error", "error",
        "no conversion from {source} to {target}",
        "convert through another type, or in the source",
    ),
    (
        "EXPRESSION_TOO_LARGE", "error", "error",
        "the switch compares what it matches in every case, which makes more than {limit} expressions",
        "compute the matched value in a projection below, and match its column",
    ),
    (
        "BRANCH_TYPES_DIFFER", "error", "error",
        "the values have no common type: {types}",
        "cast the values to one type",
    ),
    # Of aggregates and their measures.
    (
        "GROUPING_INDEX_NOT_NAMED", "warning", "error",
        "the column that says which grouping set made a row has no name; it is left out",
        "name it, or leave it out with an output mapping",
    ),
    (
        "GROUPING_EXPRESSION_UNUSED", "error", "error",
        "grouping expression {ordinal} is in no grouping set",
        "refer to it from a grouping set, or remove it",
    ),
    (
        "GROUPING_REFERENCE_OUT_OF_RANGE", "error", "error",
        "the grouping set refers to expression {ordinal}, but there are {count}",
        "refer to grouping expressions 0 to {last}",
    ),
    (
        "AGGREGATE_EMPTY", "error", "error",
        "the aggregate has neither grouping expressions nor measures",
        "add a measure or a grouping expression",
    ),
    (
        "KEY_TYPE_NOT_SUPPORTED", "error", "error",
        "rows cannot be grouped by values of type {type}",
        "group by a column of another type",
    ),
    (
        "AGGREGATE_FUNCTION_UNKNOWN", "error", "error",
        "aggregate function {name} is not known",
        "use one of: {maintained}",
    ),
    (
        "AGGREGATE_FUNCTION_NOT_SUPPORTED", "error", "error",
        "aggregate function {name} is known, but not maintained: {reason}",
        "use one of: {maintained}",
    ),
    (
        "FUNCTION_NOT_AGGREGATE", "error", "error",
        "{name} is a {what} function; a measure needs an aggregate function",
        "compute it in a projection, or use an aggregate function",
    ),
    (
        "CONSTANT_ARGUMENT_INVALID", "error", "error",
        "argument {argument} of {function} has to be a constant within its bounds: {reason}",
        "write it as such a literal",
    ),
    (
        "DISTINCT_NOT_SUPPORTED", "error", "error",
        "{name} cannot be over distinct values: {reason}",
        "use the invocation ALL",
    ),
    (
        "DISTINCT_NO_EFFECT", "info", "info",
        "{name} is over distinct values, which changes nothing: {reason}",
        "use the invocation ALL",
    ),
    (
        "ORDER_BY_NOT_SUPPORTED", "error", "error",
        "{name} cannot have an order of rows: {reason}",
        "remove the sorts of the measure",
    ),
    (
        "ORDER_BY_NO_EFFECT", "warning", "warning",
        "{name} has an order of rows, which changes nothing: {reason}",
        "remove the sorts of the measure",
    ),
    (
        "ORDER_DIRECTION_NOT_SUPPORTED", "error", "error",
        "the order of {name} has direction {direction}, which says no order of values",
        "use ascending or descending with nulls first or last, or clustered",
    ),
    (
        "ORDER_KEY_NOT_SUPPORTED", "error", "error",
        "{name} is ordered by values of type {type}, which have no order",
        "order by a column of another type",
    ),
    (
        "ORDER_NOT_BY_ARGUMENT", "error", "error",
        "{name} is ordered by something else than what it aggregates",
        "sort by the aggregated argument",
    ),
    (
        "DISTINCT_ORDER_OUTSIDE", "error", "error",
        "{name} is over distinct values, but ordered by an expression that is not among its arguments",
        "sort by the arguments, or do not ask for distinct values",
    ),
    (
        "MEASURE_FILTER_NOT_SUPPORTED", "error", "error",
        "{name} cannot have a filter: {reason}",
        "remove the filter of the measure",
    ),
    (
        "GROUPING_ARGUMENT", "error", "error",
        "argument {position} of {name} is not one of the aggregate's grouping expressions",
        "name grouping expressions of the same aggregate, at most {most}",
    ),
    (
        "PHASE_UNSPECIFIED", "warning", "error",
        "{name} states no phase; the complete aggregate is computed",
        "set the phase to INITIAL_TO_RESULT",
    ),
    (
        "PHASE_NOT_SUPPORTED", "error", "error",
        "{name} is in phase {phase}; only complete aggregates are computed",
        "set the phase to INITIAL_TO_RESULT",
    ),
    (
        "MEASURE_FILTER_NOT_BOOLEAN", "error", "error",
        "the filter of {name} is {type}, not boolean",
        "write a filter whose type is boolean",
    ),
    (
        "OUTPUT_TYPE_MISSING", "warning", "error",
        "{name} declares no output type; {type} is derived",
        "declare the output type",
    ),
    (
        "OUTPUT_TYPE_DIFFERS", "info", "error",
        "{name} declares {declared}, its arguments give {derived}; the exact value is converted",
        "declare {derived}",
    ),
    (
        "OUTPUT_TYPE_NOT_SUPPORTED", "error", "error",
        "{name} of {argument} cannot be given as {declared}",
        "declare {derived}",
    ),
    (
        "OUTPUT_NULLABILITY", "warning", "error",
        "{name} declares {declared}, but is null when no value counts; the column is nullable",
        "declare the output type nullable",
    ),
)  # fmt: skip
