"""Compare what an operator stores with its input, and its values with its own numbers and trees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.commit.documents.snapshot import OperatorState
from substrait_agg.flow.graph.aggregate import Distinct
from substrait_agg.flow.graph.join import Join
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.functions.aggregates.accumulators import MET
from substrait_agg.functions.numbers.stored_digits import FIXED, fit
from substrait_agg.operator.aggregate.operator import GroupOperator
from substrait_agg.operator.common.completeness import KeyBound, complete
from substrait_agg.operator.common.emission import ALL
from substrait_agg.operator.common.names import (
    GROUP,
    PENDING,
    PORT,
    WEIGHT,
    arrangement_tree,
    entries_tree,
)
from substrait_agg.operator.common.protocol import InitialGroups, StatefulOperator, StateReader
from substrait_agg.operator.common.spec import OperatorSpec
from substrait_agg.operator.join.spec import JoinSpec, join_spec
from substrait_agg.state.entries import Entries
from substrait_agg.state.keys.canonical import canonical
from substrait_agg.state.keys.keys import encode
from substrait_agg.state.keys.rows import Mask, as_mask, equal, group_rows, row_hashes
from substrait_agg.tools.checks.rows import comparable_rows, consolidate
from substrait_agg.tools.deep.inputs import NotComputable
from substrait_agg.tools.deep.outputs import PortRows, StoredTrees, as_stored
from substrait_agg.tools.deep.reference_join import null_keys

Int64s = npt.NDArray[np.int64]
SURROGATE = "surrogate_key"


@dataclass(frozen=True, slots=True)
class Difference:
    """A tree that differs from what it should contain.

    Attributes:
        what: the tree, and what it was compared with.
        rows: number of rows that differ, each counted in both.
    """

    what: str
    rows: int


def differing_rows(
    expected: Iterable[pa.Table], stored: Iterable[pa.Table], *, complete: bool = True
) -> int:
    """Return how many rows differ between two sets of rows, whose last column is the weight.

    Args:
        expected: rows that should be stored.
        stored: rows that are stored.
        complete: whether `expected` are all rows; otherwise further stored rows are no difference.
    """
    plus = (_comparable(part, 1) for part in expected)
    minus = (_comparable(part, -1) for part in stored)
    left = consolidate(part for parts in (plus, minus) for part in parts)
    weights = left.column(WEIGHT).to_numpy()
    return int(np.abs(weights if complete else weights[weights > 0]).sum())


def _comparable(rows: pa.Table, sign: int) -> pa.Table:
    columns = [canonical(_whole(column)) for column in rows.columns[:-1]]
    weights = rows.column(rows.num_columns - 1).to_numpy()
    return comparable_rows(columns, pa.array(sign * weights))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays([pa.array([], column.type), *column.chunks])


def against_input(
    node: Node, trees: StoredTrees, inputs: PortRows, limits: Sequence[KeyBound], *, late: bool
) -> Iterator[Difference]:
    """Yield the trees of an operator that differ from its input.

    Args:
        node: the operator.
        trees: its trees.
        inputs: its input rows.
        limits: the bounds below which its groups are complete.
        late: whether rows of the input may have been late.

    Raises:
        NotComputable: the input is not stored.
    """
    if node.forget:
        raise NotComputable("groups that were idle have been evicted, and may have returned")
    if isinstance(node, Join):
        yield from _arrangements(join_spec(node), trees, inputs)
    elif isinstance(trees.operator.spec, OperatorSpec):
        if node.events and late:
            raise NotComputable("late rows have been left out, and it is not stored which")
        yield from _groups(node, trees, inputs, limits)
    else:
        raise NotComputable(f"the state of {node.describe().kind} depends on the order of rows")


def _from_below(tree: str, wrong: int) -> Difference:
    return Difference(f"{tree} and the rows of the operators below", wrong)


# --- joins ---------------------------------------------------------------------------------------


def _arrangements(spec: JoinSpec, trees: StoredTrees, inputs: PortRows) -> Iterator[Difference]:
    reasons = []
    for port, is_stored in enumerate(spec.stored):
        if not is_stored:
            continue
        try:
            parts = inputs(port)
        except NotComputable as reason:
            reasons.append(str(reason))
            continue
        name = arrangement_tree(port)
        expected = (_matchable(spec, port, rows) for rows in parts.tables)
        stored = (_without_hash(rows) for rows in trees.open_arranged(name).scan())
        if wrong := differing_rows(expected, stored, complete=parts.complete):
            yield _from_below(name, wrong)
    if reasons:
        raise NotComputable("; ".join(dict.fromkeys(reasons)))


def _matchable(spec: JoinSpec, port: int, rows: pa.Table) -> pa.Table:
    stored = as_stored(spec, port, rows)
    keys = [_whole(stored.column(f"k{i}")) for i in range(len(spec.keys))]
    if not spec.whole[port]:
        stored = stored.filter(pa.array(~null_keys(spec, keys, stored.num_rows)))
    return _without_hash(stored)


def _without_hash(rows: pa.Table) -> pa.Table:
    """Return rows of a run with their weight last."""
    return rows.select([*rows.column_names[2:], "weight"])


def hashes_of_keys(node: Node, trees: StoredTrees) -> Iterator[Difference]:
    """Yield a difference if rows of a join with the same key have different hashes.

    A lookup by hash would miss one of them.
    """
    if not isinstance(node, Join):
        return
    spec = join_spec(node)
    names = [f"k{i}" for i in range(len(spec.keys))]
    ports = [port for port, kept in enumerate(spec.stored) if kept]
    scans = [trees.open_arranged(arrangement_tree(port)).scan() for port in ports]
    parts = [rows.select(["hash", *names]) for scan in scans for rows in scan]
    if not parts or not names:
        return
    rows = pa.concat_tables(parts).combine_chunks()
    hashes = rows.column("hash").to_numpy()
    keys = [_whole(rows.column(name)) for name in names]
    order, first = group_rows(row_hashes(keys, np.zeros(len(hashes), np.uint64)), keys)
    moved = np.flatnonzero(~first & (np.diff(hashes[order], prepend=hashes[order[:1]]) != 0))
    if len(moved):
        yield Difference("hashes of rows with the same key", len(moved))


# --- groups --------------------------------------------------------------------------------------


def _groups(
    node: Node, trees: StoredTrees, inputs: PortRows, limits: Sequence[KeyBound]
) -> Iterator[Difference]:
    spec = trees.operator.spec
    if not isinstance(spec, OperatorSpec):
        raise TypeError(spec)
    if spec.by_arrival:
        raise NotComputable("the order of arrival is not stored")
    if isinstance(node, Distinct) and not inputs(0).complete:
        yield from _some_rows(node, trees, inputs(0).tables)
        return
    ports = [inputs(port).all() for port in range(len(node.inputs))]
    stored = _stored_groups(spec, trees)
    # A complete group that waits to be emitted has lost its rows in the operators below.
    waiting = stored.filter(pa.array(_complete(spec, stored, limits))).column("hash")
    rows = [_input(spec, node, port, parts, stored) for port, parts in enumerate(ports)]
    stored = _without(stored, waiting)
    # A group that is complete has left; the others that are stored have all their rows.
    if node.events:
        rows = [None if part is None else _of_groups(part, stored) for part in rows]
    computed = _from_nothing(trees, [part for part in rows if part is not None], stored)
    compared = partial(_to_compared, spec, waits=bool(trees.state[PENDING]))
    if wrong := differing_rows(map(compared, computed[GROUP]), [compared(stored)]):
        yield _from_below("groups", wrong)
    yield from _entries(spec, trees, computed, waiting)


def _entries(
    spec: OperatorSpec,
    trees: StoredTrees,
    computed: Mapping[str, Sequence[pa.Table]],
    left_out: pa.ChunkedArray,
) -> Iterator[Difference]:
    """Yield the ordered trees that differ, without the groups of some hashes."""
    for i, tree in enumerate(spec.trees):
        if tree.extremes_only:
            continue
        together = spec.together(i)
        name, weights = entries_tree(together[0]), spec.trees[together[0]].layout.weights
        values = (f"p{c}" for c in range(len(tree.layout.components)))
        names = ["hash", *values, weights[together.index(i)]]
        entries = trees.open_ordered(name).scan()
        stored_rows = (_without(part, left_out).select(names) for part in entries)
        if wrong := differing_rows((t.select(names) for t in computed[name]), stored_rows):
            yield _from_below(entries_tree(i), wrong)


def _complete(spec: OperatorSpec, groups: pa.Table, limits: Sequence[KeyBound]) -> Mask:
    keys = [_whole(groups.column(f"k{i}")) for i in range(len(spec.keys))]
    return complete(keys, limits, groups.num_rows)


def _without(rows: pa.Table, hashes: pa.ChunkedArray) -> pa.Table:
    return rows.filter(pa.array(~np.isin(rows.column("hash"), hashes)))


def _of_groups(rows: pa.RecordBatch, stored: pa.Table) -> pa.RecordBatch:
    """Return the input rows of stored groups."""
    return rows.filter(pa.array(np.isin(rows.column("hash"), stored.column("hash"))))


def _some_rows(node: Node, trees: StoredTrees, parts: Sequence[pa.Table]) -> Iterator[Difference]:
    """Yield a difference if rows of the input are not among the rows of a view."""
    names = [f"k{i}" for i in range(len(node.keys))]
    groups = trees.open_keyed(GROUP).scan()
    stored = (rows.select([*names, "shown"]) for rows in groups)
    if wrong := differing_rows((p.select([*names, WEIGHT]) for p in parts), stored, complete=False):
        yield _from_below("groups", wrong)


def _stored_groups(spec: OperatorSpec, trees: StoredTrees) -> pa.Table:
    schema = spec.layout.schema
    parts = [fit(part, schema) for part in trees.open_keyed(GROUP).scan()]
    return pa.concat_tables([schema.empty_table(), *parts]).combine_chunks()


def _to_compared(spec: OperatorSpec, groups: pa.Table, *, waits: bool) -> pa.Table:
    """Return the columns of groups that follow from the input, each with the weight 1.

    Groups that wait show older values; of one without rows, only its old row is left. Surrogate
    keys depend on what was there before.
    """
    groups = fit(groups, spec.layout.schema)
    names = [f"k{i}" for i in range(len(spec.keys))]
    if not any(a.kind == MET for a in spec.accumulators):
        names.append(FIXED)
    if waits:
        fixed = groups.column(FIXED)
        nothing = pa.scalar(bytes(fixed.type.byte_width), fixed.type)
        groups = groups.filter(pc.not_equal(fixed, nothing))
    else:
        values = [f"v{i}" for i, m in enumerate(spec.measures) if m.kind != SURROGATE]
        names += ["shown", *values]
    return _each_once(groups, names)


def _each_once(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    live = rows.filter(pa.array(~as_mask(_whole(rows.column("dead")))))
    one = pa.array(np.ones(live.num_rows, np.int64))
    return live.select(list(columns)).append_column(WEIGHT, one)


def _input(
    spec: OperatorSpec, node: Node, port: int, parts: Sequence[pa.Table], stored: pa.Table
) -> pa.RecordBatch | None:
    """Return the input rows of a port as the exchange gives them, with the hashes of the groups."""
    tables = [part for part in parts if part.num_rows]
    if not tables:
        return None
    rows = pa.concat_tables(tables).combine_chunks()
    if node.weight == "append_only":
        rows = rows.take(pa.array(np.repeat(np.arange(len(rows)), rows.column(WEIGHT).to_numpy())))
        rows = rows.drop_columns([WEIGHT])
    first = sum(len(other.arguments) for other in node.inputs[:port])
    columns = {"hash": pa.array(_hashes(spec, rows, stored))}
    for name in rows.column_names:
        renamed = f"x{first + int(name[1:])}" if name[0] == "x" else name
        columns[renamed] = _whole(rows.column(name))
    if len(node.inputs) > 1:
        columns[PORT] = pa.array(np.full(rows.num_rows, port, np.int8))
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _hashes(spec: OperatorSpec, rows: pa.Table, stored: pa.Table) -> npt.NDArray[np.uint64]:
    """Return the hash of the stored group of each row; any hash where there is no such group."""
    if not spec.keys:
        return np.zeros(rows.num_rows, np.uint64)
    names = [f"k{i}" for i in range(len(spec.keys))]
    own = [_whole(rows.column(n)).cast(t) for n, t in zip(names, spec.keys, strict=True)]
    keys = [
        pa.concat_arrays([_whole(stored.column(n)), k]) for n, k in zip(names, own, strict=True)
    ]
    keys = [canonical(key) for key in keys]
    label = row_hashes(keys, np.zeros(len(keys[0]), np.uint64))
    order, first = group_rows(label, keys)
    group = np.cumsum(first) - 1
    leader = order[first]  # a stored group comes before the rows of its key
    hashes = np.concatenate([stored.column("hash").to_numpy(), label[stored.num_rows :]])
    result = np.empty(len(order), np.uint64)
    result[order] = hashes[leader][group]
    return result[stored.num_rows :]


def _from_nothing(
    trees: StoredTrees, rows: Sequence[pa.RecordBatch], stored: pa.Table
) -> Mapping[str, Sequence[pa.Table]]:
    """Run the operator over all its input at once and return the rows of its trees."""
    operator = trees.operator
    state = _reader(replace(trees, state=OperatorState()))
    received = [operator.receive(batch, raw=True, emission=ALL)[0] for batch in rows]
    parts = [pa.Table.from_batches([batch]) for batch in received]
    woken, _ = operator.wake(state, ALL, initial_groups=_initial_groups(trees, stored))
    if not parts and not woken:
        return {name: [] for name in operator.state_schema()}
    slice_ = operator.complete([*parts, *woken], ALL)
    result = operator.apply(_by_port(operator, slice_), state, ALL)
    return {name: [table] for name, table in result.trees.items()}


def _by_port(operator: StatefulOperator, rows: pa.Table) -> list[pa.Table]:
    """Return rows by input port; rows without a port go to port 0."""
    if operator.ports == 1:
        return [rows]
    if PORT not in rows.column_names:
        rows = rows.append_column(PORT, pa.nulls(rows.num_rows, pa.int8()))
    port = pc.fill_null(rows.column(PORT), 0)
    return [rows.filter(pc.equal(port, i)) for i in range(operator.ports)]


def _initial_groups(trees: StoredTrees, stored: pa.Table) -> InitialGroups:
    """Return the groups that exist without rows, with their stored hashes."""
    spec = trees.operator.spec
    if spec.is_global:
        return ((0, 0),)
    names = [f"k{i}" for i in range(len(spec.keys) - 1)]
    index = stored.column(f"k{len(names)}").to_pylist() if spec.always else []
    none = np.ones(stored.num_rows, np.bool_)
    for name in names if spec.always else ():
        none &= as_mask(pc.is_null(_whole(stored.column(name))))
    hashes = stored.column("hash").to_numpy()
    return [
        (int(hashes[at]), index[at])
        for at in np.flatnonzero(none)
        if spec.always and index[at] in spec.always
    ]


def _reader(trees: StoredTrees) -> StateReader:
    return StateReader(trees.open_keyed, trees.open_ordered, trees.open_arranged, _no_surrogates)


def _no_surrogates(count: int) -> Int64s:
    return np.arange(count, dtype=np.int64)


# --- values of groups ----------------------------------------------------------------------------


def against_itself(node: Node, trees: StoredTrees) -> Iterator[Difference]:
    """Yield a difference if values of groups do not follow from their own numbers and trees.

    Rows that add nothing are applied to all groups that do not wait. No value may change.

    Raises:
        NotComputable: values depend on more than the state.
    """
    operator, spec = trees.operator, trees.operator.spec
    if isinstance(spec, OperatorSpec):
        yield from _encoded_keys(spec, trees)
        yield from _stored_extremes(spec, trees)
    if not isinstance(operator, GroupOperator):
        return
    if node.forget:
        raise NotComputable("groups are evicted when they are idle")
    spec, state = operator.spec, _reader(trees)
    pending = trees.open_keyed(PENDING).scan() if PENDING in operator.state_schema() else ()
    hashes = (part.column("hash").to_numpy() for part in pending)
    waiting = np.concatenate([np.zeros(0, np.uint64), *hashes])
    wrong = 0
    for groups in trees.open_keyed(GROUP).scan():
        idle = ~np.isin(groups.column("hash").to_numpy(), waiting)
        names = ["hash", *(f"k{i}" for i in range(len(spec.keys)))]
        rows = groups.select(names).filter(pa.array(idle))
        if rows.num_rows:
            slice_ = operator.complete([rows], ALL)
            wrong += operator.apply(_by_port(operator, slice_), state, ALL).changes.num_rows
    if wrong:
        yield Difference("the values of groups and the numbers that they are computed from", wrong)


def _encoded_keys(spec: OperatorSpec, trees: StoredTrees) -> Iterator[Difference]:
    """Yield the ordered trees whose keys do not encode their values."""
    for i, tree in enumerate(spec.trees):
        wrong = 0
        stored = not tree.extremes_only and tree.within is None
        for rows in trees.open_ordered(entries_tree(i)).scan() if stored else ():
            entries = Entries.from_table(rows, tree.layout)
            if not len(entries):
                continue
            again = encode([canonical(c) for c in entries.payload], tree.layout.components)
            pairs = zip(entries.keys.words, again.words, strict=True)
            other = reduce(np.logical_or, (a != b for a, b in pairs))
            if entries.keys.rest is not None and again.rest is not None:
                other |= ~equal(entries.keys.rest, again.rest)
            wrong += int(np.count_nonzero(other))
        if wrong:
            yield Difference(f"the keys and the values of {entries_tree(i)}", wrong)


def _stored_extremes(spec: OperatorSpec, trees: StoredTrees) -> Iterator[Difference]:
    """Yield the stored extremes of groups that are not those of their tree."""
    for number, (i, side) in enumerate(spec.extremes):
        tree = spec.trees[i]
        if tree.extremes_only:
            continue
        count = len(tree.layout.components)
        expected = (
            _ends(part, count, last=side == "last")
            for part in trees.open_ordered(entries_tree(i)).scan()
        )
        names = ["hash", "chain", *(f"e{number}_{c}" for c in range(count))]
        stored = (_each_once(part, names) for part in trees.open_keyed(GROUP).scan())
        if wrong := differing_rows(expected, stored, complete=False):
            yield Difference(f"the extremes of groups and {entries_tree(i)}", wrong)


def _ends(entries: pa.Table, components: int, *, last: bool) -> pa.Table:
    """Return the first or last entry of positive weight of each group, each with weight 1."""
    live = entries.filter(pa.array(entries.column("weight").to_numpy() > 0))
    hashes, chains = (live.column(name).to_numpy() for name in ("hash", "chain"))
    turn = (hashes[1:] != hashes[:-1]) | (chains[1:] != chains[:-1])
    ends = np.ones(live.num_rows, np.bool_)
    if last:
        ends[:-1] = turn
    else:
        ends[1:] = turn
    extremes = live.filter(pa.array(ends))
    names = ["hash", "chain", *(f"p{c}" for c in range(components))]
    return extremes.select(names).append_column(WEIGHT, pa.array(np.ones(len(extremes), np.int64)))
