"""Identify what a bound plan computes, independently of how and where it was written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from substrait_agg.bind import bound
from substrait_agg.bind.bound import BoundRelation, Column, Expr, SortKey
from substrait_agg.plan.types import Type

FORMAT = "bound-1"

Names = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]
"""The names of the columns, and per column those of the struct fields inside it, or nothing."""

_PARTS: Mapping[type[Any], tuple[str, ...]] = {
    bound.Constant: ("Constant", "type", "value"),
    bound.Column: ("Column", "type", "ordinal"),
    bound.NestedPart: ("Nested", "type", "input", "step"),
    bound.Call: ("Call", "type", "function", "arguments", "enums", "options"),
    bound.Conversion: ("Conversion", "type", "input", "null_on_failure"),
    bound.Conditional: ("Conditional", "type", "clauses", "otherwise"),
    bound.InList: ("InList", "type", "value", "options"),
    bound.BoundNestedValue: ("NestedValue", "type", "parts"),
    bound.BoundLambda: ("Lambda", "type", "body"),
    bound.LambdaParameter: ("Parameter", "type", "steps_out", "ordinal"),
    bound.OuterColumn: ("OuterColumn", "type", "ordinal"),
    bound.MeasureSort: ("MeasureSort", "expression", "descending", "nulls_first"),
    bound.BoundMeasure: (
        "BoundMeasure", "kind", "arguments", "filter", "type", "distinct", "order",
        "options", "constants", "keep_nulls", "implementation",
    ),
    bound.BoundRead: ("BoundRead", "table", "names", "types"),
    bound.BoundRows: ("BoundRows", "types", "rows"),
    bound.BoundFilter: ("BoundFilter", "input", "condition", "types"),
    bound.BoundProject: ("BoundProject", "input", "expressions", "types"),
    bound.BoundUnnest: ("BoundUnnest", "input", "values", "types"),
    bound.BoundUnion: ("BoundUnion", "inputs", "types"),
    bound.BoundSetOperation: ("BoundSetOperation", "operation", "inputs", "types"),
    bound.BoundAggregate: ("BoundAggregate", "input", "keys", "measures", "types", "sets"),
    bound.JoinKey: ("JoinKey", "left", "right", "null_safe"),
    bound.BoundJoin: ("BoundJoin", "left", "right", "kind", "keys", "residual", "types"),
    bound.BoundFetch: ("BoundFetch", "input", "sorts", "offset", "count", "types"),
    bound.Frame: ("Frame", "rows", "lower", "upper"),
    bound.BoundWindowFunction: (
        "BoundWindowFunction", "function", "arguments", "number", "frame", "measure", "type",
    ),
    bound.BoundWindowValues: (
        "BoundWindowValues", "input", "sorts", "partitions", "functions", "types",
    ),
    bound.SortKey: ("SortKey", "ordinal", "descending", "nulls_first"),
}  # fmt: skip
"""The tag of each class, and the attributes that decide what is computed, in a fixed order.

Checkpoints are recognised by fingerprints. Tag and order therefore do not change when the class or
its fields are renamed. Attributes that describe only the source text (path, name) are left out.
"""

_LATER: Mapping[type[Any], tuple[str, ...]] = {
    bound.BoundFetch: ("partitions", "numbered"),
    bound.BoundWindowValues: ("last",),
}
"""Attributes that classes got later. An empty one is left out, so that earlier fingerprints stay."""


def identity(value: Any) -> tuple[object, ...]:
    """Return the tag of an object and the attributes that decide what is computed."""
    if isinstance(value, Type):
        return value.identity()
    tag, *names = _PARTS[type(value)]
    later = (name for name in _LATER.get(type(value), ()) if getattr(value, name))
    return (
        tag,
        *(getattr(value, name) for name in names),
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
    if isinstance(value, Type) or type(value) in _PARTS:
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
