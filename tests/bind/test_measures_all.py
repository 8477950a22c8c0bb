"""Every function of the catalogue with arguments of every shape: bound, or refused with a reason, never anything else."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from substrait_agg.bind import bind
from substrait_agg.bind.bound import BoundAggregate
from substrait_agg.functions.aggregates.catalogue import AGGREGATES, WINDOW_FUNCTIONS
from substrait_agg.functions.scalars.catalogue import SCALAR_NAMES
from substrait_agg.plan.model import EnumArgument, SortField, TypeArgument
from substrait_agg.plan.types import FP64, I32, I64, STRING, Type
from substrait_agg.problems import Problems
from tests.bind.build import aggregate, at, lit, measure, option, plan, read
from tests.sampling import sample

COLUMNS = {
    "i": I64,
    "x": FP64,
    "s": STRING,
    "b": Type("bool"),
    "l": Type("list", children=(I64,)),
    "u": Type("u64"),
}
VALUES: tuple[Any, ...] = (
    *(at(ordinal) for ordinal in range(len(COLUMNS))),
    lit(2, I64),
    lit(0.5, FP64),
    lit("-", STRING),
    lit(None, I64),
    EnumArgument("exact", "enum"),
    EnumArgument("sample", "enum"),
    EnumArgument("neither", "enum"),
    TypeArgument(I64, "type"),
)
LISTS = [
    (),
    *((v,) for v in VALUES),
    *itertools.product(VALUES[:5] + VALUES[-3:-1], VALUES[:10]),
    (at(1), lit(0.5, FP64), lit(9, I64)),
    (EnumArgument("both", "e"), EnumArgument("exact", "e"), lit(3, I64), at(0)),
    (EnumArgument("population", "e"), at(0), at(1)),
    (at(0), lit(0.05, FP64)),
    (at(0), lit(4, I32), lit(8, I32), lit(1, I32)),
]
PLAIN: dict[str, Any] = {}
CHANGES: list[dict[str, Any]] = [
    PLAIN,
    {"invocation": "distinct"},
    {"sorts": (SortField(at(0), "desc_nulls_first", None, "sort"),)},
    {
        "invocation": "distinct",
        "sorts": (SortField(at(1), "clustered", None, "sort"),),
        "filter": at(3),
    },
    {"options": (option("rounding", "FLOOR"), option("overflow", "SILENT"))},
    {"output_type": FP64},
]


EVERY = list(itertools.product(LISTS, CHANGES))
SOME = [
    (arguments, changes)
    for i, arguments in enumerate(LISTS)
    for changes in (PLAIN, CHANGES[1 + i % (len(CHANGES) - 1)])
]
"""Every list of arguments alone, and with one of the changes."""


@pytest.mark.parametrize("every", sample([False, True], False))
@pytest.mark.parametrize("name", sorted(AGGREGATES))
def test_a_measure_is_bound_or_refused(name: str, every: bool) -> None:
    bound_once = False
    for arguments, changes in EVERY if every else SOME:
        given = measure(name, *arguments, **changes)
        root = aggregate(read(COLUMNS), (at(0),), (given,))
        problems = Problems()
        made = bind(plan(root, "k", "m"), problems)
        assert (made is None) == bool(problems.errors), (name, arguments, changes)
        if made is None:
            continue
        bound_once = True
        assert isinstance(made.root, BoundAggregate)
        (result,) = made.root.measures
        assert result.type == made.root.types[1]
        assert result.type.kind != "unknown"
        assert not any(a.type.kind == "unknown" for a in result.expressions)
        # What is asked for is obeyed, or it has been said that it changes nothing.
        codes = {p.code for p in problems.items}
        if changes.get("invocation") == "distinct" and not result.distinct:
            assert "DISTINCT_NO_EFFECT" in codes
        if changes.get("sorts") and result.kind in ("list", "string_agg", "first_value"):
            assert result.order
    assert bound_once == (AGGREGATES[name].kind is not None)


@pytest.mark.parametrize("name", sorted({*list(SCALAR_NAMES)[::9], *WINDOW_FUNCTIONS}))
def test_functions_of_other_kinds_are_told_apart(name: str) -> None:
    problems = Problems()
    root = aggregate(read(COLUMNS), (), (measure(name, at(0)),))
    assert bind(plan(root, "m"), problems) is None
    assert [p.code for p in problems.errors] == ["FUNCTION_NOT_AGGREGATE"]
