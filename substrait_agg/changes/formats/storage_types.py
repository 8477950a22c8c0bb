"""Convert columns from the Arrow type that stores them to the type that is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.plan.arrow import KIND

Column = Any
"""A `pyarrow.Array`."""


SHOWN: dict[bytes, Callable[[Column], Column]] = {
    b"u64": lambda values: values.cast(pa.uint64()),
    b"uuid": lambda values: pa.ExtensionArray.from_storage(pa.uuid(), values.cast(pa.binary(16))),
    b"precision_time": lambda values: values.cast(pa.time64("us")),
}
"""Kind, as marked by `plan.arrow.field` -> conversion to the type that is written."""


def to_shown(values: Column, field: pa.Field) -> Column:
    """Return a column with marked values converted, including those in lists, structs and maps."""
    if not _is_marked(field):
        return values
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    convert = SHOWN.get((field.metadata or {}).get(KIND, b""))
    if convert is not None:
        return convert(values)
    # `take` copies only the rows of a slice, and drops values under nulls.
    values = values.take(pa.array(range(len(values)), pa.int64()))
    return _convert_nested(values, field.type)


def _is_marked(field: pa.Field) -> bool:
    if (field.metadata or {}).get(KIND) in SHOWN:
        return True
    return any(_is_marked(inner) for inner in _inner(field.type))


def _inner(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    if pa.types.is_list(kind):
        return [kind.value_field]
    return list(kind) if pa.types.is_struct(kind) else []


def _convert_nested(values: Column, kind: pa.DataType) -> Column:
    mask = pc.is_null(values)
    if pa.types.is_struct(kind):
        parts = [to_shown(c, f) for c, f in zip(values.flatten(), kind, strict=True)]
        return pa.StructArray.from_arrays(parts, [f.name for f in kind], mask=mask)
    if pa.types.is_map(kind):
        keys, items = to_shown(values.keys, kind.key_field), to_shown(values.items, kind.item_field)
        return pa.MapArray.from_arrays(values.offsets, keys, items, mask=mask)
    return pa.ListArray.from_arrays(
        values.offsets, to_shown(values.values, kind.value_field), mask=mask
    )
