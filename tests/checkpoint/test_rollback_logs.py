"""A rollback leaves Spark's logs as the version recorded them; the next run compares them."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

import substrait_agg as sa
from substrait_agg.commit.documents.envelope import seal
from substrait_agg.commit.documents.file_names import snapshot_name
from substrait_agg.commit.documents.snapshot import FORMAT
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.query_logs import check_recorded_logs
from substrait_agg.errors import StateRefused
from substrait_agg.spark.offsets.logs import recorded_logs
from tests.checkpoint.local_checkpoint import filled


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of 24 versions, of which 15 keep their state, each with its record of Spark's
    logs.
    """
    made = filled(tmp_path_factory.mktemp("recorded") / "ckpt", 24).folder
    _noting(made)
    return made


@pytest.fixture
def folder(recorded: Path, tmp_path: Path) -> Path:
    """A copy of that checkpoint."""
    return shutil.copytree(recorded, tmp_path / "ckpt")


def _names(folder: Path) -> set[str]:
    """Every file but locks and claims."""
    paths = (p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    return {p.as_posix() for p in paths if p.parts[0] not in ("lock", "owners")}


def _noting(folder: Path) -> None:
    """Add to every version the record of Spark's logs that a run writes, with the checksums that
    follow from it.
    """
    store = Checkpoint(folder)
    parent = 0
    for version in store.versions():
        body = json.loads((folder / "snapshots" / snapshot_name(version)).read_bytes())
        logs = () if body["batch"] < 0 else recorded_logs(folder / "spark", body["batch"])
        for name in ("crc", "format", "checkpoint"):
            del body[name]
        body |= {"parent": parent, "logs": [asdict(log) for log in logs]}
        content = seal(body, format=FORMAT, checkpoint=store.identity)
        (folder / "snapshots" / snapshot_name(version)).write_bytes(content)
        parent = json.loads(content)["crc"]


@pytest.mark.parametrize("to", [11, 14, 19, 20, 22])
def test_a_run_goes_on_where_spark_has_deleted_entries(folder: Path, to: int) -> None:
    """A rollback restores deleted log entries byte by byte as the version recorded them; otherwise
    the next run would report damage.
    """
    log = folder / "spark" / "sources" / "0"
    for number in range(10, 19):
        (log / str(number)).unlink()
    (log / "9.compact").unlink()
    sa.open_state(folder).rollback(to)
    check_recorded_logs(folder / "spark", Checkpoint(folder).snapshot(to).logs)
    numbers = {int(p.name.removesuffix(".compact")) for p in log.iterdir() if p.name[0] != "."}
    assert max(numbers) == to - 1


def test_an_entry_that_is_not_what_the_version_notes_is_refused(folder: Path) -> None:
    """A rollback refuses a log entry that differs from the record of the version, existing or
    restored, and changes nothing.
    """
    log = folder / "spark" / "sources" / "0"
    entry = log / "12"
    entry.write_text(entry.read_text().replace("12-0", "13-0"))
    before = _names(folder)
    with pytest.raises(StateRefused) as refused:
        sa.open_state(folder).rollback(14)
    assert refused.value.code == "STATE_DAMAGED"
    entry.unlink()
    compacted = log / "19.compact"
    compacted.write_text(compacted.read_text().replace("12-0", "13-0"))
    with pytest.raises(StateRefused) as refused:
        sa.open_state(folder).rollback(14)
    assert refused.value.code == "OFFSETS_LOST"
    assert _names(folder) == before - {"spark/sources/0/12"}
