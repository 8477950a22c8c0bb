"""Names of the files in a checkpoint: how each is made, and what it says."""

from __future__ import annotations

import re
import uuid

_VERSIONED = re.compile(
    r"(?:[a-z]+[0-9]*-[0-9]+-)?([0-9]{12})-(?:(?:[0-9]+|late|bad)-)?[0-9a-z]+\.(?:arrow|parquet)"
)
_SNAPSHOT = re.compile(r"([0-9]{20})\.json")
KEPT_REVISION = re.compile(r"kept-(\d{12})\.json")
"""Names of what is kept of old versions, in an object store."""


def run_name(tree: str, operator: int, version: int) -> str:
    """Return a name for a run of a tree.

    It is unique to the attempt: a failed or repeated task can never overwrite what a snapshot names.
    """
    return f"{tree}-{operator}-{version:012d}-{uuid.uuid4().hex}.arrow"


def change_name(version: int, kind: int | str) -> str:
    """Return a name for a change file: of an operator by its id, or of rows set aside (``late``, ``bad``); unique as `run_name`."""
    return f"{version:012d}-{kind}-{uuid.uuid4().hex}.parquet"


def version_of(name: str) -> int | None:
    """Return the version for which a run or a change file was written, None for a file that is not ours."""
    found = _VERSIONED.fullmatch(name)
    return int(found.group(1)) if found else None


def snapshot_name(version: int) -> str:
    """Return the file name of a version; names sort as versions do."""
    return f"{version:020d}.json"


def version_of_snapshot(name: str) -> int | None:
    """Return the version of which a file is the snapshot, None for a file that is none."""
    found = _SNAPSHOT.fullmatch(name)
    return int(found.group(1)) if found else None


def kept_name(revision: int) -> str:
    """Return the name of a revision of what is kept of old versions."""
    return f"kept-{revision:012d}.json"


def claim_name(epoch: int) -> str:
    """Return the name of the claim of a run."""
    return f"{epoch:012d}.json"
