"""Conversions of Arrow columns to numpy, compared with Arrow's own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from substrait_agg.state.keys.rows import (
    as_mask,
    fill_nulls,
    is_present,
    one_array,
    take,
    take_or_null,
)

TYPES = (
    pa.int64(), pa.int32(), pa.int16(), pa.float64(), pa.float32(), pa.bool_(), pa.string(),
    pa.timestamp("us"), pa.date32(), pa.decimal128(22, 2), pa.null(),
)  # fmt: skip


def columns(type_: pa.DataType) -> list[pa.Array]:
    """Columns with and without nulls, some of them parts of longer ones."""
    random = np.random.default_rng(3)
    made = []
    for length, start, nulls in (
        (0, 0, 0),
        (1, 0, 0),
        (70, 0, 0),
        (70, 3, 0.5),
        (64, 8, 1),
        (33, 31, 0.1),
    ):
        numbers = random.integers(-2, 3, start + length)
        plain = numbers > 0 if type_ == pa.bool_() else numbers
        values = pa.array(plain, mask=random.random(len(plain)) < nulls)
        if pa.types.is_null(type_):
            values = pa.nulls(len(plain))
        elif pa.types.is_timestamp(type_):
            values = values.view(type_)
        elif pa.types.is_date32(type_):
            values = values.cast(pa.int32()).view(type_)
        else:
            values = values.cast(type_)
        made.append(values.slice(start))
    return made


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_columns_are_converted_and_taken_as_by_arrow(type_: pa.DataType) -> None:
    """Also slices, whose bitmaps begin within a byte, and columns of nulls alone."""
    random = np.random.default_rng(4)
    for column in columns(type_):
        assert is_present(column).tolist() == column.is_valid().to_pylist()
        if type_ == pa.bool_() and not column.null_count:
            assert as_mask(column).tolist() == column.to_pylist()
            assert as_mask(pa.chunked_array([column, column])).tolist() == column.to_pylist() * 2
        if type_ in (pa.int64(), pa.float64(), pa.int32()):
            assert fill_nulls(column).tolist() == pc.fill_null(column, 0).to_pylist()
        where = random.integers(-1, max(1, len(column)), 50) if len(column) else np.full(5, -1)
        expected = column.take(pa.array(where, mask=where < 0))
        assert take_or_null([column], where)[0].equals(expected)
        inside = where[where >= 0]
        assert take([column], inside)[0].equals(column.take(pa.array(inside)))


def test_null_floats_are_zero_whatever_they_hide() -> None:
    """The bytes of a null may be those of NaN."""
    hidden = pa.Array.from_buffers(
        pa.float64(), 2, [pa.py_buffer(b"\x02"), pa.py_buffer(np.array([np.nan, -0.0]))]
    )
    assert fill_nulls(hidden).tobytes() == np.array([0.0, -0.0]).tobytes()


def test_one_chunk_is_not_copied() -> None:
    """Several chunks are put together, and none are an empty column."""
    column = pa.array([1, 2])
    assert one_array(pa.chunked_array([column])).buffers()[1].address == column.buffers()[1].address
    assert one_array(pa.chunked_array([column, column])).to_pylist() == [1, 2, 1, 2]
    assert one_array(pa.chunked_array([], pa.int64())).to_pylist() == []
