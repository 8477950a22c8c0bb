"""Changes of a version by key: what is inserted, what replaces a row, and what is deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.changes.formats.encode import csv_lines
from substrait_agg.changes.postgres.types import column_type, input_texts
from substrait_agg.commit.documents.change_metadata import origin_of
from substrait_agg.commit.tasks.consolidate import consolidate, row_bytes
from substrait_agg.errors import StateRefused

VERSION, WEIGHT = "__version", "__weight"
HIDDEN = "does not show all columns that identify a row"


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """The rows of a version to write, each key once.

    Attributes:
        schema: the columns of the view.
        keys: names of the columns that identify a row; none for a view of one row, which a change
            deletes and inserts.
        rows: the inserted rows, and the retracted rows whose key is gone, as texts with the weight.
        created: number of keys that were not there before.
        deleted: number of keys that are gone.
        repeats: whether the view may have equal rows.
        nulls: per set of key columns that are null in a deleted row, the set.
    """

    schema: pa.Schema
    keys: tuple[str, ...]
    rows: pa.Table
    created: int
    deleted: int
    repeats: bool
    nulls: tuple[frozenset[str], ...]
    has_null_key: bool

    def csv(self) -> Iterator[bytes]:
        """Yield the rows as CSV in pieces of whole lines."""
        return (text.encode() for text in csv_lines(self.rows, header=False))


def keyed_rows(changes: pa.Table) -> KeyedRows:
    """Return the rows to write for the changes of a version.

    Raises:
        StateRefused: OUTPUT_KEY_MISSING, OUTPUT_COLUMN_REFUSED, OUTPUT_TYPE_REFUSED.
    """
    schema = pa.schema(list(changes.schema)[:-2])
    check_names(schema)
    keys, origin = key_names(changes), origin_of(changes)
    changes = _once(changes)
    weights = changes.column(WEIGHT).to_numpy()
    codes = _codes(changes.select([*keys, WEIGHT]))
    inserted = np.bincount(codes[weights > 0], minlength=codes.max(initial=-1) + 1)
    retracted = np.bincount(codes[weights < 0], minlength=len(inserted))
    if (np.abs(weights) > 1).any() or (inserted > 1).any() or (retracted > 1).any():
        raise no_key("has several rows with the same key")
    remaining = changes.filter(pa.array((weights > 0) | (inserted[codes] == 0)))
    created = (inserted > 0) & ((retracted == 0) | (not keys))
    deletions = remaining.filter(pc.less(remaining.column(WEIGHT), 0)).select(list(keys))
    texts = [input_texts(remaining.column(i), field) for i, field in enumerate(schema)]
    return KeyedRows(
        schema=schema,
        keys=keys,
        rows=pa.table([*texts, remaining.column(WEIGHT)], [*schema.names, WEIGHT]),
        created=int(np.count_nonzero(created)),
        deleted=deletions.num_rows if keys else int(retracted.sum()),
        repeats=origin.repeats,
        nulls=_null_sets(deletions, keys),
        has_null_key=any(remaining.column(key).null_count for key in keys),
    )


def check_view(schema: pa.Schema, keys: tuple[int, ...] | None) -> None:
    """Refuse a view that a table cannot have.

    Raises:
        StateRefused: OUTPUT_KEY_MISSING, OUTPUT_COLUMN_REFUSED, OUTPUT_TYPE_REFUSED.
    """
    if keys is None:
        raise no_key(HIDDEN)
    check_names(schema)
    for column in schema:
        column_type(column)


def key_names(changes: pa.Table) -> tuple[str, ...]:
    """Return the names of the columns that identify a row of a view.

    Raises:
        StateRefused: OUTPUT_KEY_MISSING.
    """
    keys = origin_of(changes).keys
    if keys is None:
        raise no_key(HIDDEN)
    return tuple(dict.fromkeys(changes.schema.names[i] for i in keys))


def check_names(schema: pa.Schema) -> None:
    """Refuse names that a table of PostgreSQL cannot have.

    Raises:
        StateRefused: OUTPUT_COLUMN_REFUSED.
    """
    for name, count in Counter(schema.names).items():
        reason = "is there more than once" if count > 1 else ""
        if not name or "\0" in name or len(name.encode()) > 63:
            reason = "is not a name of 1 to 63 bytes"
        if reason:
            message = f"the column {name} of the view {reason}"
            help = "rename it in the query: SELECT ... AS name"
            raise StateRefused("OUTPUT_COLUMN_REFUSED", message, help=help)


def no_key(reason: str) -> StateRefused:
    """Return the error for a view whose rows have no key."""
    return StateRefused(
        "OUTPUT_KEY_MISSING",
        f"the view {reason}, so its rows cannot be replaced in a table",
        help="show all columns of GROUP BY in the query, or use an output of changes such as changes-parquet",
    )


def _once(changes: pa.Table) -> pa.Table:
    """Return changes without their versions; those of several versions are added up."""
    several = len(changes.column(VERSION).unique()) > 1
    changes = changes.drop_columns([VERSION]).combine_chunks()
    return consolidate(changes) if several else changes


def _codes(rows: pa.Table) -> np.ndarray:
    """Return a number per row, equal where the keys are equal."""
    if rows.num_columns == 1 or not rows.num_rows:
        return np.zeros(rows.num_rows, np.int64)
    codes: np.ndarray = row_bytes(rows).dictionary_encode().indices.to_numpy()
    return codes.astype(np.int64)


def _null_sets(rows: pa.Table, keys: tuple[str, ...]) -> tuple[frozenset[str], ...]:
    if not rows.num_rows or not keys:
        return ()
    masks = pa.table({key: rows.column(key).is_null() for key in keys})
    combinations = masks.group_by(list(keys)).aggregate([]).to_pylist()
    return tuple(frozenset(key for key, null in one.items() if null) for one in combinations)
