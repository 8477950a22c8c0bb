"""Problems of relations, when a plan is bound."""

from __future__ import annotations

from substrait_agg.problem_kinds.kind import ProblemKind, kinds

RELATIONS: tuple[ProblemKind, ...] = kinds(
    "relations",
    (
        "FILES_NOT_ALLOWED", "error", "error",
        "the plan names files itself ({files})",
        "write the read as a named table and give its location as a source",
        "",
    ),
    (
        "FIELD_OUT_OF_RANGE", "error", "error",
        "reference to column {ordinal}, but the input has {count} columns",
        "refer to columns 0 to {last}",
        "",
    ),
    (
        "EMIT_OUT_OF_RANGE", "error", "error",
        "the output mapping names column {ordinal}, but there are {count} columns",
        "map columns 0 to {last}",
        "",
    ),
    (
        "NESTED_STEP_INVALID", "error", "error",
        "a value of type {type} has no part {step}",
        "refer to a field of a struct, an offset of a list or a key of a map",
        "",
    ),
    (
        "FILTER_NOT_BOOLEAN", "error", "error",
        "the condition is {type}, not boolean",
        "write a condition whose type is boolean",
        "",
    ),
    (
        "UNION_TYPES_DIFFER", "error", "error",
        "input {input} has columns ({other}), the first input has ({first})",
        "give all inputs of the union the same column types",
        "",
    ),
    (
        "ROW_NOT_CONSTANT", "error", "error",
        "a row written in the plan holds an expression that is not a constant",
        "write the rows as literals",
        "",
    ),
    (
        "ROW_WIDTH", "error", "error",
        "a row written in the plan has {count} values for {columns} columns",
        "give every row one value per column of the schema",
        "",
    ),
    (
        "PROJECT_REPLACES_COLUMNS", "info", "error",
        "a project without output mapping is read as {producer} means it: its expressions alone are its output",
        "write the output mapping",
        "",
    ),
    (
        "SORT_NO_EFFECT", "info", "info",
        "this sort changes nothing: what reads it does not depend on the order of rows",
        "remove the sort, or sort at the root",
        "",
    ),
    (
        "SORT_KEY_NOT_IN_OUTPUT", "error", "error",
        "the plan's order is by a column that is not among its output columns",
        "keep the sort key as an output column, or remove the sort",
        "",
    ),
    (
        "SORT_KEY_NOT_A_COLUMN", "error", "error",
        "the plan's order is by an expression",
        "compute the expression in a project below the sort and sort by that column",
        "",
    ),
    (
        "SORT_DIRECTION_NOT_SUPPORTED", "error", "error",
        "sort direction {direction} cannot be shown",
        "use ascending or descending with nulls first or last",
        "",
    ),
    (
        "ROOT_NAMES_MISSING", "warning", "error",
        "the plan names no output columns; they are called {names}",
        "write the relation as a root with names",
        "",
    ),
    (
        "OUTPUT_TYPE_NOT_KEPT", "error", "error",
        "output column {ordinal} has type {type}, whose rows cannot be told apart in the view",
        "remove the column, or convert it to a type with a total order",
        "",
    ),
)  # fmt: skip
