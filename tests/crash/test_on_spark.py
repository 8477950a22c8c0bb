"""Some cases of the crash matrix in real runs: the error that a user sees, and nothing lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.commit.documents.envelope import refuse_damage
from substrait_agg.commit.documents.positions import ReadFile
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.errors import SubstraitAggError
from substrait_agg.spark.positions import sources
from tests.crash.faulty_disk import FaultyDisk, Mode, Point, Strike
from tests.e2e.files import write_in_order
from tests.e2e.rows import bag, changes_by_version
from tests.filesystem import use_filesystem
from tests.sampling import sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAN = Path(__file__).parents[2] / "plans" / "bench" / "count_sum_avg.bin"
BATCHES = 4

CASES: tuple[tuple[str, str, str, int, Mode, str], ...] = (
    ("link", "a snapshot", "Checkpoint.publish", 2, "fails before", "CHECKPOINT_NOT_WRITTEN"),
    ("link", "a snapshot", "Checkpoint.publish", 2, "fails after", ""),
    ("link", "a snapshot", "Checkpoint.publish", 3, "done twice", ""),
    ("sync", "snapshots/", "Checkpoint.publish", 3, "fails before", "COMMIT_UNKNOWN"),
    ("sync", "state/", "Checkpoint.publish", 2, "fails before", "CHECKPOINT_NOT_WRITTEN"),
    ("write", "the file of stream-json", "AppendText._append", 2, "fails halfway", ""),
    ("replace", "the record of an output", "AppendText._append", 2, "fails after", ""),
)


def start(spark: SparkSession, folder: Path, seen: list[int]) -> Any:
    def called(_changes: Any, version: int) -> None:
        seen.append(version)

    return sa.run(
        PLAN,
        {"t": f"parquet:{folder / 'in'}?batch-files=1"},
        checkpoint=folder / "checkpoint",
        spark=spark,
        outputs=[f"stream-json={folder / 'out.jsonl'}"],
        on_changes=called,
        # Lines of a version stand in the order of its tasks, so all batches are computed on one side.
        conf={"spark.substraitAgg.driverBytes": "0"},
    )


def filled(folder: Path) -> Path:
    tables = [
        pa.table({"k": [n, n % 2], "i": [n, 10], "x": [0.5, 0.25 * n]}) for n in range(BATCHES)
    ]
    write_in_order(folder / "in", tables)
    return folder


@pytest.fixture(scope="module")
def wanted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = filled(tmp_path_factory.mktemp("wanted"))
    start(spark, folder, []).wait()
    return folder


@pytest.mark.parametrize(
    ("operation", "what", "caller", "ordinal", "mode", "code"), sample(CASES, *CASES[::3])
)
def test_a_run_that_was_disturbed_ends_right(
    spark: SparkSession,
    wanted: Path,
    tmp_path: Path,
    operation: str,
    what: str,
    caller: str,
    ordinal: int,
    mode: Mode,
    code: str,
) -> None:
    """A disturbed run ends with the documented code or continues, and the next run ends like an
    undisturbed one.
    """
    folder, seen = filled(tmp_path), list[int]()
    strike = Strike(Point(operation, what, caller), ordinal, mode)
    faulty = FaultyDisk(folder, strike, own=False)
    with use_filesystem(faulty):
        assert _code(lambda: start(spark, folder, seen).wait()) == code
    assert faulty.struck, "nothing was disturbed"
    start(spark, folder, seen).wait()
    views = [sa.open_view(place / "checkpoint") for place in (folder, wanted)]
    assert bag(views[0].to_arrow()) == bag(views[1].to_arrow())
    assert changes_by_version(views[0].changes()) == changes_by_version(views[1].changes())
    assert (folder / "out.jsonl").read_text() == (wanted / "out.jsonl").read_text()
    assert sorted(set(seen)) == sorted(v for v in views[0].versions() if v > 0)


def test_a_run_whose_lists_of_files_another_one_has_deleted_ends_with_a_conflict(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts, and before it reads them another run goes on for a version: nothing is damaged."""
    folder = filled(tmp_path)
    start(spark, folder, []).wait()

    def overtaken(*_: object) -> Iterator[ReadFile]:
        store = Checkpoint(folder / "checkpoint")
        newest = store.newest_snapshot()
        assert newest is not None
        store.claim()
        store.publish(replace(newest, version=newest.version + 1, changes=()))
        raise refuse_damage("state/files", "it is missing")

    monkeypatch.setattr(sources, "read_files", overtaken)
    assert _code(lambda: start(spark, folder, []).wait()) == "COMMIT_CONFLICT"


def _code(run: Callable[[], None]) -> str:
    try:
        run()
    except SubstraitAggError as error:
        return error.code
    return ""
