"""The identity of a bound plan: what it computes, whatever form or position it was written in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from substrait_agg.bind.bound import BoundRelation, Column, Expr, SortKey

FORMAT = "bound-1"
WORDING = frozenset({"path", "name"})
"""Attributes that say where or how something was written, not what it computes."""


def fingerprint(root: BoundRelation, names: tuple[str, ...], sorts: tuple[SortKey, ...]) -> str:
    """SHA-256, in hex, of a canonical serialisation of the plan, its column names and its order."""
    return digest([FORMAT, canonical(root), list(names), canonical(sorts)])


def digest(content: Any) -> str:
    """SHA-256, in hex, of JSON values."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def canonical(value: Any, columns: Sequence[Any] | None = None) -> Any:
    """Dataclasses as [class, attributes...], everything else as JSON values that tell all types apart.

    Args:
        value: what is serialised.
        columns: what stands for the columns that expressions in it refer to; without it they are named by their place. With it
            every other expression is a digest: the same whether it is a column of the input or written out.
    """
    if columns is not None and isinstance(value, Expr):
        if isinstance(value, Column):
            return columns[value.ordinal]
        return digest(_attributes(value, columns))
    if is_dataclass(value):
        return _attributes(value, columns)
    if isinstance(value, tuple | list):
        return [canonical(item, columns) for item in value]
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, float):
        return {"float": value.hex()}
    if value is None or isinstance(value, bool | int | str):
        return value
    raise TypeError(f"no canonical form for {type(value).__name__}")


def _attributes(value: Any, columns: Sequence[Any] | None) -> list[Any]:
    kind = type(value).__name__
    skipped = WORDING if kind.startswith("Bound") else frozenset[str]()
    told = (getattr(value, f.name) for f in fields(value) if f.name not in skipped)
    return [kind, *(canonical(item, columns) for item in told)]
