"""Known deviations of DataFusion."""

from __future__ import annotations

from tests.producers.case import SAMPLES, Case, anti_join, crossed
from tests.producers.plans import (
    BOOL,
    I32,
    I64,
    TEXT,
    Json,
    at,
    call,
    emit,
    grouped,
    lit,
    of,
    plan,
    project,
    read,
    sample,
)

DATAFUSION = "DataFusion"


def _datafusion(root: Json, names: str, *functions: str, minor: int = 85) -> Json:
    bare = tuple(("", name) for name in functions)
    return plan(root, names, *bare, producer="datafusion", minor=minor)


def _struct_of_other_type() -> Json:
    """A cast of a struct of i64 to a struct of i32."""
    made = {"literal": {"struct": {"fields": [{"i64": "1"}, {"i64": "2"}]}}}
    target = {"struct": {"types": [I32, I32], "nullability": "NULLABILITY_NULLABLE"}}
    return {"cast": {"type": target, "input": made, "failureBehavior": 2}}


DATAFUSION_CASES = (
    Case(
        DATAFUSION,
        "functions by bare names, without extension and signature",
        "by name; of several functions of one name the one that takes the arguments",
        sample(f"{SAMPLES}/datafusion/sum_decimal.bin"),
        ("FUNCTION_NAME_BARE",),
        "string?, decimal?<22,2>",
    ),
    Case(
        DATAFUSION,
        "measures without output type",
        "the type that DataFusion derives: decimal sums gain 10 digits, averages of integers are fp64",
        sample(f"{SAMPLES}/datafusion/avg_all.bin"),
        ("OUTPUT_TYPE_MISSING",),
        "string?, fp64?, fp64?, decimal?<16,6>",
    ),
    Case(
        f"{DATAFUSION} to 45",
        "scalar functions without result type",
        "the type that DataFusion derives",
        sample(f"{SAMPLES}/datafusion-45.2.0/tpch_q01.bin"),
        ("RESULT_TYPE_MISSING",),
        "string, string, decimal?<25,2>, decimal?<25,2>, decimal?<38,4>, decimal?<38,6>, decimal?<19,6>, "
        "decimal?<19,6>, decimal?<19,6>, i64",
    ),
    Case(
        DATAFUSION,
        "no phase",
        "the complete aggregate",
        sample(f"{SAMPLES}/datafusion/filter_clause.bin"),
        ("PHASE_UNSPECIFIED",),
        "string?, i64?, i64",
    ),
    Case(
        DATAFUSION,
        "grouping keys inside the set and beside it",
        "the references count; that both say the same is checked",
        sample(f"{SAMPLES}/datafusion/count_star_grouped.bin"),
        (),
        "string?, i64",
    ),
    Case(
        DATAFUSION,
        "`count(*)` as the count of a literal 1",
        "the number of rows",
        sample(f"{SAMPLES}/datafusion/where_agg.bin"),
        (),
        "string?, i64",
    ),
    Case(
        f"{DATAFUSION} to 42 (to 0.57)",
        "columns above several grouping sets numbered as keys and measures",
        "in that numbering",
        sample("tests/data/producers/datafusion_42_rollup.bin"),
        ("GROUPING_INDEX_NOT_COUNTED",),
        "string?, i32?, fp64?",
    ),
    Case(
        f"{DATAFUSION} to 42 (to 0.57)",
        "a root with several grouping sets that has no name for the index of the set",
        "without the index",
        sample("tests/data/producers/datafusion_42_grouping_sets.bin"),
        ("GROUPING_INDEX_NOT_NAMED",),
        "i32?, string?, fp64?",
    ),
    Case(
        f"{DATAFUSION} 43 to 55 (from 0.58)",
        "columns above grouping sets numbered as distinct keys, bitmask of absent keys, measures",
        "in that numbering; equal keys are one column",
        sample(f"{SAMPLES}/datafusion/rollup.bin"),
        ("GROUPING_LAYOUT",),
        "string?, string?, i64?",
    ),
    Case(
        f"{DATAFUSION} to 42 (to 0.57)",
        "projects without output mapping",
        "the expressions alone",
        sample("tests/data/producers/datafusion_42_having.bin"),
        ("PROJECT_REPLACES_COLUMNS",),
        "string?, i64?",
    ),
    Case(
        f"{DATAFUSION} 43 and later (from 0.58)",
        "projects with output mapping",
        "by the mapping; one without would be read by the specification",
        _datafusion(
            project(read({"a": I64}), at(0), call(1, at(0), at(0), output=I64), **emit(1, 2)),
            "a square", "multiply", minor=58,
        ),
        (),
        "i64?, i64?",
    ),
    Case(
        f"{DATAFUSION} to 41",
        "schemas with column names and without column types",
        "not by `validate` and `explain`; `run` takes the types from the source",
        sample("tests/data/producers/datafusion_40_having.bin"),
        ("SCHEMA_TYPES_MISSING",),
    ),
    Case(
        DATAFUSION,
        "NOT IN and NOT EXISTS as the same anti join",
        "as NOT EXISTS over required columns, where both are the same; over others the plan is refused",
        _datafusion(anti_join(I64), "a", "equal"),
        ("JOIN_NOT_IN_UNCLEAR",),
    ),
    Case(
        DATAFUSION,
        "a cross product as an inner join on true",
        "as a cross product; equalities above it become its keys",
        _datafusion(crossed(), "a b", "equal"),
        (),
        "i64?, i64?",
        ("join",),
    ),
    Case(
        DATAFUSION,
        "`least` and `greatest`",
        "as in PostgreSQL: nulls are passed over",
        _datafusion(
            project(read(), call(1, at(1), at(2), output=I64), **emit(5)), "x", "least"
        ),
        ("FUNCTION_MEANING",),
        "i64?",
        ("least_skip_null",),
    ),
    Case(
        DATAFUSION,
        "casts of structs, which it takes by the names of their fields",
        "refused, as types in a plan have no names of fields",
        _datafusion(project(read(), _struct_of_other_type(), **emit(5)), "x a b"),
        ("CAST_NOT_SUPPORTED",),
    ),
    Case(
        DATAFUSION,
        "`concat` without the option null_handling",
        "as in PostgreSQL: nulls are passed over",
        _datafusion(
            project(read(), call(1, at(0), at(0), output=TEXT), **emit(5)), "x", "concat"
        ),
        ("OPTION_ASSUMED",),
        "string?",
        ("NULL_HANDLING; IGNORE_NULLS is used",),
    ),
    Case(
        DATAFUSION,
        "`like` without escape character",
        "the escape character is `\\`",
        _datafusion(
            project(read(), call(1, at(0), lit("string", "a%"), output=BOOL), **emit(5)),
            "x", "like",
        ),
        (),
        "bool?",
    ),
    Case(
        DATAFUSION,
        "variation 1 of an integer type, undeclared",
        "the unsigned type of that width",
        _datafusion(read({"a": of("i64", typeVariationReference=1)}), "a"),
        ("TYPE_VARIATION_ASSUMED",),
        "u64?",
    ),
    Case(
        DATAFUSION,
        "`CASE x WHEN` as a first clause that has only x",
        "the other clauses are compared with x",
        _datafusion(
            project(
                read(),
                {
                    "ifThen": {
                        "ifs": [
                            {"if": at(1)},
                            {"if": lit("i64", "1"), "then": lit("string", "one")},
                        ],
                        "else": lit("string", "other"),
                    }
                },
                **emit(5),
            ),
            "x",
        ),
        ("CASE_IN_FIRST_CLAUSE",),
        "string",
    ),
    Case(
        DATAFUSION,
        "`SELECT DISTINCT` as an aggregate without measures",
        "one row per group",
        _datafusion(grouped(read(), (0, 1), ((0, 1),)), "k a"),
        (),
        "string?, i64?",
    ),
)  # fmt: skip
