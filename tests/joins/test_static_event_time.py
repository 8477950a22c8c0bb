"""Event time passes through a join with a static table: groups above it close as they do over the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from substrait_agg.errors import UsageError
from tests.e2e.event_model import Rule, Table, drawn
from tests.e2e.plans import column, joined, read
from tests.e2e.rows import changes_by_version
from tests.e2e.running import maintain
from tests.windowed import COUNT, Windows, aggregate, interval

TEAMS = {"team": "string", "city": "string"}


def with_teams(windows: Windows, kind: str, *, rows_only: bool = False) -> str:
    """Goals per city and window; the city of a team has its name."""
    on = {
        "scalarFunction": {
            "functionReference": 1000,
            "arguments": [{"value": column(0)}, {"value": column(3)}],
            "outputType": {"bool": {"nullability": "NULLABILITY_NULLABLE"}},
        }
    }
    both = joined(kind, windows.read(), read("teams", TEAMS), on)
    if rows_only:
        text = windows.plan(both, "team", "t", "n", "key", "city")
    else:
        end = windows.call("tumble_end", interval(60))
        text = windows.plan(aggregate(both, [column(4), end], [COUNT]), "city", "w", "c")
    plan = json.loads(text)
    plan["extensionUrns"].append(
        {"extensionUrnAnchor": 9, "urn": "extension:io.substrait:functions_comparison"}
    )
    plan["extensions"].append({
        "extensionFunction": {"functionAnchor": 1000, "name": "equal:any_any", "extensionUrnReference": 9}
    })  # fmt: skip
    return json.dumps(plan)


def without_teams(windows: Windows) -> str:
    end = windows.call("tumble_end", interval(60))
    return windows.plan(aggregate(windows.read(), [column(0), end], [COUNT]), "city", "w", "c")


def sources(folder: Path, table: Table) -> dict[str, str]:
    teams = sorted({row[0] for batch in table.batches for row, _ in batch if row[0] is not None})
    (folder / "teams").mkdir(exist_ok=True)
    pq.write_table(pa.table({"team": teams, "city": teams}), folder / "teams" / "part.parquet")
    return {table.name: table.write(folder), "teams": f"parquet:{folder / 'teams'}?static=true"}


@pytest.mark.parametrize(
    ("seed", "emit", "partitions"),
    [(1, "batch", 1), (2, "watermark", 2), (3, "batch", 4), (4, "watermark", 1)],
)
def test_groups_above_a_lookup_join_close_like_those_over_the_table(
    tmp_path: Path, seed: int, emit: str, partitions: int
) -> None:
    """The same rows are late, the same groups are emitted, and closed groups have no state."""
    table = Table("goals", drawn(seed), Rule(behind=10))
    given = sources(tmp_path, table)
    options: dict[str, Any] = {
        "watermark": {"goals.t": table.rule.text if table.rule else ""},
        "emit": emit,
        "partitions": partitions,
    }
    plain, looked_up = tmp_path / "plain", tmp_path / "looked_up"
    goals = {"goals": given["goals"]}
    wanted = maintain(None, without_teams(Windows()), goals, plain, **options)
    views = maintain(None, with_teams(Windows(), "left"), given, looked_up, **options)
    assert views == wanted
    changes = [changes_by_version(sa.open_view(c).changes()) for c in (plain, looked_up)]
    assert changes[0] == changes[1]
    states = [sa.open_state(c) for c in (plain, looked_up)]
    late = [[state.at(v).counters["late"] for v in views] for state in states]
    # A join adds up equal rows, so it passes them on as one.
    assert all(0 <= joined <= plain for plain, joined in zip(*late, strict=True))
    assert sum(late[1])
    closed = [
        state.show(operator=operator, tree="closed", limit=None)["closed"].num_rows
        for state, operator in zip(states, (0, 1), strict=True)
    ]
    assert closed[0] == closed[1]
    assert closed[0] or emit == "watermark"
    assert "rows0" not in states[1].at().operators[0].trees
    assert states[1].verify().ok


def test_the_rows_of_a_lookup_join_can_be_delayed(tmp_path: Path) -> None:
    """Rows of a lookup join can wait for the watermark one by one, because no later row replaces
    them.
    """
    table = Table("goals", drawn(5), Rule(behind=10))
    given = sources(tmp_path, table)
    plan = with_teams(Windows(), "left", rows_only=True)
    options: dict[str, Any] = {"watermark": {"goals.t": "max-diff:10s"}, "emit": "watermark"}
    views = maintain(None, plan, given, tmp_path / "c", **options)
    assert sum(map(len, views.values()))
    streaming = {**given, "teams": given["teams"].removesuffix("?static=true")}
    with pytest.raises(UsageError) as raised:
        maintain(None, plan, streaming, tmp_path / "d", **options)
    assert raised.value.code == "EMIT_TOGETHER"


def test_no_event_time_passes_where_late_rows_are_written(tmp_path: Path) -> None:
    """The late rows of a join are not those of the table."""
    table = Table("goals", drawn(6), Rule(behind=10))
    given = sources(tmp_path, table)
    with pytest.raises(UsageError) as raised:
        maintain(
            None, with_teams(Windows(), "left"), given, tmp_path / "c", emit="watermark",
            watermark={"goals.t": "max-diff:10s"},
            outputs=[sa.changes.parse_output(f"late-parquet={tmp_path / 'late'}")],
        )  # fmt: skip
    assert raised.value.code == "EVENT_TIME_MISSING"
