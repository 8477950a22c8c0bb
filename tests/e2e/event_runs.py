"""Runs over tables with event time, and checks of their versions against the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

import substrait_agg as sa
from tests.e2e import plans
from tests.e2e.event_model import SECOND, ModelResult, Table, Window, instant, measured
from tests.e2e.rows import Bag, bag, running_sums
from tests.local.run import run
from tests.windowed import COUNT, MAX, SUM, Windows, aggregate, column

if TYPE_CHECKING:
    from substrait_agg.metrics import Progress


MEASURES = (COUNT, SUM, MAX)


def plan_of(
    name: str, *durations: Any, tables: Sequence[str] = ("goals",), numbers: Sequence[int] = ()
) -> str:
    """Count, sum and maximum per team and window, over one table or over the filtered rows of
    several tables.
    """
    windows = Windows()
    reads = [windows.read(table) for table in tables]
    source = reads[0] if len(reads) == 1 else plans.union_all(*reads)
    if numbers:
        options = [plans.literal("i64", n) for n in numbers]
        source = plans.filtered(
            source, {"singularOrList": {"value": column(2), "options": options}}
        )
    relation = aggregate(source, [column(0), windows.call(name, *durations)], MEASURES)
    parts = () if name.startswith("tumble_") else ("start", "end")
    return windows.plan(relation, "team", "w", *parts, "c", "s", "m")


def start(folder: Path, plan: str, tables: Sequence[Table], **options: Any) -> Any:
    """Start a run over existing files, with the watermark rules of the tables."""
    sources = {t.name: f"parquet:{folder / t.name}?op=op&batch-files=1" for t in tables}
    rules = {f"{t.name}.t": t.rule.text for t in tables if t.rule is not None}
    return run(
        plan,
        options.pop("sources", sources),
        checkpoint=options.pop("checkpoint", folder / "checkpoint"),
        watermark=options.pop("watermark", rules),
        partitions=2,
        **options,
    )


def maintained(folder: Path, plan: str, tables: Sequence[Table], **options: Any) -> list[Progress]:
    """Run to the end of the input; the progress of every version."""
    for table in tables:
        table.write(folder)
    seen: list[Progress] = []
    start(folder, plan, tables, progress=seen.append, **options).wait()
    return seen


def views(folder: Path) -> list[Bag]:
    """The view of every version, as the sum of the changes; no change may retract a missing row."""
    view = sa.open_view(folder / "checkpoint")
    sums = running_sums(view.changes(), view.versions())
    assert bag(view.to_arrow()) == sums[view.version]
    return [sums[version] for version in view.versions()]


def check_clock(seen: Sequence[Progress], told: ModelResult) -> None:
    """Check watermark and number of late rows of every version with rows."""
    versions = len(told.watermarks)
    wanted = [None if w is None else w * SECOND for w in told.watermarks]
    assert [p.watermark for p in seen[:versions]] == wanted
    assert [p.late_rows for p in seen[:versions]] == told.late
    assert {p.late_rows for p in seen[versions:]} <= {told.late[-1]}


def check_kept_aside(folder: Path, told: ModelResult) -> None:
    """Check that the files of late rows contain every dropped row once, with its version."""
    found: Counter[tuple[Any, ...]] = Counter()
    for file in (folder / "late").rglob("*.parquet"):
        found.update((file.parent.name, *row.values()) for row in pq.read_table(file).to_pylist())
    wanted: Counter[tuple[Any, ...]] = Counter()
    for version, tables in enumerate(told.dropped):
        for table, rows in tables.items():
            wanted.update(
                (table, team, None if t is None else instant(t), n, version, weight)
                for (team, t, n), weight in rows
            )
    assert found == wanted


def check_every_batch(
    folder: Path, seen: Sequence[Progress], told: ModelResult, shown: Callable[[Window], Any]
) -> None:
    """Check that with emission after every batch, each version is computed from all rows so far
    that were not late.
    """
    check_clock(seen, told)
    found = views(folder)
    assert len(found) == len(told.groups)
    for version, groups in enumerate(told.groups):
        assert found[version] == measured(groups, shown), version
