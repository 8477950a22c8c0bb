"""Known deviations of producers: a plan for each, its reading, and its problems.

The rows are the table of `docs/producers.md`; `test_producers.py` runs their plans.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.producers.plans import (
    ARITHMETIC,
    BOOL,
    COMPARISON,
    DATE,
    DECIMALS,
    FP64,
    GENERIC,
    I64,
    MONEY,
    STRINGS,
    TEXT,
    Json,
    at,
    call,
    emit,
    filtered,
    grouped,
    inline,
    lit,
    measure,
    of,
    plan,
    project,
    read,
    sample,
)


@dataclass(frozen=True, slots=True)
class Case:
    """A row of the table.

    Attributes:
        producer: as the table names it, with its releases where it matters.
        written: what it writes.
        read_as: how that is read.
        plan: a plan that has it.
        codes: what is reported about it in lenient mode, other than for the plan's other habits.
        types: of the result's columns; empty where the plan is refused.
        shown: texts in `explain` or in the messages that show the meaning where the types do not.
    """

    producer: str
    written: str
    read_as: str
    plan: Json | bytes
    codes: tuple[str, ...] = ()
    types: str = ""
    shown: tuple[str, ...] = ()


SUM, SUM_DECIMAL, COUNT = (ARITHMETIC, "sum:i64"), (DECIMALS, "sum:dec"), (GENERIC, "count:any")
MULTIPLY, UPPER = (ARITHMETIC, "multiply:i64_i64"), (STRINGS, "upper:str")
EQUAL, GT = (COMPARISON, "equal:any_any"), (COMPARISON, "gt:any_any")
LEAST, IS_NOT_NULL = (COMPARISON, "least:any"), (COMPARISON, "is_not_null:any")
COUNTED = of("i64", "NULLABILITY_REQUIRED")
SAMPLES = "plans/samples"


def _square(output: Json | None = I64) -> Json:
    return call(1, at(1), at(1), output=output)


def _datafusion(root: Json, names: str, *functions: str, minor: int = 85) -> Json:
    bare = tuple(("", name) for name in functions)
    return plan(root, names, *bare, producer="datafusion", minor=minor)


def _duckdb(root: Json, names: str, *functions: tuple[str, str], minor: int = 78) -> Json:
    return plan(root, names, *functions, producer="DuckDB", minor=minor)


def _named(name: str, column: Json) -> Json:
    source = read({"a": column})
    return {"read": {**source["read"], "namedTable": {"names": [name]}}}


def _anti_join(column: Json) -> Json:
    sides = {"left": _named("t", column), "right": _named("u", column)}
    condition = call(1, at(0), at(1), output=BOOL)
    return {"join": {**sides, "expression": condition, "type": "JOIN_TYPE_LEFT_ANTI"}}


def _crossed() -> Json:
    sides = {"left": _named("t", I64), "right": _named("u", I64)}
    join = {"join": {**sides, "expression": lit("boolean", True), "type": "JOIN_TYPE_INNER"}}
    return filtered(join, call(1, at(0), at(1), output=BOOL))


_DIRECT = project(read(), _square())
_TOTAL = measure(2, at(2))
_ROLLUP = ((0, 1), (0,), ())

DATAFUSION = "DataFusion"
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
        _datafusion(_anti_join(I64), "a", "equal"),
        ("JOIN_NOT_IN_UNCLEAR",),
    ),
    Case(
        DATAFUSION,
        "a cross product as an inner join on true",
        "as a cross product; equalities above it become its keys",
        _datafusion(_crossed(), "a b", "equal"),
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

DUCKDB = "DuckDB"
DUCKDB_CASES = (
    Case(
        f"{DUCKDB} to 0.52",
        "a project without output mapping",
        "the expressions alone",
        _duckdb(_DIRECT, "square", MULTIPLY, minor=48),
        ("PROJECT_REPLACES_COLUMNS",),
        "i64?",
    ),
    Case(
        f"{DUCKDB} 0.53, before March 2025",
        "a project without output mapping; the names and references of the plan fit its expressions alone",
        "the expressions alone",
        _duckdb(_DIRECT, "square", MULTIPLY, minor=53),
        ("PROJECT_REPLACES_COLUMNS",),
        "i64?",
    ),
    Case(
        f"{DUCKDB} 0.53, since March 2025",
        "a project without output mapping; names and references fit the input's columns and the expressions",
        "by the specification: the input's columns, then the expressions",
        _duckdb(_DIRECT, "k a b m d square", MULTIPLY, minor=53),
        (),
        "string?, i64?, i64?, decimal?<15,2>, date?, i64?",
    ),
    Case(
        f"{DUCKDB} 0.53",
        "a project without output mapping where names and references fit both",
        "refused",
        _duckdb(
            grouped(project(read({"a": I64, "b": I64}), call(1, at(1), at(1), output=I64)),
                    (), ((),), measure(2, at(0))),
            "s", MULTIPLY, SUM, minor=53,
        ),
        ("PROJECT_UNCLEAR",),
    ),
    Case(
        f"{DUCKDB} above 0.53",
        "a project without output mapping",
        "by the specification: the input's columns, then the expressions",
        _duckdb(_DIRECT, "k a b m d square", MULTIPLY),
        (),
        "string?, i64?, i64?, decimal?<15,2>, date?, i64?",
    ),
    Case(
        DUCKDB,
        "comparisons and null tests in the filter of a read that declare the type of their column",
        "the result is boolean",
        _duckdb(
            read(filter=call(1, at(4), output=DATE)), "k a b m d", IS_NOT_NULL, minor=53
        ),
        ("RESULT_TYPE_OF_COLUMN",),
        "string?, i64?, i64?, decimal?<15,2>, date?",
    ),
    Case(
        DUCKDB,
        "signatures with type names in full (`sum:decimal`, `and:bool?`)",
        "by name and arguments",
        _duckdb(
            grouped(read(), (), ((),), measure(1, at(3), output=MONEY)), "s", (DECIMALS, "sum:decimal"),
        ),
        ("SIGNATURE_UNKNOWN",),
        "decimal?<15,2>",
    ),
    Case(
        DUCKDB,
        "functions under the URI of the folder `extensions/`",
        "by name",
        plan(
            grouped(read(), (), ((),), measure(1, at(1))), "s", (ARITHMETIC, "sum:i64"),
            producer="DuckDB", minor=53, style="folder",
        ),
        ("FUNCTION_NAME_BARE",),
        "i64?",
    ),
    Case(
        DUCKDB,
        "no phase",
        "the complete aggregate",
        _duckdb(grouped(read(), (), ((),), measure(1, at(1), phase=None)), "s", SUM),
        ("PHASE_UNSPECIFIED",),
        "i64?",
    ),
    Case(
        DUCKDB,
        "`sum` of integers declared as decimal(38, 0), its HUGEINT",
        "the exact sum, as that type",
        _duckdb(
            grouped(read(), (), ((),),
                    measure(1, at(1), output=of("decimal", precision=38, scale=0))), "s", SUM,
        ),
        ("OUTPUT_TYPE_DIFFERS",),
        "decimal?<38,0>",
    ),
    Case(
        DUCKDB,
        "decimal arithmetic in the type that DuckDB gives it",
        "the value is converted to the declared type",
        _duckdb(
            project(read(), call(1, at(3), at(3), output=of("decimal", precision=18, scale=4)), **emit(5)),
            "x", (DECIMALS, "multiply:dec_dec"),
        ),
        ("RESULT_TYPE_DIFFERS",),
        "decimal?<18,4>",
    ),
    Case(
        DUCKDB,
        "a root with several grouping sets that has no name for the index of the set",
        "without the index",
        _duckdb(grouped(read(), (0, 1), _ROLLUP, measure(1, at(2))), "k a s", SUM),
        ("GROUPING_INDEX_NOT_NAMED",),
        "string?, i64?, i64?",
    ),
    Case(
        DUCKDB,
        "columns above several grouping sets numbered without the index of the set",
        "in that numbering",
        _duckdb(
            project(grouped(read(), (0, 1), _ROLLUP, measure(2, at(2))),
                    call(1, at(0), output=TEXT), **emit(3, 1, 2)),
            "k a s", UPPER, SUM,
        ),
        ("GROUPING_INDEX_NOT_COUNTED",),
        "string?, i64?, i64?",
    ),
    Case(
        DUCKDB,
        "`divide` without the option on_division_by_zero",
        "as in DuckDB: division by zero gives null",
        _duckdb(
            project(read({"x": FP64}), call(1, at(0), at(0), output=FP64), **emit(1)), "x",
            (ARITHMETIC, "divide:fp64_fp64"),
        ),
        ("OPTION_ASSUMED",),
        "fp64?",
        ("ON_DIVISION_BY_ZERO; NULL is used",),
    ),
    Case(
        DUCKDB,
        "`least` and `greatest`",
        "nulls are passed over",
        _duckdb(project(read(), call(1, at(1), at(2), output=I64), **emit(5)), "x", LEAST),
        ("FUNCTION_MEANING",),
        "i64?",
        ("least_skip_null",),
    ),
    Case(
        DUCKDB,
        "`min_by` and `max_by`",
        "rows with a null x are passed over",
        _duckdb(
            grouped(read(), (), ((),), measure(1, at(0), at(1), output=TEXT)), "x", ("", "min_by"),
        ),
        ("OPTION_ASSUMED",),
        "string?",
    ),
    Case(
        DUCKDB,
        "`string_agg` without its separator",
        "the separator is a comma; in strict mode refused",
        _duckdb(
            grouped(read(), (), ((),), measure(1, at(0), output=TEXT)), "x", ("", "string_agg"),
        ),
        ("ARGUMENT_ASSUMED",),
        "string?",
    ),
)  # fmt: skip

IBIS = "ibis-substrait"
IBIS_CASES = (
    Case(
        IBIS,
        "grouping keys inside the sets alone",
        "gathered, equal ones once, in order of appearance",
        sample(f"{SAMPLES}/ibis-substrait/sum_decimal.bin"),
        (),
        "string?, decimal?<38,2>",
    ),
    Case(
        IBIS,
        "`count:any` without arguments",
        "the number of rows",
        sample(f"{SAMPLES}/ibis-substrait/count_star_grouped.bin"),
        ("SIGNATURE_DIFFERS",),
        "string?, i64?",
    ),
    Case(
        IBIS,
        "`count` declared nullable",
        "as declared; it is never null",
        sample(f"{SAMPLES}/ibis-substrait/count_star_grouped.bin"),
        ("OUTPUT_TYPE_DIFFERS",),
        "string?, i64?",
    ),
    Case(
        IBIS,
        "`avg` of integers declared as fp64",
        "the average as fp64",
        sample(f"{SAMPLES}/ibis-substrait/avg_int.bin"),
        ("OUTPUT_TYPE_DIFFERS",),
        "string?, fp64?",
    ),
    Case(
        IBIS,
        "literals in the smallest type that holds them, beside columns of another",
        "arguments are brought to one type",
        sample(f"{SAMPLES}/ibis-substrait/having.bin"),
        ("ARGUMENTS_PROMOTED",),
        "string?, i64?",
    ),
    Case(
        IBIS,
        "dates and times compared with ISO text",
        "the text as a value of the column's type",
        plan(
            filtered(read(), call(1, at(4), lit("string", "2024-01-31"), output=BOOL)),
            "k a b m d", GT, producer="ibis-substrait", minor=52, style="url",
        ),
        ("TEXT_READ_AS_TIME",),
        "string?, i64?, i64?, decimal?<15,2>, date?",
    ),
    Case(
        IBIS,
        "`timestamp`, a type removed in 0.88",
        "precision_timestamp<6>",
        plan(read({"t": of("timestamp")}), "t", producer="ibis-substrait", minor=52),
        (),
        "precision_timestamp?<6>",
    ),
    Case(
        IBIS,
        "standard deviation and variance with the option `distribution`",
        "as the enumeration argument of today",
        sample(f"{SAMPLES}/ibis-substrait/stats.bin"),
        ("FUNCTION_DEPRECATED",),
        "string?, fp64?, fp64?, fp64?, fp64?",
    ),
)  # fmt: skip

ISTHMUS = "Isthmus"
_BELOW = grouped(read(), (0, 1), ((0,), (1,)), measure(1, at(2)))
_OLD_BELOW = inline(read(), ((0,), (1,)), measure(1, at(2)))


def _isthmus(root: Json, names: str, *functions: tuple[str, str], minor: int = 81) -> Json:
    return plan(root, names, *functions, producer="isthmus", minor=minor)


ISTHMUS_CASES = (
    Case(
        ISTHMUS,
        "extensions as paths (`/functions_arithmetic.yaml`)",
        "the standard extension of that name",
        plan(
            grouped(read(), (), ((),), measure(1, at(1))), "s", SUM,
            producer="isthmus", minor=20, style="path",
        ),
        (),
        "i64?",
    ),
    Case(
        ISTHMUS,
        "`sum` and `avg` of decimals in Calcite's type",
        "the exact value, as the declared type; one that does not fit is an error",
        sample(f"{SAMPLES}/ibm-compliance-tpch/q01.bin"),
        ("OUTPUT_TYPE_DIFFERS",),
        "fixedchar?<1>, fixedchar?<1>, decimal?<15,2>, decimal?<15,2>, decimal?<19,4>, decimal?<19,6>, "
        "decimal?<15,2>, decimal?<15,2>, decimal?<15,2>, i64",
    ),
    Case(
        ISTHMUS,
        "decimal arithmetic in Calcite's type",
        "the value is converted to the declared type",
        sample(f"{SAMPLES}/ibm-compliance-tpch/q06.bin"),
        ("RESULT_TYPE_DIFFERS",),
        "decimal?<19,4>",
    ),
    Case(
        ISTHMUS,
        "comparisons of decimals of different digits",
        "arguments are brought to one type",
        sample(f"{SAMPLES}/ibm-compliance-tpch/q06.bin"),
        ("ARGUMENTS_PROMOTED",),
        "decimal?<19,4>",
    ),
    Case(
        ISTHMUS,
        "`sum` that is not nullable, where no group is without rows",
        "nullable",
        _isthmus(grouped(read(), (0,), ((0,),), measure(1, at(1), output=COUNTED)), "k s", SUM),
        ("OUTPUT_NULLABILITY",),
        "string?, i64?",
    ),
    Case(
        f"{ISTHMUS} before October 2025, also without producer",
        "columns above several grouping sets numbered without the index of the set",
        "in that numbering; the sign is an output mapping that leaves out the last expression",
        plan(
            project(_OLD_BELOW, at(2), at(0), at(1), **emit(3, 4, 5)), "s k a", SUM,
            minor=None, style="path",
        ),
        ("GROUPING_INDEX_NOT_COUNTED", "VERSION_MISSING"),
        "i64?, string?, i64?",
    ),
    Case(
        f"{ISTHMUS} since October 2025",
        "an output mapping of the aggregate that leaves out the index of the set",
        "by the mapping",
        _isthmus(
            project(grouped(read(), (0, 1), ((0,), (1,)), measure(1, at(2)), **emit(0, 1, 2)),
                    at(2), at(0), **emit(3, 4)),
            "s k", SUM,
        ),
        (),
        "i64?, string?",
    ),
    Case(
        ISTHMUS,
        "several grouping sets with keys in another order than their columns, without an output mapping that orders them",
        "keys are numbered in the order of their columns",
        _isthmus(
            grouped(read(), (1, 0), ((0,), (1,)), measure(1, at(2)), **emit(0, 1, 2)), "k a s", SUM,
        ),
        ("GROUPING_KEY_ORDER",),
        "string?, i64?, i64?",
    ),
    Case(
        ISTHMUS,
        "a root with several grouping sets that has no name for the index of the set",
        "without the index",
        _isthmus(_BELOW, "k a s", SUM),
        ("GROUPING_INDEX_NOT_NAMED",),
        "string?, i64?, i64?",
    ),
)  # fmt: skip

PYTHON = "substrait-python"
OTHER_CASES = (
    Case(
        PYTHON,
        "no phase",
        "the complete aggregate",
        sample(f"{SAMPLES}/substrait-python/filter_clause.bin"),
        ("PHASE_UNSPECIFIED",),
        "string?, i64?, i64",
    ),
    Case(
        PYTHON,
        "rollup and grouping sets with a root that has no name for the index of the set",
        "without the index",
        sample(f"{SAMPLES}/substrait-python/rollup.bin"),
        ("GROUPING_INDEX_NOT_NAMED",),
        "string?, string?, i64?",
    ),
    Case(
        PYTHON,
        "`any_value` declared as not nullable",
        "nullable",
        plan(
            grouped(read(), (0,), ((0,),),
                    measure(1, at(1), output=COUNTED)), "k x", (GENERIC, "any_value:any"),
            minor=106,
        ),
        ("OUTPUT_NULLABILITY",),
        "string?, i64?",
    ),
    Case(
        "Acero",
        "functions by bare names, no phase",
        "by name; the complete aggregate",
        plan(
            grouped(read(), (), ((),), measure(1, at(1), phase=None)), "s", ("", "sum"),
            producer="acero 19.0.0", minor=44,
        ),
        ("FUNCTION_NAME_BARE", "PHASE_UNSPECIFIED"),
        "i64?",
    ),
    Case(
        "substrait-spark",
        "`sum` of decimals in Spark's type",
        "the exact value, as the declared type",
        plan(
            grouped(read(), (), ((),),
                    measure(1, at(3), output=of("decimal", precision=25, scale=2))), "s", SUM_DECIMAL,
            producer="substrait-spark", minor=85,
        ),
        ("OUTPUT_TYPE_DIFFERS",),
        "decimal?<25,2>",
    ),
    Case(
        "any, before 0.57",
        "a grouping set with an expression twice inside; the plan has a name for each",
        "a column each",
        plan(inline(read(), ((0, 0),), measure(1, at(1))), "k again s", SUM, minor=54),
        ("GROUPING_KEY_REPEATED",),
        "string?, string?, i64?",
    ),
    Case(
        "any, before 0.57",
        "a grouping set with an expression twice inside; the plan has one name",
        "one column, by the release notes of 0.57",
        plan(inline(read(), ((0, 0),), measure(1, at(1))), "k s", SUM, minor=54),
        (),
        "string?, i64?",
    ),
    Case(
        "any, JSON before 0.50",
        "`optimization` of an advanced extension as one object",
        "as a list of one; an optimization changes nothing",
        plan(
            read(advancedExtension={"optimization": {"@type": "x.y/Z", "value": "x"}}), "k a b m d",
            minor=29,
        ),
        (),
        "string?, i64?, i64?, decimal?<15,2>, date?",
    ),
    Case(
        "any",
        "a constant of a nullable type among the arguments of a function that mirrors nullability",
        "the result is nullable",
        plan(
            project(read({"k": of("string", "NULLABILITY_REQUIRED")}),
                    call(1, at(0), lit("string", "x", nullable=True), output=BOOL), **emit(1)),
            "x", EQUAL, minor=106,
        ),
        (),
        "bool?",
    ),
    Case(
        "any",
        "no version",
        "as the newest specification has it",
        plan(read(), "k a b m d", minor=None),
        ("VERSION_MISSING",),
        "string?, i64?, i64?, decimal?<15,2>, date?",
    ),
)  # fmt: skip

CASES: tuple[Case, ...] = (
    *DATAFUSION_CASES, *DUCKDB_CASES, *IBIS_CASES, *ISTHMUS_CASES, *OTHER_CASES,
)  # fmt: skip
