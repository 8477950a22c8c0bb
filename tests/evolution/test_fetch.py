"""A fetch or a window function in both plans keeps its state; another one is refused with the difference."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.commit.documents.plan_document import PlanDocument
from substrait_agg.commit.documents.snapshot import OperatorState, Snapshot
from substrait_agg.commit.evolution.compatibility import differences
from substrait_agg.commit.evolution.planner import Evolution, evolution
from substrait_agg.flow.passes.lower import lower
from substrait_agg.runtime.event_state import EventOptions
from substrait_agg.spark.query.document import plan_document
from tests.e2e.plans import Builder, aggregate, column, fetched, ordered, read
from tests.spark_plans import plan_query

pytestmark = pytest.mark.usefixtures("spark")

pytestmark = pytest.mark.usefixtures("spark")

COLUMNS = {"k": "string", "x": "i64"}


def document(
    *names: str, count: int | None = 3, offset: int = 1, falls: bool = True, key: int = 1
) -> PlanDocument:
    """Measures over the first rows of a table."""
    build = Builder()
    rows = fetched(ordered(read("t", COLUMNS), (column(key), falls)), count, offset)
    measures = [build.measure(name, (column(1), "i64"), output="i64") for name in names]
    plan = sa.load(build.plan(aggregate(rows, [], measures), *names).encode()).bind()
    return plan_document(lower(plan, {("t",): "changelog"}), EventOptions())


def planned(before: PlanDocument, now: PlanDocument) -> tuple[Evolution | None, tuple[str, ...]]:
    """The migration of a checkpoint to another plan, or the reasons why there is none."""
    states = (OperatorState(), OperatorState())
    return evolution(before, now, Snapshot(1, "0" * 64, states, (), {}))


def test_a_fetch_keeps_its_state_below_other_measures() -> None:
    found, reasons = planned(document("min", "max"), document("max"))
    assert found is not None, reasons
    fetch, above = found.operators
    assert fetch is not None
    assert fetch.same
    assert above is not None
    assert not above.same


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"count": 4}, "ranks 2 to 5 ordered by x DESC"),
        ({"count": None}, "ranks 2 to the last ordered by x DESC"),
        ({"offset": 0}, "ranks 1 to 3 ordered by x DESC"),
        ({"falls": False}, "ranks 2 to 4 ordered by x NULLS LAST"),
        ({"key": 0}, "ranks 2 to 4 ordered by k DESC"),
    ],
)
def test_another_fetch_is_refused(changed: dict[str, Any], told: str) -> None:
    before, now = document("max"), document("max", **changed)
    found, reasons = planned(before, now)
    assert found is None
    assert "operator 0 reads other rows, or groups them by other keys" in reasons
    assert any(line.startswith(f"key of operator 0 {told}") for line in differences(before, now))


def windowed(measure: str = "max", call: str = "lag(x, 2)", order: str = "x DESC") -> PlanDocument:
    """A measure over the values of a window function."""
    query = f"SELECT {measure}(v) AS m FROM (SELECT {call} OVER (PARTITION BY k ORDER BY {order}) AS v FROM t) q"
    plan = plan_query(query, {"t": pa.schema([("k", pa.string()), ("x", pa.int64())])}).bind()
    return plan_document(lower(plan, {("t",): "changelog"}), EventOptions())


@pytest.mark.parametrize("call", ["lag(x, 2)", "rank()"])
def test_a_window_function_keeps_its_state_below_other_measures(call: str) -> None:
    found, reasons = planned(windowed(call=call), windowed("min", call))
    assert found is not None, reasons
    window, _ = found.operators
    assert window is not None
    assert window.same


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"call": "lag(x, 3)"}, "lag 2 ordered by x DESC"),
        ({"call": "sum(x)"}, "lag 2 ordered by x DESC"),
        ({"call": "dense_rank()"}, "lag 2 ordered by x DESC"),
        ({"order": "x"}, "lag 2 ordered by x DESC"),
    ],
)
def test_another_window_function_is_refused(changed: dict[str, str], told: str) -> None:
    before, now = windowed(), windowed(**changed)
    found, reasons = planned(before, now)
    assert found is None
    assert "operator 0 reads other rows, or groups them by other keys" in reasons
    assert any(line.startswith(f"key of operator 0 {told}") for line in differences(before, now))
