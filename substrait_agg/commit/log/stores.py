"""Checkpoints on object stores: where they may lie, and what a store is asked for before a run rests on it."""

from __future__ import annotations

import errno
import uuid

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.errors import StateRefused, UsageError
from substrait_agg.files import object_store
from substrait_agg.files.filesystem import filesystem
from substrait_agg.files.locations import Location, LocationInvalid, Remote, located
from substrait_agg.files.object_store import StoreUnusable

PROBE = "probe-"
"""What names of probes begin with. One is left behind by a kill in the middle; no run removes another's, which may be asleep."""


def checkpoint_location(place: str | Location) -> Location:
    """Where the checkpoint lies that a user names.

    Raises:
        UsageError: CHECKPOINT_URL_INVALID, STORE_NOT_SUPPORTED, STORE_PACKAGE_MISSING.
        OSError: the package of the store cannot be set up, for instance because its settings are wrong.
    """
    try:
        found = located(place)
        if isinstance(found, Remote):
            object_store.check(found)
    except LocationInvalid as error:
        help = "write SCHEME://BUCKET/PREFIX; keys and options come from the environment (docs/object-stores.md)"
        raise UsageError("CHECKPOINT_URL_INVALID", str(error), help=help) from None
    except StoreUnusable as error:
        raise _unusable(error, str(place)) from error
    return found.absolute()


def _unusable(error: StoreUnusable, place: str) -> UsageError:
    message = error.strerror or str(error)
    if error.package:
        help = f"pip install '{error.package}', also where Spark's workers run"
        return UsageError("STORE_PACKAGE_MISSING", message, help=help, path=place)
    help = "of other stores it is not known that they create a name only once; use one of these, or a folder"
    return UsageError("STORE_NOT_SUPPORTED", message, help=help, path=place)


def probe(root: FolderFiles) -> None:
    """See that a store does what commits rest on: a name is created once, and what was written is read and listed at once.

    Raises:
        StateRefused: STORE_NOT_ATOMIC, STORE_NOT_CONSISTENT.
        OSError: it cannot be written to.
    """
    name = f"{PROBE}{uuid.uuid4().hex}"
    path = root.path(name)
    if not isinstance(path, Remote):
        return
    first, second = b"first", b"second"
    filesystem().publish(path, first)
    try:
        _publish_again(path, second)
        if filesystem().read(path) != first:
            raise _not_atomic(root)
        if name not in root.names():
            raise _not_consistent(root, "does not list what has just been written")
    except FileNotFoundError as error:
        raise _not_consistent(root, "does not find what has just been written") from error
    finally:
        filesystem().remove(path)


def _publish_again(path: Remote, content: bytes) -> None:
    """The store has to refuse; in which words, clients tell in many ways, and what is there then tells it all."""
    try:
        filesystem().publish(path, content)
    except OSError as error:
        if error.errno == errno.EACCES:
            raise


def _not_atomic(root: FolderFiles) -> StateRefused:
    return StateRefused(
        "STORE_NOT_ATOMIC",
        "the store has written over a name that it was to create only if it was not there",
        help="of two runs both would commit: use a store, or a version of it, with conditional writes (docs/object-stores.md)",
        path=root.root,
    )


def _not_consistent(root: FolderFiles, what: str) -> StateRefused:
    return StateRefused(
        "STORE_NOT_CONSISTENT",
        f"the store {what}",
        help="use a store that is consistent, without a cache in between (docs/object-stores.md)",
        path=root.root,
    )
