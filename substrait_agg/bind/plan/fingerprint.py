"""Identify what a bound plan computes, independently of how and where it was written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Protocol

from substrait_agg.bind.bound import BoundRelation, Column, Expr, SortKey

FORMAT = "bound-1"


class Identified(Protocol):
    """A class that contributes to fingerprints."""

    def identity(self) -> tuple[object, ...]:
        """Return a tag and the attributes that decide what is computed, in a fixed order.

        Checkpoints are recognised by fingerprints. Tag and order therefore do not change when the
        class or its fields are renamed. Attributes that describe only the source text (path, name)
        are left out.
        """


def fingerprint(root: BoundRelation, names: tuple[str, ...], sorts: tuple[SortKey, ...]) -> str:
    """Hash the plan, its column names and its order.

    Return the SHA-256 of a canonical form, in hex.
    """
    return digest([FORMAT, canonical(root), list(names), canonical(sorts)])


def digest(content: Any) -> str:
    """Return the SHA-256, in hex, of JSON values."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def canonical(value: Any, columns: Sequence[Any] | None = None) -> Any:
    """Return JSON values that differ wherever the plans differ.

    Objects contribute their identity, and types are distinguished.

    Args:
        value: the value to serialise.
        columns: replacements for the columns that expressions refer to; None: columns are
            identified by their ordinals. With replacements, every other expression becomes a
            digest, so that it is the same whether it is a column of the input or written out.
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
