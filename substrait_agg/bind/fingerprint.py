"""The identity of a bound plan: what it computes, whatever form or position it was written in."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from typing import Any

from substrait_agg.bind.bound import BoundRelation, SortKey

FORMAT = "bound-1"
WORDING = frozenset({"path", "name"})
"""Attributes that say where or how something was written, not what it computes."""


def fingerprint(root: BoundRelation, names: tuple[str, ...], sorts: tuple[SortKey, ...]) -> str:
    """SHA-256, in hex, of a canonical serialisation of the plan, its column names and its order."""
    content = json.dumps(
        [FORMAT, _canonical(root), list(names), _canonical(sorts)],
        separators=(",", ":"),
        ensure_ascii=True,
    )
    return hashlib.sha256(content.encode("ascii")).hexdigest()


def _canonical(value: Any) -> Any:
    """Dataclasses as [class, attributes...], everything else as JSON values that tell all types apart."""
    if is_dataclass(value):
        kind = type(value).__name__
        skipped = WORDING if kind.startswith("Bound") else frozenset[str]()
        return [
            kind,
            *(_canonical(getattr(value, f.name)) for f in fields(value) if f.name not in skipped),
        ]
    if isinstance(value, tuple | list):
        return [_canonical(item) for item in value]
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, float):
        return {"float": value.hex()}
    if value is None or isinstance(value, bool | int | str):
        return value
    raise TypeError(f"no canonical form for {type(value).__name__}")
