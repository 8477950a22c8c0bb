"""What every function of the catalogue is bound to: kind, values, constants, options, nulls."""

from __future__ import annotations

from typing import Any

import pytest

from substrait_agg.bind.bound import BoundAggregate, BoundMeasure, Call, Constant, Conversion
from substrait_agg.functions.aggregates.catalogue import AGGREGATE_NAMES, AGGREGATES
from substrait_agg.plan.model import Cast, EnumArgument, MeasureCall, TypeArgument
from substrait_agg.plan.types import FP32, FP64, I8, I32, I64, STRING, Type, decimal
from substrait_agg.problem_kinds import Mode
from tests.bind.build import (
    MEASURE,
    ORDINALS,
    aggregate,
    at,
    bound,
    codes_of,
    col,
    errors_of,
    lit,
    measure,
    name_of,
    option,
    problems_of,
    read,
)


def word(value: str) -> EnumArgument:
    return EnumArgument(value, f"{MEASURE}.arguments[0]")


def bind_one(given: MeasureCall, producer: str = "") -> BoundMeasure:
    root = bound(aggregate(read(), (), (given,)), "m", producer=producer).root
    assert isinstance(root, BoundAggregate)
    return root.measures[0]


def errors(given: MeasureCall) -> list[str]:
    return [code for code, _ in errors_of(aggregate(read(), (), (given,)), "m")]


def columns_of(made: BoundMeasure) -> list[int]:
    """Ordinals of the columns that are aggregated, through conversions."""
    found = []
    for argument in made.arguments:
        inner: Any = argument
        while isinstance(inner, Conversion):
            inner = inner.input
        found.append(inner.ordinal)
    return found


def cast(inner: Any, type_: Type) -> Cast:
    return Cast(inner, type_, "throw", "cast")


X, BIG, NAME, FLAG = (ORDINALS[c] for c in ("x", "big", "name", "flag"))
HALF = lit(0.5, FP64)
OVERFLOW_TWICE = (option("overflow", "ERROR"), option("OVERFLOW", "SILENT"))

CASES: list[tuple[str, tuple[Any, ...], str, list[int], tuple[Any, ...]]] = [
    ("count_star", (), "count", [], ()),
    ("count", (col("x"), col("name")), "count", [X, NAME], ()),
    ("count_distinct", (col("x"),), "count", [X], ()),
    ("approx_distinct", (col("name"),), "count", [NAME], ()),
    ("hyperloglog_count", (col("name"), lit(0.05, FP64)), "estimated_count", [NAME], (0.05,)),
    ("count_min_sketch", (col("name"), lit(3, I64), lit(9, I64), lit(1, I64)), "count_min_sketch", [NAME], (3, 9, 1)),
    ("population_skewness", (col("x"),), "skewness", [X], ()),
    ("population_kurtosis", (col("x"),), "kurtosis", [X], ()),
    ("mean", (col("x"),), "avg", [X], ()),
    ("fsum", (col("x"),), "sum", [X], ()),
    ("min", (col("name"),), "min", [NAME], ()),
    ("max", (col("flag"),), "max", [FLAG], ()),
    ("product", (col("big"),), "product", [BIG], ()),
    ("arbitrary", (col("name"),), "any_value", [NAME], ()),
    ("key", (col("name"),), "any_value", [NAME], ()),
    ("corr", (col("x"), col("big")), "corr", [X, BIG], ()),
    ("covariance", (col("x"), col("big")), "covar", [X, BIG], ()),
    ("mode", (col("name"),), "mode", [NAME], ()),
    ("median", (col("big"),), "median", [BIG], ()),
    ("median", (word("approximate"), col("x")), "median", [X], ()),
    ("quantile", (word("both"), word("Exact"), lit(4, I64), col("x")), "quantile", [X], (4,)),
    ("quantile", (word("NEITHER"), word("EXACT"), lit(None, I64), col("x")), "quantile", [X], (None,)),
    ("percentile_cont", (col("x"), HALF), "percentile_cont", [X], (0.5,)),
    ("quantile_cont", (col("x"), lit(25, decimal(3, 2))), "percentile_cont", [X], (0.25,)),
    ("percentile_cont", (col("x"), lit(1, I32)), "percentile_cont", [X], (1.0,)),
    ("approx_percentile_cont", (col("x"), HALF, lit(100, I64)), "percentile_cont", [X], (0.5,)),
    ("percentile_disc", (col("x"), lit(0.30000001192092896, FP32)), "percentile_disc", [X], (0.3,)),
    ("percentile_disc", (col("x"), lit(1.0, FP32)), "percentile_disc", [X], (1.0,)),
    ("percentile_approx", (col("big"), HALF, lit(10, I32)), "percentile_disc", [BIG], (0.5,)),
    ("approx_percentile", (col("x"), HALF), "percentile_disc", [X], (0.5,)),
    ("approx_quantile", (col("x"), HALF), "percentile_cont", [X], (0.5,)),
    ("percentile_disc", (col("name"), HALF), "percentile_disc", [NAME], (0.5,)),
    ("every", (col("flag"),), "bool_and", [FLAG], ()),
    ("some", (col("flag"),), "bool_or", [FLAG], ()),
    ("any", (col("flag"),), "bool_or", [FLAG], ()),
    ("string_agg", (col("name"), lit("; ", STRING)), "string_agg", [NAME], ("; ",)),
    ("listagg", (col("name"),), "string_agg", [NAME], (",",)),
    ("array_agg", (col("x"),), "list", [X], ()),
    ("collect_list", (col("x"),), "list", [X], ()),
    ("first_value", (col("x"),), "first", [X], ()),
    ("last", (col("x"),), "last", [X], ()),
    ("nth_value", (col("x"), lit(3, I64)), "nth_value", [X], (3,)),
    ("bit_and", (col("big"),), "bit_and", [BIG], ()),
    ("min_by", (col("name"), col("x")), "min_by", [NAME, X], ()),
    ("argmax", (col("name"), col("x")), "max_by", [NAME, X], ()),
    ("surrogate_key_int64", (), "surrogate_key", [], ()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "values", "constants"),
    CASES,
    ids=[f"{c[0]}-{len(c[1])}-{c[4]}" for c in CASES],
)
def test_functions_are_bound_to_what_is_maintained(
    name: str, arguments: tuple[Any, ...], kind: str, values: list[int], constants: tuple[Any, ...]
) -> None:
    made = bind_one(measure(name, *arguments))
    assert (made.kind, columns_of(made), made.constants) == (kind, values, constants)


def test_every_maintained_function_is_bound_here() -> None:
    """Guards against a row that no test has ever bound; grouping() needs keys, the rest have tests of their own."""
    bound_here = {AGGREGATE_NAMES[case[0]] for case in CASES}
    elsewhere = {
        "grouping", "count_if", "list_union_distinct_agg", "sum", "sum0", "variance", "std_dev",
        "bit_or", "bit_xor", "last_value", "first", "max_by", "min_by",
    }  # fmt: skip
    assert {r.name for r in AGGREGATES.values() if r.kind} <= bound_here | elsewhere


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("std_dev", "SAMPLE"), ("stddev", "SAMPLE"), ("stddev_samp", "SAMPLE"),
        ("stddev_pop", "POPULATION"), ("std_dev_pop", "POPULATION"), ("var", "SAMPLE"),
        ("var_samp", "SAMPLE"), ("var_pop", "POPULATION"), ("var_population", "POPULATION"),
    ],
)  # fmt: skip
def test_the_name_decides_the_distribution(name: str, expected: str) -> None:
    assert dict(bind_one(measure(name, col("x"))).options)["DISTRIBUTION"] == expected


def test_the_distribution_is_an_argument_or_an_option_but_not_both() -> None:
    """The signature with the argument has no such option, so a plan that sets both contradicts itself."""
    by_word = measure("variance", word("population"), col("x"))
    by_option = measure("variance", col("x"), options=(option("distribution", "POPULATION"),))
    for given in (by_word, by_option):
        assert dict(bind_one(given).options)["DISTRIBUTION"] == "POPULATION"
    both = measure(
        "variance", word("POPULATION"), col("x"), options=(option("distribution", "SAMPLE"),)
    )
    assert errors(both) == ["OPTION_UNKNOWN"]
    assert errors(measure("var_pop", col("x"), options=(option("distribution", "SAMPLE"),))) == [
        "OPTION_UNKNOWN"
    ]


@pytest.mark.parametrize("rounding", ["TIE_TO_EVEN", "TIE_AWAY_FROM_ZERO", "TRUNCATE", "CEILING", "FLOOR"])  # fmt: skip
@pytest.mark.parametrize("name", ["std_dev", "variance", "median", "product"])
def test_every_rounding_holds(name: str, rounding: str) -> None:
    given = measure(name, col("x"), options=(option("rounding", rounding),))
    assert dict(bind_one(given).options)["ROUNDING"] == rounding


def test_a_product_has_the_options_of_its_argument() -> None:
    """The standard gives overflow to products of integers and rounding to those of floats."""
    assert bind_one(measure("product", col("big"))).options == (("OVERFLOW", "ERROR"),)
    assert errors(measure("product", col("big"), options=(option("rounding", "FLOOR"),))) == [
        "OPTION_UNKNOWN"
    ]
    assert errors(measure("product", col("x"), options=(option("overflow", "ERROR"),))) == [
        "OPTION_UNKNOWN"
    ]


@pytest.mark.parametrize("name", ["variance", "stddev", "corr", "covar_pop"])
def test_moments_are_of_floats(name: str) -> None:
    """Integer and decimal arguments, which only hand-written plans have here, are converted to
    floats; float types stay unchanged.
    """
    pair = name in ("corr", "covar_pop")
    for column in ("big", "money"):
        made = bind_one(measure(name, *[col(column)] * (1 + pair)))
        assert all(isinstance(a, Conversion) and a.type == FP64 for a in made.arguments)
    plain = bind_one(measure(name, *[col("x")] * (1 + pair)))
    assert not any(isinstance(a, Conversion) for a in plain.arguments)


def test_a_product_declared_as_a_float_is_one_of_floats() -> None:
    made = bind_one(measure("product", col("big"), output=FP64))
    assert isinstance(made.argument, Conversion)
    assert bind_one(measure("product", col("big"))).argument == at_column("big")


def at_column(name: str) -> Any:
    return bind_one(measure("min", col(name))).argument


@pytest.mark.parametrize(
    ("name", "keeps"),
    [("array_agg", True), ("list", True), ("list_agg", False), ("collect_list", False),
     ("first_value", True), ("quantile_disc", False), ("sum", False), ("min", False)],
)  # fmt: skip
def test_nulls_are_kept_where_the_function_keeps_them(name: str, keeps: bool) -> None:
    more = (HALF,) if name == "quantile_disc" else ()
    assert bind_one(measure(name, col("big"), *more)).keep_nulls is keeps


def test_the_option_leaves_nulls_out() -> None:
    given = measure("last_value", col("x"), options=(option("ignore_nulls", "TRUE"),))
    assert not bind_one(given).keep_nulls


def test_only_array_agg_is_null_of_no_rows() -> None:
    assert ("EMPTY", "NULL") in bind_one(measure("array_agg", col("x"))).options
    assert "EMPTY" not in dict(bind_one(measure("list_agg", col("x"))).options)
    given = measure("array_agg", col("x"), options=(option("empty", "LIST"),))
    assert errors(given) == ["OPTION_UNKNOWN"]


def test_counting_if_is_counting_with_a_filter() -> None:
    made = bind_one(measure("count_if", col("flag")))
    assert (made.kind, made.arguments, made.filter) == ("count", (), at_column("flag"))
    both = bind_one(measure("count_if", col("flag"), filter=col("flag")))
    assert isinstance(both.filter, Call)
    assert both.filter.function == "and"


def test_any_value_may_ignore_nulls_or_not() -> None:
    """``any_value`` may return any of the values, so both values of its option are supported at
    once.
    """
    for value in ("TRUE", "FALSE"):
        given = measure("any_value", col("x"), options=(option("ignore_nulls", value),))
        assert bind_one(given).kind == "any_value"


@pytest.mark.parametrize(("mode", "level"), [("lenient", "warning"), ("strict", "error")])
@pytest.mark.parametrize("name", ["string_agg", "listagg", "group_concat"])
def test_a_separator_that_is_left_out_is_told(name: str, mode: Mode, level: str) -> None:
    """The query may have had another one than the comma that is taken."""
    root = aggregate(read(), (), (measure(name, col("name"), output=STRING),))
    found = problems_of(root, "m", mode=mode)
    (problem,) = [p for p in found if p.code == "ARGUMENT_ASSUMED"]
    assert (problem.level, problem.path) == (level, f"{MEASURE}.arguments")
    assert problem.message == f"{name} has no argument separator; ',' is used"
    written = measure(name, col("name"), lit(",", STRING), output=STRING)
    assert "ARGUMENT_ASSUMED" not in codes_of(aggregate(read(), (), (written,)), "m", mode=mode)


def test_what_else_may_be_left_out_changes_nothing() -> None:
    """The accuracy option of an approximate function may be left out: it only bounds the error."""
    given = measure("approx_percentile_cont", col("x"), HALF, output=FP64)
    assert "ARGUMENT_ASSUMED" not in codes_of(aggregate(read(), (), (given,)), "m")


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("separator", [True, False])
@pytest.mark.parametrize("declared", [True, False])
def test_a_separator_counts_for_nullability(value: bool, separator: bool, declared: bool) -> None:
    """The declaration mirrors the nullability of all arguments; a group in which nothing counts is null all the same."""
    source = read({"v": STRING.as_nullable(value)})
    given = measure(
        "string_agg", at(0), lit("-", STRING.as_nullable(separator)),
        output=STRING.as_nullable(declared),
    )  # fmt: skip
    root = aggregate(source, (), (given,))
    found = set(codes_of(root, "m", mode="strict")) - {"FUNCTION_NAME_BARE", "ORDER_MISSING"}
    derived = value or separator
    expected = {
        (True, True): set(),
        (True, False): {"OUTPUT_NULLABILITY"},
        (False, True): {"OUTPUT_TYPE_DIFFERS"},
        (False, False): set(),
    }
    assert found == expected[derived, declared]
    assert str(bound(root, "m").root.types[0]) == "string?"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (measure("string_agg", col("name"), col("name")), "CONSTANT_ARGUMENT_INVALID"),
        (measure("string_agg", col("name"), lit(None, STRING)), "CONSTANT_ARGUMENT_INVALID"),
        (measure("nth_value", col("x"), lit(0, I64)), "CONSTANT_ARGUMENT_INVALID"),
        (measure("nth_value", col("x"), HALF), "CONSTANT_ARGUMENT_INVALID"),
        (measure("percentile_cont", col("x"), lit(1.5, FP64)), "CONSTANT_ARGUMENT_INVALID"),
        (measure("percentile_cont", col("x"), lit(float("nan"), FP64)), "CONSTANT_ARGUMENT_INVALID"),
        (measure("percentile_cont", col("x"), lit(None, FP64)), "CONSTANT_ARGUMENT_INVALID"),
        (measure("percentile_cont", col("x"), col("x")), "CONSTANT_ARGUMENT_INVALID"),
        (measure("percentile_cont", col("x"), lit(3.4028234663852886e38, FP32)), "CONSTANT_ARGUMENT_INVALID"),
        (measure("percentile_cont", col("x"), cast(HALF, I32)), "CONSTANT_ARGUMENT_INVALID"),
        (measure("nth_value", col("x"), cast(lit(300, I64), I8)), "CONSTANT_ARGUMENT_INVALID"),
        (measure("sum", col("big"), options=OVERFLOW_TWICE), "FIELD_CONFLICT"),
        (measure("quantile", word("BOTH"), word("EXACT"), col("big"), col("x")), "CONSTANT_ARGUMENT_INVALID"),
        (measure("variance", word("WHOLE"), col("x")), "ENUM_ARGUMENT_INVALID"),
        (measure("quantile", col("x"), HALF), "ARGUMENT_COUNT"),
        (measure("quantile", word("BOTH"), word("EXACT"), lit(4, I64), col("name")), "FUNCTION_ARGUMENTS"),
        (measure("bool_and", col("big")), "FUNCTION_ARGUMENTS"),
        (measure("bit_or", col("x")), "FUNCTION_ARGUMENTS"),
        (measure("string_agg", col("big")), "FUNCTION_ARGUMENTS"),
        (measure("min_by", col("x")), "ARGUMENT_COUNT"),
        (measure("surrogate_key_int64", col("x")), "ARGUMENT_COUNT"),
        (measure("list_union_distinct_agg", col("x")), "FUNCTION_ARGUMENTS"),
        (measure("count_distinct"), "ARGUMENT_COUNT"),
        (measure("surrogate_key_int64", filter=col("flag")), "MEASURE_FILTER_NOT_SUPPORTED"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_refused(given: MeasureCall, code: str) -> None:
    assert errors(given) == [code]


def test_values_without_an_order_cannot_be_kept() -> None:
    """Values without an order or an equality, such as compound intervals, can be counted but not
    stored in a tree.
    """
    months = lit((1, 2, 3), Type("interval_compound", params=(6,)))
    assert bind_one(measure("count", months)).kind == "count"
    for name in ("array_agg", "any_value", "count_distinct", "first_value"):
        assert errors(measure(name, months)) == ["FUNCTION_ARGUMENTS"], name
    assert errors(measure("count", months, invocation="distinct")) == ["FUNCTION_ARGUMENTS"]


def test_a_constant_may_stand_in_a_conversion() -> None:
    """As DuckDB writes literals whose type is not the parameter's."""
    half = cast(lit(5, decimal(2, 1)), FP64)
    assert bind_one(measure("percentile_cont", col("x"), half)).constants == (0.5,)
    third = cast(cast(lit(3, I8), I64), decimal(5, 2))
    assert errors(measure("nth_value", col("x"), third)) == ["CONSTANT_ARGUMENT_INVALID"]
    assert bind_one(measure("nth_value", col("x"), cast(lit(3, I8), I64))).constants == (3,)


def test_an_option_may_be_written_twice_with_one_value() -> None:
    given = measure("sum", col("big"), options=(option("overflow", "SILENT"),) * 2)
    assert dict(bind_one(given).options)["OVERFLOW"] == "SILENT"


def test_a_decimal_that_may_not_fit_is_nullable() -> None:
    """With SILENT a value that does not fit is null, also for a function that is otherwise never null."""
    for value, nullable in (("SILENT", True), ("SATURATE", False)):
        given = measure("sum0", col("money"), options=(option("overflow", value),))
        assert bind_one(given).type.nullable is nullable


@pytest.mark.parametrize(
    ("name", "producer", "skipped"),
    [("min_by", "", False), ("max_by", "datafusion", False), ("min_by", "duckdb", True),
     ("max_by", "DuckDB", True), ("arg_min", "", True), ("argmax", "duckdb", True)],
)  # fmt: skip
def test_whether_a_null_is_picked_depends_on_who_asks(
    name: str, producer: str, skipped: bool
) -> None:
    """DuckDB's arg_min, which min_by is another name of there, passes over rows with a null argument."""
    made = bind_one(measure(name, col("name"), col("x")), producer.lower())
    assert (("IGNORE_NULLS", "TRUE") in made.options) is skipped


def test_a_product_of_nothing_is_null_in_plans_of_duckdb() -> None:
    given = measure("product", col("must"))
    assert not bind_one(given).type.nullable
    theirs = bind_one(given, "duckdb")
    assert theirs.type.nullable
    assert ("EMPTY", "NULL") in theirs.options


def test_refused_arguments_are_said_as_they_were_written() -> None:
    """In their order, including types and words, so that they can be compared with the accepted arguments."""
    for arguments, said in (
        ((col("x"), word("SAMPLE")), "(fp64?, SAMPLE)"),
        ((col("x"), TypeArgument(STRING, MEASURE)), "(fp64?, type string?)"),
    ):
        given = aggregate(read(), (), (measure("std_dev", *arguments),))
        (problem,) = [p for p in problems_of(given, "m") if p.level == "error"]
        assert said in problem.message


def test_a_value_that_is_constant_stays_a_value() -> None:
    made = bind_one(measure("sum", lit(2, I64)))
    assert isinstance(made.argument, Constant)


def test_a_declared_list_keeps_the_nulls_that_are_in_it() -> None:
    """A declared element type without nulls cannot remove the nulls that array_agg keeps."""
    declared = Type("list", children=(I64.as_nullable(False),))
    made = bind_one(measure("array_agg", col("big"), output=declared))
    assert str(made.type) == "list?<i64?>"


def test_the_decimal_extension_counts_distinct_values_as_decimals() -> None:
    function = name_of("approx_count_distinct", "any", "functions_aggregate_decimal_output")
    made = bind_one(measure("approx_count_distinct", col("x"), function=function))
    assert (made.type, made.distinct) == (decimal(38, 0, nullable=False), True)


def test_wrong_kinds_of_functions_are_named() -> None:
    for name, word_ in (("upper", "scalar"), ("lag", "window")):
        found = errors_of(aggregate(read(), (), (measure(name, col("name")),)), "m")
        assert found == [("FUNCTION_NOT_AGGREGATE", MEASURE)], word_


# --- grouping() ------------------------------------------------------------------------------


def grouped(*arguments: Any, sets: tuple[tuple[int, ...], ...], **changes: Any) -> Any:
    keys = (col("name"), col("day"))
    return aggregate(read(), keys, (measure("grouping", *arguments, **changes),), sets)


def constants(root: Any, names: int) -> tuple[int, ...]:
    made: Any = bound(root, *[f"c{i}" for i in range(names)]).root
    while not isinstance(made, BoundAggregate):
        made = made.input
    return made.measures[0].constants


ROLLUP = ((0, 1), (0,), ())


def test_grouping_says_which_keys_a_set_leaves_out() -> None:
    """Bit 0 is the last argument; a key that is in the set gives 0."""
    assert constants(grouped(col("name"), col("day"), sets=ROLLUP), 4) == (0, 1, 3)
    assert constants(grouped(col("day"), col("name"), sets=ROLLUP), 4) == (0, 2, 3)
    assert constants(grouped(col("name"), sets=ROLLUP), 4) == (0, 0, 1)


def test_grouping_takes_ordinals_of_keys() -> None:
    """As DuckDB writes it."""
    assert constants(grouped(lit(1, I32), sets=ROLLUP), 4) == (0, 1, 1)


def test_grouping_over_one_set_is_zero() -> None:
    assert constants(grouped(col("day"), sets=((0, 1),)), 3) == (0,)


@pytest.mark.parametrize(
    ("root", "code"),
    [
        (grouped(col("x"), sets=ROLLUP), "GROUPING_ARGUMENT"),
        (grouped(lit(2, I32), sets=ROLLUP), "GROUPING_ARGUMENT"),
        (grouped(*[col("day")] * 32, sets=ROLLUP), "GROUPING_ARGUMENT"),
        (grouped(col("day"), sets=ROLLUP, filter=col("flag")), "MEASURE_FILTER_NOT_SUPPORTED"),
        (grouped(col("day"), sets=ROLLUP, invocation="distinct"), "DISTINCT_NOT_SUPPORTED"),
    ],
)  # fmt: skip
def test_grouping_asks_about_keys_only(root: Any, code: str) -> None:
    assert [c for c, _ in errors_of(root, "a", "b", "c", "d")] == [code]


def test_unknown_columns_are_reported_once_in_every_kind() -> None:
    for name in ("min", "string_agg", "min_by", "percentile_cont", "array_agg"):
        given = measure(name, at(99), HALF)
        assert errors(given) == ["FIELD_OUT_OF_RANGE"], name


def test_duckdb_names_bind_without_a_signature() -> None:
    given = measure("list", col("name"), phase="unspecified")
    found = codes_of(aggregate(read(), (), (given,)), "m", producer="duckdb")
    assert set(found) == {
        "FUNCTION_NAME_BARE", "PHASE_UNSPECIFIED", "OUTPUT_TYPE_MISSING", "ORDER_MISSING",
    }  # fmt: skip
