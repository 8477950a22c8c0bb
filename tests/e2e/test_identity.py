"""A checkpoint continues only with its plan, its sources and the files that they have read. Errors name the difference."""

from __future__ import annotations

import shutil
import stat
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from substrait_agg.commit.log import read_files
from substrait_agg.errors import StateRefused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BENCH = Path(__file__).parents[2] / "plans" / "bench"
PLAN = BENCH / "count_sum_avg.bin"
FILES = 3
SECRET = "S3cr3tValue"


def write_file(folder: Path, number: int) -> None:
    """One file of input."""
    folder.mkdir(exist_ok=True)
    rows = {"k": [number % 2, 7], "i": [number, 1], "x": [0.5, float(number)]}
    pq.write_table(pa.table(rows), folder / f"{number}.parquet")


def run(spark: SparkSession, checkpoint: Path, data: Path, plan: Any = PLAN, **more: Any) -> None:
    """Run to the end over the folder, one file per batch; the options contain a secret."""
    spec = f"parquet:{data}?batch-files=1&fs.s3a.secret.key={SECRET}"
    sa.run(plan, {"t": spec}, checkpoint=checkpoint, spark=spark, outputs=["none"], **more).wait()


@pytest.fixture(scope="module")
def place(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, and a checkpoint that has read it."""
    folder = tmp_path_factory.mktemp("identity")
    for number in range(FILES):
        write_file(folder / "data", number)
    run(spark, folder / "checkpoint", folder / "data")
    return folder


@contextmanager
def copied(place: Path, tmp_path: Path) -> Iterator[Path]:
    """The checkpoint, to be damaged."""
    yield Path(shutil.copytree(place / "checkpoint", tmp_path / "checkpoint"))


def refusal(spark: SparkSession, checkpoint: Path, data: Path, **more: Any) -> StateRefused:
    """The error of a refused run; it writes nothing."""
    before = Counter(str(p) for p in checkpoint.rglob("*"))
    with pytest.raises(StateRefused) as refused:
        run(spark, checkpoint, data, **more)
    assert Counter(str(p) for p in checkpoint.rglob("*")) == before
    assert refused.value.help
    return refused.value


def test_a_checkpoint_without_its_newest_version_reads_its_files_again(
    spark: SparkSession, place: Path, tmp_path: Path
) -> None:
    """The positions of the sources are in the versions only."""
    with copied(place, tmp_path) as checkpoint:
        before = sa.open_view(checkpoint).to_arrow().sort_by("k")
        max((checkpoint / "snapshots").iterdir()).unlink()
        run(spark, checkpoint, place / "data")
        assert sa.open_view(checkpoint).to_arrow().sort_by("k").equals(before)
        assert sa.open_view(checkpoint).versions() == list(range(FILES + 1))


@pytest.mark.parametrize("how", ["removed", "cut"])
def test_files_that_were_read_are_not_forgotten(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """More files than a version names are in lists, whose damage is refused."""
    monkeypatch.setattr(read_files, "MOST_RECENT", 2)
    data, checkpoint = tmp_path / "data", tmp_path / "checkpoint"
    for number in range(8):
        write_file(data, number)
        if number % 4 == 3:
            run(spark, checkpoint, data)
    assert sa.open_view(checkpoint).versions() == list(range(9))
    seven = {row["k"]: row for row in sa.open_view(checkpoint).to_arrow().to_pylist()}[7]
    assert seven["n"] == 8
    names = [*(checkpoint / "state").glob("files-*")]
    assert names
    for path in names:
        content = path.read_bytes()
        path.unlink()
        if how == "cut":
            path.write_bytes(content[:-1])
    with pytest.raises(StateRefused) as refused:
        run(spark, checkpoint, data)
    assert refused.value.code == "STATE_DAMAGED"
    assert sa.open_view(checkpoint).versions() == list(range(9))


def test_another_place_is_refused_and_can_be_accepted(
    spark: SparkSession, place: Path, tmp_path: Path
) -> None:
    """The message has both locations. If the change is accepted, only unread files are new, and the next run expects the new location."""
    other, glob = tmp_path / "other", place / "data" / "*.parquet"
    write_file(other, 9)
    with copied(place, tmp_path) as checkpoint:
        error = refusal(spark, checkpoint, other)
        assert error.code == "SOURCE_DIFFERS"
        assert str(place / "data") in error.message
        assert str(other) in error.message
        assert SECRET not in str(error)
        before = sa.open_view(checkpoint).to_arrow().sort_by("k")
        assert refusal(spark, checkpoint, glob).code == "SOURCE_DIFFERS"
        run(spark, checkpoint, glob, accept_source_change=True)
        assert sa.open_view(checkpoint).to_arrow().sort_by("k").equals(before)


def test_another_plan_is_told_by_what_it_does_differently(
    spark: SparkSession, place: Path, tmp_path: Path
) -> None:
    """The error for another plan names measures, keys and inputs, not only fingerprints."""
    other = BENCH.parent / "samples" / "datafusion" / "filter_clause.bin"
    with copied(place, tmp_path) as checkpoint, pytest.raises(StateRefused) as refused:
        sa.run(other, _sources(other, place), checkpoint=checkpoint, spark=spark)
    assert refused.value.code == "PLAN_DIFFERS"
    assert "measure avg(x)" in refused.value.message
    assert "table sales" in refused.value.message


def _sources(plan: Path, place: Path) -> dict[str, str]:
    from substrait_agg.flow.passes.lower import lower
    from substrait_agg.spark.inputs.inputs import table_origins

    tables = {".".join(o.table) for o in table_origins(lower(sa.load(plan).bind()))}
    return dict.fromkeys(tables, f"parquet:{place / 'data'}?batch-files=1")


def test_the_checkpoint_is_for_its_owner_only_and_holds_no_secret(place: Path) -> None:
    """Files of the driver and of workers are private and contain no secret."""
    checkpoint = place / "checkpoint"
    for path in checkpoint.rglob("*"):
        inside = path.relative_to(checkpoint)
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), inside
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, inside


@pytest.mark.parametrize(
    "spec",
    [
        f"kafka:topic?kafka.bootstrap.servers=h:1&kafka.sasl.jaas.config=x password='{SECRET}';",
        f"jdbc:?url=jdbc%3Apostgresql%3A//u%3A{SECRET}%40host/db&dbtable=t",
        f"parquet:s3a://KEY:{SECRET}@bucket/data",
        f"parquet:/no/such/place?fs.s3a.secret.key={SECRET}",
    ],
)
def test_a_source_that_cannot_be_opened_does_not_show_its_password(
    spark: SparkSession, tmp_path: Path, spec: str
) -> None:
    """Neither the error nor its traceback contains the password of the source."""
    with pytest.raises(sa.SubstraitAggError) as refused:
        sa.run(PLAN, {"t": spec}, checkpoint=tmp_path / "checkpoint", spark=spark)
    told = "".join(traceback.format_exception(refused.value))
    assert SECRET not in told.replace(repr(spec), "").replace(spec, "")
    assert SECRET not in str(refused.value)
