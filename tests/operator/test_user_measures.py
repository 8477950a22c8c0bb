"""Accepted and refused results of user-defined measures, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from substrait_agg.bind.bound import BoundMeasure
from substrait_agg.errors import RunFailed
from substrait_agg.functions.aggregates import user
from substrait_agg.plan.types import FP64, Type
from tests.operator.measures_draw import COLUMNS, NAMES, column, node_of
from tests.operator.measures_reference import Row
from tests.operator.measures_world import World

DECIMAL = pa.decimal128(38, 4)


class Power(user.AdditiveMeasure):
    """The sum of powers of the values; several of them are made from this one class."""

    urn = "extension:com.example:tests"
    arguments = (("fp64",),)
    columns = {"total": 4, "rows": 0}  # noqa: RUF012 - written as users write it

    def __init__(self, power: int) -> None:
        self.names = (f"power_{power}",)
        self.power = power
        self.calls = 0

    def result(self, types: tuple[Type, ...]) -> Type:
        return FP64

    def contribute(self, arguments: Sequence[pa.Array]) -> dict[str, Any]:
        self.calls += 1
        (x,) = arguments
        assert x.null_count == 0
        powers = pa.array(x.to_numpy() ** self.power).cast(DECIMAL)
        return {"total": powers, "rows": pa.array(np.ones(len(x), np.int8))}

    def value(self, count: pa.Array, totals: Any) -> Any:
        rows = totals["rows"].cast(pa.int64()).to_numpy()
        assert (rows >= 0).all()
        assert (rows == count.to_numpy()).all()
        return totals["total"]


class Spread(user.OrderedMeasure):
    """The greatest value less the least one."""

    urn = "extension:com.example:tests"
    names = ("spread",)
    arguments = (("fp64", "i64"),)

    def result(self, types: tuple[Type, ...]) -> Type:
        return types[0].as_nullable()

    def value(self, groups: user.GroupedValues) -> Any:
        (values,) = groups.columns
        found = [
            values[int(b) - 1].as_py() - values[int(a)].as_py() if b > a else None
            for a, b in zip(groups.offsets[:-1], groups.offsets[1:], strict=True)
        ]
        return pa.array(found, values.type)


Registered = Callable[[Any], str]


@pytest.fixture
def registered() -> Iterator[Registered]:
    """Registers a measure for the time of a test; gives its key."""
    made: list[Any] = []

    def register(measure: Any) -> str:
        user.register_measure(measure)
        made.append(measure)
        return f"com.example:tests:{measure.names[0]}"

    yield register
    for measure in made:
        user.unregister_measure(measure)


def over(
    key: str, *, distinct: bool = False, of: str = "double", type_: Type = FP64
) -> BoundMeasure:
    return BoundMeasure(
        "user", (column(of),), None, type_, key, "m0", distinct=distinct, implementation=key
    )


def rows(*pairs: tuple[float | None, int]) -> list[Row]:
    """Rows of group 0 with a value and a weight."""
    made = []
    for value, weight in pairs:
        cells: list[Any] = [None] * len(COLUMNS)
        cells[NAMES.index("k0")] = 0
        cells[NAMES.index("double")] = value
        made.append(Row(tuple(cells), weight))
    return made


def world(folder: Path, *measures: BoundMeasure) -> World:
    return World(node_of(("k0",), measures, "weighted"), folder)


def test_several_measures_of_one_class_with_and_without_distinct(
    registered: Registered, tmp_path: Path
) -> None:
    """Objects of one class have separate totals, receive no nulls, and follow weights and
    deletions.
    """
    two, three = registered(Power(2)), registered(Power(3))
    here = world(tmp_path, over(two), over(three), over(two, distinct=True))
    here.batch(rows((2.0, 1), (None, 1), (3.0, 2)))
    assert here.value(0) == (22.0, 62.0, 13.0)
    here.batch(rows((3.0, -1), (0.5, 1)))
    assert here.value(0) == (13.25, 35.125, 13.25)
    here.batch(rows((3.0, -1), (2.0, -1), (0.5, -1)))
    assert here.value(0) == (0.0, 0.0, 0.0)


def test_contributions_are_asked_for_once_per_rows(registered: Registered, tmp_path: Path) -> None:
    """The contributions of rows are computed once, however many totals a measure has."""
    measure = Power(2)
    here = world(tmp_path, over(registered(measure)))
    here.batch(rows((2.0, 1), (4.0, 1)))
    assert measure.calls == 1


def test_a_carried_retraction_leaves_no_totals_behind(
    registered: Registered, tmp_path: Path
) -> None:
    """With more retractions than insertions `value` sees no rows and totals of 0."""
    here = world(tmp_path, over(registered(Power(2))))
    here.batch(rows((None, 1), (None, 1), (3.0, -1)))
    assert here.value(0) == (0.0,)
    here.batch(rows((3.0, 1), (2.0, 1)))
    assert here.value(0) == (4.0,)


def test_an_ordered_measure_over_values_that_come_and_go(
    registered: Registered, tmp_path: Path
) -> None:
    here = world(tmp_path, over(registered(Spread())))
    here.batch(rows((2.0, 1), (None, 1), (7.0, 2)))
    assert here.value(0) == (5.0,)
    here.batch(rows((7.0, -2), (1.0, -1)))
    assert here.value(0) == (0.0,)
    here.batch(rows((2.0, -1)))
    assert here.view() == {}


class Wrong(Power):
    """Returns a value of the test."""

    def __init__(self, contributed: Any = None, valued: Any = None) -> None:
        super().__init__(1)
        self.add_contributed = contributed
        self.valued = valued

    def contribute(self, arguments: Sequence[pa.Array]) -> dict[str, Any]:
        made = super().contribute(arguments)
        return made if self.add_contributed is None else self.add_contributed(made)

    def value(self, count: pa.Array, totals: Any) -> Any:
        made = super().value(count, totals)
        return made if self.valued is None else self.valued(made)


def fail(_: Any) -> Any:
    raise ZeroDivisionError("by nothing\nat all")


CONTRIBUTIONS = {
    "contribute raised ZeroDivisionError: by nothing$": fail,
    "contribute raised TypeError": lambda _: 5,
    "contribute did not return the column rows$": lambda made: {"total": made["total"]},
    "contribute returned 1 values for 2$": lambda made: {**made, "rows": pa.array([1])},
    "contribute returned nulls in column rows$": lambda made: {**made, "rows": pa.array([1, None])},
    "contribute returned list, not an Arrow array$": lambda made: {**made, "rows": [1, 1]},
    "contribute returned double; totals must be integers or decimals$": lambda made: {
        **made, "total": pa.array([0.5, 0.5]),
    },
    "data loss": lambda made: {**made, "rows": pa.array([Decimal("0.5"), Decimal("1.5")])},
}  # fmt: skip


@pytest.mark.parametrize("reason", CONTRIBUTIONS)
def test_wrong_contributions_end_the_batch(
    reason: str, registered: Registered, tmp_path: Path
) -> None:
    """The class and the reason are named; the state is as before."""
    measure = Wrong()
    here = world(tmp_path, over(registered(measure)))
    here.batch(rows((1.0, 1)))
    measure.add_contributed = CONTRIBUTIONS[reason]
    with pytest.raises(RunFailed, match=reason) as caught:
        here.batch(rows((2.0, 1), (3.0, 1)))
    assert caught.value.code == "USER_MEASURE_FAILED"
    assert caught.value.message.startswith("Wrong: ")
    measure.add_contributed = None
    here.batch(rows((2.0, 1)))
    assert here.value(0) == (3.0,)


VALUES = {
    "value raised ZeroDivisionError: by nothing$": fail,
    "value returned 0 values for 1$": lambda made: made.slice(0, 0),
    "value returned ndarray, not an Arrow array$": lambda made: made.to_numpy(zero_copy_only=False),
    "Failed to parse string": lambda _: pa.array(["many"]),
}


@pytest.mark.parametrize("reason", VALUES)
def test_wrong_values_end_the_batch(reason: str, registered: Registered, tmp_path: Path) -> None:
    here = world(tmp_path, over(registered(Wrong(valued=VALUES[reason]))))
    with pytest.raises(RunFailed, match=reason) as caught:
        here.batch(rows((2.0, 1)))
    assert caught.value.code == "USER_MEASURE_FAILED"


def test_an_ordered_measure_that_fails_is_named(registered: Registered, tmp_path: Path) -> None:
    class Lost(Spread):
        def value(self, groups: user.GroupedValues) -> Any:
            raise LookupError("nothing found")

    here = world(tmp_path, over(registered(Lost())))
    with pytest.raises(RunFailed, match="Lost: value raised LookupError: nothing found"):
        here.batch(rows((2.0, 1)))


def test_integers_count_in_units_whatever_digits_the_total_keeps(
    registered: Registered, tmp_path: Path
) -> None:
    """An integer is a number of ones, not of the smallest unit; chunked arrays are arrays too."""
    whole = pa.chunked_array([pa.array([5], pa.uint64()), pa.array([], pa.uint64())])
    measure = Wrong(lambda made: {**made, "total": whole}, lambda made: pa.chunked_array([made]))
    here = world(tmp_path, over(registered(measure)))
    here.batch(rows((2.0, 1)))
    assert here.value(0) == (5.0,)


def test_a_total_of_too_many_digits_is_an_error(registered: Registered, tmp_path: Path) -> None:
    huge = pa.array([Decimal(10) ** 33], DECIMAL)
    here = world(tmp_path, over(registered(Wrong(lambda made: {**made, "total": huge}))))
    with pytest.raises(RunFailed, match="more than 38 digits") as caught:
        here.batch(rows((2.0, 100_000)))
    assert caught.value.code == "TOTAL_OVERFLOW"


def test_a_measure_takes_at_least_one_argument(registered: Registered) -> None:
    class Nothing(Spread):
        arguments = ()  # type: ignore[assignment]

    with pytest.raises(ValueError, match="needs an argument"):
        registered(Nothing())
