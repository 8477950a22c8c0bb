"""The lease of a run, where no lock of the operating system keeps runs on two machines apart.

A run writes a document again and again (`BEAT_SECONDS`). Another run that finds one waits whether it
changes (`PATIENCE_SECONDS`): then the first run lives, and the other is refused. Otherwise the first has
been killed. No clocks of two machines are compared. Two runs that start in the same moment may both pass;
of these the claims stop one (`fence`).
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from substrait_agg.commit.documents.envelope import seal, unseal
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.errors import StateRefused
from substrait_agg.files.filesystem import filesystem

LEASE = "lease.json"
BEAT_SECONDS = 5.0
PATIENCE_SECONDS = 15.0
LEASE_FORMAT = 1
_LOOK_SECONDS = 1.0


@contextmanager
def lease_for_run(files: FolderFiles, checkpoint: str) -> Iterator[None]:
    """Hold the lease of a checkpoint for a block.

    Args:
        files: the folder of claims.
        checkpoint: id of the checkpoint.

    Raises:
        StateRefused: CHECKPOINT_BUSY: a run on another machine lives.
        OSError: the lease cannot be read or written.
    """
    _await_end(files)
    lease = _Lease(files, checkpoint)
    lease.beat()
    thread = threading.Thread(target=lease.keep_beating, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        lease.ended.set()
        thread.join()
        lease.end()


class _Lease:
    def __init__(self, files: FolderFiles, checkpoint: str) -> None:
        self._files, self._checkpoint, self._beats = files, checkpoint, 0
        self._owner = {
            "host": socket.gethostname(),
            "machine": _machine(),
            "process": os.getpid(),
            "id": os.urandom(8).hex(),
        }
        self.ended = threading.Event()

    def beat(self) -> None:
        """Write the document with another number."""
        since = datetime.now(UTC).isoformat(timespec="seconds")
        body = {**self._owner, "since": since, "beat": self._beats}
        self._beats += 1
        self._files.replace(LEASE, seal(body, format=LEASE_FORMAT, checkpoint=self._checkpoint))

    def keep_beating(self) -> None:
        """Beat until `ended` is set."""
        while not self.ended.wait(BEAT_SECONDS):
            with suppress(OSError):  # the next beat may succeed; the claims guard what is written
                if not self._is_own():
                    return  # this run was suspended for so long that another one has taken over
                self.beat()

    def end(self) -> None:
        """Delete the document, unless another run has taken over."""
        with suppress(OSError):
            if self._is_own():
                self._files.delete(LEASE)

    def _is_own(self) -> bool:
        return _field(_content(self._files) or b"", "id") == self._owner["id"]


def _machine() -> str:
    """Return what tells this machine from others since its start; two machines may have one name."""
    try:
        boot = filesystem().read(Path("/proc/sys/kernel/random/boot_id")).decode().strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()} {boot}"


def _await_end(files: FolderFiles) -> None:
    """Wait until it is certain that no run holds the lease."""
    before = _content(files)
    # The lock of this machine is free, so a run of this machine has ended.
    if before is None or _field(before, "machine") == _machine():
        return
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        time.sleep(min(_LOOK_SECONDS, PATIENCE_SECONDS / 10))
        now = _content(files)
        if now is None:
            return
        if now != before:
            raise StateRefused(
                "CHECKPOINT_BUSY",
                f"this checkpoint is in use by process {_field(now, 'process')} on {_field(now, 'host')}",
                help="wait until that run has ended, or stop it; nothing was changed",
                path=files.root,
            )


def _content(files: FolderFiles) -> bytes | None:
    try:
        return files.read(LEASE)
    except FileNotFoundError:
        return None


def _field(content: bytes, name: str) -> str:
    """Return a field of a lease; empty if it cannot be read."""
    try:
        return str(unseal(content, LEASE, format=LEASE_FORMAT).body.get(name, ""))
    except StateRefused:
        return ""
