"""Plans whose text leaves their meaning open: by release, by what fits, or refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from substrait_agg.bind import BoundPlan, bind
from substrait_agg.bind.bound import BoundAggregate, BoundProject, Column
from substrait_agg.bind.profiles import profile_of
from substrait_agg.plan.model import AggregateRel, ProjectRel, Relation, Unsupported
from substrait_agg.plan.types import BOOL, I64, Type
from substrait_agg.problem_kinds import Mode
from substrait_agg.problems import Problems
from tests.bind.build import ROOT, aggregate, at, call, col, lit, measure, plan, read, sort

PROJECT = f"{ROOT}.project"
TABLE = {"a": I64, "b": I64.as_nullable(False)}


def project(source: Relation, *expressions: Any, emit: tuple[int, ...] | None = None) -> ProjectRel:
    return ProjectRel(source, expressions, emit, PROJECT)


def product(left: int, right: int) -> Any:
    return call("multiply", at(left), at(right), output=I64)


def total(ordinal: int) -> Any:
    return measure("sum", at(ordinal), output=I64)


def read_plan(
    root: Relation,
    *names: str,
    producer: str = "",
    minor: int = 106,
    mode: Mode = "lenient",
    others: tuple[Relation, ...] = (),
) -> tuple[BoundPlan | None, dict[str, str]]:
    """The bound plan, and code -> level of its problems, except those about names of functions."""
    given = replace(plan(root, *names, producer=producer), version=(0, minor, 0), others=others)
    problems = Problems(mode)
    made = bind(given, problems)
    return made, {p.code: p.level for p in problems.items if p.code != "FUNCTION_NAME_BARE"}


def types_of(made: BoundPlan | None) -> list[str]:
    assert made is not None
    return [str(type_) for type_ in made.root.types]


# --- projects without output mapping --------------------------------------------------------------


@pytest.mark.parametrize(
    ("producer", "minor", "meanings"),
    [
        ("duckdb", 24, (True,)),
        ("duckdb", 52, (True,)),
        ("duckdb", 53, (False, True)),
        ("duckdb", 54, (False,)),
        ("duckdb", 78, (False,)),
        ("datafusion", 51, (True,)),
        ("datafusion", 55, (True,)),
        ("datafusion", 58, (False,)),
        ("datafusion", 85, (False,)),
        ("isthmus", 20, (False,)),
        ("", 53, (False,)),
    ],
)
def test_the_release_says_what_a_direct_project_means(
    producer: str, minor: int, meanings: tuple[bool, ...]
) -> None:
    assert profile_of(producer, (0, minor, 0)).direct_project.meanings((0, minor, 0)) == meanings


def test_a_release_that_is_not_stated_or_above_0_says_it_as_well() -> None:
    of_duckdb = profile_of("duckdb").direct_project
    assert of_duckdb.meanings((0, 0, 0)) == of_duckdb.meanings(None) == (False, True)
    assert of_duckdb.meanings((1, 2, 0)) == (False,)


@pytest.mark.parametrize("minor", [53, 78])
def test_a_new_duckdb_project_appends_its_expressions(minor: int) -> None:
    given = project(read({"a": I64}), product(0, 0))
    made, said = read_plan(given, "a", "square", producer="duckdb", minor=minor)
    assert (types_of(made), said) == (["i64?", "i64?"], {})


@pytest.mark.parametrize("minor", [40, 53])
def test_an_old_duckdb_project_replaces_the_columns(minor: int) -> None:
    given = project(read({"a": I64}), product(0, 0))
    made, said = read_plan(given, "square", producer="duckdb", minor=minor)
    assert (types_of(made), said) == (["i64?"], {"PROJECT_REPLACES_COLUMNS": "info"})
    _, strict = read_plan(given, "square", producer="duckdb", minor=minor, mode="strict")
    assert strict["PROJECT_REPLACES_COLUMNS"] == "error"


@pytest.mark.parametrize(
    ("ordinal", "replaces"), [(2, False), (0, True)], ids=["appended", "replaced"]
)
def test_references_above_tell_which_is_meant(ordinal: int, replaces: bool) -> None:
    """References above a project decide its meaning: column 2 exists only if the project appends,
    and a sum of a boolean column 0 would be invalid.
    """
    flagged = {"a": BOOL, "b": I64}
    given = aggregate(project(read(flagged), product(1, 1)), (), (total(ordinal),))
    made, said = read_plan(given, "s", producer="duckdb", minor=53)
    assert made is not None
    assert ("PROJECT_REPLACES_COLUMNS" in said) is replaces


def test_a_project_that_fits_both_is_refused_in_both_modes() -> None:
    given = aggregate(project(read(TABLE), product(0, 0)), (), (total(0),))
    made, said = read_plan(given, "s", producer="duckdb", minor=53)
    assert (made, said) == (None, {"PROJECT_UNCLEAR": "error"})
    made, said = read_plan(given, "s", producer="duckdb", minor=53, mode="strict")
    assert (made, said) == (None, {"PROJECT_UNCLEAR": "error"})
    made, said = read_plan(given, "s", producer="duckdb", minor=54)
    assert made is not None
    assert said == {}


def test_a_project_that_no_result_depends_on_is_not_unclear() -> None:
    """Both readings of a relation that the root does not reach give the same plan."""
    aside = project(read(TABLE), product(0, 0))
    made, said = read_plan(
        aggregate(read(TABLE), (), (total(0),)), "s",
        producer="duckdb", minor=53, others=(aside,),
    )  # fmt: skip
    assert made is not None
    assert "PROJECT_UNCLEAR" not in said


def test_one_reading_holds_for_the_whole_plan() -> None:
    """A plan has one release: the reading of its root also applies to a project below that would fit both."""
    inner = aggregate(project(read(TABLE), product(0, 0)), (), (total(0),))
    made, said = read_plan(project(inner, at(0)), "s", producer="duckdb", minor=53)
    assert types_of(made) == ["i64?"]
    assert "PROJECT_REPLACES_COLUMNS" in said
    assert made is not None
    assert isinstance(made.root, BoundProject)
    assert isinstance(made.root.input, BoundAggregate)
    assert len(made.root.input.input.types) == 1


def test_what_cannot_be_run_anyway_is_not_unclear() -> None:
    join = Unsupported("join", f"{ROOT}.join")
    made, said = read_plan(project(join, at(0)), "a", producer="duckdb", minor=53)
    assert made is None or "PROJECT_UNCLEAR" not in said


# --- equal expressions in an old-form set ---------------------------------------------------------


def inline(
    keys: tuple[Any, ...], sets: tuple[tuple[int, ...], ...], measures: Any = ()
) -> AggregateRel:
    return replace(aggregate(read(TABLE), keys, measures, sets), inline=True)


def test_two_equal_expressions_in_a_set_are_two_columns_where_the_names_say_so() -> None:
    given = inline((at(0),), ((0, 0),), (total(1),))
    made, said = read_plan(given, "a", "again", "s", minor=40)
    assert types_of(made) == ["i64?", "i64?", "i64?"]
    assert said["GROUPING_KEY_REPEATED"] == "warning"
    assert read_plan(given, "a", "again", "s", minor=40, mode="strict")[0] is None


def test_they_are_one_column_where_the_names_follow_the_specification() -> None:
    given = inline((at(0),), ((0, 0),), (total(1),))
    made, said = read_plan(given, "a", "s", minor=40)
    assert (types_of(made), said) == (["i64?", "i64?"], {})


def test_the_specification_decides_where_both_fit() -> None:
    given = project(inline((at(1),), ((0, 0),), (total(1),)), emit=(1,))
    made, _ = read_plan(given, "s", minor=40)
    assert types_of(made) == ["i64?"]  # the sum; the key is required


def test_a_set_without_the_second_one_leaves_it_null() -> None:
    given = inline((at(1),), ((0, 0), (0,)), (total(1),))
    made, _ = read_plan(given, "b", "again", "s", "set", minor=40)
    assert types_of(made) == ["i64", "i64?", "i64?", "i32"]


def test_references_that_are_repeated_stay_one_column() -> None:
    given = replace(inline((at(0),), ((0, 0),), (total(1),)), inline=False)
    made, said = read_plan(given, "a", "again", "s")
    assert made is None
    assert said["NAMES_COUNT"] == "error"


# --- the index of the grouping set ----------------------------------------------------------------

ROLLUP = ((0,), (1,))


def several(*keys: Any, sets: Any = ROLLUP, emit: tuple[int, ...] | None = None) -> AggregateRel:
    return aggregate(read(), keys, (total(3),), sets, emit)


KEYS = (col("name"), col("must"))


@pytest.mark.parametrize("producer", ["", "isthmus"])
def test_a_mapping_that_leaves_out_the_last_expression_counts_no_index(producer: str) -> None:
    """The columns are name, must, sum and the expressions: 3 is the first of them."""
    given = project(several(*KEYS), at(2), at(0), at(1), emit=(3, 4, 5))
    made, said = read_plan(given, "s", "name", "must", producer=producer, minor=20)
    assert types_of(made) == ["i64?", "string?", "i64?"]
    assert said["GROUPING_INDEX_NOT_COUNTED"] == "warning"
    made, said = read_plan(
        given, "s", "name", "must", producer=producer, minor=20, mode="strict"
    )  # fmt: skip
    assert made is None
    assert said["GROUPING_INDEX_NOT_COUNTED"] == "error"


def test_filters_and_sorts_in_between_change_nothing() -> None:
    below = sort(several(*KEYS), (at(0), "asc_nulls_first"))
    given = project(below, at(2), at(0), emit=(3, 4))
    made, said = read_plan(given, "s", "name")
    assert types_of(made) == ["i64?", "string?"]
    assert "GROUPING_INDEX_NOT_COUNTED" in said


@pytest.mark.parametrize(
    ("expressions", "emit", "types"),
    [
        ((at(2), at(0)), (4, 5), ["i64?", "string?"]),
        ((at(2), at(0)), (3, 4, 5), ["i32", "i64?", "string?"]),
        ((at(2),), (0, 1, 3), ["string?", "i64?", "i32"]),
        ((at(2), at(3)), (0, 2), ["string?", "i64?"]),
    ],
    ids=["all used", "index and all", "unused reference", "no expression"],
)
def test_a_mapping_by_the_specification_is_read_so(
    expressions: Any, emit: tuple[int, ...], types: list[str]
) -> None:
    made, said = read_plan(project(several(*KEYS), *expressions, emit=emit), *"abc"[: len(emit)])
    assert types_of(made) == types
    assert "GROUPING_INDEX_NOT_COUNTED" not in said


def test_an_output_mapping_of_the_aggregate_says_it_all() -> None:
    """Newer releases of Isthmus leave the index out themselves."""
    given = project(several(*KEYS, emit=(0, 1, 2)), at(2), at(0), emit=(3, 4))
    made, said = read_plan(given, "s", "name", producer="isthmus")
    assert types_of(made) == ["i64?", "string?"]
    assert "GROUPING_INDEX_NOT_COUNTED" not in said


def test_duckdb_never_counts_the_index() -> None:
    """Its mapping keeps columns and puts computed ones among them; without mapping the expressions come last."""
    upper = call("upper", at(0), output=Type("string"))
    among = project(several(*KEYS), upper, emit=(3, 1, 2))
    made, said = read_plan(among, "name", "must", "s", producer="duckdb", minor=78)
    assert types_of(made) == ["string?", "i64?", "i64?"]
    assert said["GROUPING_INDEX_NOT_COUNTED"] == "warning"
    behind = project(several(*KEYS), call("gt", at(2), lit(1, I64)))
    made, said = read_plan(behind, "name", "must", "s", "many", producer="duckdb", minor=78)
    assert types_of(made) == ["string?", "i64?", "i64?", "bool?"]


# --- keys that are numbered by their columns ------------------------------------------------------

MIXED = (col("must"), col("name"))
"""Columns 4 and 0 of the table."""


def ordinals(made: BoundPlan | None) -> list[int]:
    """Of the aggregate's columns, those that the root shows."""
    assert made is not None
    assert isinstance(made.root, BoundProject)
    assert isinstance(made.root.input, BoundAggregate)
    picked = [e for e in made.root.expressions if isinstance(e, Column)]
    return [e.ordinal for e in picked]


def test_isthmus_numbers_keys_by_their_columns() -> None:
    made, said = read_plan(
        project(several(*MIXED), at(0), at(1), at(2), emit=(3, 4, 5)), "name", "must", "s",
        producer="isthmus", minor=40,
    )  # fmt: skip
    assert types_of(made) == ["string?", "i64?", "i64?"]
    assert said["GROUPING_KEY_ORDER"] == "warning"


def test_so_it_does_where_it_only_leaves_out_the_index() -> None:
    given = several(*MIXED, emit=(0, 1, 2))
    made, said = read_plan(given, "name", "must", "s", producer="isthmus", minor=75)
    assert types_of(made) == ["string?", "i64?", "i64?"]
    assert "GROUPING_KEY_ORDER" in said


@pytest.mark.parametrize(
    ("keys", "sets", "emit", "producer"),
    [
        (MIXED, ROLLUP, (1, 0, 2), "isthmus"),
        (KEYS, ROLLUP, (0, 1, 2), "isthmus"),
        (MIXED, ROLLUP, (0, 1, 2), ""),
        (MIXED, ROLLUP, (0, 1, 2), "substrait-spark"),
    ],
    ids=["mapped", "in order", "nobody", "another producer"],
)
def test_other_aggregates_keep_their_order(
    keys: Any, sets: Any, emit: tuple[int, ...], producer: str
) -> None:
    made, said = read_plan(several(*keys, sets=sets, emit=emit), *"abc", producer=producer)
    assert ordinals(made) == list(emit)
    assert "GROUPING_KEY_ORDER" not in said


def test_one_set_is_in_the_order_of_the_specification() -> None:
    given = several(*MIXED, sets=((0, 1),), emit=(0, 1, 2))
    made, said = read_plan(given, "must", "name", "s", producer="isthmus")
    assert types_of(made) == ["i64", "string?", "i64?"]
    assert "GROUPING_KEY_ORDER" not in said


def test_datafusion_numbers_no_bitmask_before_release_43() -> None:
    """Release 42 states 0.55, release 43 states 0.58; a plan that states none is of a new one."""
    given = project(several(*KEYS), at(0), at(2))
    made, said = read_plan(given, "name", "s", producer="datafusion", minor=55)
    assert types_of(made) == ["string?", "i64?"]
    assert said["GROUPING_INDEX_NOT_COUNTED"] == "warning"
    mapped = replace(given, emit=(4, 5))
    made, said = read_plan(mapped, "name", "bitmask", producer="datafusion", minor=58)
    assert types_of(made) == ["string?", "u8"]
    assert "GROUPING_LAYOUT" in said
    assert profile_of("datafusion", (0, 0, 0)).grouping_bitmask
