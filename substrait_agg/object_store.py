"""Object stores through fsspec: what `disk.Disk` does with paths that are none of a file system.

A store keeps whole contents by name. There are no folders to make or to flush, and nothing is written in place: a file is
written here first and then put there as a whole, and read through a copy (`local_copies`). All that a checkpoint rests on is
`publish`: of several that publish under one name, the store lets one win.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from substrait_agg import local_copies
from substrait_agg.locations import Remote
from substrait_agg.redaction import cleaned, safe_cause

Opened = TypeVar("Opened")

PACKAGES = {
    "s3": "substrait-agg[stores]",
    "s3a": "substrait-agg[stores]",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
    "memory": "substrait-agg[stores]",
}
"""Schemes of stores whose fsspec package creates a name only if it is not there, in one request that the store decides; what to install.

Of others fsspec looks first and writes then, which two runs can do at the same moment.
"""

_READING: dict[str, dict[str, Any]] = {scheme: {"max_concurrency": 1} for scheme in ("s3", "s3a")}
"""How a document is read in one request: otherwise its size is asked for first, for reading long ones in parts."""

_MEMORY = threading.Lock()


class StoreUnusable(OSError):
    """There is no way to this store; `package` is what to install, empty where the scheme is not one of `PACKAGES`."""

    def __init__(self, message: str, package: str = "") -> None:
        super().__init__(errno.ENOTSUP, message)
        self.package = package


class StoreFailed(OSError):
    """The store did not answer, or not with what was asked for; what it has may be all right."""


def _alone(path: Remote) -> AbstractContextManager[Any]:
    """Where the store is memory of this process, creating a name takes two steps, and readers of a file share a position in it."""
    return _MEMORY if path.scheme == "memory" else nullcontext()


def check(path: Remote) -> None:
    """See that there is a way to the store, and a place for copies; nothing is asked of it.

    Raises:
        StoreUnusable: the scheme is not known, or its package is not installed.
        OSError: there is no place for copies, or the client cannot be set up.
    """
    local_copies.base()
    _system(path.root, os.getpid())


@cache
def _system(root: Remote, _process: int) -> Any:
    """The file system of a bucket; one per process, because its threads do not live on in a child."""
    package = PACKAGES.get(root.scheme)
    if package is None:
        raise StoreUnusable(f"{root.scheme}:// is not known: {', '.join(PACKAGES)}")
    try:
        import fsspec  # noqa: PLC0415 - only where a store is used

        # A listing that is remembered would be one of another time.
        options = {"use_listings_cache": False, "skip_instance_cache": True}
        return fsspec.core.url_to_fs(str(root), **options)[0]
    except ImportError as error:
        raise StoreUnusable(f"{root.scheme}:// needs a package: {error}", package) from error
    except Exception as error:  # noqa: BLE001 - every client has its own
        raise _as_os_error(error, root) from safe_cause(error)


def _as_os_error(error: Exception, path: Remote) -> OSError:
    """The exception of a client as one of the system: each store has its own kinds."""
    if isinstance(error, OSError) and error.filename is not None:
        return error
    kind = next((known for known in _KINDS if isinstance(error, known)), StoreFailed)
    number = _KINDS.get(kind) or getattr(error, "errno", None) or errno.EIO
    return kind(number, cleaned(f"{type(error).__name__}: {error}"), str(path))


_KINDS: dict[type[OSError], int] = {
    FileNotFoundError: errno.ENOENT,
    FileExistsError: errno.EEXIST,
    PermissionError: errno.EACCES,
}


@contextmanager
def _asked(path: Remote) -> Iterator[tuple[Any, str]]:
    """The file system of a path and what it calls it; whatever it raises is an OSError with the path."""
    system = _system(path.root, os.getpid())
    try:
        yield system, system._strip_protocol(str(path))  # noqa: SLF001 - fsspec has no other name for it
    except Exception as error:  # noqa: BLE001 - every client has its own
        raise _as_os_error(error, path) from safe_cause(error)


def names(folder: Remote, *, folders: bool) -> list[str]:
    """See `disk.Disk.names`; a folder is what names have in common."""
    with _asked(folder) as (system, path):
        try:
            found = system.ls(path, detail=True, refresh=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
    depth = len(path.rstrip("/")) + 1
    # Asked for what is a file, stores answer with the file itself; and some keep an empty file for a folder.
    inside = ((e["name"].rstrip("/")[depth:], e["type"]) for e in found)
    return sorted({n for n, kind in inside if n and "/" not in n and (folders or kind == "file")})


def exists(path: Remote) -> bool:
    """Whether there is a file."""
    try:
        size(path)
    except FileNotFoundError:
        return False
    return True


def size(path: Remote) -> int:
    """Size of a file in bytes."""
    with _asked(path) as (system, key):
        found = system.info(key, refresh=True)
    if found["type"] != "file":
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return int(found["size"])


def read(path: Remote) -> bytes:
    """All bytes of a file, as the store has it now."""
    with _asked(path) as (system, key):
        return bytes(system.cat_file(key, **_READING.get(path.scheme, {})))


def publish(path: Remote, content: bytes) -> None:
    """Create a file with its content, in one request.

    Raises:
        FileExistsError: there is one; some stores only tell that by other kinds of OSError.
        OSError: it may have been created nevertheless.
    """
    with _alone(path), _asked(path) as (system, key):
        system.pipe_file(key, content, mode="create")


def put(path: Remote, content: bytes) -> None:
    """Write a file, in the place of what was there."""
    with _asked(path) as (system, key):
        system.pipe_file(key, content)


def remove(path: Remote) -> None:
    """Remove a file if it is there, and its copy."""
    with suppress(FileNotFoundError), _asked(path) as (system, key):
        system.rm_file(key)
    local_copies.drop(path)


@contextmanager
def uploaded(
    path: Remote, opened: Callable[[Path], AbstractContextManager[Opened]]
) -> Iterator[Opened]:
    """A file to write here, which is put into the store when the block ends without an exception."""
    draft = local_copies.draft()
    try:
        with opened(draft) as sink:
            yield sink
        with _asked(path) as (system, key):
            system.put_file(str(draft), key)
        local_copies.keep(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def fetched(path: Remote, opened: Callable[[Path], Opened]) -> Opened:
    """What `opened` makes of the copy of a file, which is fetched where there is none."""
    copy = local_copies.copy_of(path)
    try:
        found = opened(copy)
    except FileNotFoundError:
        pass
    else:
        local_copies.used(copy)
        return found
    draft = local_copies.draft()
    try:
        draft.touch(mode=0o600)
        with _alone(path), _asked(path) as (system, key):
            system.get_file(key, str(draft))
        # It may be evicted as soon as it is a copy; what is open stays.
        found = opened(draft)
        local_copies.keep(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    return found
