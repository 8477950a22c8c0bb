"""Entries of ordered trees: (group, key) with a weight, as columns and as rows of a run.

A run of an ordered tree has these columns:

- ``hash`` (uint64) and ``chain`` (uint16), the hash and the collision id of the group;
- ``w0``, ``w1``, ... (uint64) and ``rest`` (binary), the encoded key;
- ``p0``, ``p1``, ..., the values that the key encodes;
- ``weight`` (int64), and ``weight1``, ``weight2``, ... if the run has the entries of several trees;
- ``cum`` (int64), the sum of the weights of the table's rows up to and including this one.

Only differences of ``cum`` within one group are meaningful, so it may start at any value and wrap
around. Therefore all entries of a group in one run must come from one table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.state.keys.canonical import canonical
from substrait_agg.state.keys.keys import (
    Component,
    EncodedKeys,
    KeyForm,
    encode,
    key_form,
    sort_order,
)
from substrait_agg.state.keys.rows import Hashes, take
from substrait_agg.state.weights import Weights, sum_runs_of_rows

CollisionIds = npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class TreeLayout:
    """The columns of an ordered tree, derived from the components of its key.

    Attributes:
        components: columns of the key, most significant first.
        trees: number of trees whose weights the runs have, each in a column of its own.
        schema: schema of the runs.
    """

    components: tuple[Component, ...]
    trees: int = 1
    form: KeyForm = field(init=False)
    schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        form = key_form(self.components)
        fields = [("hash", pa.uint64()), ("chain", pa.uint16())]
        fields += [(f"w{i}", pa.uint64()) for i in range(form.words)]
        fields += [("rest", pa.binary())] if form.rest else []
        fields += [(f"p{i}", c.type) for i, c in enumerate(self.components)]
        fields += [(name, pa.int64()) for name in (*self.weights, "cum")]
        object.__setattr__(self, "form", form)
        object.__setattr__(self, "schema", pa.schema(fields))

    @staticmethod
    def of_run(schema: pa.Schema) -> TreeLayout:
        """Return the layout of an existing run, for reading and merging.

        It does not define how to encode values as keys.
        """
        values = [f for f in schema if f.name.startswith("p")]
        layout = TreeLayout(tuple(Component(f.type, nullable=True) for f in values))
        layout = TreeLayout(layout.components, sum(n.startswith("weight") for n in schema.names))
        words = sum(n[0] == "w" and n[1:].isdigit() for n in schema.names)
        object.__setattr__(layout, "form", KeyForm(words, "rest" in schema.names))
        object.__setattr__(layout, "schema", schema)
        return layout

    @property
    def weights(self) -> list[str]:
        """Return the names of the columns of weights, one per tree."""
        return ["weight", *(f"weight{i}" for i in range(1, self.trees))]

    def empty_columns(self) -> list[pa.Array]:
        """Return the value columns without rows."""
        return [pa.array([], c.type) for c in self.components]


@dataclass(frozen=True, slots=True)
class Entries:
    """Distinct entries ordered by (hash, chain, key).

    Attributes:
        hashes: hashes of the groups.
        collision_ids: collision ids of the groups.
        keys: the keys, which order the entries of a group.
        payload: the values that the keys encode.
        weights: change of each entry's weight.
        further: the same for further trees with the same keys. No entry has only zeros.
    """

    hashes: Hashes
    collision_ids: CollisionIds
    keys: EncodedKeys
    payload: tuple[pa.Array, ...]
    weights: Weights
    further: tuple[Weights, ...] = ()

    def __len__(self) -> int:
        return len(self.hashes)

    def take(self, indices: npt.NDArray[np.int64], weights: Weights) -> Entries:
        """Return some entries, in this order, with other weights."""
        if len(indices) == len(self):
            return replace(self, weights=weights)
        return Entries(
            self.hashes[indices],
            self.collision_ids[indices],
            self.keys.take(indices),
            tuple(take(self.payload, indices)),
            weights,
        )

    def of_column(self, column: int) -> Entries:
        """Return the entries of one of the trees that share a run."""
        weights = (self.weights, *self.further)[column]
        nonzero = np.flatnonzero(weights)
        return replace(self.take(nonzero, weights[nonzero]), further=())

    def in_column(self, column: int, columns: int) -> Entries:
        """Return the entries of one tree with weights 0 in the others that share its run."""
        none = np.zeros(len(self), np.int64)
        weights, *further = (self.weights if i == column else none for i in range(columns))
        return replace(self, weights=weights, further=tuple(further))

    def negate(self) -> Entries:
        """Return entries that cancel these."""
        return replace(self, weights=-self.weights, further=tuple(-w for w in self.further))

    def between(self, low: int, high: int) -> Entries:
        """Return the entries of groups with a hash from `low` to `high` (inclusive)."""
        start = int(np.searchsorted(self.hashes, np.uint64(low), "left"))
        stop = int(np.searchsorted(self.hashes, np.uint64(high), "right"))
        return Entries(
            self.hashes[start:stop],
            self.collision_ids[start:stop],
            self.keys.slice(start, stop),
            tuple(column.slice(start, stop - start) for column in self.payload),
            self.weights[start:stop],
            tuple(weights[start:stop] for weights in self.further),
        )

    def to_table(self, layout: TreeLayout) -> pa.Table:
        """Return the entries as rows of a run."""
        rest = [] if self.keys.rest is None else [self.keys.rest]
        columns = [
            self.hashes,
            self.collision_ids,
            *self.keys.words,
            *rest,
            *self.payload,
            self.weights,
            *self.further,
        ]
        columns.append(np.cumsum(self.weights))
        return pa.Table.from_arrays([pa.array(c) for c in columns], schema=layout.schema)

    @staticmethod
    def from_table(table: pa.Table | pa.RecordBatch, layout: TreeLayout) -> Entries:
        """Return the entries in rows of a run, without copying contiguous columns."""

        def column(name: str) -> pa.Array:
            """Return a column in one piece."""
            values = table.column(name)
            return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values

        weights, *further = (column(name).to_numpy() for name in layout.weights)
        words = tuple(column(f"w{i}").to_numpy() for i in range(layout.form.words))
        return Entries(
            column("hash").to_numpy(),
            column("chain").to_numpy(),
            EncodedKeys(words, column("rest") if layout.form.rest else None),
            tuple(column(f"p{i}") for i in range(len(layout.components))),
            weights,
            tuple(further),
        )


def consolidate(
    layout: TreeLayout,
    hashes: Hashes,
    collision_ids: CollisionIds,
    columns: Sequence[pa.Array],
    weights: Weights,
    places: npt.NDArray[np.int64] | None = None,
    further: Sequence[Weights] = (),
) -> Entries:
    """Consolidate rows in any order: add up the weights of equal rows, drop rows of weight 0.

    Values that compare equal are one entry in one representation (`canonical`), so that the shown
    value does not depend on the order of rows.

    Args:
        layout: layout of the tree.
        hashes: group hash of each row.
        collision_ids: collision id of each row's group.
        columns: the values, one column per component.
        weights: of the rows.
        further: their weights in further trees.
        places: ordinals of the groups in order of hash and collision id, if known. Sorting by small
            numbers is faster.

    Raises:
        RunFailed: WEIGHT_OVERFLOW.
    """
    keys = encode(columns, layout.components)
    shown = tuple(canonical(column) for column in columns)
    groups: list[npt.NDArray[Any]] = [hashes, collision_ids] if places is None else [places]
    rows = Entries(hashes, collision_ids, keys, shown, weights, tuple(further))
    return _sum(rows, groups)


def consolidate_sorted(parts: Sequence[Entries]) -> Entries:
    """Consolidate the entries of several runs (at least one), given newest first.

    Raises:
        RunFailed: WEIGHT_OVERFLOW.
    """
    if len(parts) == 1:
        return parts[0]
    payload = zip(*(p.payload for p in parts), strict=True)
    rows = Entries(
        np.concatenate([p.hashes for p in parts]),
        np.concatenate([p.collision_ids for p in parts]),
        EncodedKeys.concat([p.keys for p in parts]),
        tuple(pa.concat_arrays(columns) for columns in payload),
        np.concatenate([p.weights for p in parts]),
        tuple(map(np.concatenate, zip(*(p.further for p in parts), strict=True))),
    )
    return _sum(rows, [rows.hashes, rows.collision_ids])


def _sum(rows: Entries, groups: Sequence[npt.NDArray[Any]]) -> Entries:
    order, first = sort_order(groups, rows.keys)
    starts = np.flatnonzero(first)
    sums = [sum_runs_of_rows(weights[order], starts) for weights in (rows.weights, *rows.further)]
    nonzero = reduce(np.logical_or, [weights != 0 for weights in sums])
    representatives = order[starts[nonzero]]
    weights, *further = (weights[nonzero] for weights in sums)
    return Entries(
        rows.hashes[representatives],
        rows.collision_ids[representatives],
        rows.keys.take(representatives),
        tuple(take(rows.payload, representatives)),
        weights,
        tuple(further),
    )
