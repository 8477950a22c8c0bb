"""The origin of a table of changes, stored in the metadata of its schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

KEYS = b"substrait_agg.keys"
PLAN = b"substrait_agg.plan"
COMMITTED = b"substrait_agg.committed"
REPEATS = b"substrait_agg.repeats"
"""Metadata keys of a table of changes.

Values: ordinals of the key columns, fingerprint of the plan, commit times by version, whether a
row may be there several times.
"""


@dataclass(frozen=True, slots=True)
class ChangesOrigin:
    """The origin of a table of changes.

    Attributes:
        keys: ordinals of the columns that are the key of a row; None if the view does not show the
            whole key, or if its rows have no key.
        plan: fingerprint of the plan.
        committed: commit time of each version, ISO 8601 UTC.
        repeats: whether a row may be there several times, so that the key does not identify it.
    """

    keys: tuple[int, ...] | None
    plan: str
    committed: Mapping[int, str]
    repeats: bool = False

    def metadata(self) -> dict[bytes, bytes]:
        """Return the origin as metadata of an Arrow schema."""
        keys = json.dumps(None if self.keys is None else list(self.keys))
        committed = json.dumps({str(v): at for v, at in self.committed.items()})
        return {
            KEYS: keys.encode(),
            PLAN: self.plan.encode(),
            COMMITTED: committed.encode(),
            REPEATS: json.dumps(self.repeats).encode(),
        }


def origin_of(changes: pa.Table) -> ChangesOrigin:
    """Read the origin of a table of changes from its metadata.

    Without metadata, rows have no keys and versions have no commit time.
    """
    metadata = changes.schema.metadata or {}
    keys = json.loads(metadata.get(KEYS, b"null"))
    committed = json.loads(metadata.get(COMMITTED, b"{}"))
    return ChangesOrigin(
        None if keys is None else tuple(keys),
        metadata.get(PLAN, b"").decode(),
        {int(version): at for version, at in committed.items()},
        json.loads(metadata.get(REPEATS, b"false")),
    )
