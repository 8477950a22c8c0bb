"""Compute the output rows of operators from their trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.commit.documents.snapshot import OperatorState
from substrait_agg.evaluation.expressions import supports
from substrait_agg.flow.graph.aggregate import Aggregate, Distinct
from substrait_agg.flow.graph.join import KEPT_SIDES, Join
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.flow.graph.set_operation import SetOperation
from substrait_agg.flow.graph.top_k import TopK
from substrait_agg.flow.graph.upsert import Upsert
from substrait_agg.flow.graph.window import Window
from substrait_agg.operator.common.names import (
    CLOSED,
    GROUP,
    WEIGHT,
    arrangement_tree,
    entries_tree,
)
from substrait_agg.operator.common.protocol import StatefulOperator
from substrait_agg.operator.join.spec import JoinSpec, join_spec
from substrait_agg.operator.top_k.spec import LIVE, OrderedRowsSpec, TopKSpec
from substrait_agg.operator.top_k.window import each_rank
from substrait_agg.operator.upsert.spec import THERE
from substrait_agg.operator.window.frames import PartitionRows, RowsBefore, peer_numbers
from substrait_agg.operator.window.spec import WindowSpec
from substrait_agg.operator.window.values import function_values, within_limit
from substrait_agg.state.arrangement import Arrangement, ArrangementLayout
from substrait_agg.state.entries import Entries, TreeLayout
from substrait_agg.state.keys.keys import encode, sort_order
from substrait_agg.state.keys.rows import take
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.storage import Storage
from substrait_agg.state.tree import KeyedLayout, KeyedTree
from substrait_agg.tools.deep.inputs import NotComputable, output_table
from substrait_agg.tools.deep.reference_join import join, null_keys

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class InputRows:
    """The input rows of a port.

    Attributes:
        missing: which rows may be missing, because an operator below does not store them; empty if
            these are all rows.
    """

    tables: Sequence[pa.Table]
    missing: str = ""

    @property
    def complete(self) -> bool:
        """Return whether these are all rows."""
        return not self.missing

    def all(self) -> Sequence[pa.Table]:
        """Return the rows.

        Raises:
            NotComputable: some are missing.
        """
        if self.missing:
            raise NotComputable(f"{self.missing} are not stored")
        return self.tables


PortRows = Callable[[int], InputRows]
"""Returns the input rows of a port; raises `NotComputable`."""


@dataclass(frozen=True, slots=True)
class StoredTrees:
    """The trees of an operator in a version."""

    storage: Storage
    operator: StatefulOperator
    state: OperatorState

    def open_keyed(self, name: str) -> KeyedTree:
        """Open a tree of rows by key."""
        layout = self.operator.state_schema()[name]
        if not isinstance(layout, KeyedLayout):
            raise TypeError(name)
        return KeyedTree(self.storage, self.state[name], layout.schema, layout.keys)

    def open_ordered(self, name: str, extra: Entries | None = None) -> OrderedTree:
        """Open an ordered tree, with further entries on top of it."""
        layout = self.operator.state_schema()[name]
        if not isinstance(layout, TreeLayout):
            raise TypeError(name)
        return OrderedTree(self.storage, self.state[name], layout, extra)

    def open_arranged(self, name: str) -> Arrangement:
        """Open an arrangement."""
        layout = self.operator.state_schema()[name]
        if not isinstance(layout, ArrangementLayout):
            raise TypeError(name)
        return Arrangement(self.storage, self.state[name], layout)


def passes_rows_on(node: Node, inputs: PortRows) -> bool:
    """Return whether the output may have rows of tables that no tree has, besides `output_rows`."""
    if not isinstance(node, Join):
        return False
    return any(
        _reads_input(join_spec(node), port) and not _is_known(inputs, port) for port in (0, 1)
    )


def _is_known(inputs: PortRows, port: int) -> bool:
    try:
        return inputs(port).complete
    except NotComputable:
        return False


def _reads_input(spec: JoinSpec, port: int) -> bool:
    """Return whether rows of a side are in the output that no tree has: their key has a null."""
    shows_unmatched = KEPT_SIDES[spec.kind][port] and not spec.whole[port]
    return shows_unmatched and not all(spec.null_safe)


def output_rows(node: Node, trees: StoredTrees, inputs: PortRows) -> Iterator[pa.Table]:
    """Return the output rows of an operator: ``c0``, ``c1``, ... and the weight.

    Args:
        node: the operator.
        trees: its trees.
        inputs: its input rows, which are needed where it passes rows on that it does not store.

    Raises:
        NotComputable: the rows are not stored.
    """
    compute = _OUTPUTS.get(type(node))
    if compute is None:
        raise NotComputable(f"the output of {node.describe().kind} is not computed here")
    return compute(node, trees, inputs)


def _of_groups(node: Node, trees: StoredTrees, _inputs: PortRows) -> Iterator[pa.Table]:
    """Return the rows of groups, and those of groups that have left if they are kept."""
    closed = trees.open_keyed(CLOSED).scan() if CLOSED in trees.state.trees else ()
    for rows in chain(trees.open_keyed(GROUP).scan(), closed):
        weights = rows.column("shown").to_numpy()
        shown = rows.filter(pa.array(weights > 0))
        columns = [shown.column(name).combine_chunks() for name in node.columns]
        yield output_table(columns, weights[weights > 0])


def _of_upserts(node: Node, trees: StoredTrees, _inputs: PortRows) -> Iterator[pa.Table]:
    for rows in trees.open_keyed(GROUP).scan():
        live = rows.filter(rows.column(THERE))
        columns = [live.column(name).combine_chunks() for name in node.columns]
        yield output_table(columns, np.ones(live.num_rows, np.int64))


def _of_ordered_rows(node: Node, trees: StoredTrees, _inputs: PortRows) -> Iterator[pa.Table]:
    spec = trees.operator.spec
    if not isinstance(spec, TopKSpec | WindowSpec):
        raise TypeError(node)
    keys = _group_keys(trees, len(spec.keys))
    for rows in trees.open_ordered(entries_tree(LIVE)).scan():
        if rows.num_rows:
            ordered = _in_order(spec, rows)
            if isinstance(spec, TopKSpec):
                yield _in_range(spec, ordered, keys)
            else:
                yield _with_values(spec, ordered, keys)


def _group_keys(trees: StoredTrees, keys: int) -> pa.Table:
    """Return the keys of all groups with their hash and collision id."""
    names = ["hash", "chain", *(f"k{i}" for i in range(keys))]
    layout = trees.operator.state_schema()[GROUP]
    schema = pa.schema([layout.schema.field(name) for name in names])
    parts = [part.select(names) for part in trees.open_keyed(GROUP).scan()]
    return pa.concat_tables([schema.empty_table(), *parts]).combine_chunks()


@dataclass(frozen=True, slots=True)
class _OrderedEntries:
    """The entries of whole groups, group by group in order.

    Attributes:
        payload: columns of the rows.
        first: mask of the first entry of each group.
    """

    hashes: npt.NDArray[np.uint64]
    collision_ids: npt.NDArray[np.uint16]
    payload: tuple[pa.Array, ...]
    weights: Int64s
    first: npt.NDArray[np.bool_]


def _in_order(spec: OrderedRowsSpec, rows: pa.Table) -> _OrderedEntries:
    """Return the rows of a run in order."""
    rows = rows.combine_chunks()
    hashes, ids = (rows.column(name).to_numpy() for name in ("hash", "chain"))
    components = spec.trees[LIVE].layout.components
    payload = [rows.column(f"p{i}").combine_chunks() for i in range(len(components))]
    order, _ = sort_order([hashes, ids], encode(payload, components))
    hashes, ids = hashes[order], ids[order]
    weights = rows.column("weight").to_numpy()[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (hashes[1:] != hashes[:-1]) | (ids[1:] != ids[:-1])
    return _OrderedEntries(hashes, ids, tuple(take(payload, order)), weights, first)


def _in_range(spec: TopKSpec, rows: _OrderedEntries, keys: pa.Table) -> pa.Table:
    """Return the rows in the range of ranks, found by counting from the first row of each group."""
    weights, first = rows.weights, rows.first
    before = np.cumsum(weights) - weights
    ranks = before - np.repeat(before[first], np.diff(np.flatnonzero(first), append=len(first)))
    first_rank, stop = spec.ranks.within(ranks, weights)
    if spec.numbered:
        some, numbers = each_rank(first_rank, stop)
        last, shown = [pa.array(numbers + 1).cast(spec.values[-1])], np.ones(len(some), np.int64)
    else:
        some = np.flatnonzero(stop > first_rank)
        last, shown = [], (stop - first_rank)[some]
    return output_table(_row_columns(spec, rows, some, keys, last), shown)


def _with_values(spec: WindowSpec, rows: _OrderedEntries, keys: pa.Table) -> pa.Table:
    """Return the rows with the values of window functions."""
    each = np.repeat(np.arange(len(rows.weights)), rows.weights)
    partitions = np.cumsum(rows.first) - 1
    peers = peer_numbers(partitions, rows.payload, spec.sort_keys)
    before = RowsBefore(np.zeros(len(rows.weights), np.int64))
    ordered = PartitionRows.of(
        take(rows.payload, each), partitions[each], peers[each], before, spec.sort_keys
    )
    values = function_values(spec, ordered)
    shown = np.flatnonzero(within_limit(spec, values))
    columns = _row_columns(spec, rows, each[shown], keys, take(values, shown))
    return output_table(columns, np.ones(len(shown), np.int64))


def _row_columns(
    spec: OrderedRowsSpec,
    rows: _OrderedEntries,
    some: npt.NDArray[np.int64],
    keys: pa.Table,
    added: Sequence[pa.Array],
) -> list[pa.Array]:
    """Return the columns of some rows: keys, the columns passed on, those added."""
    passed_on = take([rows.payload[component] for component in spec.row], some)
    return [
        *_keys_of(keys, rows.hashes[some], rows.collision_ids[some], len(spec.keys)),
        *passed_on,
        *added,
    ]


def _keys_of(
    groups: pa.Table, hashes: npt.NDArray[np.uint64], chains: npt.NDArray[np.uint16], keys: int
) -> list[pa.Array]:
    """Return the keys of groups by hash and collision id."""
    if not keys:
        return []
    stored = groups.select(["hash", "chain"]).append_column("at", pa.array(np.arange(len(groups))))
    sought = pa.table({"hash": hashes, "chain": chains, "row": np.arange(len(hashes))})
    joined = sought.join(stored, ["hash", "chain"], join_type="left outer").sort_by("row")
    if joined.column("at").null_count:
        raise ValueError("there are rows of groups that do not exist")
    at = joined.column("at").combine_chunks()
    return [groups.column(f"k{i}").combine_chunks().take(at) for i in range(keys)]


def _of_join(node: Node, trees: StoredTrees, inputs: PortRows) -> Iterator[pa.Table]:
    if not isinstance(node, Join):
        raise TypeError(node)
    spec = join_spec(node)
    if spec.residual is not None and not supports(spec.residual):
        raise NotComputable("only Spark can compute the condition of the join")
    sides = [_side(spec, port, trees, inputs) for port in range(2)]
    for rows in join(spec, sides[0], sides[1]):
        yield rows.rename_columns([*(f"c{i}" for i in range(len(spec.types))), WEIGHT])


def _side(spec: JoinSpec, port: int, trees: StoredTrees, inputs: PortRows) -> pa.Table:
    """Return the rows of a side, as in a run, with those that no tree has because they match nothing."""
    layout = spec.sides[port].layout
    if not spec.stored[port]:
        rows = [as_stored(spec, port, part) for part in inputs(port).all()]
        return pa.concat_tables([layout.schema.empty_table(), *rows]).combine_chunks()
    parts = [layout.schema.empty_table(), *trees.open_arranged(arrangement_tree(port)).scan()]
    if _reads_input(spec, port) and _is_known(inputs, port):
        for rows in inputs(port).tables:
            stored = as_stored(spec, port, rows)
            keys = [stored.column(f"k{i}").combine_chunks() for i in range(len(spec.keys))]
            parts.append(stored.filter(pa.array(null_keys(spec, keys, stored.num_rows))))
    return pa.concat_tables(parts).combine_chunks()


def as_stored(spec: JoinSpec, port: int, rows: pa.Table) -> pa.Table:
    """Return input rows of a port as rows of a run, with the hash 0."""
    layout = spec.sides[port].layout
    columns = [pa.array(np.zeros(rows.num_rows, np.uint64)), rows.column(WEIGHT)]
    names = [f"k{i}" for i in range(len(layout.key_types))]
    names += [f"x{i}" for i in range(len(layout.value_types))]
    columns += [rows.column(name) for name in names]
    typed = [pc.cast(c, f.type) for c, f in zip(columns, layout.schema, strict=True)]
    return pa.Table.from_arrays(typed, schema=layout.schema).combine_chunks()


_OUTPUTS: Mapping[type[Node], Callable[[Node, StoredTrees, PortRows], Iterator[pa.Table]]] = {
    Aggregate: _of_groups,
    Distinct: _of_groups,
    SetOperation: _of_groups,
    Upsert: _of_upserts,
    TopK: _of_ordered_rows,
    Window: _of_ordered_rows,
    Join: _of_join,
}
"""How the output of each operator is computed."""
