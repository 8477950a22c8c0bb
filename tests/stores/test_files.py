"""Files in a store: written objects exist, only one writer creates a name, and unknown outcomes are resolved."""

from __future__ import annotations

import threading
import uuid
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from substrait_agg.commit.documents.files import FolderFiles, OutcomeUnknown
from substrait_agg.files import download_cache
from substrait_agg.files.filesystem import FileSystem, filesystem
from substrait_agg.files.locations import Remote, location_of
from tests.filesystem import use_filesystem
from tests.stores.emulator import Emulator

BOTH = ("s3", "memory")


@pytest.fixture(params=BOTH)
def files(request: pytest.FixtureRequest, s3: Emulator) -> FolderFiles:
    """An empty prefix of an S3 server, and of memory."""
    name = f"files-{uuid.uuid4().hex[:12]}"
    bucket = s3.bucket(name) if request.param == "s3" else f"memory://{name}"
    return FolderFiles(f"{bucket}/a/b")


def write(files: FolderFiles, name: str, content: bytes) -> None:
    with files.create(name) as sink:
        sink.write(content)


def test_what_is_put_there_is_there(files: FolderFiles) -> None:
    """Files are read, listed, measured and removed; a prefix is no file, and a missing file has the
    error of a folder.
    """
    assert files.names() == []
    assert not files.exists("run.arrow")
    write(files, "run.arrow", b"content")
    assert files.publish("doc.json", b"{}")
    files.replace("doc.json", b"{1}")
    assert files.names() == ["doc.json", "run.arrow"]
    assert files.read("doc.json") == b"{1}"
    assert files.size("run.arrow") == 7
    assert files.checksum("run.arrow") == (7, zlib.crc32(b"content"))
    with files.map("run.arrow") as source:
        assert source.read() == b"content"
    above = FolderFiles(files.root.rpartition("/")[0])
    assert above.names() == ["b"]
    assert not above.exists("b")
    for name in ("doc.json", "run.arrow", "run.arrow"):
        files.delete(name)
    assert files.names() == []
    for attempt in (files.read, files.size, files.checksum, files.stamp):
        with pytest.raises(FileNotFoundError):
            attempt("run.arrow")


def test_a_file_that_was_not_finished_is_not_there(files: FolderFiles) -> None:
    """An unfinished file is neither in the store nor among the copies."""

    def cut_short() -> None:
        with files.create("run.arrow") as sink:
            sink.write(b"half")
            raise ValueError("cut short")

    with pytest.raises(ValueError, match="cut short"):
        cut_short()
    assert not files.exists("run.arrow")
    with pytest.raises(FileNotFoundError):
        files.map("run.arrow")


def test_one_of_many_creates_a_name(files: FolderFiles) -> None:
    """Of eight concurrent writers of one name exactly one succeeds, and the object has its content."""
    for turn in range(10):
        ready = threading.Barrier(8)
        won: list[bytes] = []

        def attempt(content: bytes, name: str, ready: threading.Barrier, won: list[bytes]) -> None:
            ready.wait()
            if files.publish(name, content):
                won.append(content)

        arguments = (f"{turn}.json", ready, won)
        threads = [
            threading.Thread(target=attempt, args=(str(n).encode(), *arguments)) for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert files.read(f"{turn}.json") == won[0]


Publish = Callable[[Remote, bytes], None]


class Publishing(FileSystem):
    """Publishes in the way that a test chooses."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish

    def publish(self, path: Remote, content: bytes) -> None:
        self._publish(path, content)


def done_and_no_answer(path: Remote, content: bytes) -> None:
    FileSystem().publish(path, content)
    raise TimeoutError("no answer")


def done_twice(path: Remote, content: bytes) -> None:
    FileSystem().publish(path, content)
    FileSystem().publish(path, content)


def another_was_first(path: Remote, content: bytes) -> None:
    FileSystem().publish(path, b"another's")
    FileSystem().publish(path, content)


def no_answer(_path: Remote, _content: bytes) -> None:
    raise TimeoutError("no answer")


def refused(_path: Remote, _content: bytes) -> None:
    raise PermissionError("not allowed")


@pytest.mark.parametrize(
    ("publish", "wanted"),
    [(done_and_no_answer, True), (done_twice, True), (another_was_first, False)],
)
def test_an_outcome_that_was_not_told_is_read(
    files: FolderFiles, publish: Publish, *, wanted: bool
) -> None:
    """Our object is recognized after a repeated request, and that of another writer is not ours."""
    with use_filesystem(Publishing(publish)):
        assert files.publish("doc.json", b"ours") is wanted
    assert files.read("doc.json") == (b"ours" if wanted else b"another's")


def test_nothing_there_is_no_answer_unless_the_store_refused(files: FolderFiles) -> None:
    """A missing object after a request without answer is unknown; after a refused request it is a
    failure.
    """
    with use_filesystem(Publishing(no_answer)), pytest.raises(OutcomeUnknown):
        files.publish("doc.json", b"ours")
    with use_filesystem(Publishing(refused)), pytest.raises(PermissionError):
        files.publish("doc.json", b"ours")


@pytest.mark.parametrize("times", [1, 1000])
def test_answers_that_the_server_does_not_give(s3: Emulator, times: int) -> None:
    """The server performs a write but reports a failure: once, so that the client repeats it, or
    always.
    """
    files = FolderFiles(s3.bucket(f"no-answer-{times}"))
    left = [times]

    def fault(method: str, path: str) -> str:
        if method != "PUT" or not path.endswith("doc.json") or not left[0]:
            return ""
        left[0] -= 1
        return "after"

    with s3.broken(fault):
        assert files.publish("doc.json", b"ours")
    assert left[0] < times
    assert not files.publish("doc.json", b"another's")
    assert files.read("doc.json") == b"ours"


# --- copies ---------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An unused folder for downloaded copies."""
    folder = tmp_path / "cache"
    monkeypatch.setenv(download_cache.FOLDER, str(folder))
    return folder


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Set a small limit of the cache, which is checked with every copy."""
    monkeypatch.setenv(download_cache.LIMIT, "10000")
    monkeypatch.setattr(download_cache, "_unmeasured", 10000)
    yield 10000
    download_cache._unmeasured = download_cache.DEFAULT_LIMIT


def copies(cache: Path) -> list[Path]:
    return sorted((cache / "copies").glob("*/*"))


def test_copies_are_fetched_once_and_kept_within_bounds(
    files: FolderFiles, cache: Path, limit: int
) -> None:
    """The least recently used copies are deleted first, and downloaded again when they are read."""
    for number in range(30):
        write(files, f"run-{number}", bytes([number]) * 1000)
        with files.map("run-0") as source:
            assert source.read(1) == b"\0"
    there = {path.name for path in copies(cache)}
    assert "run-0" in there
    assert "run-29" in there
    assert "run-1" not in there
    assert sum(path.stat().st_size for path in copies(cache)) <= limit + limit // 16 + 1000
    for number in range(30):
        assert files.checksum(f"run-{number}") == (1000, zlib.crc32(bytes([number]) * 1000))
    assert not list((cache / "drafts").iterdir())


def test_what_is_mapped_stays_readable_when_its_copy_goes(files: FolderFiles, cache: Path) -> None:
    """A mapped file stays readable after its copy is deleted."""
    write(files, "run", b"content")
    with files.map("run") as source:
        assert files.forget("run")
        assert not files.forget("run")
        assert copies(cache) == []
        assert source.read() == b"content"
    assert files.checksum("run")[0] == 7


def test_many_fetch_at_once(files: FolderFiles, cache: Path, limit: int) -> None:
    """Concurrent readers get what they requested while copies are created and deleted."""
    contents = {f"run-{n}": bytes([n]) * (500 + n) for n in range(24)}
    for name, content in contents.items():
        write(files, name, content)
    wrong: list[str] = []

    def read(offset: int) -> None:
        names = list(contents)
        wrong.extend(
            name
            for name in names[offset:] + names[:offset]
            if files.checksum(name) != (len(contents[name]), zlib.crc32(contents[name]))
        )

    threads = [threading.Thread(target=read, args=(n * 5,)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert sum(path.stat().st_size for path in copies(cache)) <= 2 * limit


def test_copies_lie_in_a_folder_of_the_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that others can read is refused, and a new one is private."""
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    monkeypatch.setenv(download_cache.FOLDER, str(folder))
    with pytest.raises(PermissionError, match="SUBSTRAIT_AGG_CACHE"):
        download_cache.base()
    folder.chmod(0o700)
    files = FolderFiles("memory://modes/x")
    write(files, "run", b"content")
    inside = [path for path in folder.rglob("*") if path.is_file()]
    assert inside
    assert all(path.stat().st_mode & 0o077 == 0 for path in inside)


def test_work_folders_of_killed_runs_are_removed(cache: Path) -> None:
    """Work folders of killed runs are removed, those of active runs are not."""
    with download_cache.work_folder() as mine:
        left = mine.parent / "0123"
        left.mkdir()
        left.with_suffix(".lock").touch()
        with download_cache.work_folder() as other:
            assert not left.exists()
            assert mine.exists()
            assert other != mine
        assert not other.exists()
    assert not list((cache / "runs").iterdir())


def test_a_lock_holds_on_this_machine(files: FolderFiles) -> None:
    """A lock excludes others on this machine, and locks of other names are independent."""
    with files.lock("lock", 0) as first, files.lock("lock", 0) as second:
        assert (first, second) == (True, False)
        with files.lock("other", 0) as other:
            assert other
    with files.lock("lock", 0) as again:
        assert again


def test_paths_are_joined_and_taken_apart_as_others() -> None:
    """URLs support the path operations that a checkpoint uses on folders."""
    place = location_of("s3://bucket//deep/down/")
    assert isinstance(place, Remote)
    assert str(place / "outputs" / "x.json") == "s3://bucket/deep/down/outputs/x.json"
    record = place / "x.json"
    assert (record.name, record.stem, record.parent) == ("x.json", "x", place)
    assert str(record.with_suffix(".7.json")) == "s3://bucket/deep/down/x.7.json"
    assert location_of("file:///tmp/a%20b") == Path("/tmp/a b")
    assert location_of("plain/path") == Path("plain/path")
    assert filesystem().exists(location_of("plain/path")) is False
