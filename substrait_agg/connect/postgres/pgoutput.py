"""Decode messages of PostgreSQL's plugin pgoutput, protocol 1, into whole columns.

Numpy follows the lengths within the messages, column by column for all rows at once. The texts of a
column are then a string array over the bytes of the messages.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

BEGIN, COMMIT, RELATION, INSERT, UPDATE, DELETE, TRUNCATE, MESSAGE = b"BCRIUDTM"
NEW, NULL, UNCHANGED, TEXT = b"Nnut"
KEY, OLD = b"KO"

BLOCK_MESSAGES = 8_192
BLOCK_BYTES = 1 << 26
_TAIL = bytes(8)
"""What follows the last message, so that a length behind its last byte can be read and ignored."""

Ints: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table as a relation message describes it.

    Attributes:
        oid: of the table.
        name: schema and name.
        identity: replica identity: ``f`` full, ``d`` default, ``i`` index, ``n`` nothing.
        columns: names in order.
        types: oid and modifier of each column's type.
        keys: the columns that belong to the replica identity.
    """

    oid: int
    name: str
    identity: str
    columns: tuple[str, ...]
    types: tuple[tuple[int, int], ...]
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows of one version of a table, in the order of their changes.

    Attributes:
        relation: the table.
        texts: column -> its texts, as strings that have not been validated; null for SQL null.
        incomplete: column -> whether a row omits a large value that did not change, and has no old row.
        weights: 1 for a new row, -1 for an old one or the key of one.
        whole: whether every old row is complete and every update has one.
    """

    relation: TableShape
    texts: Mapping[str, pa.Array]
    incomplete: Mapping[str, bool]
    weights: Ints
    whole: bool


@dataclass(frozen=True, slots=True)
class Block:
    """What a number of messages say.

    Attributes:
        changes: rows by table and version of the table.
        truncated: oids of truncated tables.
        relations: the newest version of each table, for the next block.
    """

    changes: list[Changes] = field(default_factory=list)
    truncated: set[int] = field(default_factory=set)
    relations: dict[int, TableShape] = field(default_factory=dict)


def read_relation(message: bytes) -> TableShape:
    """Return the table that a relation message describes."""
    (oid,) = struct.unpack_from(">I", message, 1)
    schema, name, rest = message[5:].split(b"\0", 2)
    identity = chr(rest[0])
    (count,) = struct.unpack_from(">H", rest, 1)
    columns, types, keys, at = [], [], [], 3
    for _ in range(count):
        end = rest.index(b"\0", at + 1)
        column = rest[at + 1 : end].decode()
        columns.append(column)
        types.append(struct.unpack_from(">Ii", rest, end + 1))
        if rest[at] & 1:
            keys.append(column)
        at = end + 9
    full_name = f"{schema.decode() or 'pg_catalog'}.{name.decode()}"
    return TableShape(oid, full_name, identity, tuple(columns), tuple(types), tuple(keys))


def blocks(messages: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Divide messages into blocks that fit the cache and whose bytes Arrow can address."""
    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    ends = np.cumsum(lengths)
    start = 0
    while start < len(messages):
        before = int(ends[start - 1]) if start else 0
        end = int(np.searchsorted(ends, before + BLOCK_BYTES, "right"))
        end = max(start + 1, min(end, start + BLOCK_MESSAGES))
        yield messages[start:end]
        start = end


def decode(
    messages: Sequence[bytes],
    relations: Mapping[int, TableShape],
    columns: Mapping[int, Sequence[str]],
) -> Block:
    """Decode a block of messages.

    Args:
        messages: from whole transactions, in order.
        relations: the tables that earlier messages have described.
        columns: the columns to read, by oid of their table; changes of other tables are ignored.
    """
    data = np.frombuffer(b"".join((*messages, _TAIL)), np.uint8)
    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    starts = np.cumsum(lengths) - lengths
    kinds = data[starts]
    block = Block(relations=dict(relations))
    versions = _read_versions(messages, kinds, block)
    for at in map(int, np.flatnonzero(kinds == TRUNCATE)):
        block.truncated.update(_truncated_tables(messages[at]))
    rows = np.flatnonzero((kinds == INSERT) | (kinds == UPDATE) | (kinds == DELETE))
    oids = _read_int32(data, starts[rows] + 1)
    for oid, names in columns.items():
        mine = rows[oids == oid]
        for first, end, relation in versions.get(oid, [(0, len(messages), relations.get(oid))]):
            part = mine[np.searchsorted(mine, first) : np.searchsorted(mine, end)]
            if len(part) and relation is not None:
                block.changes.append(_read_rows(data, starts[part], kinds[part], relation, names))
    return block


def _truncated_tables(message: bytes) -> tuple[int, ...]:
    (count,) = struct.unpack_from(">I", message, 1)
    return struct.unpack_from(f">{count}I", message, 6)


def _read_versions(
    messages: Sequence[bytes], kinds: Bytes, block: Block
) -> dict[int, list[tuple[int, int, TableShape | None]]]:
    """Return the ranges of messages in which a table has one version, and note the newest one."""
    versions: dict[int, list[tuple[int, int, TableShape | None]]] = {}
    for at in map(int, np.flatnonzero(kinds == RELATION)):
        new = read_relation(messages[at])
        old = block.relations.get(new.oid)
        block.relations[new.oid] = new
        ranges = versions.setdefault(new.oid, [(0, len(messages), old)])
        if old != new:
            first, end, _ = ranges.pop()
            ranges += [(first, at, old), (at, end, new)]
    return versions


def _read_int32(data: Bytes, at: Ints) -> Ints:
    """Return the big-endian numbers of four bytes at some places."""
    high = data[at].astype(np.int64) << 24 | data[at + 1].astype(np.int64) << 16
    return high | data[at + 2].astype(np.int64) << 8 | data[at + 3]


_Values: TypeAlias = tuple[Bytes, Ints, Ints]
"""The values of a column: kind, first byte and length of each."""


def _read_tuples(data: Bytes, at: Ints, width: int) -> tuple[list[_Values], Ints]:
    """Return the values of each column of rows at some places, and the ends of the rows."""
    columns: list[_Values] = []
    place = at + 2
    for _ in range(width):
        kinds = data[place]
        texts = kinds == TEXT
        if texts.all():
            lengths = _read_int32(data, place + 1)
            starts = place + 5
        else:
            lengths = np.where(texts, _read_int32(data, np.where(texts, place + 1, 0)), 0)
            starts = np.where(texts, place + 5, place + 1)
        columns.append((kinds, starts, lengths))
        place = starts + lengths
    return columns, place


def _read_rows(
    data: Bytes, starts: Ints, kinds: Bytes, relation: TableShape, names: Sequence[str]
) -> Changes:
    """Return old and new rows of messages of one version of a table."""
    width = len(relation.columns)
    markers = data[starts + 5]
    with_old = np.flatnonzero(markers != NEW)
    with_new = np.flatnonzero(kinds != DELETE)
    old, ends = _read_tuples(data, starts[with_old] + 6, width)
    places = starts + 6
    places[with_old] = ends + 1
    new, _ = _read_tuples(data, places[with_new], width)
    # Old rows stand before the new row of their message, so the places of a column only grow.
    order = np.argsort(np.concatenate((with_old * 2, with_new * 2 + 1)), kind="stable")
    texts, incomplete = {}, {}
    for name in set(names).intersection(relation.columns):
        at = relation.columns.index(name)
        kind = np.concatenate((old[at][0], new[at][0]))[order]
        start = np.concatenate((old[at][1], new[at][1]))[order]
        length = np.concatenate((old[at][2], new[at][2]))[order]
        values = kind, start, length
        texts[name], incomplete[name] = _read_texts(data, values, order < len(with_old))
    weights = np.where(order < len(with_old), -1, 1)
    updates = np.count_nonzero(kinds == UPDATE) + np.count_nonzero(kinds == DELETE)
    whole = updates == np.count_nonzero(markers == OLD)
    return Changes(relation, texts, incomplete, weights, bool(whole))


def _read_texts(
    data: Bytes, values: _Values, old_rows: npt.NDArray[np.bool_]
) -> tuple[pa.Array, bool]:
    """Return the texts of a column, and whether a value is missing.

    A string array over the bytes of all messages alternates between a value and the gap to the next
    one; every second element is a value. A value that did not change is that of the old row.
    """
    kinds, starts, lengths = values
    wide = len(data) > np.iinfo(np.int32).max
    offsets = np.empty(2 * len(starts) + 1, np.int64 if wide else np.int32)
    offsets[0:-1:2] = starts
    offsets[1::2] = starts + lengths
    offsets[-1] = offsets[-2] if len(starts) else 0
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    kind = pa.large_string() if wide else pa.string()
    pieces = pa.Array.from_buffers(kind, len(offsets) - 1, buffers)
    places = np.arange(0, 2 * len(starts), 2, dtype=np.int64)
    same = np.flatnonzero(kinds == UNCHANGED)
    missing = False
    if len(same):
        before = np.maximum(same - 1, 0)
        missing = bool((~old_rows[before] | (same == 0)).any())
        places[same] = before * 2
        # The old row of a key has nulls in other columns.
        missing = missing or bool((kinds[before] != TEXT).any())
    nulls = kinds == NULL
    indices = pa.array(places, mask=nulls if nulls.any() else None)
    texts = pieces.take(indices)
    return (texts.cast(pa.string()) if wide else texts), missing
