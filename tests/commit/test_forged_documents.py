"""Forged documents and files with correct checksums are refused by name, and no reader fails in
another way.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from substrait_agg.commit.documents.envelope import seal
from substrait_agg.commit.documents.file_names import snapshot_name
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.positions import StreamPosition
from substrait_agg.commit.documents.snapshot import FORMAT, OperatorState, parse_snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.retention import RetentionState
from substrait_agg.errors import StateRefused
from substrait_agg.spark.positions.spark_streams import SparkStreams
from substrait_agg.tools.rollback.rollback import Rollback
from tests.commit.full_checkpoint import FullCheckpoint, made

FORGED: tuple[Any, ...] = (
    None, "1", 1.5, float("nan"), float("inf"), True, [], {}, [None], 1 << 65, "\ud800", "../../x",
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> FullCheckpoint:
    """An undamaged checkpoint, which no test changes."""
    return made(tmp_path_factory.mktemp("forged") / "checkpoint")


@pytest.fixture
def store(whole: FullCheckpoint, tmp_path: Path) -> Checkpoint:
    """A copy of the checkpoint."""
    return Checkpoint(shutil.copytree(whole.folder, tmp_path / "checkpoint"))


def body_of(content: bytes) -> dict[str, Any]:
    """The content of a sealed document."""
    body: dict[str, Any] = json.loads(content)
    for name in ("crc", "format", "checkpoint"):
        del body[name]
    return body


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of values in a document; of lists, the first element."""
    found = [path] if path else []
    if isinstance(value, dict):
        return found + [p for k, v in value.items() for p in places(v, (*path, k))]
    return found + (places(value[0], (*path, 0)) if isinstance(value, list) and value else [])


def with_forged(body: Any, path: tuple[Any, ...], forged: Any) -> Any:
    """A document with another value in one place."""
    changed = json.loads(json.dumps(body))
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = forged
    return changed


def test_every_field_of_a_snapshot_is_of_its_type(store: Checkpoint) -> None:
    """A replaced value is refused, or has the same type; a read document equals its written form."""
    name = snapshot_name(5)
    body = body_of(store.snapshots.read(name))
    refused = 0
    for path in places(body):
        for forged in FORGED:
            content = seal(
                with_forged(body, path, forged), format=FORMAT, checkpoint=store.identity
            )
            try:
                found = parse_snapshot(content, name)
            except StateRefused:
                refused += 1
                continue
            assert json.loads(found.to_bytes(store.identity)) == json.loads(content), (path, forged)
    assert refused > 300


@pytest.mark.parametrize("more", [{"new": 1}, {}])
def test_fields_that_are_too_many_or_lacking_are_refused(
    store: Checkpoint, more: dict[str, int]
) -> None:
    """A document with unknown fields was written by another program."""
    body = body_of(store.snapshots.read(snapshot_name(5)))
    if not more:
        del body["operators"]
    content = seal({**body, **more}, format=FORMAT, checkpoint=store.identity)
    with pytest.raises(StateRefused):
        parse_snapshot(content, "x")


@pytest.mark.parametrize(
    "name", ["../x", "sources/../x", "sources/0/../../../x", "/x", "offsets/0", "sources/0/.0.crc"]
)
def test_what_spark_has_written_does_not_lead_out_of_its_folder(tmp_path: Path, name: str) -> None:
    """A run writes it again for its query, under the names of the version."""
    folder = tmp_path / "folder" / "query"
    folder.mkdir(parents=True)
    position = StreamPosition(3, (), "v1\n{}", {name: "forged"})
    with pytest.raises(StateRefused) as refused:
        SparkStreams({}, position, lambda _: (), folder, lambda: None)
    assert refused.value.code == "STATE_DAMAGED"
    assert not any(p.is_file() and p.read_text() == "forged" for p in tmp_path.rglob("*"))


@pytest.mark.parametrize("partitions", [3, 0, -1, 1 << 20, "4", 4.0, True, float("inf")])
def test_partitions_that_no_range_fits_are_refused(store: Checkpoint, partitions: Any) -> None:
    """Three partitions would leave hashes out."""
    body = {"partitions": partitions}
    store.root.replace("settings.json", seal(body, format=1, checkpoint=store.identity))
    with pytest.raises(StateRefused) as refused:
        store.settings()
    assert refused.value.code == "STATE_DAMAGED"


@pytest.mark.parametrize("field", ["state_from", "changes_from", "swept"])
@pytest.mark.parametrize("value", [-2, "1", 0.5, True, float("inf"), None])
def test_versions_that_are_kept_are_numbers(store: Checkpoint, field: str, value: Any) -> None:
    """The versions of a retention document must be numbers."""
    body = {"state_from": 0, "changes_from": 0, "swept": -1, field: value}
    store.root.replace("kept.json", seal(body, format=1, checkpoint=store.identity))
    with pytest.raises(StateRefused) as refused:
        store.retention_state()
    assert refused.value.code == "STATE_DAMAGED"


def test_versions_that_are_said_to_be_gone_and_are_there_are_no_empty_checkpoint(
    store: Checkpoint,
) -> None:
    """A document that denies existing versions is refused: otherwise a run would start again and a
    reader find nothing.
    """
    store.keep(RetentionState(changes_from=100))
    for ask in (
        store.newest_snapshot,
        store.check_versions,
        lambda: sa.open_view(str(store.folder)).to_arrow(),
    ):
        with pytest.raises(StateRefused) as refused:
            ask()
        assert refused.value.code == "STATE_DAMAGED"


@pytest.mark.parametrize(
    "content",
    [
        b"{}",
        b'{"to": 0, "newest": 5, "outputs": []}',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_what_a_rollback_is_about_to_do_is_sealed(store: Checkpoint, content: bytes) -> None:
    """A forged plan of a rollback, which names files outside of the checkpoint to truncate, has no
    effect.
    """
    (Path(str(store.folder)) / "rollback.json").write_bytes(content)
    with pytest.raises(StateRefused) as refused:
        sa.open_state(str(store.folder)).rollback(0)
    assert refused.value.code == "STATE_DAMAGED"
    other = Rollback(0, 5, ()).to_bytes("another checkpoint")
    (Path(str(store.folder)) / "rollback.json").write_bytes(other)
    with pytest.raises(StateRefused):
        sa.open_state(str(store.folder)).rollback(0)
    assert store.versions() == list(range(6))


def _rewritten(store: Checkpoint, change: Callable[[Any], Any]) -> None:
    """Publish another newest version in the place of the one that is there."""
    found = store.snapshot(5)
    content = change(found).to_bytes(store.identity)
    (Path(str(store.folder)) / "snapshots" / snapshot_name(5)).write_bytes(content)


RUNS: dict[str, pa.Table] = {
    "no hash": pa.table({"k0": [1, 2, 3]}),
    "a hash of text": pa.table({"hash": ["a", "b", "c"]}),
    "a hash that is null": pa.table({"hash": pa.array([1, None, 3], pa.uint64())}),
    "nothing but hashes": pa.table({"hash": pa.array([1, 2, 3], pa.uint64())}),
}


@pytest.mark.parametrize("kind", [*RUNS, "an empty page"])
def test_a_run_of_something_else_is_damage(store: Checkpoint, kind: str) -> None:
    """It is a valid file, with rows and a checksum as the version names them."""
    table = RUNS.get(kind, RUNS["nothing but hashes"])
    name, files = f"group-1-{5:012d}-{'0' * 32}.arrow", FolderFiles(store.folder / "state")
    with files.create(name) as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
        if kind == "an empty page":
            writer.write_batch(pa.record_batch({"hash": pa.array([], pa.uint64())}))
    size, crc = files.checksum(name)

    def change(found: Any) -> Any:
        (group, *_) = found.operators[1]["group"]
        run = replace(group, name=name, rows=3, bytes=size, crc=crc)
        made = OperatorState.of({**found.operators[1].trees, "group": (run,)})
        return replace(found, operators=(found.operators[0], made))

    _rewritten(store, change)
    with pytest.raises(StateRefused) as refused:
        sa.open_view(str(store.folder)).to_arrow()
    assert refused.value.code == "STATE_DAMAGED"
    assert name in str(refused.value)
    assert not sa.open_state(str(store.folder)).verify().ok


def test_a_change_file_of_other_columns_is_damage(store: Checkpoint) -> None:
    """The rows of another view would be shown under the names of this one."""
    name = f"{5:012d}-1-{'0' * 32}.parquet"
    pq.write_table(pa.table({"a": ["x"]}), store.folder / "changes" / name)
    size, crc = store.changes.checksum(name)

    def change(found: Any) -> Any:
        return replace(
            found, changes=(replace(found.changes[0], name=name, rows=1, bytes=size, crc=crc),)
        )

    _rewritten(store, change)
    with pytest.raises(StateRefused) as refused:
        sa.open_view(str(store.folder)).changes()
    assert refused.value.code == "STATE_DAMAGED"
    assert name in str(refused.value)
