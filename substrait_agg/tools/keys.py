"""Find groups by key. A key is JSON as the outputs write it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from substrait_agg.errors import UsageError
from substrait_agg.state.keys.rows import Mask, equal

LONGEST = 200
"""Number of characters of a key that a message shows."""


def parse_key(text: str) -> Any:
    """Parse the value of ``--key``: an object by name of column, a list in order, or one value.

    Raises:
        UsageError: KEY_INVALID.
    """
    try:
        return json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise _invalid(f"{_cut(text)!r} is not JSON: {error}") from error


def key_values(key: Any, names: Sequence[str], types: Sequence[pa.DataType]) -> dict[int, pa.Array]:
    """Return the wanted values by ordinal of the key column.

    Columns without a name may have any value.

    Raises:
        UsageError: KEY_INVALID.
    """
    nested = len(names) == 1 and pa.types.is_nested(types[0])
    if isinstance(key, Mapping) and not (nested and names[0] not in key):
        unknown = [name for name in key if name not in names]
        if unknown:
            raise _invalid(f"there is no key column {unknown[0]!r}: {', '.join(names) or 'none'}")
        given = {list(names).index(name): value for name, value in key.items()}
    else:
        values = key if isinstance(key, list | tuple) and not nested else [key]
        if len(values) != len(names):
            raise _invalid(f"a key of this operator has {len(names)} columns: {', '.join(names)}")
        given = dict(enumerate(values))
    return {i: _array(value, types[i], names[i]) for i, value in given.items()}


def matching(columns: Sequence[pa.Array], wanted: Mapping[int, pa.Array], rows: int) -> Mask:
    """Return which rows have the key."""
    found = np.ones(rows, np.bool_)
    for ordinal, value in wanted.items():
        found &= equal(columns[ordinal], value.take(pa.array(np.zeros(rows, np.int64))))
    return found


def _array(value: Any, type_: pa.DataType, name: str) -> pa.Array:
    try:
        return pa.array([_python(value, type_)], type_)
    except (
        ValueError, TypeError, ArithmeticError, KeyError, AttributeError, RecursionError, pa.ArrowException
    ) as error:  # fmt: skip
        raise _invalid(
            f"{_cut(repr(value))} is no value of key column {name} ({type_}): {error}"
        ) from error


def _python(value: Any, type_: pa.DataType) -> Any:
    """Convert a JSON value to the Python value that Arrow accepts for a type."""
    if value is None:
        return None
    if pa.types.is_struct(type_):
        return {field.name: _python(value[field.name], field.type) for field in type_}
    if pa.types.is_map(type_):
        return [
            (_python(e["key"], type_.key_type), _python(e["value"], type_.item_type)) for e in value
        ]
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return [_python(element, type_.value_type) for element in value]
    convert = next((made for test, made in _CONVERT if test(type_)), None)
    return value if convert is None else convert(value)


def _whole(value: Any) -> int:
    if type(value) is int:
        return value
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    raise TypeError("it is no whole number")


def _cut(text: str) -> str:
    """Shorten a text for a message."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _is_binary(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_fixed_size_binary(type_)
    )


def _float(value: Any) -> float:
    return float(value)


_CONVERT: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]], ...] = (
    (pa.types.is_integer, _whole),
    (pa.types.is_decimal, lambda value: Decimal(str(value))),
    (pa.types.is_floating, _float),
    (pa.types.is_date, date.fromisoformat),
    (pa.types.is_timestamp, datetime.fromisoformat),
    (pa.types.is_time, time.fromisoformat),
    (_is_binary, lambda value: base64.b64decode(value, validate=True)),
)


def _invalid(message: str) -> UsageError:
    help = """write {"column": value, ...}, with values as the outputs write them; state show without --key shows some"""
    return UsageError("KEY_INVALID", message, help=help, path="--key")
