"""The identity of a bound plan: what it computes, whatever form or position it was written in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Protocol

from substrait_agg.bind.bound import BoundRelation, Column, Expr, SortKey

FORMAT = "bound-1"


class Identified(Protocol):
    """Something that enters fingerprints."""

    def identity(self) -> tuple[object, ...]:
        """Return a tag, and the attributes that decide what is computed, in a fixed order.

        Checkpoints are recognised by fingerprints. So tag and order stay as they are when the class or its fields are
        renamed, and attributes that tell only where or how something was written (path, name) are left out.
        """


def fingerprint(root: BoundRelation, names: tuple[str, ...], sorts: tuple[SortKey, ...]) -> str:
    """SHA-256, in hex, of a canonical serialisation of the plan, its column names and its order."""
    return digest([FORMAT, canonical(root), list(names), canonical(sorts)])


def digest(content: Any) -> str:
    """SHA-256, in hex, of JSON values."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def canonical(value: Any, columns: Sequence[Any] | None = None) -> Any:
    """Return JSON values that differ wherever plans differ: objects as their identity, all types told apart.

    Args:
        value: what is serialised.
        columns: what stands for the columns that expressions in it refer to; without it they are named by their place. With it
            every other expression is a digest: the same whether it is a column of the input or written out.
    """
    if columns is not None and isinstance(value, Expr):
        if isinstance(value, Column):
            return columns[value.ordinal]
        return digest(_identity(value, columns))
    if hasattr(value, "identity"):
        return _identity(value, columns)
    if isinstance(value, tuple | list):
        return [canonical(item, columns) for item in value]
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, float):
        return {"float": value.hex()}
    if value is None or isinstance(value, bool | int | str):
        return value
    raise TypeError(f"no canonical form for {type(value).__name__}")


def _identity(value: Identified, columns: Sequence[Any] | None) -> list[Any]:
    return [canonical(item, columns) for item in value.identity()]
