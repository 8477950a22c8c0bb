"""The note of what a checkpoint still has (`retention.Kept`), where runs on other machines must not put back an old one.

In a folder it is one file, replaced under a lock in which no run takes over. A store has no locks: there each note has a name of its own
with its number, created only if it is not there, and the greatest number counts. Whoever made up its note from an older one than the
newest finds the name taken.
"""

from __future__ import annotations

import errno
import re
from contextlib import suppress

from substrait_agg.commit.files import FolderFiles, OutcomeUnknown
from substrait_agg.commit.retention import KEPT
from substrait_agg.commit.sealed import damaged, unreadable

REVISION = re.compile(r"kept-(\d{12})\.json")
_ATTEMPTS = 5


def kept(root: FolderFiles) -> bytes | None:
    """The newest note; None where there is none.

    Raises:
        StateRefused: STATE_DAMAGED.
    """
    for _ in range(_ATTEMPTS):
        name = _newest(root) if root.is_remote else KEPT
        if name is None or not (root.is_remote or root.exists(name)):
            return None
        try:
            return root.read(name)
        except FileNotFoundError as error:
            if not root.is_remote:
                raise damaged(KEPT, "it is missing") from error
            continue  # there is a newer one
        except OSError as error:
            raise unreadable(name, error) from error
    raise damaged(KEPT, "it is listed and not there")


def keep(root: FolderFiles, revision: int, content: bytes) -> bool:
    """Write a note; False where there is one with its number or a greater one.

    Raises:
        OSError: it may not have been written.
    """
    if not root.is_remote:
        root.replace(KEPT, content)
        return True
    name = f"kept-{revision:012d}.json"
    try:
        if not root.publish(name, content):
            return False
    except OutcomeUnknown as error:
        raise OSError(errno.EIO, str(error)) from error
    older = [other for other in root.names() if REVISION.fullmatch(other) and other < name]
    for other in older:
        with suppress(OSError):  # the next one removes it
            root.delete(other)
    return True


def _newest(root: FolderFiles) -> str | None:
    return max(filter(REVISION.fullmatch, root.names()), default=None)
