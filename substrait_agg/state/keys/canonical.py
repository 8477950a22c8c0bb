"""Canonical representation of equal values, so that results do not depend on the order of rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.state.keys.fixed_keys import canonical_floats
from substrait_agg.state.keys.variable_keys import elements_of, map_entries


def canonical(column: pa.Array) -> pa.Array:
    """Return the column with a canonical representation of equal values.

    -0.0 becomes 0.0, all NaN become one NaN, and the entries of maps are ordered by key, also
    inside nested values.
    """
    if not _varies(column.type):
        return column
    if pa.types.is_floating(column.type):
        return _floats(column)
    if pa.types.is_struct(column.type):
        fields = [canonical(field) for field in column.flatten()]
        return pa.StructArray.from_arrays(fields, fields=list(column.type), mask=column.is_null())
    return _map(column) if pa.types.is_map(column.type) else _list(column)


def _varies(type_: pa.DataType) -> bool:
    """Return whether equal values of the type can have several representations."""
    if pa.types.is_floating(type_) or pa.types.is_map(type_):
        return True
    return any(_varies(type_.field(i).type) for i in range(type_.num_fields))


def _floats(column: pa.Array) -> pa.Array:
    values = canonical_floats(column.to_numpy(zero_copy_only=False))
    mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(values.astype(column.type.to_pandas_dtype()), column.type, mask=mask)


def _list(column: pa.Array) -> pa.Array:
    elements, bounds = elements_of(column, column.values)
    return _to_nested(pa.ListArray.from_arrays, column, bounds, canonical(elements))


def _map(column: pa.Array) -> pa.Array:
    keys, items, bounds, order = map_entries(column)
    indices = pa.array(order)
    parts = canonical(keys.take(indices)), canonical(items.take(indices))
    return _to_nested(pa.MapArray.from_arrays, column, bounds, *parts)


def _to_nested(
    make: Callable[..., pa.Array],
    column: pa.Array,
    bounds: npt.NDArray[np.int64],
    *parts: pa.Array,
) -> pa.Array:
    mask = column.is_null() if column.null_count else None
    return make(pa.array(bounds.astype(np.int32)), *parts, type=column.type, mask=mask)
