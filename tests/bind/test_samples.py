"""What becomes of the plans that real producers write."""

from __future__ import annotations

from pathlib import Path

import pytest

from substrait_agg.bind import BoundPlan, bind
from substrait_agg.plan import decode
from substrait_agg.problem_kinds import Mode
from substrait_agg.problems import Problems

PLANS = Path(__file__).parents[2] / "plans"

RUN: dict[str, list[str]] = {
    "samples/datafusion/join_agg": ["string?", "decimal?<31,2>", "i64"],
    "samples/datafusion/tpch_q13": ["i64", "i64"],
    "bench/count_sum_avg": ["i64?", "i64", "i64?", "fp64?"],
    "bench/churn": ["i64?", "i64?", "i64?", "i64", "i64?"],
    "bench/cube": ["i64?", "i64?", "i64?", "i64?", "i64", "i64?"],
    "bench/global": ["i64", "i64?", "fp64?"],
    "bench/list_agg": ["i64?", "list?<i64?>"],
    "bench/q15": ["date?"] + ["i64"] * 12,
    "bench/q16": ["string?", "date?", "precision_timestamp?<6>"] + ["i64"] * 12,
    "bench/q17": ["i64?", "date?"] + ["i64"] * 4 + ["i64?", "i64?", "fp64?", "i64?"],
    "bench/string_agg": ["i64?", "string?"],
    "bench/sum_float": ["i64?", "fp64?"],
    "bench/sum_int": ["i64?", "i64?"],
    "bench/wide_all": ["i64?"] * 11 + ["i64"] * 10 + ["fp64?"] * 10,
    "bench/wide_one": ["i64?", "i64?"],
    "samples/datafusion-45.2.0/sum_int": ["i64?", "i64?", "i64?"],
    "samples/datafusion/agg_of_agg": ["i64?"],
    "samples/datafusion/avg_all": ["string?", "fp64?", "fp64?", "decimal?<16,6>"],
    "samples/datafusion/count_star_grouped": ["string?", "i64"],
    "samples/datafusion/filter_clause": ["string?", "i64?", "i64"],
    "samples/datafusion/having": ["string?", "i64?"],
    "samples/datafusion/minmax_temporal": [
        "string?",
        "date?",
        "date?",
        "precision_timestamp?<6>",
        "precision_timestamp_tz?<6>",
    ],
    "samples/datafusion/rollup": ["string?", "string?", "i64?"],
    "samples/datafusion/string_agg_order": ["string?", "string?"],
    "samples/datafusion/sum_decimal": ["string?", "decimal?<22,2>"],
    "samples/datafusion/sum_distinct": ["string?", "i64?", "fp64?"],
    "samples/datafusion/where_agg": ["string?", "i64"],
    "samples/ibis-substrait/avg_int": ["string?", "fp64?"],
    "samples/ibis-substrait/count_star_grouped": ["string?", "i64?"],
    "samples/ibis-substrait/having": ["string?", "i64?"],
    "samples/ibis-substrait/stats": ["string?", "fp64?", "fp64?", "fp64?", "fp64?"],
    "samples/ibis-substrait/sum_decimal": ["string?", "decimal?<38,2>"],
    "samples/substrait-python/count_distinct": ["string?", "i64"],
    "samples/substrait-python/filter_clause": ["string?", "i64?", "i64"],
    "samples/substrait-python/rollup": ["string?", "string?", "i64?"],
    "samples/substrait-python/std_dev_enum": ["string?", "fp64?", "fp64?"],
    "samples/substrait-python/string_agg_order": ["string?", "string?"],
    "samples/substrait-python/sum_overflow_opt": ["string?", "i64?"],
    "tpch/q03": ["i64", "decimal?<38,4>", "date", "i32"],
    "windows/hop": [
        "string?",
        "struct?<precision_timestamp<6>,precision_timestamp<6>>",
        "i64",
        "i64?",
    ],
    "windows/session": [
        "string?",
        "struct?<precision_timestamp<6>,precision_timestamp<6>>",
        "i64",
        "i64?",
    ],
    "windows/tumble_end": ["string?", "precision_timestamp?<6>", "i64", "i64?"],
}
"""Plan -> types of its columns, as declared or as its producer derives them."""

TPCH = sorted(str(p.relative_to(PLANS).with_suffix("")) for p in PLANS.glob("**/*q0[16].bin"))


def bind_file(name: str, suffix: str, mode: Mode = "lenient") -> tuple[BoundPlan | None, Problems]:
    problems = Problems(mode)
    decoded = decode((PLANS / f"{name}{suffix}").read_bytes(), problems)
    return bind(decoded, problems), problems


@pytest.mark.parametrize("name", RUN)
def test_supported_plans_bind_with_their_producers_types(name: str) -> None:
    made, problems = bind_file(name, ".bin")
    assert made is not None, problems.errors
    assert [str(t) for t in made.root.types] == RUN[name]


@pytest.mark.parametrize("name", TPCH)
def test_tpch_plans_of_all_producers_bind(name: str) -> None:
    made, problems = bind_file(name, ".bin")
    assert made is not None, problems.errors
    assert len(made.names) == (10 if "q01" in name else 1)
    assert len(made.sorts) == (2 if "q01" in name else 0)


def test_every_plan_has_its_expectation() -> None:
    """Guards against a sample that is added and never looked at."""
    found = {str(p.relative_to(PLANS).with_suffix("")) for p in PLANS.glob("**/*.bin")}
    assert found == set(RUN) | set(TPCH)


@pytest.mark.parametrize(
    "name", sorted(str(p.relative_to(PLANS).with_suffix("")) for p in PLANS.glob("**/*.json"))
)
def test_json_and_binary_are_one_plan(name: str) -> None:
    """A plan as JSON and as binary has the same fingerprint and the same paths of problems."""
    binary, first = bind_file(name, ".bin")
    text, second = bind_file(name, ".json")
    assert first.items == second.items
    assert (binary and binary.fingerprint) == (text and text.fingerprint)


def test_two_releases_of_a_producer_give_one_fingerprint() -> None:
    new, _ = bind_file("tpch/q01", ".bin")
    old, _ = bind_file("tpch/datafusion-45/q01", ".bin")
    assert new is not None
    assert old is not None
    assert new.fingerprint == old.fingerprint


def test_strict_mode_reports_what_the_producer_leaves_out() -> None:
    made, problems = bind_file("samples/datafusion/count_star_grouped", ".bin", "strict")
    assert made is None
    codes = {p.code for p in problems.errors}
    assert {"FUNCTION_NAME_BARE", "PHASE_UNSPECIFIED", "OUTPUT_TYPE_MISSING"} <= codes
    made, _ = bind_file("samples/ibis-substrait/sum_decimal", ".bin", "lenient")
    assert made is not None
