"""Known deviations of DuckDB."""

from __future__ import annotations

from tests.producers.case import DIRECT, IS_NOT_NULL, LEAST, MULTIPLY, ROLLUP, SUM, UPPER, Case
from tests.producers.plans import (
    ARITHMETIC,
    DATE,
    DECIMALS,
    FP64,
    I64,
    MONEY,
    TEXT,
    Json,
    at,
    call,
    emit,
    grouped,
    measure,
    of,
    plan,
    project,
    read,
)

DUCKDB = "DuckDB"


def _duckdb(root: Json, names: str, *functions: tuple[str, str], minor: int = 78) -> Json:
    return plan(root, names, *functions, producer="DuckDB", minor=minor)


DUCKDB_CASES = (
    Case(
        f"{DUCKDB} to 0.52",
        "a project without output mapping",
        "the expressions alone",
        _duckdb(DIRECT, "square", MULTIPLY, minor=48),
        ("PROJECT_REPLACES_COLUMNS",),
        "i64?",
    ),
    Case(
        f"{DUCKDB} 0.53, before March 2025",
        "a project without output mapping; the names and references of the plan fit its expressions alone",
        "the expressions alone",
        _duckdb(DIRECT, "square", MULTIPLY, minor=53),
        ("PROJECT_REPLACES_COLUMNS",),
        "i64?",
    ),
    Case(
        f"{DUCKDB} 0.53, since March 2025",
        "a project without output mapping; names and references fit the input's columns and the expressions",
        "by the specification: the input's columns, then the expressions",
        _duckdb(DIRECT, "k a b m d square", MULTIPLY, minor=53),
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
        _duckdb(DIRECT, "k a b m d square", MULTIPLY),
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
        _duckdb(grouped(read(), (0, 1), ROLLUP, measure(1, at(2))), "k a s", SUM),
        ("GROUPING_INDEX_NOT_NAMED",),
        "string?, i64?, i64?",
    ),
    Case(
        DUCKDB,
        "columns above several grouping sets numbered without the index of the set",
        "in that numbering",
        _duckdb(
            project(grouped(read(), (0, 1), ROLLUP, measure(2, at(2))),
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
