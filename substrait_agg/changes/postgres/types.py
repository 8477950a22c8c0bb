"""Map the columns of a view to types of PostgreSQL, and their values to its input texts."""

from __future__ import annotations

import binascii
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.changes.formats.storage_types import to_shown
from substrait_agg.changes.formats.text import join, plain
from substrait_agg.errors import StateRefused
from substrait_agg.plan.arrow import KIND

Column = Any
"""A `pyarrow.Array` or `pyarrow.ChunkedArray`."""

_MARKED = {b"u64": "numeric(20,0)", b"uuid": "uuid", b"precision_time": "time without time zone"}
"""Kind, as marked by `plan.arrow.field` -> type of PostgreSQL."""

_WIDER = {
    "smallint": ("integer", "bigint"),
    "integer": ("bigint",),
    "real": ("double precision",),
    "text": ("character varying",),
    "jsonb": ("json", "text"),
    "uuid": ("text",),
}
"""Type of PostgreSQL -> other types that a column may have, since they hold the same values."""


def _zone(kind: pa.DataType) -> str:
    return "with" if kind.tz else "without"


_TYPES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], str]], ...] = (
    (pa.types.is_boolean, lambda _: "boolean"),
    (lambda kind: kind in (pa.int8(), pa.int16()), lambda _: "smallint"),
    (lambda kind: kind == pa.int32(), lambda _: "integer"),
    (lambda kind: kind == pa.int64(), lambda _: "bigint"),
    (lambda kind: kind == pa.float32(), lambda _: "real"),
    (lambda kind: kind == pa.float64(), lambda _: "double precision"),
    (pa.types.is_decimal, lambda kind: f"numeric({kind.precision},{kind.scale})"),
    (pa.types.is_string, lambda _: "text"),
    (pa.types.is_binary, lambda _: "bytea"),
    (pa.types.is_date32, lambda _: "date"),
    (
        lambda kind: pa.types.is_timestamp(kind) and kind.unit != "ns",
        lambda kind: f"timestamp {_zone(kind)} time zone",
    ),
    (lambda kind: pa.types.is_duration(kind) and kind.unit != "ns", lambda _: "interval"),
    (pa.types.is_nested, lambda _: "jsonb"),
)
"""Test of an Arrow type -> type of PostgreSQL, as its function `format_type` writes it."""


def column_type(field: pa.Field) -> str:
    """Return the type of PostgreSQL that holds every value of a column.

    Raises:
        StateRefused: OUTPUT_TYPE_REFUSED.
    """
    marked = _MARKED.get((field.metadata or {}).get(KIND, b""))
    if marked is not None:
        return marked
    for fits, name in _TYPES:
        if fits(field.type):
            return name(field.type)
    raise StateRefused(
        "OUTPUT_TYPE_REFUSED",
        f"the column {field.name} has values of Arrow type {field.type}, which PostgreSQL cannot hold",
        help="cast the column in the query; PostgreSQL has microseconds, not nanoseconds",
    )


def holds(existing: str, field: pa.Field) -> bool:
    """Return whether a column of an existing table holds every value of a column of the view."""
    expected = column_type(field)
    if existing == expected or existing in _WIDER.get(expected, ()):
        return True
    if not expected.startswith("numeric(") or not existing.startswith("numeric"):
        return False
    precision, scale = _digits(expected)
    most, after = _digits(existing)
    return existing == "numeric" or (after >= scale and most - after >= precision - scale)


def _digits(numeric: str) -> tuple[int, int]:
    precision, _, scale = numeric.removeprefix("numeric").strip("()").partition(",")
    return int(precision or 0), int(scale or 0)


def input_texts(values: Column, field: pa.Field) -> pa.Array:
    """Return the values of a column as PostgreSQL reads them; nulls stay null."""
    values = to_shown(values, field)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return _hex(values) if pa.types.is_binary(values.type) else plain(values)


def _hex(values: Column) -> pa.Array:
    r"""Return bytes as ``\x0aff``, all in one step."""
    filled = pc.fill_null(values, b"")
    ends = pc.cumulative_sum(pc.binary_length(filled).cast(pa.int64()))
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.multiply(ends, 2)])
    one = pa.ListArray.from_arrays(pa.array([0, len(filled)], pa.int32()), filled)
    digits = pa.py_buffer(binascii.hexlify(pc.binary_join(one, b"")[0].as_py()))
    texts = pa.LargeStringArray.from_buffers(len(filled), offsets.buffers()[1], digits)
    return pc.if_else(values.is_valid(), join("\\x", texts.cast(pa.string())), None)
