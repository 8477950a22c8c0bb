"""A checkpoint continues only with its plan, its sources and its logs of Spark. Errors name the difference."""

from __future__ import annotations

import json
import shutil
import stat
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
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


def without_rows(folder: Path, pattern: str = "*") -> None:
    """Remove the files in a folder."""
    for path in folder.rglob(pattern):
        if path.is_file():
            path.unlink()


DAMAGE: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "spark/ is gone": ("OFFSETS_LOST", lambda f: shutil.rmtree(f / "spark")),
    "spark/ is empty": ("OFFSETS_LOST", lambda f: without_rows(f / "spark")),
    "no metadata": ("OFFSETS_LOST", lambda f: (f / "spark" / "metadata").unlink()),
    "another query": (
        "OFFSETS_LOST",
        lambda f: (f / "spark" / "metadata").write_text(json.dumps({"id": "0" * 36})),
    ),
    "offsets": ("STATE_DAMAGED", lambda f: (f / "spark" / "offsets" / "2").unlink()),
    "a file that was read is forgotten": (
        "STATE_DAMAGED",
        lambda f: without_rows(f / "spark/sources/0", "*1*"),
    ),
    "an entry is that of another batch": (
        "STATE_DAMAGED",
        lambda f: shutil.copy(f / "spark/sources/0/0", f / "spark/sources/0/1"),
    ),
    "newest version": ("STATE_DAMAGED", lambda f: max((f / "snapshots").iterdir()).unlink()),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_logs_of_spark_that_are_not_those_of_the_checkpoint(
    spark: SparkSession, place: Path, tmp_path: Path, what: str
) -> None:
    """Foreign Spark logs are refused: Spark would read files again or leave some out without an
    error.
    """
    code, damage = DAMAGE[what]
    with copied(place, tmp_path) as checkpoint:
        damage(checkpoint)
        error = refusal(spark, checkpoint, place / "data")
    assert error.code == code
    if what.startswith("an entry"):
        assert "spark/sources/0/1" in str(error)


def test_a_lost_note_that_a_batch_is_done_is_made_good(
    spark: SparkSession, place: Path, tmp_path: Path
) -> None:
    """If Spark's commit entry of a batch is lost, Spark repeats the batch, which is recognized as
    committed by its number.
    """
    with copied(place, tmp_path) as checkpoint:
        before = sa.open_view(checkpoint).to_arrow().sort_by("k")
        for path in (checkpoint / "spark" / "commits").glob("*2*"):
            path.unlink()
        run(spark, checkpoint, place / "data")
        assert sa.open_view(checkpoint).to_arrow().sort_by("k").equals(before)
        assert sa.open_view(checkpoint).versions() == list(range(FILES + 1))


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

    tables = {".".join(o.table) for o in table_origins(lower(sa.load(plan).bound()))}
    return dict.fromkeys(tables, f"parquet:{place / 'data'}?batch-files=1")


def test_the_checkpoint_is_for_its_owner_only_and_holds_no_secret(place: Path) -> None:
    """Files of the driver and of workers, and the folder of Spark's logs, are private and contain
    no secret.
    """
    checkpoint = place / "checkpoint"
    for path in checkpoint.rglob("*"):
        inside = path.relative_to(checkpoint)
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), inside
        if inside.parts[0] == "spark" and len(inside.parts) > 1:
            continue  # written by Spark as the umask lets it; nobody else gets into the folder
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
