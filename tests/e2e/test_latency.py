"""Runs with a target duration: the files of a batch, and the files that are read after a failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

import substrait_agg as sa
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.runtime.batch.microbatch import MicroBatches
from substrait_agg.spark.admission import read_limits
from tests.e2e.feeds import Change, Feed
from tests.e2e.plans import COMPARISON, Builder, aggregate, column, joined, projected, read
from tests.e2e.rows import bag
from tests.e2e.test_small_batch_reads import as_json
from tests.views import plans as views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = {"k": "i64", "v": "i64"}


def feed(table: str, files: Sequence[int]) -> Feed:
    """Files with these numbers of rows."""
    ends = list(accumulate(files))
    batches: list[list[Change]] = [
        [((n % 7, n), 1) for n in range(end - size, end)]
        for end, size in zip(ends, files, strict=True)
    ]
    return Feed(table, ROWS, "one", batches)


def unlimited(spec: str) -> str:
    return spec.replace("batch-files=1", "")


def files_by_version(checkpoint: Path, table: str) -> list[list[Path]]:
    """The files of a table that each version after the first has read."""
    store = Checkpoint(checkpoint)
    positions = [store.snapshot(version).positions.files for version in store.versions()]
    read_ = [of[table].recent if table in of else () for of in positions]
    added = (after[len(before) :] for before, after in pairwise(read_))
    return [[Path(unquote(f.uri.removeprefix("file://"))) for f in files] for files in added]


@pytest.mark.parametrize("how", ["parquet", "quarantine"])
def test_a_batch_takes_what_its_limit_allows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A batch takes as many files as its limit allows, a larger file alone, and every file once."""
    table = feed("t", [40] * 10 + [4000] + [40] * 12)
    spec = unlimited(table.write(tmp_path) if how == "parquet" else as_json(table, tmp_path))
    source = spec if how == "parquet" else spec + "bad-rows=quarantine"
    sizes = sorted(p.stat().st_size for p in (tmp_path / "t").iterdir())
    monkeypatch.setattr(read_limits, "FIRST_BYTES", int(2.5 * sizes[0]))
    b = Builder()
    total = b.measure("sum", (column(1), "i64"), output="i64")
    plan = b.plan(aggregate(read("t", ROWS), [column(0)], [total]), "k", "total")
    limits: dict[int, int] = {}

    def keep(progress: Any) -> None:
        assert progress.target_seconds == 0.5
        limits[progress.version] = progress.limit_bytes

    checkpoint = tmp_path / "checkpoint"
    options: dict[str, Any] = {"checkpoint": checkpoint, "spark": spark, "latency": "500ms"}
    sa.run(plan, {"t": source}, progress=keep, **options).wait()
    batches = files_by_version(checkpoint, "t")
    assert [path for batch in batches for path in batch] == sorted((tmp_path / "t").iterdir())
    for number, batch in enumerate(batches):
        limit, taken = limits[number + 1], sum(path.stat().st_size for path in batch)
        assert taken <= limit or len(batch) == 1, number
        if number + 1 < len(batches):
            assert taken + batches[number + 1][0].stat().st_size > limit, number
    assert len(batches) > 2
    assert bag(sa.open_view(checkpoint).to_arrow()) == totals(table)


def totals(table: Feed) -> Counter[Any]:
    sums: Counter[int] = Counter()
    for (k, v), _ in (change for batch in table.batches for change in batch):
        sums[k] += v
    return Counter(sums.items())


def test_a_failed_run_goes_on_with_another_target(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file is read once, in order, and batch-files stays the upper limit."""
    left, right = feed("l", [30] * 8), feed("r", [20] * 9)
    sources = {
        "l": left.write(tmp_path).replace("batch-files=1", "batch-files=2"),
        "r": unlimited(right.write(tmp_path)),
    }
    size = next((tmp_path / "r").iterdir()).stat().st_size
    monkeypatch.setattr(read_limits, "FIRST_BYTES", int(1.5 * size))
    b = Builder()
    equal = b.call("equal:any_any", COMPARISON, column(1), column(3), output="bool")
    both = joined("inner", read("l", ROWS), read("r", ROWS), equal)
    plan = b.plan(projected(both, 4, column(1)), "v")
    checkpoint = tmp_path / "checkpoint"
    run = MicroBatches.run

    def strike(batches: MicroBatches[Any], *arguments: Any) -> None:
        if batches.next_version == 3:
            raise RuntimeError("killed")
        run(batches, *arguments)

    options: dict[str, Any] = {"checkpoint": checkpoint, "spark": spark}
    with monkeypatch.context() as patched:
        patched.setattr(MicroBatches, "run", strike)
        with pytest.raises(RuntimeError, match="killed"):
            sa.run(plan, sources, latency="1m", **options).wait()
    done = {table: files_by_version(checkpoint, table) for table in sources}
    assert len(done["l"]) == 2
    sa.run(plan, sources, latency="1ms", **options).wait()
    for table, most in (("l", 2), ("r", 9)):
        batches = files_by_version(checkpoint, table)
        assert batches[:2] == done[table]
        assert [p for batch in batches for p in batch] == sorted((tmp_path / table).iterdir())
        assert max(map(len, batches)) <= most
        assert {len(batch) for batch in batches[3:]} <= {0, 1}
    assert bag(sa.open_view(checkpoint).to_arrow()) == Counter({(v,): 1 for v in range(180)})


def test_several_views_share_the_limit_and_a_restart_keeps_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit divides the batches, all views are right, and the second run uses the learned limit."""
    views.write_batches(tmp_path, views.BATCHES)
    given = {n: unlimited(spec).rstrip("&") for n, spec in views.sources(tmp_path).items()}
    limits: list[int | None] = []
    options: dict[str, Any] = {
        "checkpoint": tmp_path / "checkpoint", "spark": spark, "latency": "1m",
        "progress": lambda progress: limits.append(progress.limit_bytes),
    }  # fmt: skip
    with monkeypatch.context() as patched:
        patched.setattr(read_limits, "FIRST_BYTES", 2)
        sa.run(views.ALL, given, **options).wait()
    batches = [files_by_version(tmp_path / "checkpoint", table) for table in given]
    assert [len(files[0]) for files in batches] == [1, 1]
    ended, learned = sa.open_view(tmp_path / "checkpoint", "totals").version, limits[-1]
    assert learned is not None
    assert learned > 2
    more = {"orders": [(8, "a", 6, 1), (5, "b", 1, -1)], "customers": [("e", "z", 1)]}
    views.write_batches(tmp_path, [more], len(views.BATCHES))
    sa.run(views.ALL, given, **options).wait()
    assert limits[ended + 1] == learned
    for view, rows in views.expected([*views.BATCHES, more]).items():
        assert views.rows_of(sa.open_view(tmp_path / "checkpoint", view).to_arrow()) == rows


@pytest.mark.parametrize(
    ("latency", "source", "code"),
    [("2", "parquet:in", "OPTION_INVALID"), ("0s", "parquet:in", "OPTION_INVALID"),
     ("2s", "kafka:t?kafka.bootstrap.servers=h:1", "LATENCY_NOT_SUPPORTED"),
     ("2s", "table:t", "LATENCY_NOT_SUPPORTED")],
)  # fmt: skip
def test_a_target_that_cannot_be_kept_is_refused_at_once(
    tmp_path: Path, latency: str, source: str, code: str
) -> None:
    """An unsupported target is refused before Spark starts and before the checkpoint is created."""
    plan = Builder().plan(read("t", ROWS), "k", "v")
    with pytest.raises(sa.UsageError) as refused:
        sa.run(plan, {"t": source}, checkpoint=tmp_path / "c", latency=latency)
    assert refused.value.code == code
    assert not (tmp_path / "c").exists()
