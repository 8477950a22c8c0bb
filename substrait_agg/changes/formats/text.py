"""Encode columns as text, whole columns at a time: the value encodings of every text output.

========================
===========================================================================
integers                  digits
fp32, fp64                shortest text that reads back as the same value, always with a point or an
                          exponent; ``NaN``, ``Infinity``, ``-Infinity`` (strings in JSON)
decimal                   plain digits with the scale of the type (a string in JSON)
date                      ``2026-01-31``
time, timestamp           ISO 8601 with the digits of the type's unit; ``Z`` when zoned
durations, intervals      ISO 8601 (``PT90S``, ``P1M2DT3S``)
binary                    base64
list, struct, map         JSON; a map is a list of ``{"key": ..., "value": ...}``
null                      ``null`` in JSON; left null by `plain`
========================
===========================================================================
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Column = Any
"""A `pyarrow.Array`."""

SECONDS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def plain(values: Column) -> Column:
    """Return the values as a string array without quotes; nulls stay null.

    Raises:
        TypeError: the type has no encoding.
    """
    values = _simplify(values)
    return _encoding(values.type)[0](values)


def as_json(values: Column) -> Column:
    """Return the values as a string array of JSON texts; null is ``null``.

    Raises:
        TypeError: the type has no encoding.
    """
    values = _simplify(values)
    encode, to_json = _encoding(values.type)
    return pc.fill_null(to_json(encode(values)), "null")


def json_objects(names: tuple[str, ...], texts: tuple[Column, ...], rows: int) -> Column:
    """Return one JSON object per row, built from columns of JSON texts (from `as_json`)."""
    if not texts:
        return pa.array(["{}"] * rows, pa.string())
    parts: list[Any] = []
    for position, (name, column) in enumerate(zip(names, texts, strict=True)):
        parts += [("," if position else "{") + json.dumps(name, ensure_ascii=False) + ":", column]
    return join(*parts, "}")


def join(*parts: Any) -> Column:
    """Return texts and string columns concatenated row by row; null where any part is null."""
    return pc.binary_join_element_wise(*parts, "")


def _simplify(values: Column) -> Column:
    """Return large, view and dictionary arrays in their plain types, and chunks as one array."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _simplify(values.dictionary_decode())
    if pa.types.is_large_string(kind) or kind == pa.string_view():
        return values.cast(pa.string())
    if kind == pa.binary_view():
        return values.cast(pa.binary())
    if pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return values.cast(pa.list_(kind.value_type))
    return values


# --- plain texts ------------------------------------------------------------------------------


def _cast(values: Column) -> Column:
    return pc.cast(values, pa.string())


def _floats(values: Column) -> Column:
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    text = _cast(values)
    whole = pc.invert(pc.match_substring_regex(text, "[.en]"))
    text = pc.if_else(whole, join(text, ".0"), text)
    infinite = pc.if_else(pc.greater(values, 0), "Infinity", "-Infinity")
    text = pc.if_else(pc.is_inf(values), infinite, text)
    return pc.if_else(pc.is_nan(values), "NaN", text)


def _decimals(values: Column) -> Column:
    """Return decimals with all digits; Arrow writes small decimals with an exponent."""
    scale = values.type.scale
    wide = values.cast(pa.decimal256(76, scale))
    whole = pa.Array.from_buffers(
        pa.decimal256(76, 0), len(wide), wide.buffers(), offset=wide.offset
    )
    digits = _cast(whole)
    if scale <= 0:
        return digits if scale == 0 else _cast(values.cast(pa.decimal256(76, 0)))
    negative = pc.starts_with(digits, "-")
    digits = pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), scale + 1, "0")
    before = pc.utf8_slice_codeunits(digits, 0, -scale)
    after = pc.utf8_slice_codeunits(digits, -scale)
    return join(pc.if_else(negative, "-", ""), before, ".", after)


def _timestamps(values: Column) -> Column:
    zone = "Z" if values.type.tz else ""
    instants = values.view(pa.int64()).view(pa.timestamp(values.type.unit))
    return join(pc.replace_substring(_cast(instants), " ", "T", max_replacements=1), zone)


def _durations(values: Column) -> Column:
    ticks = SECONDS[values.type.unit]
    return _by_value(values.cast(pa.int64()), lambda count: f"PT{_seconds(count, ticks)}S")


def _intervals(values: Column) -> Column:
    return _by_value(
        values, lambda v: f"P{v.months}M{v.days}DT{_seconds(v.nanoseconds, SECONDS['ns'])}S"
    )


def _seconds(count: int, ticks: int) -> str:
    whole, rest = divmod(abs(count), ticks)
    fraction = f".{rest * (10**9 // ticks):09d}".rstrip("0") if rest else ""
    return f"{'-' if count < 0 else ''}{whole}{fraction}"


def _binaries(values: Column) -> Column:
    return _by_value(values, lambda data: base64.b64encode(data).decode("ascii"))


def _uuids(values: Column) -> Column:
    return _by_value(values.storage, lambda data: str(uuid.UUID(bytes=data)))


def _by_value(values: Column, encode: Callable[[Any], str]) -> Column:
    """Encode values one by one: the type is rare, and Arrow has no text function for it."""
    texts = [None if v is None else encode(v) for v in values.to_pylist()]
    return pa.array(texts, pa.string())


def _same(values: Column) -> Column:
    return values


# --- nested ------------------------------------------------------------------------------------


def _lists(values: Column) -> Column:
    lengths = pc.fill_null(pc.list_value_length(values), 0)
    return _bracket(as_json(values.flatten()), lengths, values)


def _maps(values: Column) -> Column:
    # The keys and items of a slice are those of the whole array; `take` copies only its rows.
    values = values.take(pa.array(range(len(values)), pa.int64()))
    entries = (as_json(values.keys), as_json(values.items))
    lengths = pc.subtract(values.offsets[1:], values.offsets[:-1])
    return _bracket(json_objects(("key", "value"), entries, len(entries[0])), lengths, values)


def _bracket(texts: Column, lengths: Column, values: Column) -> Column:
    """Return one JSON list per row from the texts of its elements, null where `values` is null."""
    ends = pc.cumulative_sum(lengths.cast(pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ",")
    return pc.if_else(values.is_valid(), join("[", joined, "]"), None)


def _structs(values: Column) -> Column:
    fields = tuple(values.type)
    texts = tuple(as_json(child) for child in values.flatten())
    objects = json_objects(tuple(f.name for f in fields), texts, len(values))
    return pc.if_else(values.is_valid(), objects, None)


# --- from plain text to JSON -------------------------------------------------------------------


def _quote(texts: Column) -> Column:
    return join('"', texts, '"')


def _escape(texts: Column) -> Column:
    """Return strings as JSON strings; only those with special characters are escaped one by one."""
    special = pc.fill_null(pc.match_substring_regex(texts, r'["\\\x00-\x1f]'), False)
    quoted = _quote(texts)
    if not pc.any(special).as_py():
        return quoted
    hard = [json.dumps(t, ensure_ascii=False) for t in texts.filter(special).to_pylist()]
    return pc.replace_with_mask(quoted, special, pa.array(hard, pa.string()))


def _specials_quoted(texts: Column) -> Column:
    return pc.if_else(pc.match_substring_regex(texts, "[NI]"), _quote(texts), texts)


Encoding = tuple[Callable[[Column], Column], Callable[[Column], Column]]
"""From values to plain text, and from plain text to JSON."""

ENCODINGS: tuple[tuple[Callable[[Any], bool], Encoding], ...] = (
    (pa.types.is_null, (lambda values: pa.nulls(len(values), pa.string()), _same)),
    (pa.types.is_boolean, (_cast, _same)),
    (pa.types.is_integer, (_cast, _same)),
    (pa.types.is_floating, (_floats, _specials_quoted)),
    (pa.types.is_decimal, (_decimals, _quote)),
    (pa.types.is_string, (_same, _escape)),
    (pa.types.is_date, (_cast, _quote)),
    (pa.types.is_time, (_cast, _quote)),
    (pa.types.is_timestamp, (_timestamps, _quote)),
    (pa.types.is_duration, (_durations, _quote)),
    (pa.types.is_interval, (_intervals, _quote)),
    (pa.types.is_binary, (_binaries, _quote)),
    (pa.types.is_large_binary, (_binaries, _quote)),
    (pa.types.is_fixed_size_binary, (_binaries, _quote)),
    (lambda kind: kind == pa.uuid(), (_uuids, _quote)),
    (pa.types.is_list, (_lists, _same)),
    (pa.types.is_map, (_maps, _same)),
    (pa.types.is_struct, (_structs, _same)),
)


def _encoding(kind: Any) -> Encoding:
    for fits, encoding in ENCODINGS:
        if fits(kind):
            return encoding
    message = f"values of Arrow type {kind} have no text encoding"
    raise TypeError(message)
