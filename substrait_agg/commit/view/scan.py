"""Scan the rows of a version in parts, as Arrow batches.

A part names a range of hashes and the runs that contain its rows. It can be pickled, so that
another process reads it. A part has no reference to the snapshot that it was made from.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.hash_ranges import clip
from substrait_agg.commit.view.schema import with_view_types
from substrait_agg.state.keys.row_sizes import repeat
from substrait_agg.state.run import HASH_MAX, RunFile, damaged_run
from substrait_agg.state.storage import Storage
from substrait_agg.state.tree import KeyedTree, tree_of

Runs = tuple[RunFile, ...]
PART_ROWS = 1 << 20
"""Rows of a part, at least, where the reader does not choose."""
LARGE_PART_ROWS = 1 << 23
"""Rows of a part, at most: a larger view has more parts than this machine has cores."""
MOST_PARTS = 1 << 12
SHOWN = "shown"
"""Column of the group tree: how often the view has the row."""


@dataclass(frozen=True, slots=True)
class ViewScan:
    """The rows of the view at a version, or of a part of it.

    Attributes:
        folder: path or URL of the folder of the runs.
        columns: the columns to read, by their names in the runs.
        schema: their names in the view, and their types.
        keys: number of key columns of the trees.
        trees: the runs of each tree that has rows of the view.
        low: least hash of the part.
        high: greatest hash of the part.
    """

    folder: str
    version: int
    columns: tuple[str, ...]
    schema: pa.Schema
    keys: int
    trees: tuple[Runs, ...]
    low: int = 0
    high: int = HASH_MAX

    def select(self, ordinals: Sequence[int]) -> ViewScan:
        """Return the scan of some columns, by their ordinals in the view."""
        schema = pa.schema([self.schema.field(i) for i in ordinals], self.schema.metadata)
        return replace(self, columns=tuple(self.columns[i] for i in ordinals), schema=schema)

    @property
    def rows(self) -> int:
        """About the number of rows: those in the files."""
        return sum(
            file.rows * (file.high - file.low + 1) // max(1, file.span)
            for files in self.trees
            for file in files
        )

    def split(self, parts: int | None = None) -> list[ViewScan]:
        """Return `parts` equal ranges of hashes; None chooses the number by rows and by cores."""
        count_wanted = _default_parts(self.rows) if parts is None else parts
        # The runs of a state partition have a range of a power of two.
        count = 1 << (min(max(1, count_wanted), MOST_PARTS) - 1).bit_length()
        bounds = [(HASH_MAX + 1) * i // count for i in range(count + 1)]
        return [
            replace(self, low=low, high=after - 1, trees=_within(self.trees, low, after - 1))
            for low, after in pairwise(bounds)
        ]

    def batches(self, storage: Storage | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows in no order. Rows are copied only where a page has other rows, too.

        Args:
            storage: the folder of the runs; None opens `folder`.

        Raises:
            StateRefused: STATE_DAMAGED, STORE_FAILED.
        """
        files = FolderFiles(self.folder) if storage is None else storage
        for runs in self.trees:
            if runs:
                yield from self._rows(files, runs)

    def _rows(self, storage: Storage, runs: Runs) -> Iterator[pa.RecordBatch]:
        read = [SHOWN, *dict.fromkeys(self.columns)]
        at = [read.index(column) for column in self.columns]
        tree = view_tree(storage, runs, self.keys, self.columns)
        for rows in tree.current(read, self.low, self.high):
            for shown in _iter_shown(rows):
                if shown.num_rows:
                    yield _name_columns(shown.select(at), self.schema)


def view_tree(storage: Storage, runs: Runs, keys: int, columns: Sequence[str]) -> KeyedTree:
    """Open a tree of rows of the view, and check the columns that are read.

    Args:
        storage: the folder of the runs.
        runs: newest first, at least one.
        keys: number of key columns.
        columns: the columns of the view, by their names in the runs.

    Raises:
        StateRefused: STATE_DAMAGED, STORE_FAILED.
    """
    tree = tree_of(storage, runs, keys)
    names = tree.schema.names
    if any(names.count(name) != 1 for name in (SHOWN, *columns)):
        raise damaged_run(runs[0], "it does not have the columns of the view")
    if tree.schema.field("dead").type != pa.bool_() or tree.schema.field(SHOWN).type != pa.int64():
        raise damaged_run(runs[0], "its deletions or its numbers of rows have another type")
    return tree


def _name_columns(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with the columns of a schema, their number also if it has no column."""
    if not len(schema):
        return rows.replace_schema_metadata(schema.metadata)
    return pa.RecordBatch.from_arrays(with_view_types(rows.columns, schema), schema=schema)


def _default_parts(rows: int) -> int:
    """Return one part per core of this machine, but not for few rows, and more for very many.

    Another process that reads a part takes time to start, so more parts than cores cost more.
    """
    cores = os.cpu_count() or 1
    return min(-(-rows // PART_ROWS), max(cores, -(-rows // LARGE_PART_ROWS)))


def _within(trees: Sequence[Runs], low: int, high: int) -> tuple[Runs, ...]:
    return tuple(clip(runs, low, high) for runs in trees)


def _iter_shown(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield each row as often as the view has it. Rows that are there once are not copied."""
    weights = rows.column(0).to_numpy()
    counts = np.maximum(weights, 0)
    if (weights == 1).all():
        yield rows
    elif (counts <= 1).all():
        yield rows.filter(pa.array(counts == 1))
    else:
        yield from repeat(rows, counts)
