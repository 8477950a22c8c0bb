"""Known deviations of producers: a plan for each, its reading, and its problems.

The rows are the table of `docs/producers.md`; `test_producers.py` runs their plans.
"""

from __future__ import annotations

from tests.producers.case import (
    COUNTED,
    EQUAL,
    GT,
    SAMPLES,
    SUM,
    SUM_DECIMAL,
    Case,
    null_aware_anti_join,
)  # fmt: skip
from tests.producers.datafusion_cases import DATAFUSION_CASES
from tests.producers.duckdb_cases import DUCKDB_CASES
from tests.producers.plans import (
    BOOL,
    BOOLEAN,
    COMPARISON,
    GENERIC,
    I64,
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
        "substrait-spark",
        "NOT IN as an anti join on `a = b OR (a = b) IS NULL`",
        "as NOT IN",
        plan(
            null_aware_anti_join(I64), "a", EQUAL, (COMPARISON, "is_null:any"), (BOOLEAN, "or:bool"),
            producer="substrait-spark", minor=85,
        ),
        (),
        "i64?",
        ("mark",),
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
