"""Identify what a bound plan computes, independently of how and where it was written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from substrait_agg.bind import bound
from substrait_agg.bind.bound import BoundRelation, Column, Expr, SortKey
from substrait_agg.plan.types import Type

FORMAT = "bound-1"

Names = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]
"""The names of the columns, and per column those of the struct fields inside it, or nothing."""

_NOT_COMPUTED = frozenset({"name", "path"})
"""Fields that describe only the source text."""

_TAGS: Mapping[type[Any], str] = {
    bound.NestedPart: "Nested", bound.BoundNestedValue: "NestedValue",
    bound.BoundLambda: "Lambda", bound.LambdaParameter: "Parameter",
}  # fmt: skip
"""The tags of classes that are not their names. Tags never change, as they are in fingerprints."""

_LATER: Mapping[type[Any], tuple[str, ...]] = {
    bound.BoundFetch: ("partitions", "numbered"),
    bound.Frame: ("months", "lower_rest", "upper_rest"),
    bound.BoundWindowFunction: ("skip_nulls",),
    bound.BoundWindowValues: ("last",),
}
"""Attributes that classes got later. An empty one is left out, so that earlier fingerprints stay."""


@cache
def _attributes(kind: Any) -> tuple[str, ...]:
    """Return the fields of a class that decide what is computed, in their order."""
    without = {*_NOT_COMPUTED, *_LATER.get(kind, ())}
    return tuple(f.name for f in fields(kind) if f.compare and f.name not in without)


def identity(value: Any) -> tuple[object, ...]:
    """Return the tag of an object and the attributes that decide what is computed."""
    if isinstance(value, Type):
        return value.identity()
    kind: Any = type(value)
    later = (name for name in _LATER.get(kind, ()) if getattr(value, name))
    return (
        _TAGS.get(kind, kind.__name__),
        *(getattr(value, name) for name in _attributes(kind)),
        *((name, getattr(value, name)) for name in later),
    )


def fingerprint(root: BoundRelation, names: Names, sorts: tuple[SortKey, ...]) -> str:
    """Return the SHA-256, in hex, of a canonical form of plan, names and order."""
    columns, fields = names
    named = [*columns, list(fields)] if fields else list(columns)
    return digest([FORMAT, canonical(root), named, canonical(sorts)])


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
    if is_dataclass(value):
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


def _identity(value: Any, columns: Sequence[Any] | None) -> list[Any]:
    return [canonical(item, columns) for item in identity(value)]
