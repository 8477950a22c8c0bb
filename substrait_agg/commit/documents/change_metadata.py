"""Where a table of changes comes from: told in the metadata of its schema, so that it travels with the table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

KEYS = b"substrait_agg.keys"
PLAN = b"substrait_agg.plan"
COMMITTED = b"substrait_agg.committed"
"""Metadata of a table of changes: ordinals of the key columns, the plan's fingerprint, commit times by version."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where changes come from.

    Attributes:
        keys: ordinals of the columns that are the key of a row; None where the view does not show the whole key, or
            its rows have none.
        plan: fingerprint of the plan.
        committed: when each version was committed, ISO 8601 UTC.
    """

    keys: tuple[int, ...] | None
    plan: str
    committed: Mapping[int, str]

    def metadata(self) -> dict[bytes, bytes]:
        """The same as metadata of a schema."""
        keys = json.dumps(None if self.keys is None else list(self.keys))
        committed = json.dumps({str(v): at for v, at in self.committed.items()})
        return {KEYS: keys.encode(), PLAN: self.plan.encode(), COMMITTED: committed.encode()}


def origin_of(changes: pa.Table) -> Origin:
    """What the metadata of a table of changes says; without it, rows have no keys and versions no time."""
    found = changes.schema.metadata or {}
    keys = json.loads(found.get(KEYS, b"null"))
    committed = json.loads(found.get(COMMITTED, b"{}"))
    return Origin(
        None if keys is None else tuple(keys),
        found.get(PLAN, b"").decode(),
        {int(version): at for version, at in committed.items()},
    )
