"""Entries of ordered trees: (group, key) with a weight, as columns and as the rows of a run.

A run of an ordered tree has the columns ``hash`` (uint64) and ``chain`` (uint16), which name the group, the key as ``w0``, ``w1``, ...
and ``rest``, the values ``p0``, ``p1``, ... that the key was made of, ``weight`` (int64), and ``cum`` (int64): the sum of
the weights of the table's rows so far. Only differences of ``cum`` within one group mean something, so it may start anywhere
and wrap around. All entries of a group that go to one run therefore have to come from one table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.state.keys.canonical import canonical
from substrait_agg.state.keys.keys import Component, KeyForm, Keys, encode, key_form, sort_order
from substrait_agg.state.keys.rows import Hashes, take
from substrait_agg.state.weights import Weights, sum_runs_of_rows

Chains = npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class TreeLayout:
    """The columns of an ordered tree, all worked out from the components of its key.

    Attributes:
        components: columns of the key, most significant first.
        form: of the key.
        schema: of its runs.
    """

    components: tuple[Component, ...]
    form: KeyForm = field(init=False)
    schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        form = key_form(self.components)
        fields = [("hash", pa.uint64()), ("chain", pa.uint16())]
        fields += [(f"w{i}", pa.uint64()) for i in range(form.words)]
        fields += [("rest", pa.binary())] if form.rest else []
        fields += [(f"p{i}", c.type) for i, c in enumerate(self.components)]
        fields += [("weight", pa.int64()), ("cum", pa.int64())]
        object.__setattr__(self, "form", form)
        object.__setattr__(self, "schema", pa.schema(fields))

    @staticmethod
    def of_run(schema: pa.Schema) -> TreeLayout:
        """The layout of a run that is there, for reading and merging; it does not say how keys are made of values."""
        values = [f for f in schema if f.name.startswith("p")]
        layout = TreeLayout(tuple(Component(f.type, nullable=True) for f in values))
        words = sum(f.name.startswith("w") and f.name != "weight" for f in schema)
        object.__setattr__(layout, "form", KeyForm(words, "rest" in schema.names))
        object.__setattr__(layout, "schema", schema)
        return layout

    def empty_columns(self) -> list[pa.Array]:
        """Value columns without rows."""
        return [pa.array([], c.type) for c in self.components]


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries in order of (hash, chain, key), each once.

    Attributes:
        hashes: of the groups.
        chains: which group of that hash.
        keys: what orders the entries of a group.
        payload: the values that the keys were made of.
        weights: how much each entry's weight changes, not 0.
    """

    hashes: Hashes
    chains: Chains
    keys: Keys
    payload: tuple[pa.Array, ...]
    weights: Weights

    def __len__(self) -> int:
        return len(self.hashes)

    def between(self, low: int, high: int) -> Entries:
        """The entries of groups with a hash from `low` to `high` (inclusive)."""
        start = int(np.searchsorted(self.hashes, np.uint64(low), "left"))
        stop = int(np.searchsorted(self.hashes, np.uint64(high), "right"))
        return Entries(
            self.hashes[start:stop],
            self.chains[start:stop],
            self.keys.slice(start, stop),
            tuple(column.slice(start, stop - start) for column in self.payload),
            self.weights[start:stop],
        )

    def to_table(self, layout: TreeLayout) -> pa.Table:
        """The entries as rows of a run."""
        rest = [] if self.keys.rest is None else [self.keys.rest]
        columns = [self.hashes, self.chains, *self.keys.words, *rest, *self.payload, self.weights]
        columns.append(np.cumsum(self.weights))
        return pa.Table.from_arrays([pa.array(c) for c in columns], schema=layout.schema)

    @staticmethod
    def from_table(table: pa.Table | pa.RecordBatch, layout: TreeLayout) -> Entries:
        """The entries that rows of a run hold, without copying where they are in one piece."""

        def column(name: str) -> pa.Array:
            values = table.column(name)
            return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values

        words = tuple(column(f"w{i}").to_numpy() for i in range(layout.form.words))
        return Entries(
            column("hash").to_numpy(),
            column("chain").to_numpy(),
            Keys(words, column("rest") if layout.form.rest else None),
            tuple(column(f"p{i}") for i in range(len(layout.components))),
            column("weight").to_numpy(),
        )


def consolidate(
    layout: TreeLayout,
    hashes: Hashes,
    chains: Chains,
    columns: Sequence[pa.Array],
    weights: Weights,
    places: npt.NDArray[np.int64] | None = None,
) -> Entries:
    """Entries from rows in any order: equal ones added up, those that cancel dropped.

    Values that are equal in the order of their type are one entry, written in one way (`canonical`), so that what is
    shown does not depend on which row came first.

    Args:
        layout: of the tree.
        hashes: group hash of each row.
        chains: which group of that hash.
        columns: the values, one column per component.
        weights: of the rows.
        places: numbers of the groups in order of hash and chain, where there are such: small ones are sorted faster.

    Raises:
        RunFailed: WEIGHT_OVERFLOW.
    """
    keys = encode(columns, layout.components)
    shown = tuple(canonical(column) for column in columns)
    groups: list[npt.NDArray[Any]] = [hashes, chains] if places is None else [places]
    return _summed(Entries(hashes, chains, keys, shown, weights), groups)


def consolidate_sorted(parts: Sequence[Entries]) -> Entries:
    """The entries of several runs (at least one), newest first, added up; those that cancel are dropped.

    Raises:
        RunFailed: WEIGHT_OVERFLOW.
    """
    if len(parts) == 1:
        return parts[0]
    payload = zip(*(p.payload for p in parts), strict=True)
    rows = Entries(
        np.concatenate([p.hashes for p in parts]),
        np.concatenate([p.chains for p in parts]),
        Keys.concat([p.keys for p in parts]),
        tuple(pa.concat_arrays(columns) for columns in payload),
        np.concatenate([p.weights for p in parts]),
    )
    return _summed(rows, [rows.hashes, rows.chains])


def _summed(rows: Entries, groups: Sequence[npt.NDArray[Any]]) -> Entries:
    order, first = sort_order(groups, rows.keys)
    starts = np.flatnonzero(first)
    weights = sum_runs_of_rows(rows.weights[order], starts)
    kept = weights != 0
    chosen = order[starts[kept]]
    return Entries(
        rows.hashes[chosen],
        rows.chains[chosen],
        rows.keys.take(chosen),
        tuple(take(rows.payload, chosen)),
        weights[kept],
    )
