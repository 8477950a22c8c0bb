"""Problems are sorted by their place in the plan, regardless of the stage that found them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import substrait_agg
from substrait_agg.plan.messages.message import read_message
from substrait_agg.plan.messages.node import preorder
from substrait_agg.problems import Problem
from substrait_agg.report.places.order import in_plan_order

PLANS = Path(__file__).parents[2] / "plans"
AGGREGATE = "relations[0].root.input.aggregate"


def shuffled(paths: list[str]) -> list[str]:
    """The paths after they came in another order."""
    mixed = [Problem(f"C{at}", "error", path, "m", "h") for at, path in enumerate(paths)]
    random.Random(7).shuffle(mixed)
    return [problem.path for problem in in_plan_order(mixed)]


def test_messages_come_before_what_is_in_them_and_fields_as_they_are_declared() -> None:
    expected = [
        "",
        "version",
        "extensions[2].extension_function",
        "relations[0]",
        f"{AGGREGATE}",
        f"{AGGREGATE}.input.read.base_schema",
        f"{AGGREGATE}.groupings[1]",
        f"{AGGREGATE}.measures[2].measure",
        f"{AGGREGATE}.measures[2].measure.arguments[0].value",
        f"{AGGREGATE}.measures[2].measure.phase",
        f"{AGGREGATE}.measures[2].measure.sorts[1]",
        f"{AGGREGATE}.measures[10].measure",
        "relations[0].root.names[2]",
        "relations[0].root.names[10]",
        "relations[1]",
    ]
    assert shuffled(expected) == expected


def test_what_the_schema_does_not_know_stands_at_the_nearest_message_that_it_knows() -> None:
    before, after = f"{AGGREGATE}.groupings[0]", f"{AGGREGATE}.measures[1]"
    unknown = f"{AGGREGATE}.measures[0].frobnicate[3].deeper"
    assert shuffled([after, unknown, before]) == [before, unknown, after]
    assert shuffled(["relations[0]", "77", "version"]) == ["77", "version", "relations[0]"]


def test_problems_of_one_place_stay_as_they_were_found() -> None:
    found = [Problem(code, "error", AGGREGATE, "m", "h") for code in ("B", "A", "C")]
    assert list(in_plan_order(found)) == found


def test_every_message_of_a_real_plan_has_the_place_it_has_in_the_message() -> None:
    root = read_message((PLANS / "tpch" / "q01.bin").read_bytes())
    assert root is not None
    paths = [node.path for node in preorder(root)]
    assert len(paths) > 200
    assert shuffled(paths) == paths


def test_problems_of_decoding_and_of_binding_are_mixed(counting: dict[str, Any]) -> None:
    """Problems are in plan order: a missing phase, found by the binder, comes before a later bad
    field, found by the decoder.
    """
    aggregate = counting["relations"][0]["root"]["input"]["aggregate"]
    del aggregate["measures"][0]["measure"]["phase"]
    aggregate["measures"].append({"measure": {"functionReference": 99, "frobnicate": 1}})
    report = substrait_agg.validate(json.dumps(counting))
    codes = [problem.code for problem in report.problems]
    assert codes.index("PHASE_UNSPECIFIED") < codes.index("UNKNOWN_FIELD")
    assert list(in_plan_order(report.problems)) == list(report.problems)
