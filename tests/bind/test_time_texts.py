"""Text literals beside dates and times: which are read as which value, and which are refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from substrait_agg.bind.bound import BoundProject, Call, Conditional, Constant, Expr, InList
from substrait_agg.bind.show import show
from substrait_agg.plan.model import Expression, IfThen, ProjectRel, SingularOrList, Switch
from substrait_agg.plan.types import BOOL, DATE, I64, STRING, Type
from substrait_agg.problem_kinds import Mode
from substrait_agg.problems import Problem
from tests.bind.build import ROOT, at, bound, call, lit, problems_of, read

SECONDS = Type("precision_timestamp", params=(0,))
MILLIS = Type("precision_timestamp", params=(3,))
INSTANT = Type("precision_timestamp_tz", params=(6,))
CLOCK = Type("precision_time", params=(3,))

COLUMNS = {"day": DATE, "at": MILLIS, "instant": INSTANT, "clock": CLOCK, "name": STRING, "n": I64}
NAMES = tuple(COLUMNS)
SAID = {"TEXT_READ_AS_TIME", "TIME_TEXT_INVALID"}
VARCHAR = Type("varchar", params=(40,))
FIXED = Type("fixedchar", params=(12,))


def column(name: str) -> Expression:
    return at(NAMES.index(name))


def text(value: str | None, type_: Type = STRING) -> Expression:
    return lit(value, type_)


def project(expression: Expression) -> ProjectRel:
    return ProjectRel(read(COLUMNS), (expression,), (len(COLUMNS),), f"{ROOT}.project")


def bind_one(expression: Expression) -> Expr:
    root = bound(project(expression), "e").root
    assert isinstance(root, BoundProject)
    return root.expressions[0]


def found(expression: Expression, mode: Mode = "lenient") -> list[Problem]:
    """The problems of texts. Functions of these plans have no extension, which is reported too."""
    return [p for p in problems_of(project(expression), "e", mode=mode) if p.code in SAID]


def codes(expression: Expression) -> set[str]:
    problems = problems_of(project(expression), "e")
    return {p.code for p in problems} - {"FUNCTION_NAME_BARE", "RESULT_TYPE_MISSING"}


def compared(name: str, written: str) -> Constant:
    """The constant that a text becomes beside a column."""
    made = bind_one(call("lt", column(name), text(written)))
    assert isinstance(made, Call)
    value = made.arguments[1]
    assert isinstance(value, Constant)
    return value


DAY = (datetime(1994, 5, 6, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).days
MIDNIGHT = DAY * 86_400
HALF_PAST_TEN = MIDNIGHT + 37_800


@pytest.mark.parametrize(
    ("name", "written", "type_", "value"),
    [
        ("day", "1994-05-06", "date?", DAY),
        ("day", " 1994-05-06  ", "date?", DAY),
        ("day", "1994-05-06 00:00:00.000", "date?", DAY),
        ("day", "1969-12-31", "date?", -1),
        ("day", "0001-01-01", "date?", -719_162),
        ("day", "2000-02-29", "date?", 11_016),
        ("at", "1994-05-06", "precision_timestamp?<3>", MIDNIGHT * 10**3),
        ("at", "1994-05-06 10:30", "precision_timestamp?<3>", HALF_PAST_TEN * 10**3),
        ("at", "1994-05-06T10:30:00.5", "precision_timestamp?<3>", HALF_PAST_TEN * 10**3 + 500),
        ("at", "1994-05-06t10:30:00.1234500000", "precision_timestamp?<5>", HALF_PAST_TEN * 10**5 + 12_345),
        ("at", "1969-12-31 23:59:59.999", "precision_timestamp?<3>", -1),
        ("instant", "1994-05-06 10:30:00Z", "precision_timestamp_tz?<6>", HALF_PAST_TEN * 10**6),
        ("instant", "1994-05-06 12:30:00+02:00", "precision_timestamp_tz?<6>", HALF_PAST_TEN * 10**6),
        ("instant", "1994-05-06 05:00:00-0530", "precision_timestamp_tz?<6>", HALF_PAST_TEN * 10**6),
        # As a cast of such a text reads it.
        ("instant", "1994-05-06 10:30:00", "precision_timestamp_tz?<6>", HALF_PAST_TEN * 10**6),
        ("clock", "10:30", "precision_time?<3>", 37_800_000),
        ("clock", "10:30:00.25", "precision_time?<3>", 37_800_250),
    ],
)  # fmt: skip
def test_texts_are_read_as_what_they_are_compared_with(
    name: str, written: str, type_: str, value: int
) -> None:
    constant = compared(name, written)
    assert (str(constant.type), constant.value) == (type_, value)


@pytest.mark.parametrize(
    ("name", "written", "reason"),
    [
        ("day", "", "it is not written as 2026-01-31"),
        ("day", "1994-5-6", "it is not written as 2026-01-31"),
        ("day", "06.05.1994", "it is not written as 2026-01-31"),
        ("day", "yesterday", "it is not written as 2026-01-31"),
        (
            "day",
            "".join(chr(ord(c) + 0x630) if c.isdigit() else c for c in "1994-05-06"),
            "it is not written as 2026-01-31",
        ),
        ("day", "1994-02-30", "there is no such day"),
        ("day", "0000-01-01", "there is no such day"),
        ("day", "1994-05-06 10:30:00", "it has a time of day"),
        ("day", "1994-05-06 00:00:00.1", "it has a time of day"),
        ("day", "1994-05-06 00:00:00Z", "it has a time of day"),
        ("at", "1994-05-06 24:00:00", "there is no such time of day"),
        ("at", "1994-05-06 23:59:60", "there is no such time of day"),
        ("at", "1994-05-06 10", "it is not written as 2026-01-31 10:30:00"),
        ("at", "1994-05-06 10:30:00Z", "it has an offset from UTC"),
        ("at", "1994-05-06 10:30:00.1234567", "it has digits finer than a microsecond"),
        ("instant", "1994-05-06 10:30:00+25:00", "there is no such offset from UTC"),
        ("instant", "10:30:00", "it is not written as 2026-01-31T10:30:00Z"),
        ("clock", "1994-05-06", "it is not written as 10:30:00"),
        ("clock", "10:61", "there is no such time of day"),
    ],
)
@pytest.mark.parametrize("mode", ["lenient", "strict"])
def test_texts_that_are_none_are_refused(name: str, written: str, reason: str, mode: Mode) -> None:
    """A part of a text is never left out: it would be another value."""
    (problem,) = found(call("gte", column(name), text(written)), mode)
    assert (problem.code, problem.level) == ("TIME_TEXT_INVALID", "error")
    assert reason in problem.message
    assert repr(written) in problem.message


@pytest.mark.parametrize(("mode", "level"), [("lenient", "warning"), ("strict", "error")])
def test_that_a_text_is_read_is_told(mode: Mode, level: str) -> None:
    (problem,) = found(call("between", column("day"), text("1994-01-01"), text("1994-12-31")), mode)
    assert (problem.code, problem.level) == ("TEXT_READ_AS_TIME", level)
    assert problem.path == f"{ROOT}.literal"
    assert problem.message == (
        "between has the text '1994-01-01' together with values of type date; it is read as DATE '1994-01-01'"
    )


def test_an_instant_is_told_in_utc() -> None:
    (problem,) = found(call("lt", column("instant"), text("1994-05-06 01:00+02:00")))
    assert problem.message.endswith("it is read as TIMESTAMP '1994-05-05 23:00:00' UTC")


@pytest.mark.parametrize("name", [
    "equal", "not_equal", "lt", "lte", "gt", "gte", "is_distinct_from", "is_not_distinct_from", "nullif",
    "coalesce", "least", "greatest",
])  # fmt: skip
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("type_", [STRING, VARCHAR, FIXED], ids=str)
def test_all_comparisons_read_texts_on_either_side(name: str, swapped: bool, type_: Type) -> None:
    sides = (column("day"), text("1994-05-06", type_))
    made = bind_one(call(name, *(sides[::-1] if swapped else sides), output=None))
    assert isinstance(made, Call)
    assert sorted(type(a).__name__ for a in made.arguments) == ["Column", "Constant"]
    assert {a.type.kind for a in made.arguments} == {"date"}


def test_bounds_of_between() -> None:
    made = bind_one(call("between", column("at"), text("1994-01-01"), text("1994-12-31 23:59:59")))
    assert show(made, NAMES) == (
        "between(at, TIMESTAMP '1994-01-01 00:00:00', TIMESTAMP '1994-12-31 23:59:59')"
    )


def test_in_lists() -> None:
    """One warning for the whole list, an error for every text that is none."""
    given = SingularOrList(
        column("day"), (text("1994-01-01"), text(None), text("1994-01-02")), ROOT
    )
    made = bind_one(given)
    assert isinstance(made, InList)
    assert [(str(o.type), o.value) for o in made.options if isinstance(o, Constant)] == [
        ("date?", DAY - 125), ("date?", None), ("date?", DAY - 124),
    ]  # fmt: skip
    assert [p.code for p in found(given)] == ["TEXT_READ_AS_TIME"]
    odd = SingularOrList(column("day"), (text("a"), text("1994-01-01"), text("b")), ROOT)
    assert [p.code for p in found(odd)] == ["TIME_TEXT_INVALID"] * 2
    turned = SingularOrList(text("1994-01-01"), (column("day"),), ROOT)
    assert [p.code for p in found(turned)] == ["TEXT_READ_AS_TIME"]


def test_cases_of_a_switch() -> None:
    given = Switch(column("day"), ((lit("1994-05-06", STRING), lit(1, I64)),), None, ROOT)
    made = bind_one(given)
    assert isinstance(made, Conditional)
    assert show(made, NAMES).startswith("CASE WHEN day = DATE '1994-05-06'")
    assert [p.code for p in found(given)] == ["TEXT_READ_AS_TIME"]


def test_dates_and_times_of_several_types() -> None:
    """They have a common type, which texts are read as."""
    made = bind_one(call("between", column("at"), column("day"), text("1994-05-06 10:30")))
    assert isinstance(made, Call)
    assert {str(a.type) for a in made.arguments} == {"precision_timestamp?<3>"}


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        # Only literals have a value that can be checked.
        (call("lt", column("day"), column("name")), "FUNCTION_ARGUMENTS"),
        (call("lt", column("n"), text("1994-05-06")), "FUNCTION_ARGUMENTS"),
        (call("between", column("day"), text("1994-05-06"), column("n")), "FUNCTION_ARGUMENTS"),
        (call("equal", column("at"), column("instant")), "FUNCTION_ARGUMENTS"),
        (
            call("between", column("at"), column("instant"), text("1994-05-06")),
            "FUNCTION_ARGUMENTS",
        ),
        (SingularOrList(column("n"), (text("1994-05-06"),), ROOT), "BRANCH_TYPES_DIFFER"),
        # The results of an if-then are not compared.
        (
            IfThen(((lit(True, BOOL), column("day")),), text("1994-05-06"), ROOT),
            "BRANCH_TYPES_DIFFER",
        ),
    ],
)
def test_nothing_else_is_read(expression: Expression, code: str) -> None:
    assert codes(expression) == {code}


@pytest.mark.parametrize(
    "expression",
    [
        call("equal", column("name"), text("1994-05-06")),
        call("equal", text("1994-05-06"), text("1994-05-07")),
        call("like", column("name"), text("1994-05-06")),
        call("equal", column("day"), text(None)),
        SingularOrList(column("name"), (text("1994-05-06"),), ROOT),
    ],
)
def test_texts_stay_texts_elsewhere(expression: Any) -> None:
    assert found(expression) == []
