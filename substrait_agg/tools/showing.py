"""Return groups and entries of a version as tables for users.

Groups are found by key. A key is JSON as the outputs write it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.changes.formats.encode import unique_names
from substrait_agg.commit.documents.snapshot import OperatorState
from substrait_agg.errors import UsageError
from substrait_agg.explanation.tree import NumberColumns, OperatorColumns
from substrait_agg.functions.aggregates.accumulators import COUNT_DIGITS, DIGIT_BITS
from substrait_agg.functions.numbers.exact import Digits
from substrait_agg.functions.numbers.stored_digits import digits_at, unpack_digits
from substrait_agg.operator.common.names import CLOSED, GROUP, PENDING
from substrait_agg.operator.numeric.delta import split_registers, unpack_floats
from substrait_agg.state.arrangement import Arrangement, ArrangementLayout
from substrait_agg.state.entries import TreeLayout
from substrait_agg.state.keys.rows import Mask, equal
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.run import open_run
from substrait_agg.state.storage import Storage
from substrait_agg.state.tree import KeyedTree, dead_rows, key_columns, tree_of
from substrait_agg.tools.checks.trees import (
    component_columns,
    component_names,
    name_columns,
    numbers_of,
    runs_of_tree,
    tree_form,
    value_columns,
)

MICROSECONDS = pa.timestamp("us", "UTC")


_MOST_PLACES = 60
"""Greatest number of decimal places of an exact binary fraction.

Longer ones are rounded and marked by ``~``.
"""

_SPECIALS = ("NaN", "Infinity", "-Infinity")


class Showing:
    """Read access to the state of an operator at a version.

    Args:
        storage: where the runs are.
        state: the operator's runs.
        shape: the description of its columns, None if it is unknown.
        limit: greatest number of rows of a table, None for all.
    """

    def __init__(
        self,
        storage: Storage,
        state: OperatorState,
        shape: OperatorColumns | None,
        limit: int | None,
    ) -> None:
        self._storage = storage
        self._state = state
        self._shape = shape
        self._limit = limit

    def table(self, name: str, key: Any = None, *, any_key: bool = True) -> pa.Table:
        """Return a tree as a table: keys, then the other columns.

        Args:
            name: of the tree.
            key: of the wanted groups, as JSON values.
            any_key: whether all groups are wanted.

        Raises:
            StateRefused: STATE_DAMAGED.
            UsageError: KEY_INVALID.
        """
        read = {"entries": self._entries, "rows": self._arrange}.get(tree_form(name))
        if read is not None:
            runs = self._state[runs_of_tree(self._shape, name)[0]]
            if not runs:
                return pa.table({"weight": pa.array([], pa.int64())})
            schema = open_run(self._storage, runs[0]).schema
            return read(name, schema, key, any_key=any_key)
        rows = self._rows(name, key, any_key=any_key)
        columns = {GROUP: self._groups, PENDING: self._show_pending, CLOSED: self._show_closed}[
            name
        ](rows)
        names = unique_names([column for column, _ in columns])
        return pa.table(dict(zip(names, (values for _, values in columns), strict=True)))

    def _tree(self, name: str) -> tuple[KeyedTree, pa.Schema]:
        runs = self._state[name]
        tree = tree_of(self._storage, runs)
        return tree, tree.schema

    def _rows(self, name: str, key: Any, *, any_key: bool) -> pa.Table:
        """Return live rows as stored."""
        if not self._state[name]:
            return pa.table({"hash": pa.array([], pa.uint64())})
        tree, schema = self._tree(name)
        parts = _first(tree.scan(), self._limit) if any_key else self._of_key(tree, schema, key)
        return pa.concat_tables([schema.empty_table(), *parts]).combine_chunks()

    def _of_key(self, tree: KeyedTree, schema: pa.Schema, key: Any) -> Iterator[pa.Table]:
        columns = key_columns(schema)
        types = [schema.field(name).type for name in columns]
        values = key_values(key, self._key_names(columns), types)
        # Scan only the keys of all groups, then read all columns of the matching hashes.
        hashes = [
            part.column("hash").to_numpy()[_has(part, columns, values)]
            for part in tree.scan(columns=[])
        ]
        for hash_ in np.unique(np.concatenate(hashes)).tolist() if hashes else ():
            for part in tree.scan(hash_, hash_):
                yield part.filter(pa.array(_has(part, columns, values)))

    def _key_names(self, columns: Sequence[str]) -> list[str]:
        return name_columns(columns, None if self._shape is None else self._shape.keys)

    def _keys(self, rows: pa.Table) -> list[tuple[str, Any]]:
        columns = key_columns(rows.schema)
        return [
            (name, rows.column(column))
            for column, name in zip(columns, self._key_names(columns), strict=True)
        ]

    def _values(self, rows: pa.Table) -> list[tuple[str, Any]]:
        columns = value_columns(rows.schema)
        names = name_columns(columns, None if self._shape is None else self._shape.values)
        return [(name, rows.column(column)) for column, name in zip(columns, names, strict=True)]

    def _groups(self, rows: pa.Table) -> list[tuple[str, Any]]:
        columns = self._keys(rows)
        if digits_at(rows.schema) is not None:
            columns.append(("weight", pa.array(weights(rows), pa.int64())))
            shapes = numbers_of(self._shape)
            for shape, texts in zip(shapes, _exact_numbers(rows, shapes), strict=True):
                columns.append((shape.what, pa.array(texts, pa.string())))
        for column, name in (("there", "there"), ("shown", "shown")):
            columns += [(name, rows.column(column))] if column in rows.column_names else []
        columns += self._values(rows)
        ends = [n for n in rows.column_names if n.startswith("e") and "_" in n]
        columns += [(f"end {name[1:]}", rows.column(name)) for name in ends]
        if "time" in rows.column_names:
            columns.append(("newest event time", rows.column("time").cast(MICROSECONDS)))
        return columns + self._show_waiting(rows)

    def _show_waiting(self, rows: pa.Table) -> list[tuple[str, Any]]:
        """Return what the groups wait with, if any group of the operator waits."""
        if not self._state[PENDING] or not rows.num_rows:
            return []
        tree, schema = self._tree(PENDING)
        keys = [rows.column(name).combine_chunks() for name in key_columns(schema)]
        lookup = tree.lookup(rows.column("hash").to_numpy(), keys)
        alive = ~dead_rows(lookup.rows)
        index = np.zeros(rows.num_rows, np.int64)
        missing = np.ones(rows.num_rows, np.bool_)
        index[lookup.positions[alive]] = np.flatnonzero(alive)
        missing[lookup.positions[alive]] = False
        indices = pa.array(index, mask=missing)
        waits = lookup.rows.column("rows").combine_chunks().take(indices)
        since = lookup.rows.column("since").combine_chunks().take(indices)
        return [("waiting rows", waits), ("waiting since", since.cast(MICROSECONDS))]

    def _show_pending(self, rows: pa.Table) -> list[tuple[str, Any]]:
        columns = self._keys(rows)
        if "rows" in rows.column_names:
            since = rows.column("since").cast(MICROSECONDS)
            columns += [("waiting rows", rows.column("rows")), ("waiting since", since)]
        return columns

    def _show_closed(self, rows: pa.Table) -> list[tuple[str, Any]]:
        columns = self._keys(rows)
        columns += [("shown", rows.column("shown"))] if "shown" in rows.column_names else []
        return columns + self._values(rows)

    def _entries(self, name: str, schema: pa.Schema, key: Any, *, any_key: bool) -> pa.Table:
        """Return entries with the keys of their groups, in order of group and value."""
        first, column = runs_of_tree(self._shape, name)
        layout = TreeLayout.of_run(schema)
        weight = layout.weights[column]
        tree = OrderedTree(self._storage, self._state[first], layout)
        parts = tree.scan()
        if not any_key:
            parts = _of_groups(tree, layout, self._rows(GROUP, key, any_key=False))
        parts = (part.filter(pc.not_equal(part.column(weight), 0)) for part in parts)
        rows = pa.concat_tables([schema.empty_table(), *_first(parts, self._limit)])
        rows = rows.set_column(schema.get_field_index("weight"), "weight", rows.column(weight))
        groups = self._groups_of(rows)
        return self._weigh(name, groups, rows, component_columns(schema))

    def _arrange(self, name: str, schema: pa.Schema, key: Any, *, any_key: bool) -> pa.Table:
        """Return weighted rows by key, each once."""
        columns, layout = key_columns(schema), ArrangementLayout.of_run(schema)
        parts = Arrangement(self._storage, self._state[name], layout).scan()
        if not any_key:
            types = [schema.field(column).type for column in columns]
            values_of_key = key_values(key, self._key_names(columns), types)
            parts = (part.filter(pa.array(_has(part, columns, values_of_key))) for part in parts)
        rows = pa.concat_tables([schema.empty_table(), *_first(parts, self._limit)])
        return self._weigh(name, rows, rows, value_columns(schema))

    def _weigh(
        self, name: str, groups: pa.Table, rows: pa.Table, values: Sequence[str]
    ) -> pa.Table:
        """Return the keys of groups, the columns `values` of their rows, and the weight."""
        names = name_columns(values, component_names(self._shape, name))
        columns = [*self._keys(groups), *zip(names, map(rows.column, values), strict=True)]
        columns.append(("weight", rows.column("weight")))
        titles = unique_names([title for title, _ in columns])
        return pa.table(dict(zip(titles, (column for _, column in columns), strict=True)))

    def _groups_of(self, entries: pa.Table) -> pa.Table:
        """Return the key columns of the group of each entry, with null for an unknown group."""
        hashes, collision_ids = (entries.column(n).to_numpy() for n in ("hash", "chain"))
        tree, schema = self._tree(GROUP)
        keys = key_columns(schema)
        parts = [
            part.select([*keys, "hash", "chain"])
            for found in np.unique(hashes).tolist()
            for part in tree.scan(found, found)
        ]
        empty = schema.empty_table().select([*keys, "hash", "chain"])
        groups = pa.concat_tables([empty, *parts]).combine_chunks()
        label = {
            pair: i
            for i, pair in enumerate(
                zip(*(groups.column(n).to_pylist() for n in ("hash", "chain")), strict=True)
            )
        }
        pairs = zip(hashes.tolist(), collision_ids.tolist(), strict=True)
        return groups.select(keys).take(pa.array([label.get(pair) for pair in pairs], pa.int64()))


def _first(parts: Iterator[pa.Table], limit: int | None) -> Iterator[pa.Table]:
    """Yield the first rows of a scan."""
    left = limit
    for part in parts:
        yield part if left is None or left > part.num_rows else part.slice(0, left)
        if left is not None:
            left -= min(left, part.num_rows)
            if not left:
                return


def _has(part: pa.Table, columns: Sequence[str], values: Any) -> Any:
    keys = [part.column(name).combine_chunks() for name in columns]
    return match_rows(keys, values, part.num_rows)


def _of_groups(tree: OrderedTree, layout: TreeLayout, groups: pa.Table) -> Iterator[pa.Table]:
    """Yield the entries of groups as rows of a run."""
    if groups.num_rows:
        ordered = groups.sort_by([("hash", "ascending"), ("chain", "ascending")])
        entries = tree.entries(*(ordered.column(n).to_numpy() for n in ("hash", "chain")))
        yield entries.to_table(layout)


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
        plain = not set('[]{}"') & set(text)
        help = f"write text in quotes: --key '{json.dumps(_cut(text))}'" if plain else ""
        raise _invalid(f"{_cut(text)!r} is not JSON", help) from error


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
        by_ordinal = {list(names).index(name): value for name, value in key.items()}
    else:
        values = key if isinstance(key, list | tuple) and not nested else [key]
        if len(values) != len(names):
            columns = f"{len(names)} column{'' if len(names) == 1 else 's'}"
            raise _invalid(f"a key of this operator has {columns}: {', '.join(names)}")
        by_ordinal = dict(enumerate(values))
    return {i: _array(value, types[i], names[i]) for i, value in by_ordinal.items()}


def match_rows(columns: Sequence[pa.Array], values: Mapping[int, pa.Array], rows: int) -> Mask:
    """Return which rows have the key."""
    mask = np.ones(rows, np.bool_)
    for ordinal, value in values.items():
        mask &= equal(columns[ordinal], value.take(pa.array(np.zeros(rows, np.int64))))
    return mask


def _array(value: Any, type_: pa.DataType, name: str) -> pa.Array:
    try:
        return pa.array([_python(value, type_)], type_)
    except (
        ValueError, TypeError, ArithmeticError, KeyError, AttributeError, RecursionError, pa.ArrowException
    ) as error:  # fmt: skip
        message = f"{_cut(repr(value))} is not a valid value of key column {name} ({type_})"
        raise _invalid(message) from error


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
    convert = next((converter for test, converter in _CONVERT if test(type_)), None)
    return value if convert is None else convert(value)


def _whole(value: Any) -> int:
    if type(value) is int:
        return value
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    raise TypeError("it is not a whole number")


def _cut(text: str) -> str:
    """Shorten a text for a message."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _is_binary(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_fixed_size_binary(type_)
    )


_CONVERT: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]], ...] = (
    (pa.types.is_integer, _whole),
    (pa.types.is_decimal, lambda value: Decimal(str(value))),
    (pa.types.is_floating, float),
    (pa.types.is_date, date.fromisoformat),
    (pa.types.is_timestamp, datetime.fromisoformat),
    (pa.types.is_time, time.fromisoformat),
    (_is_binary, lambda value: base64.b64decode(value, validate=True)),
)


def _invalid(message: str, help: str = "") -> UsageError:
    usual = """write {"column": value, ...}, with values as the json outputs write them; state show without --key shows some keys"""
    return UsageError("KEY_INVALID", message, help=help or usual, path="--key")


def weights(rows: pa.Table) -> list[int]:
    """Return the total weight of each group, from rows of a group tree with digits."""
    return _integers(unpack_digits(rows, COUNT_DIGITS))


def _exact_numbers(rows: pa.Table, shapes: tuple[NumberColumns, ...]) -> list[list[str]]:
    """Return per accumulator its exact value in every group."""
    fixed = unpack_digits(rows, COUNT_DIGITS + sum(shape.digits for shape in shapes))
    start, columns = COUNT_DIGITS, []
    for ordinal, shape in enumerate(shapes):
        if shape.digits:
            whole = _integers(fixed[start : start + shape.digits])
            columns.append([_scale(value, shape.scale) for value in whole])
            start += shape.digits
        else:
            columns.append(_floats(rows, ordinal))
    return columns


def _integers(digits: Digits) -> list[int]:
    return [_join_digits(column) for column in digits.T.tolist()]


def _join_digits(digits: list[int]) -> int:
    return sum(digit << DIGIT_BITS * place for place, digit in enumerate(digits))


def _scale(value: int, scale: int) -> str:
    if not scale:
        return str(value)
    text = str(abs(value)).rjust(scale + 1, "0")
    return f"{'-' if value < 0 else ''}{text[:-scale]}.{text[-scale:]}"


def _floats(rows: pa.Table, ordinal: int) -> list[str]:
    if not rows.num_rows:
        return []
    positions, lists = (rows.column(f"{c}{ordinal}").combine_chunks() for c in "pf")
    finite, specials = split_registers(unpack_floats(positions, lists))
    wholes = _integers(finite.digits)
    unit = Fraction(2) ** (DIGIT_BITS * finite.base)
    texts = []
    for row, whole in enumerate(wholes):
        counted = [name for name, n in zip(_SPECIALS, specials, strict=True) if n[row]]
        texts.append(" and ".join([*counted, _binary(whole * unit)][: len(counted) or 1]))
    return texts


def _binary(value: Fraction) -> str:
    """Format a binary fraction in decimal: exact if it has at most `_MOST_PLACES` places."""
    places = value.denominator.bit_length() - 1
    if places <= _MOST_PLACES:
        return _trim(_scale(value.numerator * 5**places, places))
    try:
        return f"~{float(value)!r}"
    except OverflowError:
        return f"~2^{(abs(value.numerator) // value.denominator).bit_length() - 1}"


def _trim(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
