"""Known deviations of producers are reported with the assumption; in strict mode they are errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import substrait_agg
from substrait_agg.bind import bind
from substrait_agg.bind.profiles import PROFILES, profile_of
from substrait_agg.plan import decode
from substrait_agg.plan.model import FunctionName
from substrait_agg.plan.types import I64, STRING, decimal
from substrait_agg.problem_kinds import KINDS, Mode
from substrait_agg.problems import Problem, Problems
from tests.bind.build import (
    ROOT,
    aggregate,
    call,
    codes_of,
    col,
    measure,
    option,
    problems_of,
    read,
)
from tests.bind.test_expressions import project
from tests.bind.written import NULLABLE, Json, at, of, problems, schema

PLANS = Path(__file__).parents[2] / "plans"
NAMES = {
    "datafusion": "DataFusion",
    "datafusion-45.2.0": "DataFusion",
    "datafusion-45": "DataFusion",
    "ibis-substrait": "ibis-substrait",
    "ibm-compliance-tpch": "Isthmus",
    "isthmus": "Isthmus",
    "substrait-python": "substrait-python",
}
"""Folder of sample plans -> how messages call their producer."""

SAMPLES = sorted(p for p in PLANS.glob("*/*/*.bin") if p.parent.name in NAMES)
OF_NOBODY = {"RELATION_NOT_SUPPORTED", "FUNCTION_DEPRECATED"}
"""Parts of a plan with the same meaning for every producer."""


def found_in(path: Path, mode: Mode = "lenient") -> list[Problem]:
    found = Problems(mode)
    bind(decode(path.read_bytes(), found), found)
    return found.items


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_a_warning_about_an_untouched_plan_names_its_producer(path: Path) -> None:
    """Guards against a habit that looks like a mistake of the user's."""
    told = [p for p in found_in(path) if p.level == "warning" and p.code not in OF_NOBODY]
    assert [p.message for p in told if NAMES[path.parent.name] not in p.message] == []


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_nothing_but_joins_keeps_an_untouched_plan_from_running(path: Path) -> None:
    assert {p.code for p in found_in(path) if p.level == "error"} <= {"RELATION_NOT_SUPPORTED"}


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_strict_mode_assumes_nothing(path: Path) -> None:
    """The same deviations, each at the strict level of its kind, and none with a producer's meaning at its end."""
    lenient, strict = found_in(path), found_in(path, "strict")
    assert [(p.code, p.path) for p in strict] == [(p.code, p.path) for p in lenient]
    assert all(p.level == KINDS[p.code].strict for p in strict)
    ends = [p.message.rpartition(", ")[2] for p in strict if p.code != "GROUPING_LAYOUT"]
    assert [end for end in ends if NAMES[path.parent.name] in end] == []


def test_no_problem_of_a_sample_is_reported_twice_at_one_place() -> None:
    for path in SAMPLES:
        places = [(p.code, p.path) for p in found_in(path)]
        assert len(places) == len(set(places)), path


# --- which profile ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("producer", "name"),
    [
        ("datafusion", "DataFusion"),
        ("duckdb", "DuckDB"),
        ("ibis-substrait", "ibis-substrait"),
        ("isthmus", "Isthmus"),
        ("substrait-spark", "substrait-spark"),
        ("acero 19.0.0", "Acero"),
        ("nobody we know", "the specification"),
        ("", "the specification"),
    ],
)
def test_the_profile_follows_the_producer(producer: str, name: str) -> None:
    assert profile_of(producer).name == name


def test_every_habit_is_of_a_code_of_the_table_and_names_its_producer() -> None:
    for profile in PROFILES:
        for habit in profile.habits:
            assert habit.code in KINDS
            assert profile.name in habit.means


def test_a_plan_without_a_version_is_nobodys() -> None:
    """Only plans that state their release and no producer may be substrait-python's."""
    assert profile_of("").habits == ()
    said = profile_of("", (0, 85, 0)).note("PHASE_UNSPECIFIED", {"name": "sum"})
    assert said == "as substrait-python intends, whose plans do not name their producer"


# --- habits and mistakes ------------------------------------------------------------------------


def message(root: Any, code: str, producer: str, mode: Mode = "lenient") -> str:
    """That of the only problem with the code."""
    told = problems_of(root, "a", producer=producer, mode=mode)
    (found,) = [p.message for p in told if p.code == code]
    return found


def test_a_phase_left_out_says_what_is_computed_and_who_means_it() -> None:
    root = aggregate(read(), (), (measure("sum", col("big"), output=I64, phase="unspecified"),))
    expected = "sum does not state its phase; the complete aggregate is computed"
    said = message(root, "PHASE_UNSPECIFIED", "datafusion")
    assert said == f"{expected}, as DataFusion intends"
    assert message(root, "PHASE_UNSPECIFIED", "nobody") == expected
    assert message(root, "PHASE_UNSPECIFIED", "datafusion", "strict") == expected


COUNT = FunctionName("count", "any", "functions_aggregate_generic", "count:any")
SUM = FunctionName("sum", "i64", "functions_arithmetic", "sum:i64")


def test_only_the_habit_itself_is_explained() -> None:
    """A signature that differs is ibis's way to count rows, and of any other function a mistake."""
    rows = aggregate(read(), (), (measure("count", function=COUNT, output=I64),))
    assert "counts rows, as ibis-substrait" in message(rows, "SIGNATURE_DIFFERS", "ibis-substrait")
    other = aggregate(read(), (), (measure("sum", col("small"), function=SUM, output=I64),))
    assert "ibis" not in message(other, "SIGNATURE_DIFFERS", "ibis-substrait")


def test_a_declared_type_is_explained_where_the_producer_derives_it_so() -> None:
    by_calcite = measure("sum", col("money"), output=decimal(12, 2))
    by_hand = measure("sum", col("money"), output=STRING)
    said = message(aggregate(read(), (), (by_calcite,)), "OUTPUT_TYPE_DIFFERS", "isthmus")
    assert "Calcite" in said
    assert not any(
        "Calcite" in p.message
        for p in problems_of(aggregate(read(), (), (by_hand,)), "a", producer="isthmus")
    )


def test_a_function_that_a_producer_means_otherwise_is_named() -> None:
    """least() of the specification is null where an argument is; DataFusion's and DuckDB's is not."""
    root = project(call("least", col("big"), col("must"), output=I64))
    assert "FUNCTION_MEANING" not in codes_of(root, "e")
    for producer, name in (("datafusion", "DataFusion"), ("duckdb", "DuckDB")):
        said = problems_of(root, "e", producer=producer)
        (found,) = [p for p in said if p.code == "FUNCTION_MEANING"]
        assert found.message == f"least is computed as least_skip_null, as {name} intends"
        strict = codes_of(root, "e", producer=producer, mode="strict")
        assert strict["FUNCTION_MEANING"] == "error"


def test_an_option_that_a_producer_decides_is_named_unless_it_is_set() -> None:
    left_out = call("concat", col("name"), col("name"), output=STRING)
    (found,) = [
        p
        for p in problems_of(project(left_out), "e", producer="datafusion")
        if p.code == "OPTION_ASSUMED"
    ]
    assert (found.level, found.path) == ("info", left_out.path)
    assert "NULL_HANDLING; IGNORE_NULLS is used, as DataFusion" in found.message
    chosen = (option("null_handling", "ACCEPT_NULLS"),)
    given = call("concat", col("name"), col("name"), output=STRING, options=chosen)
    assert "OPTION_ASSUMED" not in codes_of(project(given), "e", producer="datafusion")
    assert "OPTION_ASSUMED" not in codes_of(project(left_out), "e")


def test_the_layout_of_grouping_sets_is_named() -> None:
    """Read by the specification, the relations above would read keys as measures."""
    counted = measure("count", output=I64.as_nullable(False))
    sets = ((0, 1), (0,))
    root = aggregate(read(), (col("name"), col("day")), (counted,), sets)
    found = problems_of(root, "a", "b", "id", "n", producer="datafusion")
    (layout,) = [p for p in found if p.code == "GROUPING_LAYOUT"]
    assert (layout.level, layout.path) == ("warning", f"{ROOT}.aggregate")
    assert "DataFusion" in layout.message
    assert "GROUPING_LAYOUT" not in codes_of(root, "a", "b", "n", "i")


# --- declarations -------------------------------------------------------------------------------


def duckdb_plan(name: str, uri: str, producer: str = "DuckDB") -> Json:
    """A sum by a key as DuckDB writes it; `name` is the declared function, `uri` its extension."""
    money = of("decimal", precision=15, scale=2)
    measure_ = {
        "function_reference": 1, "arguments": [{"value": at(1)}],
        "output_type": of("decimal", precision=38, scale=2),
    }  # fmt: skip
    source = {
        "base_schema": schema({"k": of("i64"), "m": money}),
        "projection": {
            "select": {"struct_items": [{}, {"field": 1}]},
            "maintain_singular_struct": True,
        },
        "named_table": {"names": ["lineitem"]},
    }
    grouped = {
        "input": {"read": source},
        "groupings": [{"grouping_expressions": [at(0)]}],
        "measures": [{"measure": measure_}],
    }
    function = {"extension_uri_reference": 1, "function_anchor": 1, "name": name}
    root = {"project": {"input": {"aggregate": grouped}, "expressions": [at(1), at(0)]}}
    return {
        "version": {"minor_number": 53, "producer": producer},
        "extension_uris": [{"extension_uri_anchor": 1, "uri": uri}],
        "extensions": [{"extension_function": function}],
        "relations": [{"root": {"input": root, "names": ["s", "k"]}}],
    }


FOLDER = "https://github.com/substrait-io/substrait/blob/main/extensions/"


def test_the_way_of_duckdb_is_understood_and_named() -> None:
    found = problems(duckdb_plan("sum:decimal", FOLDER))
    assert {p.code for p in found} == {
        "FUNCTION_NAME_BARE", "PHASE_UNSPECIFIED", "PROJECT_REPLACES_COLUMNS",
    }  # fmt: skip
    assert all("DuckDB" in p.message for p in found)


def test_types_that_duckdb_writes_in_full_are_named() -> None:
    uri = f"{FOLDER}functions_arithmetic_decimal.yaml"
    (long,) = [
        p for p in problems(duckdb_plan("sum:decimal", uri)) if p.code == "SIGNATURE_UNKNOWN"
    ]
    assert (long.level, long.path) == ("warning", "extensions[0].extension_function")
    assert "DuckDB writes the types of a signature in full" in long.message
    assert not any(p.code == "SIGNATURE_UNKNOWN" for p in problems(duckdb_plan("sum:dec", uri)))


@pytest.mark.parametrize("kind", ["date", "i64", "string", "decimal"])
def test_duckdb_gives_a_comparison_the_type_of_its_column(kind: str) -> None:
    """So it does for filters that it moves into a read; of other producers it is another result type."""
    more = {"precision": 12, "scale": 2} if kind == "decimal" else {}
    shown = of(kind, NULLABLE, **more)
    compared = {
        "scalar_function": {
            "function_reference": 1, "output_type": shown, "arguments": [{"value": at(0)}],
        }
    }  # fmt: skip
    source = {
        "read": {
            "base_schema": schema({"c": shown}),
            "filter": compared,
            "named_table": {"names": ["t"]},
        }
    }
    function = {"function_anchor": 1, "name": "is_not_null:any"}
    written: Json = {
        "version": {"minor_number": 53, "producer": "DuckDB"},
        "extensions": [{"extension_function": function}],
        "relations": [{"root": {"input": source, "names": ["c"]}}],
    }
    (found,) = [p for p in problems(written) if p.code == "RESULT_TYPE_OF_COLUMN"]
    assert found.level == "warning"
    assert "DuckDB" in found.message
    assert not [p for p in problems(written) if p.level == "error"]
    assert [p.code for p in problems(written, "strict") if p.code == "RESULT_TYPE_OF_COLUMN"]
    written["version"]["producer"] = "nobody"
    assert [p for p in problems(written) if p.level == "error"]


def test_a_bare_name_is_reported_once_where_it_is_declared() -> None:
    """A function without an extension is reported once, at its declaration, however often it is
    called.
    """
    samples = [p for p in SAMPLES if p.stem == "tpch_q01"]
    assert samples
    for path in samples:
        bare = [p.path for p in found_in(path) if p.code == "FUNCTION_NAME_BARE"]
        assert len(bare) == 7
        assert set(bare) == {f"extensions[{i}].extension_function" for i in range(7)}


def test_problems_of_declarations_come_first_and_in_their_order() -> None:
    """Calls are bound innermost first, but a plan declares its functions before its relations."""
    given = PLANS / "samples/datafusion/tpch_q01.bin"
    found = [p.path for p in substrait_agg.validate(given).problems]
    declared = [path for path in found if path.startswith("extensions")]
    assert found[: len(declared)] == declared
    assert declared == [f"extensions[{i}].extension_function" for i in range(len(declared))]


def test_a_problem_of_a_key_that_is_written_twice_is_reported_once() -> None:
    """DataFusion writes keys in the sets and beside them; the second copy is no second mistake."""
    clauses = [{"if": at(0)}, {"if": {"literal": {"i64": 1}}, "then": {"literal": {"string": "a"}}}]
    key = {"if_then": {"ifs": clauses, "else": {"literal": {"string": "b"}}}}
    source = {"base_schema": schema({"k": of("i64")}), "named_table": {"names": ["t"]}}
    grouped = {
        "input": {"read": source},
        "groupings": [{"grouping_expressions": [key], "expression_references": [0]}],
        "grouping_expressions": [key],
        "measures": [],
    }
    written = {
        "version": {"minor_number": 85, "producer": "datafusion"},
        "relations": [{"root": {"input": {"aggregate": grouped}, "names": ["k"]}}],
    }
    found = [(p.code, p.path) for p in problems(written)]
    place = "relations[0].root.input.aggregate.grouping_expressions[0].if_then.ifs[0]"
    assert found == [("CASE_IN_FIRST_CLAUSE", place)]
