"""Plans of real producers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from substrait_agg.plan import model as m
from tests.plan.helpers import PLANS, SAMPLES, meaning, read

NAMES = [str(path.relative_to(PLANS)) for path in SAMPLES]


def aggregates(relation: Any) -> list[m.AggregateRel]:
    """All aggregates on the way down, outermost first."""
    found = []
    while hasattr(relation, "input"):
        if isinstance(relation, m.AggregateRel):
            found.append(relation)
        relation = relation.input
    return found


def test_there_are_samples_of_every_producer() -> None:
    folders = {path.parent.name for path in SAMPLES}
    assert len(SAMPLES) >= 38
    assert folders >= {
        "datafusion", "datafusion-45.2.0", "ibis-substrait", "ibm-compliance-tpch",
        "substrait-python", "tpch", "datafusion-45", "isthmus",
    }  # fmt: skip


@pytest.mark.parametrize("path", SAMPLES, ids=NAMES)
def test_binary_and_json_mean_the_same(path: Path) -> None:
    """Both parsers know the same fields."""
    binary, in_binary = read(path)
    text, in_text = read(path.with_suffix(".json"))
    assert meaning(binary) == meaning(text)
    assert in_binary == in_text


@pytest.mark.parametrize("path", SAMPLES, ids=NAMES)
def test_every_sample_is_decoded_without_problems(path: Path) -> None:
    _, found = read(path)
    known = {"NULLABILITY_MISSING"} if "datafusion-45" in path.parent.name else set()
    assert {problem.code for problem in found} <= known


@pytest.mark.parametrize("path", SAMPLES, ids=NAMES)
def test_what_was_decoded_can_be_decoded_again(path: Path) -> None:
    plan, _ = read(path)
    assert read(plan.raw)[0] == plan


@pytest.mark.parametrize(
    ("folder", "producer", "version"),
    [
        ("", "datafusion", (0, 85, 0)),
        ("datafusion-45", "datafusion", (0, 64, 0)),
        ("isthmus", "isthmus", (0, 81, 0)),
        ("substrait-python", "", (0, 106, 0)),
    ],
)
def test_tpch_query_1_of_every_producer_has_its_keys_and_measures(
    folder: str, producer: str, version: tuple[int, int, int]
) -> None:
    """Its two keys are in a removed field, in references, or in both; they must never be lost."""
    plan, _ = read(PLANS / "tpch" / folder / "q01.bin")
    (found,) = aggregates(plan.root)
    assert (plan.producer, plan.version) == (producer, version)
    assert len(found.grouping_expressions) == 2
    assert found.groupings == ((0, 1),)
    assert [measure.function.name for measure in found.measures] == ["sum"] * 4 + ["avg"] * 3 + [
        "count"
    ]
    assert len(plan.names or ()) == 10


def test_ibis_keys_are_in_a_removed_field_and_kept() -> None:
    plan, _ = read(PLANS / "samples/ibis-substrait/count_star_grouped.bin")
    (found,) = aggregates(plan.root)
    assert [e.steps for e in found.grouping_expressions if isinstance(e, m.FieldRef)] == [(1,)]
    assert found.groupings == ((0,),)
    assert found.measures[0].function == m.FunctionName(
        "count", "any", "functions_aggregate_generic", "count:any"
    )
    assert found.measures[0].phase == "initial_to_result"


def test_isthmus_urn_wins_over_uri() -> None:
    plan, _ = read(PLANS / "tpch/isthmus/q06.json")
    (found,) = aggregates(plan.root)
    assert found.measures[0].function.urn == "functions_arithmetic_decimal"
    assert str(found.measures[0].output_type) == "decimal?<19,4>"


def test_datafusion_filter_clause_and_path() -> None:
    plan, _ = read(PLANS / "samples/datafusion/filter_clause.bin")
    (found,) = aggregates(plan.root)
    assert all(measure.filter is not None for measure in found.measures)
    base = "relations[0].root.input.project.input.aggregate.measures"
    assert [measure.path for measure in found.measures] == [f"{base}[{i}].measure" for i in (0, 1)]
    filters = [measure.filter.path for measure in found.measures if measure.filter]
    assert filters == [f"{base}[0].filter", f"{base}[1].filter"]


def test_distinct_sorts_options_and_enum_arguments_are_carried() -> None:
    (distinct,) = aggregates(read(PLANS / "samples/datafusion/sum_distinct.bin")[0].root)
    assert {x.invocation for x in distinct.measures} == {"distinct"}
    (ordered,) = aggregates(read(PLANS / "samples/datafusion/string_agg_order.bin")[0].root)
    assert [s.direction for s in ordered.measures[0].sorts] == ["asc_nulls_last"]
    (overflow,) = aggregates(read(PLANS / "samples/substrait-python/sum_overflow_opt.bin")[0].root)
    assert [(o.name, o.preferences) for o in overflow.measures[0].options] == [
        ("overflow", ("ERROR",))
    ]
    (deviation,) = aggregates(read(PLANS / "samples/substrait-python/std_dev_enum.bin")[0].root)
    enums = [
        a.value for x in deviation.measures for a in x.arguments if isinstance(a, m.EnumArgument)
    ]
    assert set(enums) == {"SAMPLE", "POPULATION"}


def test_grouping_sets_are_kept_apart() -> None:
    (found,) = aggregates(read(PLANS / "samples/substrait-python/rollup.bin")[0].root)
    assert found.groupings == ((0, 1), (0,), ())
