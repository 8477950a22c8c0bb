"""A file system that fails, dies or sleeps at one chosen operation, and records all operations."""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from substrait_agg.files.filesystem import FileSystem
from substrait_agg.files.locations import Location, Remote

T = TypeVar("T")

Mode = Literal[
    "fails before", "fails halfway", "fails after", "done twice",
    "dies before", "dies halfway", "dies after", "sleeps before", "sleeps after",
]  # fmt: skip
"""An error without anything done, with half of it done, with all of it done; told to be there already after it was done; the
process is killed at these moments; the process is stopped until another one has gone on."""

READS = {"names", "exists", "status", "size", "read", "map"}
WRITES = {"create", "write"}
TURNS = {"link", "replace", "cut", "write", "publish", "put"}
"""What others see at once."""

NAMES: tuple[tuple[str, str], ...] = (
    (r"checkpoint", "the checkpoint"),
    (r"checkpoint/plan\.json", "plan.json"),
    (r"checkpoint/plan-\w+\.json", "the document of another plan"),
    (r"checkpoint/kept(-\d+)?\.json", "kept.json"),
    (r"checkpoint/settings\.json", "settings.json"),
    (r"checkpoint/rollback\.json", "rollback.json"),
    (r"checkpoint/lock", "the lock of runs"),
    (r"checkpoint/draft-\w+", "the draft of plan.json or kept.json"),
    (r"checkpoint/probe-\w+", "a probe"),
    (r"checkpoint/snapshots/draft-\w+", "the draft of a snapshot"),
    (r"checkpoint/snapshots/\d+\.json", "a snapshot"),
    (r"checkpoint/state/group-.*", "a run of groups"),
    (r"checkpoint/state/pending-.*", "a run of waiting groups"),
    (r"checkpoint/state/closed-.*", "a run of closed groups"),
    (r"checkpoint/state/tree.*", "a run of an ordered tree"),
    (r"checkpoint/state/rows.*", "a run of an arrangement"),
    (r"checkpoint/state/files-.*", "a list of files"),
    (r"checkpoint/changes/\d+-\d+-.*\.parquet", "a change file"),
    (r"checkpoint/owners/draft-\w+", "the draft of a claim"),
    (r"checkpoint/owners/\d+\.json", "a claim"),
    (r"checkpoint/owners/lock", "the lock"),
    (r"checkpoint/outputs/\..*\.tmp", "the draft of a record"),
    (r"checkpoint/outputs/.*\.json", "the record of an output"),
    (r"checkpoint/(\w+)(/.*)?", r"\1/"),
    (r"out/\..*\.tmp", "the draft of changes-parquet"),
    (r"out/.*\.parquet", "a file of changes-parquet"),
    (r"out", "the folder of changes-parquet"),
    (r"out\.jsonl", "the file of stream-json"),
    (r"view/\..*\.tmp", "the draft of view-parquet"),
    (r"view/view\.parquet", "the file of view-parquet"),
    (r"view", "the folder of view-parquet"),
    (r"\.", "the folder around"),
)
"""Paths of a scenario by what is there."""

SEAM = {
    "atomic_files.py",
    "contextlib.py",
    "faulty_disk.py",
    "fence.py",
    "files.py",
    "filesystem.py",
    "records.py",
}


@dataclass(frozen=True, order=True)
class Point:
    """A place where a crash can happen.

    Attributes:
        operation: method of `Disk`.
        what: what it is done to.
        caller: the function that asks for it.
    """

    operation: str
    what: str
    caller: str

    def modes(self, *, every: bool = True) -> Iterator[Mode]:
        """What can go wrong there.

        Args:
            every: also what leaves the same behind as an end after the operation before, or a sleep before the next.
        """
        twice = (
            {"dies before", "sleeps after"} if self.operation not in TURNS and not every else set()
        )
        yield from (mode for mode in self._modes() if mode not in twice)

    def _modes(self) -> Iterator[Mode]:
        yield from ("fails before", "sleeps before")
        if self.operation not in READS:  # being killed there is being killed after what came before
            yield "dies before"
        if self.operation in WRITES:
            yield from ("fails halfway", "dies halfway")
        if self.operation not in READS and self.operation != "lock":
            yield from ("fails after", "dies after", "sleeps after")
        if self.operation in ("link", "publish"):
            yield "done twice"


class Dead(BaseException):
    """The process was killed; from now on it does nothing."""


@dataclass
class Strike:
    """The fault, at the call of a point with this ordinal."""

    point: Point
    ordinal: int
    mode: Mode


@dataclass
class Sleep:
    """Lets a thread sleep in the middle of an operation, and wakes it up."""

    asleep: threading.Event = field(default_factory=threading.Event)
    woken: threading.Event = field(default_factory=threading.Event)
    overslept: bool = False

    def begin(self) -> None:
        """Sleep until woken."""
        self.asleep.set()
        self.overslept = not self.woken.wait(60)


class FaultyDisk(FileSystem):
    """Counts every operation and lets one go wrong.

    Args:
        folder: under which all paths are.
        strike: what goes wrong; None: nothing.
        threads: whether other threads than the one that makes it are left alone.
    """

    def __init__(self, folder: Path, strike: Strike | None = None, *, own: bool = True) -> None:
        self.folder = folder
        self.seen: Counter[Point] = Counter()
        self.struck = False
        self.sleep = Sleep()
        self._strike = strike
        self._dead = False
        self._thread = threading.get_ident() if own else None
        self._paths: dict[int, Path] = {}
        self._known: dict[Location, str] = {}

    def watch_this_thread(self) -> None:
        """Apply faults to operations of this thread from now on."""
        self._thread = threading.get_ident()

    def _mode(self, operation: str, path: Location) -> Mode | None:
        if self._thread not in (None, threading.get_ident()):
            return None
        if self._dead:
            raise Dead
        point = Point(operation, self._what(path), _caller())
        self.seen[point] += 1
        strike = self._strike
        if strike is None or self.struck or strike.point != point:
            return None
        if self.seen[point] != strike.ordinal:
            return None
        self.struck = True
        return strike.mode

    def _what(self, path: Location) -> str:
        name = self._known.get(path)
        if name is None:
            name = self._known[path] = self._name_of(path)
        return name

    def _name_of(self, path: Location) -> str:
        if isinstance(path, Remote):  # the bucket stands for the folder
            inside = path.key.partition("/")[2]
        else:
            inside = os.path.relpath(os.path.realpath(path), os.path.realpath(self.folder))
        for pattern, name in NAMES:
            if found := re.fullmatch(pattern, inside):
                return found.expand(name)
        raise AssertionError(f"{inside} has no name in NAMES")

    def _go_wrong(self, mode: Mode) -> None:
        if mode.startswith("dies"):
            self._dead = True
            raise Dead
        if mode == "done twice":
            raise FileExistsError(errno.EEXIST, "planted")
        raise OSError(errno.EIO, "planted")

    def _do(
        self,
        operation: str,
        path: Location,
        act: Callable[[], T],
        half: Callable[[], object] | None = None,
    ) -> T:
        mode = self._mode(operation, path)
        if mode is None:
            return act()
        if mode == "sleeps before":
            self.sleep.begin()
            return act()
        if mode.endswith("halfway") and half is not None:
            half()
        elif not mode.endswith("before"):
            result = act()
            if mode == "sleeps after":
                self.sleep.begin()
                return result
        self._go_wrong(mode)
        raise AssertionError(mode)

    @contextmanager
    def create(
        self,
        path: Location,
        opened: Callable[[Path], AbstractContextManager[T]],
        *,
        durable: bool = True,
    ) -> Iterator[T]:
        mode = self._mode("create", path)
        if mode == "sleeps before":
            self.sleep.begin()
        elif mode is not None and mode.endswith("before"):
            self._go_wrong(mode)
        with super().create(path, opened, durable=durable) as sink:
            yield sink
            if isinstance(path, Remote) and mode is not None and mode.endswith("halfway"):
                self._go_wrong(mode)  # half of an upload is nothing
        if mode == "sleeps after":
            self.sleep.begin()
        elif mode is not None and mode != "sleeps before":
            if mode.endswith("halfway") and not isinstance(path, Remote):
                os.truncate(path, path.stat().st_size // 2)
            self._go_wrong(mode)

    def make(self, folder: Path, mode: int = 0o777) -> None:
        self._do("make", folder, lambda: super(FaultyDisk, self).make(folder, mode))

    def link(self, draft: Path, target: Path) -> None:
        self._do("link", target, lambda: super(FaultyDisk, self).link(draft, target))

    def replace(self, draft: Path, target: Path) -> None:
        self._do("replace", target, lambda: super(FaultyDisk, self).replace(draft, target))

    def publish(self, path: Remote, content: bytes) -> None:
        self._do("publish", path, lambda: super(FaultyDisk, self).publish(path, content))

    def put(self, path: Remote, content: bytes) -> None:
        self._do("put", path, lambda: super(FaultyDisk, self).put(path, content))

    def forget(self, path: Location) -> bool:
        return super().forget(path)  # that a copy is there makes no difference

    def remove(self, path: Location) -> None:
        self._do("remove", path, lambda: super(FaultyDisk, self).remove(path))

    def names(self, folder: Location, *, folders: bool = False) -> list[str]:
        return self._do(
            "names", folder, lambda: super(FaultyDisk, self).names(folder, folders=folders)
        )

    def exists(self, path: Location) -> bool:
        return self._do("exists", path, lambda: super(FaultyDisk, self).exists(path))

    def status(self, path: Path) -> os.stat_result:
        return self._do("status", path, lambda: super(FaultyDisk, self).status(path))

    def size(self, path: Location) -> int:
        return self._do("size", path, lambda: super(FaultyDisk, self).size(path))

    def read(self, path: Location) -> bytes:
        return self._do("read", path, lambda: super(FaultyDisk, self).read(path))

    def map(self, path: Location, opened: Callable[[Path], T]) -> T:
        return self._do("map", path, lambda: super(FaultyDisk, self).map(path, opened))

    def sync(self, path: Path) -> None:
        self._do("sync", path, lambda: super(FaultyDisk, self).sync(path))

    def sync_all(self, paths: Sequence[Path]) -> None:
        for path in paths:  # in order, so that a call has an ordinal
            self.sync(path)

    def open(self, path: Path) -> int:
        descriptor = self._do("open", path, lambda: super(FaultyDisk, self).open(path))
        self._paths[descriptor] = path
        return descriptor

    def write(self, descriptor: int, content: bytes, offset: int) -> None:
        write = super().write
        self._do(
            "write",
            self._paths[descriptor],
            lambda: write(descriptor, content, offset),
            lambda: write(descriptor, content[: len(content) // 2], offset),
        )

    def cut(self, descriptor: int, size: int) -> None:
        path = self._paths[descriptor]
        self._do("cut", path, lambda: super(FaultyDisk, self).cut(descriptor, size))

    def flush(self, descriptor: int) -> None:
        path = self._paths[descriptor]
        self._do("flush", path, lambda: super(FaultyDisk, self).flush(descriptor))

    @contextmanager
    def lock(self, path: Location, patience: float) -> Iterator[bool]:
        mode = self._mode("lock", path)
        if mode == "sleeps before":
            self.sleep.begin()
        elif mode is not None:
            self._go_wrong(mode)
        with super().lock(path, patience) as alone:
            yield alone


def _caller() -> str:
    """The first function outside of the modules through which all operations go."""
    frame: Any = sys._getframe(2)
    while _is_seam(frame.f_code.co_filename):
        frame = frame.f_back
    return _function(frame.f_code.co_qualname)


@cache
def _is_seam(file: str) -> bool:
    return Path(file).name in SEAM


@cache
def _function(qualified_name: str) -> str:
    return re.sub(r"\.<\w+>", "", qualified_name.replace(".<locals>", ""))
