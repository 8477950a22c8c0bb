"""Window functions in the binder: durations, names, and the places where hop and session are
allowed.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import substrait_agg as sa
from substrait_agg.bind.bound import BoundAggregate, BoundFilter, BoundProject, Call, Column
from substrait_agg.bind.expressions.windows import DURATION
from substrait_agg.bind.rewrite import call_durations
from tests.windowed import (
    COUNT,
    SUM,
    Json,
    Windows,
    aggregate,
    column,
    compound,
    grouped,
    interval,
    measure,
    projected,
    time_type,
)

Found = list[tuple[str, str]]
ROOT = "relations[0].root.input"


def found(plan: str, mode: Any = "lenient") -> Found:
    return [(p.code, p.path) for p in sa.validate(plan, mode).problems]


def key_of(plan: str, ordinal: int = 1) -> Call:
    root = sa.load(plan).bind().root
    assert isinstance(root, BoundAggregate)
    key = root.keys[ordinal]
    assert isinstance(key, Call)
    return key


@pytest.mark.parametrize(
    ("duration", "micros"),
    [
        (interval(60), 60_000_000),
        (interval(1, 500_000), 1_500_000),
        (interval(days=2), 2 * 86_400_000_000),
        (compound(60), 60_000_000),
        (compound(0, nanos=2_000), 2),
    ],
)
def test_durations_are_bound_in_microseconds(duration: Json, micros: int) -> None:
    plan = grouped("tumble", duration)
    key = key_of(plan)
    assert found(plan, "strict") == []
    assert call_durations(key.arguments) == (micros,)
    assert key.arguments[1].type == DURATION
    assert str(key.type) == "struct?<precision_timestamp<6>,precision_timestamp<6>>"


def test_an_offset_may_have_any_sign() -> None:
    assert call_durations(key_of(grouped("tumble", interval(60), interval(-7))).arguments) == (
        60_000_000,
        -7_000_000,
    )


@pytest.mark.parametrize(
    ("name", "durations", "said"),
    [
        ("tumble", [interval(0)], "size INTERVAL '0 DAYS': it is not greater than zero"),
        ("tumble", [interval(-60)], "size INTERVAL '-1 MINUTE': it is not greater than zero"),
        ("tumble", [compound(0, months=1)], "it has months, which have no fixed number of days"),
        ("tumble_end", [interval(60), compound(0, months=1)], "invalid offset INTERVAL '1 MONTH'"),
        ("hop", [interval(60), interval(0)], "invalid slide INTERVAL '0 DAYS'"),
        ("session", [interval(days=4_000_000)], "it is longer than ten thousand years"),
        ("session", [{"literal": {"null": {"intervalDay": {"precision": 6}}}}], "it is null"),
    ],
)
def test_durations_that_cannot_be(name: str, durations: list[Json], said: str) -> None:
    problems = sa.validate(grouped(name, *durations)).problems
    (problem,) = [p for p in problems if p.code == "WINDOW_DURATION_INVALID"]
    assert said in problem.message
    assert problem.path.startswith(f"{ROOT}.aggregate.grouping_expressions[1].scalar_function")


def test_a_duration_finer_than_the_time_is_refused() -> None:
    """The border of a window would lie between two values of the column."""
    fine = interval(1, 500_000)
    assert "finer than the type of the time, which has 0 digits" in (
        sa.validate(grouped("tumble", fine, time=time_type(digits=0))).problems[0].message
    )
    assert found(grouped("tumble", fine, time=time_type(digits=1))) == []


@pytest.mark.parametrize(
    ("older", "kind"),
    [("timestamp", "precision_timestamp"), ("timestampTz", "precision_timestamp_tz")],
)
def test_older_types_of_time_are_taken(older: str, kind: str) -> None:
    plan = grouped("tumble", interval(60), time={older: {"nullability": "NULLABILITY_NULLABLE"}})
    assert sa.validate(plan).ok
    assert str(key_of(plan).type) == f"struct?<{kind}<6>,{kind}<6>>"


def test_a_duration_is_a_constant() -> None:
    windows = Windows()
    relation = aggregate(windows.read(), [windows.call("tumble", column(2))])
    codes = {code for code, _ in found(windows.plan(relation, "w", "start", "end", "c", "s"))}
    assert "FUNCTION_ARGUMENTS" in codes


def test_ten_thousand_windows_per_row_are_the_limit() -> None:
    assert found(grouped("hop", interval(10_000), interval(1))) == []
    code, path = found(grouped("hop", interval(10_001), interval(1)))[0]
    assert (code, path) == ("WINDOWS_TOO_MANY", f"{ROOT}.aggregate.grouping_expressions[1]")


# --- names -------------------------------------------------------------------------------------


def test_bare_names_are_taken_with_a_warning() -> None:
    plan = grouped("tumble_end", compound(60), urn="")
    assert [code for code, _ in found(plan)] == ["FUNCTION_NAME_BARE"]
    assert sa.validate(plan).ok
    assert not sa.validate(plan, "strict").ok
    assert key_of(plan) == key_of(grouped("tumble_end", interval(60)))


def test_the_same_name_under_another_urn_is_another_function() -> None:
    plan = grouped("tumble_end", interval(60), urn="extension:com.example:windows")
    assert [code for code, _ in found(plan)] == ["FUNCTION_URN_UNKNOWN"]


def test_our_urn_has_windows_only() -> None:
    windows = Windows()
    call = windows.call("tumble_start", interval(60))
    windows.names = ["upper:str"]
    plan = windows.plan(aggregate(windows.read(), [call]), "w", "c", "s")
    assert "SCALAR_FUNCTION_UNKNOWN" in {code for code, _ in found(plan)}


def test_a_signature_is_compared_with_the_published_file() -> None:
    windows = Windows()
    call = windows.call("tumble_start", interval(60))
    windows.names = ["tumble_start:date_iday"]
    plan = windows.plan(aggregate(windows.read(), [call]), "w", "c", "s")
    assert "SIGNATURE_UNKNOWN" in {code for code, _ in found(plan)}
    windows.names = ["tumble_start:ptstz_iday"]
    plan = windows.plan(aggregate(windows.read(), [call]), "w", "c", "s")
    assert [code for code, _ in found(plan)] == ["SIGNATURE_DIFFERS"]


# --- places ------------------------------------------------------------------------------------


def hop(windows: Windows, time: Json | None = None) -> Json:
    return windows.call("hop", interval(60), interval(30), time=time)


def test_a_tumbling_window_is_a_value_like_any_other() -> None:
    windows = Windows()
    calls = [windows.call(name, interval(60)) for name in ("tumble", "tumble_start", "tumble_end")]
    plan = windows.plan(projected(windows.read(), *calls), "w", "start", "end", "a", "b")
    assert found(plan) == []


def misplaced() -> dict[str, tuple[Json, list[str], str]]:
    windows = Windows()
    project, source = hop(windows), windows.read()
    inner, struct = f"{ROOT}.aggregate.input.project.expressions[0]", ["w", "start", "end"]
    twice = projected(source, project, column(2))
    condition = {"filter": {"input": source, "condition": project}}
    time = windows.call("tumble_end", interval(60), time=project)
    first = f"{ROOT}.aggregate.grouping_expressions[0].scalar_function.arguments[0].value"
    counted = {"measure": {**COUNT["measure"]}, "filter": project}
    return {
        "a projection": (
            projected(source, project), struct, f"{ROOT}.project.expressions[0]"
        ),
        "a condition": (condition, ["team", "t", "n"], f"{ROOT}.filter.condition"),
        "the time of a window": (aggregate(source, [time]), ["w", "c", "s"], first),
        "the filter of a measure": (
            aggregate(source, [column(0)], [counted]), ["team", "c"],
            f"{ROOT}.aggregate.measures[0].filter",
        ),
        "a key that a measure reads too": (
            aggregate(twice, [column(0)], [measure(1, column(0), nullable=False)]),
            [*struct, "c"], inner,
        ),
        "a key twice": (
            aggregate(projected(source, project), [column(0), column(0)], [COUNT]),
            [*struct, *struct, "c"], inner,
        ),
    }  # fmt: skip


@pytest.mark.parametrize("where", misplaced())
def test_hopping_windows_stand_nowhere_else(where: str) -> None:
    relation, names, path = misplaced()[where]
    windows = Windows()
    hop(windows)
    windows.call("tumble_end", interval(60))
    problems = found(windows.plan(relation, *names))
    assert ("WINDOW_NOT_A_KEY", path) in problems


def test_a_window_in_a_projection_below_is_moved_up() -> None:
    """A window moves up through filters and other projections if nothing else reads it."""
    windows = Windows()
    inner = projected(windows.read(), column(2), hop(windows), column(0))
    positive = {
        "filter": {
            "input": inner,
            "condition": {
                "singularOrList": {
                    "value": column(0),
                    "options": [{"literal": {"i64": 1}}, {"literal": {"i64": 2}}],
                }
            },
        }
    }
    outer = projected(positive, column(2), column(1), column(0))
    plan = windows.plan(aggregate(outer, [column(0), column(1)]), *"team w a b c s".split())
    assert found(plan) == []
    root = sa.load(plan).bind().root
    assert isinstance(root, BoundAggregate)
    key = root.keys[1]
    assert isinstance(key, Call)
    assert key.function == "hop"
    assert key.arguments[0] == Column(root.input.types[1], 1)
    assert root.input.types[1].kind == "precision_timestamp"
    assert isinstance(root.input, BoundProject)
    assert isinstance(root.input.input, BoundFilter)


def test_a_filter_on_the_window_itself_keeps_it_where_it_is() -> None:
    windows = Windows()
    inner = projected(windows.read(), hop(windows), column(2))
    there = {"filter": {"input": inner, "condition": _is_not_null(windows, column(0))}}
    plan = windows.plan(aggregate(there, [column(0)], [COUNT]), "w", "start", "end", "c")
    assert "WINDOW_NOT_A_KEY" in {code for code, _ in found(plan)}


def _is_not_null(windows: Windows, value: Json) -> Json:
    """Declared by its bare name, under our URN it would not be known."""
    windows.urn = ""
    windows.names = [n.partition(":")[0] for n in windows.names]
    windows.names.append("is_not_null")
    return {
        "scalarFunction": {
            "functionReference": 9 + len(windows.names),
            "arguments": [{"value": value}],
            "outputType": {"bool": {"nullability": "NULLABILITY_REQUIRED"}},
        }
    }


def test_a_projection_that_is_shared_may_be_used_in_one_way_only() -> None:
    windows = Windows()
    shared = projected(windows.read(), hop(windows), column(2))
    text = json.loads(windows.plan(shared, "x"))
    reference = {"reference": {"subtreeOrdinal": 0}}
    by_window = aggregate(reference, [column(0)], [COUNT])
    rows = projected(reference, column(0), {"literal": {"i64": "1"}}, width=2)
    union = {"set": {"op": "SET_OP_UNION_ALL", "inputs": [by_window, rows]}}
    text["relations"] = [
        {"rel": shared},
        {"root": {"input": union, "names": ["w", "start", "end", "c"]}},
    ]
    assert "WINDOW_NOT_A_KEY" in {code for code, _ in found(json.dumps(text))}
    text["relations"][1]["root"]["input"] = {
        "set": {"op": "SET_OP_UNION_ALL", "inputs": [by_window, by_window]}
    }
    assert "WINDOW_NOT_A_KEY" not in {code for code, _ in found(json.dumps(text))}


def test_one_window_per_aggregate() -> None:
    windows = Windows()
    keys = [hop(windows), windows.call("session", interval(30))]
    plan = windows.plan(aggregate(windows.read(), keys), *"w a b v x y c s".split())
    assert found(plan) == [("WINDOWS_SEVERAL", f"{ROOT}.aggregate.grouping_expressions[1]")]
    tumbling = [hop(windows), windows.call("tumble", interval(30))]
    plan = windows.plan(aggregate(windows.read(), tumbling), *"w a b v x y c s".split())
    assert found(plan) == []


def test_sessions_have_one_grouping_set() -> None:
    windows = Windows()
    session = windows.call("session", interval(30))
    relation = aggregate(windows.read(), [column(0), session], [COUNT, SUM], [[0, 1], [0]])
    plan = windows.plan(relation, *"team w a b c s i".split())
    assert found(plan) == [("SESSION_GROUPING_SETS", f"{ROOT}.aggregate.grouping_expressions[1]")]


def test_measures_that_go_by_arrival_have_none_under_a_session() -> None:
    """When its bounds move, all rows of a session come again."""
    windows = Windows(urn="")
    session, hopping = windows.call("session", interval(30)), hop(windows)
    windows.names.append("first_value")
    first = measure(len(windows.names) + 9, column(2))
    for key, refused in ((session, True), (hopping, False)):
        plan = windows.plan(aggregate(windows.read(), [key], [first]), *"w a b f".split())
        assert ("SESSION_ARRIVAL" in {code for code, _ in found(plan)}) == refused
