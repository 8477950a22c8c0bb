"""The clock as a source, and queries that ask for the time: their rows change as time goes."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.connect.clock import Clock, connect
from substrait_agg.connect.protocol import WEIGHT, TableSource
from substrait_agg.errors import InputRefused, UsageError
from substrait_agg.flow.graph.join import Join
from substrait_agg.flow.passes.lower import lower
from substrait_agg.operator.join import lookup
from substrait_agg.state.arrangement import Arrangement, Matches
from tests.e2e.plans import COMPARISON, Builder, Json, column, projected, read
from tests.joins.local_flow import LocalFlow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = {"id": "i64", "day": "date"}
START = dt.date(2026, 1, 1)


def variable(name: str, type_: Json) -> Json:
    return {"executionContextVariable": {name: {"nullability": "NULLABILITY_REQUIRED", **type_}}}


TODAY = variable("currentDate", {})
NOW = variable("currentTimestamp", {"precision": 6})


def opened(**options: str) -> Clock:
    return connect({"now": TableSource("now", "", options)})


def test_an_instant_retracts_the_one_before() -> None:
    clock = opened(at="2026-03-29T00:30:00Z", zone="Europe/Berlin")
    clock.begin({"now": ["today", "now"]}, "c", None)
    first = clock.latest(None, float("inf"))
    assert first is not None
    assert clock.latest(first, float("inf")) is None
    later = str(int(first) + 23 * 3600 * 10**6)
    (rows,) = clock.read(first, later).values()
    moments = [dt.datetime(2026, 3, 29, hour, 30, tzinfo=dt.UTC) for hour in (0, 23)]
    assert rows.to_pylist() == [
        {"today": dt.date(2026, 3, 29), "now": moments[0], WEIGHT: -1},
        {"today": dt.date(2026, 3, 30), "now": moments[1], WEIGHT: 1},
    ]
    assert clock.read(None, first)["now"].column(WEIGHT).to_pylist() == [1]


def test_the_time_of_the_machine_goes_in_steps() -> None:
    clock = opened(every="10s")
    with patch("time.time_ns", return_value=100 * 10**9):
        first = clock.latest(None, 0)
    assert first == str(100 * 10**6)
    for seconds, wanted in ((50, None), (109, None), (110, str(110 * 10**6))):
        with patch("time.time_ns", return_value=seconds * 10**9):
            assert clock.latest(first, 0) == wanted


@pytest.mark.parametrize(
    "options", [{"every": "soon"}, {"every": "0s"}, {"zone": "Mars"}, {"at": "noon"}]
)
def test_a_wrong_option_is_named(options: dict[str, str]) -> None:
    with pytest.raises(UsageError) as refused:
        opened(**options)
    assert refused.value.code == "SPEC_OPTION_BAD"
    assert next(iter(options)) in refused.value.message


def test_a_position_of_another_source_is_refused() -> None:
    with pytest.raises(InputRefused) as refused:
        opened().begin({}, "c", "lsn")
    assert refused.value.code == "SOURCE_POSITION_GONE"


# --- queries -------------------------------------------------------------------------------------


def ticks(*days: int | None) -> pa.Table:
    """The row of the first of two days goes, that of the other one comes."""
    rows = [(day, sign) for day, sign in zip(days, (-1, 1), strict=True) if day is not None]
    return pa.table(
        {
            "today": pa.array([START + dt.timedelta(day) for day, _ in rows]),
            "now": pa.array(
                [dt.datetime(2026, 1, 1 + day, tzinfo=dt.UTC) for day, _ in rows],
                pa.timestamp("us", "UTC"),
            ),
            WEIGHT: pa.array([sign for _, sign in rows], pa.int64()),
        }
    )


def upcoming(b: Builder, comparison: str = "gte") -> Json:
    condition = b.call(f"{comparison}:any_any", COMPARISON, column(1), TODAY, output="bool")
    return {"filter": {"input": read("t", DAYS), "condition": condition}}


@pytest.mark.parametrize("comparison", ["gte", "lt"])
def test_rows_enter_and_leave_a_filter_as_time_goes(comparison: str, tmp_path: Path) -> None:
    """A day reads only the rows between the old and the new date, however many there are."""
    b = Builder()
    flow = lower(
        sa.load(b.plan(upcoming(b, comparison), "id", "day").encode()).bind(),
        weights={("system", "clock"): "weighted"},
    )
    assert [node.kind for node in flow.operators if isinstance(node, Join)] == ["semi"]
    run = LocalFlow(flow, tmp_path)
    rows = [(n, START + dt.timedelta(n)) for n in range(100)]
    table = pa.table({"id": [n for n, _ in rows], "day": [d for _, d in rows], WEIGHT: [1] * 100})

    def shown(day: int) -> list[tuple[int, dt.date]]:
        return rows[day:] if comparison == "gte" else rows[:day]

    run.batch({"t": table, "system.clock": ticks(None, 0)})
    assert run.view == Counter(shown(0))
    found: list[int] = []
    stored = lookup.RangeLookup.iter_stored

    def count_rows(
        self: lookup.RangeLookup, probes: lookup.ProbeSet, old: Arrangement
    ) -> list[Matches]:
        parts = list(stored(self, probes, old))
        found.extend(part.rows.num_rows for part in parts)
        return parts

    with patch.object(lookup.RangeLookup, "iter_stored", count_rows):
        run.batch({"system.clock": ticks(0, 3)})
    assert run.view == Counter(shown(3))
    assert sum(found) < 20
    run.batch({"system.clock": ticks(3, 1)})
    assert run.view == Counter(shown(1))


def test_a_column_has_the_instant_of_the_version(tmp_path: Path) -> None:
    b = Builder()
    relation = projected(read("t", DAYS), 2, column(0), NOW, NOW)
    flow = lower(
        sa.load(b.plan(relation, "id", "at", "again").encode()).bind(),
        weights={("system", "clock"): "weighted"},
    )
    run = LocalFlow(flow, tmp_path)
    table = pa.table({"id": [1], "day": [START], WEIGHT: [1]})
    run.batch({"t": table, "system.clock": ticks(None, 0)})
    run.batch({"system.clock": ticks(0, 3)})
    at = dt.datetime(2026, 1, 4, tzinfo=dt.UTC)
    ((row, weight),) = run.view.items()
    assert (row[0], row[1], row[2], weight) == (1, at, at, 1)


def test_a_zone_is_refused() -> None:
    b = Builder()
    plan = b.plan(projected(read("t", DAYS), 2, variable("currentTimezone", {})), "zone")
    problems = sa.validate(plan.encode()).problems
    assert [p.code for p in problems if p.level == "error"] == ["EXPRESSION_NOT_SUPPORTED"]


QUERIES = {
    "recent": "SELECT id FROM orders WHERE at > now() - INTERVAL '1' HOUR",
    "between": "SELECT id FROM orders WHERE at BETWEEN now() - INTERVAL 90 MINUTES AND current_timestamp",
    "late": "SELECT id, current_date AS day, datediff(current_date, date(at)) AS days FROM orders",
    "week": "SELECT id FROM orders WHERE date(at) >= date_sub(current_date, 1)",
    "counts": "SELECT current_date, count_if(at < now()) AS n, max(now()) AS m FROM orders GROUP BY current_date",
    "hours": (
        "SELECT window.start, count(*) FILTER (WHERE at > now() - INTERVAL 1 DAY) AS n FROM orders "
        "GROUP BY window(at, '1 hour', '30 minutes')"
    ),
    "days": "SELECT id, explode(sequence(date(at), current_date)) AS day FROM orders",
    "joined": (
        "SELECT coalesce(o.id, 9) AS a, coalesce(p.id, 9) AS b FROM orders o FULL JOIN orders p "
        "ON o.id = p.id + 1 AND p.at > now() - INTERVAL 90 MINUTES"
    ),
    "sorted": "SELECT id FROM orders ORDER BY abs(unix_timestamp(at) - unix_timestamp(now())) DESC, id LIMIT 2",
    "values": "VALUES (current_date, now()), (DATE'2026-02-01', TIMESTAMP'2026-02-01 00:00:00Z')",
    "values that are joined": (
        "SELECT o.id, v.n, v.parts FROM orders o JOIN (VALUES (current_timestamp, 1, array(current_date)), "
        "(TIMESTAMP'2026-01-31 11:00:00Z', 2, array())) v(at, n, parts) ON o.at < v.at"
    ),
    "text": "SELECT id, date_format(now(), 'yyyy-MM') AS month FROM orders WHERE at < now()",
}
ORDERS = [(n, f"2026-01-31 1{n}:30:00") for n in range(5)]
INSTANTS = ("2026-01-31T12:00:00Z", "2026-02-01T11:15:00Z", "2026-02-02T00:00:00Z")


def spark_answers(spark: SparkSession, query: str, instant: str) -> list[tuple[object, ...]]:
    """The answer of Spark with the instant written out."""
    rows = ", ".join(f"({n}, TIMESTAMP'{at}')" for n, at in ORDERS)
    for name in ("now()", "current_timestamp"):
        query = query.replace(name, f"TIMESTAMP'{instant}'")
    query = query.replace("current_date", f"DATE'{instant[:10]}'")
    table = f"WITH orders AS (SELECT * FROM VALUES {rows} AS o(id, at)) "
    return rows_of(spark.sql(table + query).toArrow())


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_views_of_the_time_are_those_of_spark_at_each_instant(
    spark: SparkSession, tmp_path: Path
) -> None:
    lines = [f'{{"id": {n}, "at": "{at.replace(" ", "T")}Z"}}' for n, at in ORDERS]
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "1.json").write_text("\n".join(lines))
    tables = "CREATE TABLE orders (id BIGINT, at TIMESTAMP); "
    plans = {name: sa.sql(tables + query) for name, query in QUERIES.items()}
    for instant in INSTANTS:
        sources = {
            "orders": f"json:{tmp_path / 'orders'}",
            "system.clock": f"clock:?at={instant}",
        }
        sa.run(plans, sources, checkpoint=tmp_path / "c").wait()
        for name, query in QUERIES.items():
            view = sa.open_view(tmp_path / "c", name).to_arrow()
            assert rows_of(view) == spark_answers(spark, query, instant), (name, instant)


def test_explain_knows_that_the_clock_retracts() -> None:
    b = Builder()
    text = sa.explain(b.plan(upcoming(b), "id", "day").encode())
    clock = text[text.index("operator 0: aggregate") :]
    assert "input (inserts only)" not in clock
