"""Windows through Spark: tumbling, hopping and session windows at every version against recomputation."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import substrait_agg as sa
from tests.e2e.event_model import (
    EPOCH,
    SECOND,
    Change,
    Groups,
    Row,
    Window,
    hopping,
    measured,
    sessions,
    tumbling,
)
from tests.e2e.files import write_in_order
from tests.e2e.rows import Bag, net
from tests.e2e.running import Views, check_versions, maintain
from tests.windowed import (
    COUNT,
    MAX,
    SUM,
    Windows,
    aggregate,
    column,
    compound,
    grouped,
    interval,
    projected,
    time_type,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def instant(micros: int, *, zoned: bool = False) -> dt.datetime:
    """The instant of microseconds since 1970, which are the times of all rows here."""
    at = EPOCH + dt.timedelta(microseconds=micros)
    return at.replace(tzinfo=dt.UTC) if zoned else at


def rows_of(changes: Sequence[Change], *, zone: str | None = None) -> pa.Table:
    return pa.table(
        {
            "team": pa.array([row[0] for row, _ in changes], pa.string()),
            "t": pa.array([row[1] for row, _ in changes], pa.timestamp("us", zone)),
            "n": pa.array([row[2] for row, _ in changes], pa.int64()),
            "w": pa.array([weight for _, weight in changes], pa.int64()),
        }
    )


def drawn(seed: int, batches: int = 6, rows: int = 40, spread: int = 400) -> list[list[Change]]:
    """Batches of insertions, deletions of existing rows and other weights; times before and after
    1970, some null.
    """
    pick = random.Random(seed)
    there: list[Row] = []
    made: list[list[Change]] = []
    for _ in range(batches):
        batch: list[Change] = []
        for _ in range(rows):
            if there and pick.random() < 0.35:
                batch.append((there.pop(pick.randrange(len(there))), -1))
                continue
            seconds = pick.randrange(-spread, spread)
            time = None if pick.random() < 0.05 else seconds * SECOND + pick.choice((0, 0, 1, -1))
            row = (pick.choice(("a", "b", None)), time, pick.choice((1, 2, 3, None)))
            weight = pick.choice((1, 1, 1, 2))
            batch.append((row, weight))
            there += [row] * weight
        made.append(batch)
    return made


def counted(groups: Groups, shown: Callable[[Window], Any]) -> Bag:
    """Team, window, count and sum of groups whose weight is above zero."""
    found: Bag = Counter()
    for row, times in measured(groups, shown).items():
        found[row[:4]] += times
    return found


def struct(window: Window, *, zoned: bool = False) -> Any:
    if window is None:
        return None
    start, end = (instant(edge, zoned=zoned) for edge in window)
    return ("start", start), ("end", end)


def end(window: Window) -> Any:
    return None if window is None else instant(window[1])


def net_after_each(batches: Sequence[Sequence[Change]]) -> list[Bag]:
    """The rows that are there after each batch, the version without any first."""
    return [net(batches[:version]) for version in range(len(batches) + 1)]


def run(
    spark: SparkSession | None,
    folder: Path,
    plan: str,
    batches: Sequence[Sequence[Change]],
    wanted: Callable[[Counter[Row]], Bag],
    *,
    zone: str | None = None,
    **options: Any,
) -> pa.Table:
    """Check every version of the view, and the sum of the changes; the rows that wait in the end."""
    write_in_order(folder / "in", [rows_of(b, zone=zone) for b in batches])
    source = {"goals": f"parquet:{folder / 'in'}?weight=w&batch-files=1"}
    place = folder / "checkpoint"
    views = maintain(spark, plan, source, place, partitions=2, **options)
    check_versions(place, views, [wanted(rows) for rows in net_after_each(batches)])
    return sa.open_view(place).quarantined() if options else None


def in_windows(rows: Counter[Row], windows: Callable[[int], Iterator[tuple[int, int]]]) -> Groups:
    """The numbers per team and window."""
    groups: Groups = {}
    for (team, time, n), weight in rows.items():
        for window in (None,) if time is None else windows(time):
            groups.setdefault((team, window), Counter())[n] += weight
    return groups


MINUTE = 60 * SECOND
CASES: dict[str, tuple[str, Callable[[int], Iterator[tuple[int, int]]], Any]] = {
    "tumble_end": (grouped("tumble_end", interval(60)), tumbling(MINUTE), end),
    "tumble with an offset, as DataFusion writes durations": (
        grouped("tumble", compound(45), compound(-100)),
        tumbling(45 * SECOND, -100 * SECOND),
        struct,
    ),
    "hop": (grouped("hop", interval(60), interval(20)), hopping(MINUTE, 20 * SECOND), struct),
    "hop with an uneven slide and an offset": (
        grouped("hop", interval(50), interval(20), interval(7)),
        hopping(50 * SECOND, 20 * SECOND, 7 * SECOND),
        struct,
    ),
    "hop with gaps": (
        grouped("hop", interval(20), interval(50)),
        hopping(20 * SECOND, 50 * SECOND),
        struct,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_version_of_a_window(name: str, tmp_path: Path) -> None:
    plan, windows, shown = CASES[name]
    run(None, tmp_path, plan, drawn(1), lambda rows: counted(in_windows(rows, windows), shown))


def in_sessions(rows: Counter[Row]) -> Bag:
    """Team, session of 7 seconds, count and sum; no row is retracted early here."""
    return counted(sessions(rows, 7 * SECOND), struct)


def test_every_version_of_sessions(tmp_path: Path) -> None:
    run(None, tmp_path, grouped("session", interval(7)), drawn(2, batches=7), in_sessions)


def test_sessions_of_all_rows(tmp_path: Path) -> None:
    """Sessions without another grouping expression form one group; the plan computes the session in
    a projection below.
    """
    windows = Windows(time_type("precisionTimestampTz"))
    below = projected(windows.read(), column(2), windows.call("session", compound(5)))
    total = {**SUM, "measure": {**SUM["measure"], "arguments": [{"value": column(0)}]}}
    plan = windows.plan(
        aggregate(below, [column(1)], [COUNT, total]), "w", "start", "end", "c", "s"
    )

    def wanted(rows: Counter[Row]) -> Bag:
        together: Counter[Row] = Counter()
        for (_, time, n), weight in rows.items():
            together[None, time, n] += weight
        found = counted(sessions(together, 5 * SECOND), partial(struct, zoned=True))
        return Counter({row[1:]: times for row, times in found.items()})

    run(None, tmp_path, plan, drawn(3, batches=4), wanted, zone="UTC")


def test_sessions_go_on_after_a_stop_with_other_partitions(tmp_path: Path) -> None:
    plan = grouped("session", interval(7))
    batches = drawn(4, batches=6)
    source = {"goals": f"parquet:{tmp_path / 'in'}?weight=w&batch-files=1"}
    views: Views = {}
    for part, partitions in enumerate((1, 4)):
        write_in_order(tmp_path / "in", [rows_of(b) for b in batches[3 * part :][:3]], 3 * part)
        views |= maintain(None, plan, source, tmp_path / "ckpt", partitions=partitions)
    check_versions(
        tmp_path / "ckpt", views, [in_sessions(rows) for rows in net_after_each(batches)]
    )


def test_hopping_windows_in_grouping_sets(tmp_path: Path) -> None:
    """In a grouping set without the window a row counts once, not once per window."""
    windows = Windows()
    hop = windows.call("hop", interval(60), interval(20))
    sets = [[0, 1], [1], [0], []]
    relation = aggregate(windows.read(), [column(0), hop], [COUNT, MAX], sets)
    plan = windows.plan(relation, "team", "w", "start", "end", "c", "m", "i")

    def wanted(rows: Counter[Row]) -> Bag:
        found: Counter[Any] = Counter()
        best: dict[Any, list[int]] = {}
        for (team, time, n), weight in rows.items():
            spans: list[Window] = [None] if time is None else [*hopping(MINUTE, 20 * SECOND)(time)]
            keys = [
                *((team, w, 0) for w in spans), *((None, w, 1) for w in spans),
                (team, None, 2), (None, None, 3),
            ]  # fmt: skip
            for key in keys:
                found[key] += weight
                best.setdefault(key, []).extend([n] if n is not None and weight > 0 else [])
        rows_: Bag = Counter()
        for (team, window, index), weight in found.items():
            if weight > 0 or index == 3:
                values = best[team, window, index]
                rows_[team, struct(window), weight, max(values, default=None), index] += 1
        return rows_ or Counter({(None, None, 0, None, 3): 1})

    run(None, tmp_path, plan, drawn(5, batches=3, rows=25), wanted)


@pytest.mark.parametrize("kind", ["precisionTimestampTz", "precisionTimestamp"])
def test_windows_of_coarse_and_zoned_times_are_those_of_utc(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    """The session of the caller has another zone, and midnight there is another instant."""
    zoned = kind.endswith("Tz")
    windows = Windows(time_type(kind, 0))
    day = windows.call("tumble_start", interval(days=1), interval(3600))
    plan = windows.plan(aggregate(windows.read(), [column(0), day]), "team", "w", "c", "s")
    batches = drawn(6, batches=2, spread=10**6)
    whole = [
        [((team, time and time // SECOND * SECOND, n), w) for (team, time, n), w in batch]
        for batch in batches
    ]

    def wanted(rows: Counter[Row]) -> Bag:
        groups = in_windows(rows, tumbling(86_400 * SECOND, 3_600 * SECOND))
        return counted(groups, lambda w: None if w is None else instant(w[0], zoned=zoned))

    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    try:
        run(spark, tmp_path, plan, whole, wanted, zone="UTC" if zoned else None)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_a_plan_of_datafusion_with_a_function_of_its_own(tmp_path: Path) -> None:
    """DataFusion calls registered functions by a bare name, and writes durations as compound
    intervals.
    """
    import datafusion
    from datafusion.substrait import Serde

    context = datafusion.SessionContext()
    context.register_record_batches("goals", [rows_of([(("a", 0, 1), 1)]).to_batches()])
    time, span = pa.timestamp("us"), pa.month_day_nano_interval()
    context.register_udf(
        datafusion.udf(lambda t, _: t, [time, span], time, "immutable", name="tumble_end")
    )
    sql = """
        SELECT team, tumble_end(t, INTERVAL '1 minute') AS minute, count(*) AS goals, sum(n) AS sum
        FROM goals GROUP BY team, tumble_end(t, INTERVAL '1 minute')
    """
    plan = Serde.serialize_bytes(sql, context)
    run(
        None, tmp_path, plan, drawn(7, batches=3),
        lambda rows: counted(in_windows(rows, tumbling(MINUTE)), end),
    )  # fmt: skip


def early(seed: int, batches: int) -> list[list[Change]]:
    """Batches in which rows are retracted before they are inserted."""
    pick = random.Random(seed)
    made = []
    for _ in range(batches):
        rows: list[Row] = [
            (pick.choice(("a", "b")), pick.randrange(-100, 100) * SECOND, pick.choice((1, 2)))
            for _ in range(20)
        ]
        made.append([(row, pick.choice((1, 1, -1))) for row in rows])
    return made


def test_early_retractions_of_sessions_wait_for_their_insertion(tmp_path: Path) -> None:
    batches = early(8, 4)
    waiting = run(
        None, tmp_path, grouped("session", interval(7)), batches, lambda rows: in_sessions(+rows),
        early_retraction="quarantine",
    )  # fmt: skip
    below = {row: w for row, w in net(batches).items() if w < 0}
    assert waiting.column_names == ["team", "t", "n", "__weight"]
    listed = zip(*(column.to_pylist() for column in waiting.columns), strict=True)
    assert sorted(listed) == sorted((t, instant(at or 0), n, w) for (t, at, n), w in below.items())


def test_early_retractions_under_hopping_windows_in_grouping_sets(tmp_path: Path) -> None:
    """Rows with the same team and windows are equal in every set, because no other column is read."""
    windows = Windows()
    hop = windows.call("hop", interval(60), interval(25))
    relation = aggregate(windows.read(), [column(0), hop], [COUNT], [[0, 1], [0]])
    plan = windows.plan(relation, "team", "w", "start", "end", "c", "i")
    spans = hopping(MINUTE, 25 * SECOND)

    def wanted(rows: Counter[Row]) -> Bag:
        same: Counter[Any] = Counter()
        for (team, time, _), weight in rows.items():
            same[team, tuple(spans(time or 0))] += weight
        found: Counter[Any] = Counter()
        for (team, held), weight in (+same).items():
            found[team, None, 1] += weight
            for window in held:
                found[team, window, 0] += weight
        return Counter((team, struct(w), n, index) for (team, w, index), n in found.items())

    run(None, tmp_path, plan, early(9, 3), wanted, early_retraction="quarantine")
