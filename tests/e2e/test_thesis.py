"""The worked examples of the OctoSQL streaming thesis (chapters 2.5, 2.9.8, 2.10 and 4.2), with its numbers.

Source: J. Chomiak, W. Kuźmiński, R. Łyżwa, J. Martin, "OctoSQL streaming thesis": figures 2.4 and 2.5, the examples of the two
watermark generators and of Tumble, and the query of goals per team.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import substrait_agg as sa
from tests.e2e.files import write_in_order
from tests.e2e.plans import Builder, aggregate, column, ordered, projected, read
from tests.e2e.rows import running_sums
from tests.local.run import run
from tests.windowed import COUNT, Windows, interval
from tests.windowed import aggregate as grouped

if TYPE_CHECKING:
    from substrait_agg.metrics import Progress


NOON = dt.datetime(2020, 6, 1, 12)
"""The thesis writes event times as small numbers; here they are seconds after an instant."""


def instant(seconds: float) -> dt.datetime:
    return NOON + dt.timedelta(seconds=seconds)


def seconds_of(watermark: int | None) -> float | None:
    """A watermark in seconds after `NOON`."""
    if watermark is None:
        return None
    return watermark / 1e6 - NOON.replace(tzinfo=dt.UTC).timestamp()


# --- 2.10: the outputs of the cats table --------------------------------------------------------

STAR, DESCRIPTION = "*star*_count", "c.description"
CATS = [
    "fat", "amazing", "the best", "fluffy", "work of art", "lovely", "cute",
    "amazing", "work of art", "cute",
]  # fmt: skip
"""The descriptions of ten cats, in an order in which the figure's first counts come."""

FIGURE_2_4 = """\
*star*_count | c.description
-------------+--------------
           1 | fat
           1 | fluffy
           1 | lovely
           1 | the best
           2 | amazing
           2 | cute
           2 | work of art
(7 rows)
"""

FIGURE_2_5 = [
    (1, "fat", 1), (1, "amazing", 1), (1, "the best", 1), (1, "fluffy", 1), (1, "work of art", 1),
    (1, "lovely", 1), (1, "work of art", -1), (1, "cute", 1), (1, "amazing", -1), (2, "amazing", 1),
    (2, "work of art", 1), (1, "cute", -1), (2, "cute", 1),
]  # fmt: skip
"""Count, description, and -1 where the figure has ``sys.undo``."""


def cats_plan() -> str:
    """SELECT COUNT(*), c.description FROM cats_small c GROUP BY c.description, in the order of figure 2.4."""
    build = Builder()
    source = read("cats_small", {"description": "string"})
    counts = aggregate(source, [column(0)], [build.measure("count", output="i64!")])
    chosen = projected(counts, 2, column(1), column(0))
    return build.plan(ordered(chosen, (column(0), False), (column(1), False)), STAR, DESCRIPTION)


def test_the_cats_of_figures_2_4_and_2_5(tmp_path: Path) -> None:
    """TRIGGER COUNTING 1: the table at the end and the stream on the way there are those of the figures.

    Within a description the stream is in the figure's order. Between them the figure has the order in which its engine's
    workers came to send; a version here retracts a row and sends its new one together.
    """
    write_in_order(tmp_path / "cats", [pa.table({"description": [cat]}) for cat in CATS])
    started = run(
        cats_plan(),
        {"cats_small": f"parquet:{tmp_path / 'cats'}?batch-files=1"},
        checkpoint=tmp_path / "checkpoint",
        emit="count:1",
        outputs=[f"batch-table={tmp_path / 'table'}", f"stream-json={tmp_path / 'stream'}"],
    )
    started.wait()
    assert (tmp_path / "table").read_text() == FIGURE_2_4
    lines = [json.loads(line) for line in (tmp_path / "stream").read_text().splitlines()]
    sent = [(line["row"][STAR], line["row"][DESCRIPTION], line["weight"]) for line in lines]
    assert [line["version"] for line in lines] == [1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 9, 10, 10]
    assert Counter(sent) == Counter(FIGURE_2_5)
    for cat in CATS:
        assert [c for c in sent if c[1] == cat] == [c for c in FIGURE_2_5 if c[1] == cat]


# --- 2.5: the two watermark generators ----------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "files", "stands"),
    [
        ("max-diff:2s", [(3, 4, 1, 5, 2), (7,)], [None, 3, 5]),
        ("percentile:20:5:5", [(4, 7, 2, 3, 8), (10, 9)], [None, 7, 9]),
    ],
)
def test_where_the_watermark_stands(
    rule: str,
    files: Sequence[Sequence[int]],
    stands: Sequence[int | None],
    tmp_path: Path,
) -> None:
    """Maximal difference with offset 2; percentile 20 of the last 5 events, from the fifth event on."""
    windows = Windows()
    plan = windows.plan(grouped(windows.read(), [column(0)], [COUNT]), "team", "c")
    write_in_order(tmp_path / "in", [goals([("a", t) for t in times]) for times in files])
    seen = run_goals(tmp_path, plan, rule)
    assert [seconds_of(p.watermark) for p in seen] == stands


def goals(rows: Sequence[tuple[str, float]]) -> pa.Table:
    """Goals by team and second after `NOON`."""
    return pa.table(
        {
            "team": pa.array([team for team, _ in rows], pa.string()),
            "t": pa.array([instant(at) for _, at in rows], pa.timestamp("us")),
            "n": pa.array([1] * len(rows), pa.int64()),
        }
    )


def run_goals(folder: Path, plan: str, rule: str, **options: Any) -> list[Progress]:
    """Run over the files of ``in``, one per batch; the progress of every version."""
    seen: list[Progress] = []
    started = run(
        plan,
        {"goals": f"parquet:{folder / 'in'}?batch-files=1"},
        checkpoint=folder / "checkpoint",
        watermark={"goals.t": rule},
        progress=seen.append,
        **options,
    )
    started.wait()
    return seen


# --- 2.9.8: tumble ------------------------------------------------------------------------------

TIMES = ["11:02", "11:13", "11:27", "11:41"]


def minutes(text: str) -> float:
    """Seconds after `NOON` of a time of day."""
    hour, minute = map(int, text.split(":"))
    return (hour - NOON.hour) * 3600 + minute * 60


def test_tumble_with_an_offset(tmp_path: Path) -> None:
    """Windows of ten minutes [x, x + 10), where x is a multiple of ten minutes plus the offset.

    The thesis prints them closed at both ends; an event at 11:13 is in one window only, so their ends are exclusive.
    """
    wanted = {
        3: ["10:53-11:03", "11:13-11:23", "11:23-11:33", "11:33-11:43"],
        1: ["11:01-11:11", "11:11-11:21", "11:21-11:31", "11:41-11:51"],
    }
    write_in_order(tmp_path / "in", [goals([(at, minutes(at)) for at in TIMES])])
    windows = Windows()
    keys = [column(0), *(windows.call("tumble", interval(600), interval(60 * m)) for m in wanted)]
    names = ["team", *(f"{n}{m}" for m in wanted for n in ("w", "start", "end")), "c"]
    plan = windows.plan(grouped(windows.read(), keys, [COUNT]), *names)
    started = run(plan, {"goals": f"parquet:{tmp_path / 'in'}"}, checkpoint=tmp_path / "c")
    started.wait()
    found = {row["team"]: row for row in sa.open_view(tmp_path / "c").to_arrow().to_pylist()}
    for offset, expected in wanted.items():
        shown = ["-".join(f"{e:%H:%M}" for e in found[at][f"w{offset}"].values()) for at in TIMES]
        assert shown == expected


# --- 4.2: goals per team ------------------------------------------------------------------------

GOALS = [
    [("A", 10), ("B", 50), ("A", 63)],
    # The first one is behind the watermark of 58 seconds, and its window is still open.
    [("B", 55), ("A", 70)],
    # The watermark is at 65: the first one's window is closed, that of the second is not.
    [("A", 59), ("B", 64), ("C", 130)],
    [("B", 119), ("C", 125), ("A", 190)],
]
"""Goals in order of arrival."""

SCORES: list[tuple[int, str, int]] = [
    (60, "B", 2),
    (60, "A", 1),
    (120, "A", 2),
    (120, "B", 1),
    (180, "C", 2),
    (240, "A", 1),
]
"""Window end, team, goals: in order of window, the most goals first."""


def goals_plan() -> str:
    """The query of chapter 4.2; the watermark and its trigger are options of the run."""
    windows = Windows()
    keys = [windows.call("tumble_end", interval(60), interval()), column(0)]
    counts = grouped(windows.read(), keys, [COUNT])
    relation = ordered(counts, (column(0), False), (column(2), True))
    return windows.plan(relation, "window_end", "team", "goals")


def test_goals_per_team(tmp_path: Path) -> None:
    """Each minute is emitted once, when the watermark passes it; goals that come later still are left out and counted."""
    write_in_order(tmp_path / "in", [goals(rows) for rows in GOALS])
    seen = run_goals(tmp_path, goals_plan(), "max-diff:5s", emit="watermark")
    view = sa.open_view(tmp_path / "checkpoint")
    rows = [tuple(row.values()) for row in view.to_arrow().to_pylist()]
    assert rows == [(instant(end), team, count) for end, team, count in SCORES]
    assert [seconds_of(p.watermark) for p in seen[:-1]] == [None, 58, 65, 125, 185]
    assert seen[-1].input_ended
    assert [p.late_rows for p in seen] == [0, 0, 0, 1, 2, 2]
    running_sums(view.changes(), view.versions())
    changes = view.changes().to_pylist()
    assert all(change["__weight"] == 1 for change in changes), "a minute was emitted twice"
    ends = {2: 60, 3: 120, 4: 180, 5: 240}
    assert {c["__version"]: c["window_end"] for c in changes} == {
        version: instant(end) for version, end in ends.items()
    }
