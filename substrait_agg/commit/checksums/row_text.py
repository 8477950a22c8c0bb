"""Write rows as texts that every SQL engine can write too.

`docs/proof.md` has the rules, `queries.py` the SQL. Both follow the same table of types. Every text of
a value ends where its type or its length says, so different rows have different texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.state.keys.variable_keys import elements_of, entry_order, offsets_and_data

SEPARATOR = "|"
NOT_A_NUMBER = 0x7FF8 << 48
"""The bits of every NaN."""

_PLAIN_SCALE = 6
"""Arrow writes decimals of more digits behind the point with an exponent, if they are small."""
_HEX = np.array([f"{byte:02x}".encode() for byte in range(256)]).view(np.uint8).reshape(256, 2)


def row_texts(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the text of each row."""
    return pc.binary_join_element_wise(*map(value_texts, columns), pa.scalar(SEPARATOR))


def value_texts(array: pa.Array) -> pa.Array:
    """Return the text of each value; that of a null is empty."""
    return pc.fill_null(_write(array), "")


def _write(array: pa.Array) -> pa.Array:
    """Return the texts of a column; null where it is null."""
    write = next((w for fits, w in _WRITERS if fits(array.type)), None)
    if write is None:
        raise TypeError(f"no text for {array.type}")
    return write(array)


def _join(*parts: pa.Array | str) -> pa.Array:
    scalars = [pa.scalar(p) if isinstance(p, str) else p for p in parts]
    return pc.binary_join_element_wise(*scalars, pa.scalar(""))


def _plain(array: pa.Array) -> pa.Array:
    return array.cast(pa.string())


def _integer(array: pa.Array) -> pa.Array:
    """Write days, or the units of an instant or a duration, since 1970 or since 0."""
    bits = pa.int32() if array.type.bit_width == 32 else pa.int64()
    return array.cast(bits).cast(pa.string())


def _time(array: pa.Array) -> pa.Array:
    return array.cast(pa.time64("us")).cast(pa.int64()).cast(pa.string())


def _float(array: pa.Array) -> pa.Array:
    """Write the bits of a number as a 64-bit float: its decimal texts differ between engines."""
    values = array.cast(pa.float64()).fill_null(0.0).to_numpy() + 0.0  # -0.0 becomes 0.0
    bits = np.where(np.isnan(values), NOT_A_NUMBER, values.view(np.int64))
    return _where_valid(array, pa.array(bits).cast(pa.string()))


def _decimal(array: pa.Array) -> pa.Array:
    type_ = array.type
    if type_.scale <= _PLAIN_SCALE:
        return array.cast(pa.string())
    buffers, count = array.buffers(), len(array)
    whole = pa.Array.from_buffers(
        pa.decimal128(type_.precision, 0), count, buffers, offset=array.offset
    ).cast(pa.string())
    sign = pc.if_else(pc.starts_with(whole, "-"), "-", "")
    digits = pc.utf8_lpad(pc.utf8_ltrim(whole, "-"), type_.scale + 1, "0")
    before, behind = (
        pc.utf8_slice_codeunits(digits, *part) for part in ((0, -type_.scale), (-type_.scale,))
    )
    return _join(sign, before, ".", behind)


def _string(array: pa.Array) -> pa.Array:
    return _join(pc.binary_length(array).cast(pa.string()), ":", array.cast(pa.string()))


def _binary(array: pa.Array) -> pa.Array:
    offsets, data = offsets_and_data(pc.fill_null(array, b""))
    buffers = [None, pa.py_buffer((offsets * 2).astype(np.int32)), pa.py_buffer(_HEX[data])]
    hexadecimal = pa.Array.from_buffers(pa.string(), len(array), buffers)
    return _where_valid(array, _join("x", hexadecimal))


def _list(array: pa.Array) -> pa.Array:
    elements, bounds = elements_of(array, array.values)
    return _sequence(array, value_texts(elements), bounds, "[]")


def _map(array: pa.Array) -> pa.Array:
    keys, bounds = elements_of(array, array.keys)
    items, _ = elements_of(array, array.items)
    entries = _join(value_texts(keys), "=", value_texts(items))
    return _sequence(array, entries.take(entry_order(entries, bounds)), bounds, "{}")


def _sequence(
    array: pa.Array, texts: pa.Array, bounds: npt.NDArray[np.int64], brackets: str
) -> pa.Array:
    """Write the number of elements and then the elements."""
    lists = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), texts)
    counts = pa.array(np.diff(bounds)).cast(pa.string())
    text = _join(counts, brackets[0], pc.binary_join(lists, ","), brackets[1])
    return _where_valid(array, text)


def _struct(array: pa.Array) -> pa.Array:
    return _where_valid(array, _join("(", row_texts(array.flatten()), ")"))


def _where_valid(array: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_valid(array), texts, None) if array.null_count else texts


_WRITERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]], ...] = (
    (pa.types.is_boolean, _plain),
    (pa.types.is_integer, _plain),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_string, _string),
    (pa.types.is_floating, _float),
    (pa.types.is_date, _integer),
    (pa.types.is_timestamp, _integer),
    (pa.types.is_duration, _integer),
    (pa.types.is_time, _time),
    (pa.types.is_binary, _binary),
    (pa.types.is_list, _list),
    (pa.types.is_map, _map),
    (pa.types.is_struct, _struct),
)
"""How the values of a type are written."""
