"""Make and parse the names of the files in a checkpoint."""

from __future__ import annotations

import re
import uuid

_VERSIONED = re.compile(
    r"(?:[a-z]+[0-9]*-[0-9]+-)?([0-9]{12})-(?:(?:[0-9]+|late|bad|input)-)?[0-9a-z]+\.(?:arrow|parquet)"
)
_SNAPSHOT = re.compile(r"([0-9]{20})\.json")
KEPT_REVISION = re.compile(r"kept-(\d{12})\.json")
"""Names of the retention record in an object store."""


def run_name(tree: str, operator: int, version: int) -> str:
    """Return a name for a run of a tree.

    The name is unique to the attempt, so that no other attempt overwrites a file that a snapshot
    names.
    """
    return f"{tree}-{operator}-{version:012d}-{uuid.uuid4().hex}.arrow"


def change_name(version: int, kind: int | str) -> str:
    """Return a name for a change file or a side file, unique to the attempt like `run_name`.

    Args:
        version: the version that writes the file.
        kind: the id of the operator; ``late`` or ``bad`` for rows that the version leaves out; ``input``
            for rows of a connector that the batch reads.
    """
    return f"{version:012d}-{kind}-{uuid.uuid4().hex}.parquet"


def version_of(name: str) -> int | None:
    """Return the version in the name of a run or a change file. Return None for other names."""
    match = _VERSIONED.fullmatch(name)
    return int(match.group(1)) if match else None


def snapshot_name(version: int) -> str:
    """Return the file name of the snapshot of a version. Names sort like versions."""
    return f"{version:020d}.json"


def version_of_snapshot(name: str) -> int | None:
    """Return the version in the name of a snapshot. Return None for other names."""
    match = _SNAPSHOT.fullmatch(name)
    return int(match.group(1)) if match else None


def retention_name(revision: int) -> str:
    """Return the name of a revision of the retention record."""
    return f"kept-{revision:012d}.json"


def claim_name(epoch: int) -> str:
    """Return the name of the claim of a run."""
    return f"{epoch:012d}.json"
