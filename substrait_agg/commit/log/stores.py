"""Locations of checkpoints, and checks of the guarantees that commits need from an object store."""

from __future__ import annotations

import errno
import uuid

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.errors import StateRefused, UsageError
from substrait_agg.files import object_store
from substrait_agg.files.filesystem import filesystem
from substrait_agg.files.locations import Location, LocationInvalid, Remote, location_of
from substrait_agg.files.object_store import StoreUnusable

PROBE = "probe-"
"""Prefix of probe files.

A killed run leaves its file behind. Other runs do not remove it, because its run may only be
suspended.
"""


def checkpoint_location(place: str | Location) -> Location:
    """Return the location of a checkpoint that a user names.

    Raises:
        UsageError: CHECKPOINT_URL_INVALID, STORE_NOT_SUPPORTED, STORE_PACKAGE_MISSING.
        OSError: the package of the store cannot be set up, for instance because its settings are
            wrong.
    """
    try:
        location = location_of(place)
        if isinstance(location, Remote):
            object_store.check(location)
    except LocationInvalid as error:
        help = "write SCHEME://BUCKET/PREFIX; keys and options come from the environment (docs/object-stores.md)"
        raise UsageError("CHECKPOINT_URL_INVALID", str(error), help=help) from None
    except StoreUnusable as error:
        raise _unusable(error, str(place)) from error
    return location.absolute()


def _unusable(error: StoreUnusable, place: str) -> UsageError:
    message = error.strerror or str(error)
    if error.package:
        help = f"pip install '{error.package}' here and on the Spark workers"
        return UsageError("STORE_PACKAGE_MISSING", message, help=help, path=place)
    help = "other stores are not known to create a name only once; use one of these, or a folder"
    return UsageError("STORE_NOT_SUPPORTED", message, help=help, path=place)


def probe(root: FolderFiles) -> None:
    """Check that a store has the guarantees that commits need.

    The store must create a name only once. A new file must be readable and listed at once.

    Raises:
        StateRefused: STORE_NOT_ATOMIC, STORE_NOT_CONSISTENT.
        OSError: the store cannot be written to.
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
            raise StateRefused(
                "STORE_NOT_ATOMIC",
                "the store overwrote an object that it should create only if it is absent",
                help="two runs could both commit: use a store, or a version of it, with conditional writes (docs/object-stores.md)",
                path=root.root,
            )
        if name not in root.names():
            raise _not_consistent(root, "does not list an object that was just written")
    except FileNotFoundError as error:
        raise _not_consistent(root, "does not read an object that was just written") from error
    finally:
        filesystem().remove(path)


def _publish_again(path: Remote, content: bytes) -> None:
    """Publish a name that exists, which the store must refuse.

    Clients report the refusal in different ways, so the caller reads the content instead.
    """
    try:
        filesystem().publish(path, content)
    except OSError as error:
        if error.errno == errno.EACCES:
            raise


def _not_consistent(root: FolderFiles, what: str) -> StateRefused:
    return StateRefused(
        "STORE_NOT_CONSISTENT",
        f"the store {what}",
        help="use a consistent store without a cache in front of it (docs/object-stores.md)",
        path=root.root,
    )
