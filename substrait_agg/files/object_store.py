"""Object stores, accessed through fsspec: the operations of `disk.Disk` for remote paths.

A store keeps whole objects by name. There are no folders to create or flush, and no writes in
place. A file is written locally and then uploaded as a whole; it is read through a local copy
(`local_copies`). The consistency of a checkpoint depends on `publish` alone: of several runs that
publish under one name, the store lets exactly one succeed.
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

from substrait_agg.files import download_cache
from substrait_agg.files.locations import Remote
from substrait_agg.redaction import clean, safe_cause

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
"""Supported schemes, and the package to install for each.

For these schemes the fsspec package creates an object only if the name is free, in one request that
the store decides. For other schemes fsspec checks first and writes then, and two runs can do so at
the same time.
"""

_READING: dict[str, dict[str, Any]] = {scheme: {"max_concurrency": 1} for scheme in ("s3", "s3a")}
"""Options that read a document in one request.

By default the client asks for the size first, to read large objects in parts.
"""

_MEMORY = threading.Lock()


class StoreUnusable(OSError):
    """The store cannot be used.

    Attributes:
        package: the package to install; empty if the scheme is not one of `PACKAGES`.
    """

    def __init__(self, message: str, package: str = "") -> None:
        super().__init__(errno.ENOTSUP, message)
        self.package = package


class StoreFailed(OSError):
    """The store did not answer, or answered with an error; the stored data may be intact."""


def _alone(path: Remote) -> AbstractContextManager[Any]:
    """Return a lock for stores in memory.

    There, creating an object takes two steps, and the readers of an object share one read position.
    """
    return _MEMORY if path.scheme == "memory" else nullcontext()


def check(path: Remote) -> None:
    """Check that the store can be used and that local copies can be kept, without a request to the store.

    Raises:
        StoreUnusable: the scheme is not supported, or its package is not installed.
        OSError: there is no folder for local copies, or the client cannot be created.
    """
    download_cache.base()
    _system(path.root, os.getpid())


@cache
def _system(root: Remote, _process: int) -> Any:
    """Return the fsspec file system of a bucket, one per process: its threads do not survive a fork."""
    package = PACKAGES.get(root.scheme)
    if package is None:
        raise StoreUnusable(f"{root.scheme}:// is not known: {', '.join(PACKAGES)}")
    try:
        import fsspec  # noqa: PLC0415 - only where a store is used

        # A cached listing would be outdated.
        options = {"use_listings_cache": False, "skip_instance_cache": True}
        return fsspec.core.url_to_fs(str(root), **options)[0]
    except ImportError as error:
        raise StoreUnusable(f"{root.scheme}:// needs a package: {error}", package) from error
    except Exception as error:  # noqa: BLE001 - every client has its own
        raise _as_os_error(error, root) from safe_cause(error)


def _as_os_error(error: Exception, path: Remote) -> OSError:
    """Return the exception of a client as an OSError; every client has exceptions of its own."""
    if isinstance(error, OSError) and error.filename is not None:
        return error
    kind = next((known for known in _KINDS if isinstance(error, known)), StoreFailed)
    number = _KINDS.get(kind) or getattr(error, "errno", None) or errno.EIO
    return kind(number, clean(f"{type(error).__name__}: {error}"), str(path))


_KINDS: dict[type[OSError], int] = {
    FileNotFoundError: errno.ENOENT,
    FileExistsError: errno.EEXIST,
    PermissionError: errno.EACCES,
}


@contextmanager
def _store_access(path: Remote) -> Iterator[tuple[Any, str]]:
    """Yield the fsspec file system of a path and its key; convert all exceptions to OSError."""
    system = _system(path.root, os.getpid())
    try:
        yield system, system._strip_protocol(str(path))  # noqa: SLF001 - fsspec has no public equivalent
    except Exception as error:  # noqa: BLE001 - every client has its own
        raise _as_os_error(error, path) from safe_cause(error)


def names(folder: Remote, *, folders: bool) -> list[str]:
    """Return names as `disk.Disk.names` does; a folder is a common prefix of names."""
    with _store_access(folder) as (system, path):
        try:
            entries = system.ls(path, detail=True, refresh=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
    depth = len(path.rstrip("/")) + 1
    # Listing a file returns the file itself, and some stores keep an empty object for a folder.
    inside = ((e["name"].rstrip("/")[depth:], e["type"]) for e in entries)
    return sorted({n for n, kind in inside if n and "/" not in n and (folders or kind == "file")})


def exists(path: Remote) -> bool:
    """Return whether a file exists."""
    try:
        size(path)
    except FileNotFoundError:
        return False
    return True


def size(path: Remote) -> int:
    """Return the size of a file in bytes."""
    with _store_access(path) as (system, key):
        info = system.info(key, refresh=True)
    if info["type"] != "file":
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return int(info["size"])


def read(path: Remote) -> bytes:
    """Return all bytes of a file, as currently stored."""
    with _store_access(path) as (system, key):
        return bytes(system.cat_file(key, **_READING.get(path.scheme, {})))


def publish(path: Remote, content: bytes) -> None:
    """Create a file with its content, in one request.

    Raises:
        FileExistsError: the file exists. Some stores report this as another kind of OSError.
        OSError: the request failed; the file may have been created nevertheless.
    """
    with _alone(path), _store_access(path) as (system, key):
        system.pipe_file(key, content, mode="create")


def put(path: Remote, content: bytes) -> None:
    """Write a file, replacing an existing one."""
    with _store_access(path) as (system, key):
        system.pipe_file(key, content)


def remove(path: Remote) -> None:
    """Remove a file if it exists, and its local copy."""
    with suppress(FileNotFoundError), _store_access(path) as (system, key):
        system.rm_file(key)
    download_cache.drop(path)


@contextmanager
def upload(
    path: Remote, opened: Callable[[Path], AbstractContextManager[Opened]]
) -> Iterator[Opened]:
    """Open a local draft for writing; upload it when the block ends without an exception."""
    draft = download_cache.temporary_path()
    try:
        with opened(draft) as sink:
            yield sink
        with _store_access(path) as (system, key):
            system.put_file(str(draft), key)
        download_cache.keep(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def fetch(path: Remote, opened: Callable[[Path], Opened]) -> Opened:
    """Return the result of `opened` for the local copy of a file; download the file if needed."""
    copy = download_cache.copy_of(path)
    try:
        content = opened(copy)
    except FileNotFoundError:
        pass
    else:
        download_cache.note_use(copy)
        return content
    draft = download_cache.temporary_path()
    try:
        draft.touch(mode=0o600)
        with _alone(path), _store_access(path) as (system, key):
            system.get_file(key, str(draft))
        # Open the draft: the copy may be evicted at once, but an open file stays readable.
        content = opened(draft)
        download_cache.keep(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    return content
