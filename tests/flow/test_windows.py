"""Windows in the dataflow: the operator of sessions, the number of rows per input row, and the
explanation of both.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import substrait_agg as sa
from substrait_agg.bind.bound import BoundAggregate, Call, Column
from substrait_agg.bind.rewrite import call_durations
from substrait_agg.flow.graph.graph import OperatorOrigin, TableOrigin
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.flow.graph.sessionize import Sessionize
from substrait_agg.flow.passes.lower import lower
from substrait_agg.flow.passes.relations import row_keys
from substrait_agg.functions.aggregates.accumulators import WeightKind
from substrait_agg.required import require
from tests.windowed import COUNT, MAX, SUM, Windows, aggregate, column, grouped, interval

TABLE = ("goals",)


def flow_of(plan: str, weight: WeightKind = "append_only") -> Flow:
    return lower(sa.load(plan).bind(), {TABLE: weight})


def test_a_session_is_an_operator_ahead_of_the_aggregate() -> None:
    told, total = flow_of(grouped("session", interval(90))).operators
    assert isinstance(told, Sessionize)
    assert told.gap == 90_000_000
    assert [str(t) for t in told.types] == [
        "string?",
        "struct?<precision_timestamp<6>,precision_timestamp<6>>",
        "i64?",
    ]
    assert told.columns == ("k0", "v0", "v1")
    assert [str(t) for t in told.key_types] == ["string?"]
    (branch,) = total.branches
    assert branch.origin == OperatorOrigin(told.id, told.types)
    assert total.keys == (Column(told.types[0], 0), Column(told.types[1], 1))
    assert total.weight == "weighted", "a session's rows move together"


def test_only_what_the_measures_read_is_kept() -> None:
    windows = Windows()
    key = windows.call("session", interval(90))
    told, _ = flow_of(windows.plan(aggregate(windows.read(), [key], [COUNT]), *"w a b c".split())).operators  # fmt: skip
    assert len(told.arguments) == 1, "the time alone"
    (branch,) = told.branches
    assert isinstance(branch.origin, TableOrigin)
    assert branch.origin.names == ("t",)


def test_two_measures_over_one_column_keep_it_once() -> None:
    windows = Windows()
    key = windows.call("session", interval(90))
    relation = aggregate(windows.read(), [key, column(0)], [SUM, MAX])
    told, total = flow_of(windows.plan(relation, *"w a b team s m".split())).operators
    assert len(told.arguments) == 2
    assert [m.arguments for m in total.measures] == [(Column(told.types[2], 2),)] * 2
    assert [k for k in total.keys if isinstance(k, Column)] == [
        Column(told.types[1], 1),
        Column(told.types[0], 0),
    ]


@pytest.mark.parametrize("weight", ["append_only", "changelog", "weighted"])
def test_the_policy_for_early_retractions_is_that_of_the_first_operator(weight: WeightKind) -> None:
    plan = sa.load(grouped("session", interval(90))).bind()
    told, total = lower(plan, {TABLE: weight}, "quarantine").operators
    guarded = weight != "append_only"
    assert (told.early, require(told.groups).guard) == (
        ("quarantine", 0) if guarded else ("carry", None)
    )
    assert total.early == "carry"


def test_a_session_over_an_aggregate_comes_behind_it() -> None:
    windows = Windows()
    inner = aggregate(windows.read(), [column(0), column(1)], [MAX])
    key = windows.call("session", interval(90))
    relation = aggregate(inner, [key], [COUNT])
    flow = flow_of(windows.plan(relation, *"w a b c".split()))
    assert [o.id for o in flow.operators] == [0, 1, 2]
    assert [isinstance(o, Sessionize) for o in flow.operators] == [False, True, False]


# --- hopping windows ---------------------------------------------------------------------------


def test_rows_count_once_per_window_and_grouping_set() -> None:
    windows = Windows()
    hop = windows.call("hop", interval(60), interval(25))
    sets = [[0, 1], [0], []]
    relation = aggregate(windows.read(), [column(0), hop], [COUNT], sets)
    (node,) = flow_of(windows.plan(relation, *"team w a b c i".split())).operators
    assert node.windows_per_row == 3
    assert node.rows_per_row == 3 + 1 + 1


@pytest.mark.parametrize(("size", "slide", "offset"), [(6, 2, 0), (7, 3, 1), (2, 5, -3), (5, 5, 0)])
def test_row_keys_tell_rows_apart_as_their_windows_do(size: int, slide: int, offset: int) -> None:
    root = sa.load(grouped("hop", *(interval(micros=m) for m in (size, slide, offset)))).bind().root
    assert isinstance(root, BoundAggregate)
    found = row_keys((root.keys[1],))
    assert all(isinstance(k, Call) for k in found)
    durations = [call_durations(k.arguments) for k in found if isinstance(k, Call)]

    def starts(time: int) -> list[int]:
        return [(time - o) // s for s, o in durations]

    def windows(time: int) -> list[int]:
        return [k for k in range(-60, 60) if 0 <= time - k * slide - offset < size]

    for left, right in product(range(-20, 20), repeat=2):
        assert (starts(left) == starts(right)) == (windows(left) == windows(right)) or (
            not windows(left) and not windows(right)
        )


# --- explanations ------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["text", "json", "mermaid", "html"])
def test_windows_are_shown_as_they_are_called(format: Any) -> None:
    quote = {"text": "'", "json": "'", "mermaid": "#39;", "html": "&#39;"}[format]
    text = sa.explain(grouped("hop", interval(60), interval(20)), format=format)
    assert f"hop(t, INTERVAL {quote}1 MINUTE{quote}" in text
    text = sa.explain(grouped("session", interval(90)), format=format)
    assert "sessions" in text
    assert "session(t, INTERVAL" in text


def test_the_explanation_says_how_rows_are_multiplied() -> None:
    text = sa.explain(grouped("hop", interval(60), interval(20)))
    assert "expand   every row once per window it is in (at most 3)" in text
    assert "expand" not in sa.explain(grouped("tumble", interval(60)))


def test_groups_over_sessions_are_not_bounded_by_what_tells_them_apart() -> None:
    """The session operator emits as many rows as it receives, so the groups above it have no bound."""
    windows = Windows()
    key = windows.call("session", interval(90))
    relation = aggregate(windows.read(), [key, {"literal": {"boolean": True}}], [COUNT])
    text = sa.explain(windows.plan(relation, *"w a b x c".split()))
    assert "groups: unknown, one per distinct value of session(t, " in text
