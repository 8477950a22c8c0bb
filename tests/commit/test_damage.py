"""Damage: after any change of a file of a checkpoint, every query returns the correct answer or an
error that names the file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from substrait_agg.commit import open_view
from substrait_agg.commit.log.retention import RetentionState
from substrait_agg.errors import StateRefused
from tests.commit.full_checkpoint import VERSIONS, FullCheckpoint, made, questions
from tests.sampling import sample, seeds

Damage = Callable[[bytes], bytes | None]

CODES = frozenset(
    "STATE_DAMAGED STATE_FORMAT_UNKNOWN NOT_A_CHECKPOINT OUTPUT_RECORD_DAMAGED OUTPUT_AHEAD".split()
)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> FullCheckpoint:
    """The checkpoint that tests damage and restore."""
    return made(tmp_path_factory.mktemp("damage") / "checkpoint")


@pytest.fixture(scope="module")
def right(full: FullCheckpoint) -> dict[str, Any]:
    """The answers of the undamaged checkpoint."""
    return {name: ask() for name, ask in questions(full).items()}


def files_of(full: FullCheckpoint) -> list[Path]:
    """Every file of the checkpoint."""
    return sorted(p for p in full.folder.rglob("*") if p.is_file())


@contextmanager
def damaged(path: Path, content: bytes | None) -> Iterator[None]:
    """Replace or delete a file, and restore it afterwards."""
    before = path.read_bytes()
    _put(path, content)
    try:
        yield
    finally:
        _put(path, before)


def _put(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink()
        return
    other = path.with_name("other")
    other.write_bytes(content)
    other.replace(path)


def check(full: FullCheckpoint, right: dict[str, Any], names: tuple[str, ...], what: str) -> int:
    """Run all queries and return how many were refused. Each error has to name one of the files."""
    refused = 0
    for name, ask in questions(full).items():
        try:
            found = ask()
        except StateRefused as error:
            _check_reported(error, names, f"{what}: {name}")
            refused += 1
            continue
        if "gone" in what and name in ("record", "settings"):
            continue  # as if nothing had been delivered, or set; the output itself is found then (OUTPUT_EXISTS)
        assert found == right[name], f"{what}: {name} was answered wrongly"
    return refused


def _check_reported(error: StateRefused, names: tuple[str, ...], what: str) -> None:
    assert error.code in CODES, what
    assert error.help, what
    assert any(n in str(error) for n in names), f"{what}: {error}"


def flipped(place: int, bit: int) -> Damage:
    """One bit of one byte."""

    def damage(content: bytes) -> bytes:
        found = bytearray(content)
        found[place % len(found)] ^= 1 << bit
        return bytes(found)

    return damage


WHOLE: dict[str, Damage] = {
    "gone": lambda _: None,
    "emptied": lambda _: b"",
    "cut in half": lambda content: content[: len(content) // 2],
    "cut by a byte": lambda content: content[:-1],
    "longer": lambda content: content + b"\0",
    "a byte shorter or longer": lambda content: (
        content[:-1] if len(content) % 2 else content + b"\0"
    ),
    "zeros": lambda content: bytes(len(content)),
}


def files_by_kind(full: FullCheckpoint) -> list[list[Path]]:
    """The files of every kind, the oldest first."""
    files: dict[tuple[str, str], list[Path]] = {}
    for path in files_of(full):
        kind = path.name.split("-")[0] if path.parent.name == "state" else path.suffix
        files.setdefault((path.parent.name, kind), []).append(path)
    return list(files.values())


def kinds(full: FullCheckpoint) -> list[Path]:
    """The newest and the oldest file of every kind."""
    return [p for paths in files_by_kind(full) for p in {paths[0], paths[-1]}]


def one_of_each_kind(full: FullCheckpoint, first: int) -> list[Path]:
    """The newest and the oldest file, by turns from one kind to the next; of the first kind the oldest if `first` is even."""
    return [paths[-((first + turn) % 2)] for turn, paths in enumerate(files_by_kind(full))]


def test_the_checkpoint_has_everything(full: FullCheckpoint, right: dict[str, Any]) -> None:
    """The checkpoint contains every kind of file, and quarantined, late, pending and closed rows."""
    folders = {p.parent.name for p in files_of(full)}
    assert {"state", "changes", "snapshots", "outputs", full.folder.name} <= folders
    trees = {p.name.split("-")[0] for p in files_of(full) if p.parent.name == "state"}
    assert {"group", "pending", "closed", "tree0", "tree1"} <= trees
    assert right["aside None"]
    assert right["late"]
    assert right["changes"]
    assert all(right["go on"])


@pytest.mark.parametrize("way", sample(WHOLE, "gone", "a byte shorter or longer"))
def test_a_file_that_is_not_there_or_not_whole(
    full: FullCheckpoint, right: dict[str, Any], way: str
) -> None:
    """A missing or truncated file of any kind is named by its readers, and other commands work."""
    refused = 0
    newest = sorted((full.folder / "snapshots").iterdir())[-1]
    for path in kinds(full):
        if way == "gone" and path == newest:
            continue  # this is a checkpoint that was killed before it; see below
        with damaged(path, WHOLE[way](path.read_bytes())):
            refused += check(full, right, (path.name,), f"{way}: {path.name}")
    assert refused >= len(kinds(full))


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_a_flipped_bit(full: FullCheckpoint, right: dict[str, Any], seed: int) -> None:
    """A flipped bit in a file of every kind is reported."""
    random = Random(seed)
    for path in one_of_each_kind(full, seed):
        place, bit = random.randrange(1 << 30), random.randrange(8)
        with damaged(path, flipped(place, bit)(path.read_bytes())):
            check(full, right, (path.name,), f"bit {bit} at {place} of {path.name}")


def test_files_in_each_others_place(full: FullCheckpoint, right: dict[str, Any]) -> None:
    """Files of one kind in each other's place are reported."""
    folders: dict[Path, list[Path]] = {}
    for path in files_of(full):
        folders.setdefault(path.parent, []).append(path)
    for paths in folders.values():
        for one, other in [(paths[0], paths[-1]), (paths[-1], paths[len(paths) // 2])]:
            if one != other:
                with damaged(one, other.read_bytes()):
                    names = (one.name, other.name)
                    check(full, right, names, f"{other.name} over {one.name}")


def test_a_version_missing_in_the_middle_is_named(full: FullCheckpoint) -> None:
    """A missing version in the middle is reported, because changes without it do not add up to the
    view.
    """
    path = sorted((full.folder / "snapshots").iterdir())[2]
    with damaged(path, None), pytest.raises(StateRefused, match=path.name):
        open_view(full.folder).changes()


def test_the_first_version_missing_is_named_unless_it_was_let_go(full: FullCheckpoint) -> None:
    """A missing first version is reported unless retention deleted it."""
    first, *_ = sorted((full.folder / "snapshots").iterdir())
    with damaged(first, None):
        with pytest.raises(StateRefused, match=first.name):
            open_view(full.folder).versions()
        before = full.store.retention_state()
        full.store.keep(RetentionState(changes_from=1))
        assert open_view(full.folder).versions() == [1, 2, 3, 4, 5]
        full.store.keep(before)


def test_a_newest_version_missing_is_found_where_an_output_has_had_it(full: FullCheckpoint) -> None:
    """A missing newest version is detected by the record of an output; without outputs it looks
    like a kill before the commit.
    """
    newest = sorted((full.folder / "snapshots").iterdir())[-1]
    with damaged(newest, None), pytest.raises(StateRefused) as refused:
        full.record.read()
    assert refused.value.code == "OUTPUT_AHEAD"


def test_files_of_another_checkpoint_of_the_same_plan(
    full: FullCheckpoint, right: dict[str, Any], tmp_path: Path
) -> None:
    """Undamaged documents of another checkpoint are refused, because every document names its
    checkpoint.
    """
    other = made(tmp_path / "checkpoint", seed=2)
    for folder, pattern in (("snapshots", "*.json"), ("outputs", "*.json"), (".", "plan.json")):
        mine = sorted((full.folder / folder).glob(pattern))
        theirs = sorted((other.folder / folder).glob(pattern))
        for path, foreign in zip(mine[-1:], theirs[-1:], strict=True):
            with damaged(path, foreign.read_bytes()):
                # With a foreign plan.json it is the other documents that do not belong to it.
                names = (path.name, "snapshots/", "outputs/", "kept.json", "settings.json")
                assert check(full, right, names, f"foreign {path.name}")


def test_a_version_made_after_another_history_is_refused(tmp_path: Path) -> None:
    """A version from before a rollback, put over its successor, is refused by its parent."""
    one = made(tmp_path / "checkpoint")
    snapshots = sorted((one.folder / "snapshots").iterdir())
    kept = [p.read_bytes() for p in snapshots]
    for path in snapshots[-2:]:
        path.unlink()
    one.load()
    one.go_on(Random(50), 4)
    one.load()
    one.go_on(Random(51), 5)
    assert open_view(one.folder).to_arrow(5).num_rows
    _put(snapshots[-1], kept[-1])
    with pytest.raises(StateRefused, match=snapshots[-1].name):
        open_view(one.folder).to_arrow()


def test_a_file_damaged_after_it_was_read(full: FullCheckpoint, right: dict[str, Any]) -> None:
    """A long-lived process detects that a file was modified in place with the same size."""
    snapshot = full.store.newest_snapshot()
    assert snapshot is not None
    (run, *_) = snapshot.operators[-1]["group"]
    path = full.folder / "state" / run.name
    before = path.read_bytes()
    assert questions(full)["view None"]() == right["view None"]
    time.sleep(0.05)  # the clock of a file system is coarse
    with path.open("r+b") as file:
        file.seek(len(before) // 2)
        file.write(bytes([before[len(before) // 2] ^ 1]))
    try:
        with pytest.raises(StateRefused, match=run.name):
            open_view(full.folder).to_arrow()
    finally:
        _put(path, before)
    assert questions(full)["view None"]() == right["view None"]


@pytest.mark.parametrize(
    ("kind", "first"),
    sample(product(["link", "pipe", "folder"], range(2)), ("link", 0), ("pipe", 1)),
)
def test_what_is_no_plain_file_is_refused(
    full: FullCheckpoint, right: dict[str, Any], kind: str, first: int, tmp_path: Path
) -> None:
    """Pipes and links among the files are refused: a pipe blocks, a link leads out of the folder."""
    for path in one_of_each_kind(full, first):
        before = path.read_bytes()
        path.unlink()
        try:
            if kind == "link":
                (tmp_path / path.name).write_bytes(before)
                path.symlink_to(tmp_path / path.name)
            elif kind == "pipe":
                os.mkfifo(path)
            else:
                path.mkdir()
            check(full, right, (path.name,), f"{kind} at {path.name}")
        finally:
            path.rmdir() if path.is_dir() and kind == "folder" else path.unlink()
            path.write_bytes(before)


@pytest.mark.soak
def test_every_file_at_many_places(full: FullCheckpoint, right: dict[str, Any]) -> None:
    """Every file is damaged at up to 8 places."""
    random = Random(6)
    for path in files_of(full):
        content = path.read_bytes()
        ways = list(WHOLE.items())
        places = range(len(content))
        chosen = random.sample(places, min(8, len(content)))
        ways += [(f"bit at {p}", flipped(p, random.randrange(8))) for p in chosen]
        for way, damage in ways:
            if way == "gone" and path.name == f"{VERSIONS - 1:020d}.json":
                continue
            with damaged(path, damage(content)):
                check(full, right, (path.name,), f"{way}: {path.name}")
