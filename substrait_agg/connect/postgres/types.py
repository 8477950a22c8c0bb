"""Turn PostgreSQL's texts of values into Arrow columns: the same code for COPY and for the stream.

The texts are those of a session with `SESSION`, so a value has one text, wherever it comes from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.errors import InputRefused

SESSION = (
    ("datestyle", "ISO"),
    ("timezone", "UTC"),
    ("intervalstyle", "iso_8601"),
    ("bytea_output", "hex"),
    ("extra_float_digits", "1"),
)
"""Settings on which the texts of values depend."""

MAX_PRECISION = 38

BOOL, BYTEA, INT8, INT2, INT4, OID = 16, 17, 20, 21, 23, 26
FLOAT4, FLOAT8, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, NUMERIC = 700, 701, 1082, 1083, 1114, 1184, 1700

_PLAIN: dict[int, pa.DataType] = {
    BOOL: pa.bool_(),
    BYTEA: pa.binary(),
    INT2: pa.int16(),
    INT4: pa.int32(),
    INT8: pa.int64(),
    OID: pa.int64(),
    FLOAT4: pa.float32(),
    FLOAT8: pa.float64(),
    DATE: pa.date32(),
    TIME: pa.time64("ns"),
    TIMESTAMP: pa.timestamp("us"),
    TIMESTAMPTZ: pa.timestamp("us", "UTC"),
}
"""Oid of a type -> its Arrow type; every other type is text."""

TEXT, BPCHAR, VARCHAR, UUID = 25, 1042, 1043, 2950

_ELEMENTS: dict[int, int] = {
    1000: BOOL,
    1001: BYTEA,
    1005: INT2,
    1007: INT4,
    1009: TEXT,
    1014: BPCHAR,
    1015: VARCHAR,
    1016: INT8,
    1021: FLOAT4,
    1022: FLOAT8,
    1028: OID,
    1115: TIMESTAMP,
    1182: DATE,
    1183: TIME,
    1185: TIMESTAMPTZ,
    1231: NUMERIC,
    2951: UUID,
}
"""Oid of an array -> oid of its elements; every other array is text."""


@dataclass(frozen=True, slots=True)
class PublishedColumn:
    """A column of a table.

    Attributes:
        name: its name.
        oid: oid of its type, which may be a domain.
        modifier: modifier of its type, such as precision and scale; -1 for none.
        base: oid of the type that holds the values: that of the domain, or `oid`.
        base_modifier: modifier of `base`.
    """

    name: str
    oid: int
    modifier: int
    base: int
    base_modifier: int


def arrow_type(base: int, modifier: int) -> pa.DataType:
    """Return the Arrow type of a type that is no domain; of an array a list.

    A numeric without precision, or with more than 38 digits, is text: Arrow and Spark have no type
    for it.

    >>> arrow_type(NUMERIC, (15 << 16 | 2) + 4)
    Decimal128Type(decimal128(15, 2))
    """
    if base in _ELEMENTS:
        return pa.list_(arrow_type(_ELEMENTS[base], modifier))
    if base == NUMERIC:
        return _decimal_type(modifier)
    return _PLAIN.get(base, pa.string())


def _decimal_type(modifier: int) -> pa.DataType:
    if modifier < 4:
        return pa.string()
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    scale = (scale ^ 1024) - 1024  # eleven bits with a sign
    digits = precision - min(scale, 0)
    digits = max(digits, scale)
    return pa.decimal128(digits, max(scale, 0)) if digits <= MAX_PRECISION else pa.string()


def convert(texts: pa.Array, column: PublishedColumn, table: str) -> pa.Array:
    """Return the values of a column, in its Arrow type.

    Args:
        texts: the texts as PostgreSQL wrote them, a string array.
        column: whose type they have.
        table: for messages.

    Raises:
        InputRefused: VALUE_OUT_OF_RANGE for a value that the Arrow type does not have: ``NaN`` of a
            numeric, ``infinity`` of a time, a year before 1 or after 9999, ``24:00``, an array of
            several dimensions or with its own bounds.
    """
    to = arrow_type(column.base, column.base_modifier)
    try:
        if column.base in _ELEMENTS:
            return _to_lists(texts, _ELEMENTS[column.base], to)
        return _CONVERSIONS.get(column.base, _cast)(texts, to)
    except pa.ArrowInvalid as error:
        message = f"column {column.name} of {table} has a value that {to} does not have: {error}"
        help_ = "correct the value, or publish a column that holds it as text"
        raise InputRefused("VALUE_OUT_OF_RANGE", message, help=help_) from None


def _cast(texts: pa.Array, to: pa.DataType) -> pa.Array:
    if to == pa.string():
        texts.validate(full=True)  # a database with the encoding SQL_ASCII may hold any bytes
        return texts
    return texts.cast(to)


def _to_bools(texts: pa.Array, _: pa.DataType) -> pa.Array:
    return pc.equal(texts, "t")


def _to_times(texts: pa.Array, to: pa.DataType) -> pa.Array:
    # Arrow has no cast of text to a time of day.
    stamps = pc.binary_join_element_wise("1970-01-01", texts, " ").cast(pa.timestamp("us"))
    return stamps.cast(pa.time64("us")).cast(to)


_DIGITS = np.zeros(256, np.uint8)
_DIGITS[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16, dtype=np.uint8)


def _to_bytes(texts: pa.Array, to: pa.DataType) -> pa.Array:
    r"""Return the bytes of texts such as ``\x00ff``."""
    pairs = pc.utf8_slice_codeunits(pc.fill_null(texts, "\\x"), 2)
    offsets = np.frombuffer(pairs.buffers()[1], np.int32)[
        pairs.offset : pairs.offset + len(pairs) + 1
    ]
    data = pairs.buffers()[2]
    digits = (
        _DIGITS[np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]]
        if data
        else np.zeros(0, np.uint8)
    )
    values = digits[0::2] << 4 | digits[1::2]
    places = ((offsets - offsets[0]) // 2).astype(np.int32)
    buffers = [_validity(texts), pa.py_buffer(places), pa.py_buffer(values)]
    return pa.Array.from_buffers(to, len(texts), buffers, texts.null_count)


def _validity(texts: pa.Array) -> pa.Buffer | None:
    if texts.null_count == 0:
        return None
    return pa.py_buffer(
        np.packbits(texts.is_valid().to_numpy(zero_copy_only=False), bitorder="little")
    )


_CONVERSIONS: dict[int, Callable[[pa.Array, pa.DataType], pa.Array]] = {
    BOOL: _to_bools,
    TIME: _to_times,
    BYTEA: _to_bytes,
}


# --- arrays ---------------------------------------------------------------------------------------


def _to_lists(texts: pa.Array, element: int, to: pa.ListType) -> pa.Array:
    r"""Return the lists of texts such as ``{1,NULL,3}`` and ``{"a \"b\"",c}``.

    A quoted element may have any character, with a backslash before quotes and backslashes. Outside
    of quotes a comma ends an element, and NULL is null.
    """
    data, starts, ends = _bytes_of(texts.drop_null())
    escapes = _escapes(data)
    quotes = data == ord('"')
    quotes[escapes + 1] = False
    is_plain = np.cumsum(quotes) % 2 == 0
    opened = np.flatnonzero((data == ord("{")) & is_plain)
    if not np.array_equal(opened, starts):
        raise pa.ArrowInvalid("it has several dimensions, or bounds such as [0:2]={1,2,3}")
    commas = np.flatnonzero((data == ord(",")) & is_plain)
    has_elements = ends - starts > 2
    firsts = np.sort(np.concatenate([starts[has_elements] + 1, commas + 1]))
    lasts = np.sort(np.concatenate([ends[has_elements] - 1, commas]))
    values = _elements(data, firsts, lasts, escapes)
    counts = np.zeros(len(texts), np.int64)
    counts[texts.is_valid().to_numpy(zero_copy_only=False)] = np.searchsorted(
        firsts, ends
    ) - np.searchsorted(firsts, starts)
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    converted = _CONVERSIONS.get(element, _cast)(values, to.value_type)
    return pa.ListArray.from_arrays(offsets, converted, to, mask=texts.is_null())


def _bytes_of(texts: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the bytes of texts without nulls, and where each begins and ends."""
    _, places, buffer = texts.buffers()
    offsets = np.frombuffer(places, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
    whole = (offsets - offsets[0]).astype(np.int64)
    return data, whole[:-1], whole[1:]


def _escapes(data: np.ndarray) -> np.ndarray:
    """Return the places of the backslashes that belong to the character after them.

    In a sequence of backslashes these are the first, the third, and so on.
    """
    places = np.flatnonzero(data == ord("\\"))
    is_first = np.diff(places, prepend=-2) > 1
    firsts = places[is_first][np.cumsum(is_first) - 1]
    escapes: np.ndarray = places[(places - firsts) % 2 == 0]
    return escapes


def _elements(
    data: np.ndarray, firsts: np.ndarray, lasts: np.ndarray, escapes: np.ndarray
) -> pa.Array:
    """Return the texts between places, without quotes and escapes."""
    is_quoted = data[firsts] == ord('"')
    starts, ends = firsts + is_quoted, lasts - is_quoted
    borders = np.zeros(len(data) + 1, np.int64)
    np.add.at(borders, starts, 1)
    np.add.at(borders, ends, -1)
    is_kept = np.cumsum(borders[:-1]) > 0
    is_kept[escapes] = False
    sizes = np.concatenate([[0], np.cumsum(is_kept)])
    offsets = np.append(sizes[starts], sizes[-1]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data[is_kept])]
    texts = pa.Array.from_buffers(pa.string(), len(starts), buffers)
    is_null = pc.and_(pc.equal(texts, "NULL"), pa.array(~is_quoted))
    return pc.if_else(is_null, pa.scalar(None, pa.string()), texts)
