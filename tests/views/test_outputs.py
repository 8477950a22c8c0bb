"""Outputs, rollback and evolution of several views."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from substrait_agg.errors import StateRefused, UsageError
from tests.local.run import run
from tests.views.plans import ALL, BATCHES, expected, rows_of, sources, write_batches

pytestmark = pytest.mark.usefixtures("spark")


def rows_of_lines(path: Path) -> list[tuple[Any, ...]]:
    """The rows that are left when all lines of changes are added up."""
    sums: dict[tuple[Any, ...], int] = {}
    for line in path.read_text().splitlines():
        change = json.loads(line)
        row = tuple(change["row"].values())
        sums[row] = sums.get(row, 0) + change["weight"]
    return sorted((row for row, n in sums.items() for _ in range(n)), key=repr)


def test_outputs_get_their_view(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_batches(tmp_path, BATCHES)
    seen: list[tuple[int, int]] = []
    run(
        ALL, sources(tmp_path), checkpoint=tmp_path / "ckpt",
        outputs=[f"by_region=stream-json={tmp_path}/r.jsonl", f"view-parquet={tmp_path}/views", "batch-table"],
        on_changes={"by_customer": lambda rows, version: seen.append((version, rows.num_rows))},
    ).wait()  # fmt: skip
    want = expected(BATCHES)
    assert rows_of_lines(tmp_path / "r.jsonl") == want["by_region"]
    assert {path.name for path in (tmp_path / "views").iterdir()} == ALL.keys()
    (newest,) = (tmp_path / "views" / "totals").glob("*.parquet")
    assert rows_of(pq.read_table(newest)) == want["totals"]
    assert [version for version, _ in seen] == [1, 2, 3, 4]
    printed = capsys.readouterr().out
    assert "view by_region\n" in printed
    assert "view totals\n" in printed


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("stream-json", "OUTPUT_VIEW_MISSING"),
        ("nothing=stream-json", "VIEW_UNKNOWN"),
        ("nothing=none", "VIEW_UNKNOWN"),
    ],
)
def test_an_output_must_name_a_view(tmp_path: Path, output: str, code: str) -> None:
    write_batches(tmp_path, BATCHES[:1])
    with pytest.raises(UsageError) as refused:
        run(ALL, sources(tmp_path), checkpoint=tmp_path / "ckpt", outputs=[output])
    assert refused.value.code == code
    assert not (tmp_path / "ckpt").exists()


def test_emission_cannot_wait_for_what_another_view_computes_with(tmp_path: Path) -> None:
    write_batches(tmp_path, BATCHES[:1])
    plans = sa.sql_views(
        "CREATE TABLE orders (id bigint, customer string, amount bigint);"
        "CREATE VIEW totals AS SELECT customer, sum(amount) AS total FROM orders GROUP BY customer;"
        "CREATE VIEW best AS SELECT max(total) AS total FROM totals"
    )
    given = {"orders": sources(tmp_path)["orders"]}
    with pytest.raises(UsageError) as refused:
        run(plans, given, checkpoint=tmp_path / "ckpt", emit="count:2")
    assert refused.value.code == "EMIT_SEVERAL_VIEWS"
    assert "best computes with the groups of the view totals" in str(refused.value)


def test_a_rollback_cuts_the_outputs_of_all_views(tmp_path: Path) -> None:
    write_batches(tmp_path, BATCHES)
    lines = {name: tmp_path / f"{name}.jsonl" for name in ("by_region", "by_customer")}
    outputs = [f"{name}=stream-json={path}" for name, path in lines.items()]
    options: dict[str, Any] = {"checkpoint": tmp_path / "ckpt", "outputs": outputs}
    run(ALL, sources(tmp_path), **options).wait()
    state = sa.open_state(tmp_path / "ckpt")
    state.rollback(2, force=True, no_run=True)
    for name, path in lines.items():
        assert rows_of_lines(path) == expected(BATCHES[:2])[name]
        assert (
            rows_of(sa.open_view(tmp_path / "ckpt", name).to_arrow()) == expected(BATCHES[:2])[name]
        )
    assert state.verify().ok


def evolved(tmp_path: Path, before: dict[str, str], now: dict[str, str]) -> None:
    """Run some views over two batches, and others over the rest."""
    write_batches(tmp_path, BATCHES[:2])
    options: dict[str, Any] = {"checkpoint": tmp_path / "ckpt", "outputs": ["none"]}
    run(before, sources(tmp_path), **options).wait()
    write_batches(tmp_path, BATCHES[2:], first=2)
    run(now, sources(tmp_path), evolve=True, **options).wait()


def test_a_view_can_be_added_and_dropped(tmp_path: Path) -> None:
    before = {
        name: ALL[name] for name in ("orders_clean", "by_customer", "with_region", "by_region")
    }
    now = {name: ALL[name] for name in ("orders_clean", "by_customer", "with_region", "totals")}
    evolved(tmp_path, before, now)
    want = expected(BATCHES)
    for name in now:
        view = sa.open_view(tmp_path / "ckpt", name)
        assert rows_of(view.to_arrow()) == want[name]
    # A view that is in both sets continues: its changes since any version are still one sequence.
    kept = sa.open_view(tmp_path / "ckpt", "by_customer")
    assert kept.evolutions() == []
    assert len(kept.changes(since=1, until=3).column("n"))
    added = sa.open_view(tmp_path / "ckpt", "totals")
    assert set(added.changes().column("__version").to_pylist()) <= {3, 4, 5}
    with pytest.raises(UsageError, match="by_region"):
        sa.open_view(tmp_path / "ckpt", "by_region")
    assert sa.open_state(tmp_path / "ckpt").verify().ok


def test_a_view_that_needs_unread_rows_is_refused(tmp_path: Path) -> None:
    names = ("orders_clean", "with_region", "by_customer")
    first = {name: ALL[name] for name in names}
    other = ALL["by_customer"].replace('"orders_clean"', '"orders"')
    with pytest.raises(StateRefused) as refused:
        evolved(tmp_path, first, {**first, "unfiltered": other})
    assert refused.value.code == "EVOLVE_REFUSED"
