"""One step of a join: the changes of both sides become changes of the joined rows.

With L and R as the rows before the batch, dL and dR as the changes and R' = R + dR, the pairs
change by ``dL * R' + L * dR``. A row of a side that is in the output depending on whether it has a
match changes when it changes itself, and when the first match of its key comes or the last one
goes. All sums are over weights, so rows, retractions and corrections in one batch need no order
(Gupta and Mumick, *Maintenance of Materialized Views*, 1995).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.bind.bound import Expr
from substrait_agg.errors import RunFailed
from substrait_agg.evaluation.expressions import evaluate
from substrait_agg.flow.graph.join import KEPT_SIDES, PAIRED, follows_matches
from substrait_agg.operator.aggregate.operator import with_key_types
from substrait_agg.operator.common.emission import Emission
from substrait_agg.operator.common.names import WEIGHT, arrangement_tree
from substrait_agg.operator.common.protocol import (
    Layouts,
    OperatorResult,
    StatefulOperator,
    StateReader,
)
from substrait_agg.operator.join.spec import NESTED_LOOP_ROWS, JoinSide, JoinSpec
from substrait_agg.state.arrangement import (
    Arrangement,
    Matches,
    arrange,
    consolidate_rows,
    hash_ranges,
    match_page,
)
from substrait_agg.state.keys.row_sizes import slices_to_take
from substrait_agg.state.keys.rows import Hashes, Mask, as_mask, group_rows, take, whole
from substrait_agg.state.weights import add_weights, multiply_weights, sum_runs_of_rows

_FIRST_KEY = 2  # columns of a run before its keys


def _columns_of(side: JoinSide, rows: pa.RecordBatch) -> list[pa.Array]:
    """Return the columns of a side, given its rows as in a run."""
    return [rows.column(_FIRST_KEY + place) for place in side.columns]


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    """Return a table as one record batch."""
    columns = [whole(table, name) for name in table.column_names]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


class Pairs:
    """Builds output rows from rows of both sides, or of one side."""

    def __init__(self, spec: JoinSpec) -> None:
        self._spec = spec

    def table(self, left: pa.RecordBatch, right: pa.RecordBatch, weights: Weights) -> pa.Table:
        """Return the output of pairs of rows."""
        sides = zip(self._spec.sides, (left, right), strict=True)
        return self._table([c for side, rows in sides for c in _columns_of(side, rows)], weights)

    def alone(
        self, port: int, rows: pa.RecordBatch, weights: Weights, *, matched: bool
    ) -> pa.Table:
        """Return the output of rows of one side; the columns of the other side are null.

        Args:
            port: the side.
            rows: its rows, as in a run.
            weights: their weights in the output.
            matched: the value of the mark of a mark join.
        """
        columns: list[pa.Array] = []
        for i, side in enumerate(self._spec.sides):
            if i == port:
                columns += _columns_of(side, rows)
            else:
                stored = [*side.layout.key_types, *side.layout.value_types]
                columns += [pa.nulls(rows.num_rows, stored[place]) for place in side.columns]
        mark = pa.array(np.full(rows.num_rows, matched))
        return self._table([*columns, mark], weights)

    def _table(self, columns: Sequence[pa.Array], weights: Weights) -> pa.Table:
        output = [columns[ordinal] for ordinal in self._spec.chosen]
        return pa.Table.from_arrays([*output, pa.array(weights)], schema=self._spec.changes)


class ResidualFilter:
    """The residual condition of a join."""

    def __init__(self, spec: JoinSpec, condition: Expr) -> None:
        self._spec = spec
        self._condition = condition

    def holds(self, left: pa.RecordBatch, right: pa.RecordBatch) -> Mask:
        """Return a mask of the pairs for which the condition is true."""
        sides = zip(self._spec.sides, (left, right), strict=True)
        columns = [column for side, rows in sides for column in _columns_of(side, rows)]
        result = evaluate(self._condition, columns, left.num_rows)
        return as_mask(pc.fill_null(result, False))


Weights = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class JoinOperator(StatefulOperator):
    """The operator that joins two relations by key."""

    spec: JoinSpec

    @property
    def ports(self) -> int:
        """Return 2: the left and the right side."""
        return 2

    def state_schema(self, *, final: bool = True) -> Layouts:
        """Return one arrangement per side that is stored, by key."""
        sides = zip(self.spec.sides, self.spec.stored, strict=True)
        return {arrangement_tree(i): side.layout for i, (side, kept) in enumerate(sides) if kept}

    def receive(
        self, batch: pa.RecordBatch, *, raw: bool, emission: Emission
    ) -> tuple[pa.RecordBatch, int]:
        """Cast the keys to the types of the state; each row counts as one input row."""
        return with_key_types(batch, self.spec), batch.num_rows

    def rows_at_once(self, state: StateReader) -> int:
        """See `StatefulOperator`: matching rows are read in pieces, however many there are."""
        return self.spec.slice_rows

    def looks_up(self, tree: str, port: int) -> bool:
        """See `StatefulOperator`: the other side, and the own one if the other follows matches."""
        kind = self.spec.kind
        return tree != arrangement_tree(port) or kind == "single" or follows_matches(kind, 1 - port)

    def apply(
        self, ports: Sequence[pa.Table], state: StateReader, emission: Emission
    ) -> OperatorResult:
        """Apply a slice; see the module."""
        deltas = [_delta(self.spec, port, rows) for port, rows in enumerate(ports)]
        _check_few(self.spec, deltas)
        names = [arrangement_tree(port) for port in range(2)]
        stored = list(zip(names, deltas, self.spec.stored, strict=True))
        old = [state.open_arranged(name) if kept else None for name, _, kept in stored]
        counters = {"touched": sum(d.rows.num_rows for d in deltas), "probes": 0, "matches": 0}
        step = _Step(self.spec, deltas, old, counters)
        trees = {
            name: pa.Table.from_batches([delta.stored]) for name, delta, kept in stored if kept
        }
        return OperatorResult(
            trees,
            self.spec.changes.empty_table(),
            counters,
            step.changes(),
            step.count_pairs,
        )


@dataclass(frozen=True, slots=True)
class _Delta:
    """The changes of one side.

    Attributes:
        rows: the columns of a run, by hash, each row once.
        unmatched: the rows whose key has a null that matches nothing.
        stored: the rows to store.
    """

    rows: pa.RecordBatch
    unmatched: pa.RecordBatch
    stored: pa.RecordBatch

    @property
    def hashes(self) -> Hashes:
        """Return the hash of each row, ascending."""
        return np.asarray(self.rows.column(0).to_numpy())


def _check_few(spec: JoinSpec, deltas: Sequence[_Delta]) -> None:
    """Check that a join without a key has a side with few rows.

    Static sides come whole, in the first version.
    """
    rows = min((deltas[port].rows.num_rows for port in spec.few), default=0)
    if rows > NESTED_LOOP_ROWS:
        raise RunFailed(
            "NESTED_LOOP_TOO_LARGE",
            f"{spec.label} has no key, and its static input has {rows} different rows, more than {NESTED_LOOP_ROWS}",
            help="add an equality of both inputs to the join, or filter the static table in the plan",
        )


def _delta(spec: JoinSpec, port: int, table: pa.Table) -> _Delta:
    layout = spec.sides[port].layout
    if not table.num_rows:  # then the columns of this side may be missing
        none = _one_batch(layout.schema.empty_table())
        return _Delta(none, none, none)
    keys = [whole(table, f"k{i}") for i in range(len(spec.keys))]
    values = [
        whole(table, name).cast(type_)
        for name, type_ in zip(spec.arguments_of(port), layout.value_types, strict=True)
    ]
    weights = np.ones(table.num_rows, np.int64)
    if WEIGHT in table.column_names:
        weights = whole(table, WEIGHT).fill_null(1).to_numpy()
    rows = arrange(layout, whole(table, "hash").to_numpy(), keys, values, weights)
    nullable = zip(rows.columns[2:], spec.null_safe, strict=False)
    nulls = [as_mask(key.is_null()) for key, safe in nullable if not safe and key.null_count]
    alone = reduce(np.logical_or, nulls, np.zeros(rows.num_rows, np.bool_))
    if not alone.any():
        return _Delta(rows, rows.slice(0, 0), rows)
    matching, unmatched = (rows.filter(pa.array(mask)) for mask in (~alone, alone))
    return _Delta(matching, unmatched, rows if spec.whole[port] else matching)


class _Step:
    """The changes of a slice.

    Args:
        spec: the join.
        deltas: the changes of each side.
        old: the rows of each side before the batch; None for a side that is not stored, whose rows
            are never read again.
        counters: counts the keys that are looked up in stored rows, and the rows found.
    """

    def __init__(
        self,
        spec: JoinSpec,
        deltas: Sequence[_Delta],
        old: Sequence[Arrangement | None],
        counters: dict[str, int],
    ) -> None:
        self._counters = counters
        self._spec = spec
        self._deltas = deltas
        self._old = old
        self._pairs = Pairs(spec)
        self._residual = None if spec.residual is None else ResidualFilter(spec, spec.residual)

    def changes(self) -> Iterator[pa.Table]:
        """Yield the changes of the output."""
        spec = self._spec
        if spec.kind in PAIRED:
            yield from self._iter_pairs()
        if spec.kind == "single":
            self._check_single()
        for port in range(2):
            if follows_matches(spec.kind, port):
                yield from self._by_match(port)

    def count_pairs(self) -> int:
        """Return the number of pairs of a changed row and a row of the other side with its key."""
        left, right = (delta.hashes for delta in self._deltas)
        pairs = int(hash_ranges(right, left)[1].sum())
        for side, hashes in ((1, left), (0, right)):
            old = self._old[side]
            pairs += 0 if old is None else old.count_of(hashes)
        return pairs

    # --- pairs of matching rows ------------------------------------------------------------------

    def _iter_pairs(self) -> Iterator[pa.Table]:
        left, right = self._deltas
        for matches in Matches.join_parts(self._candidates(left.rows, 1, now=True)):
            for rows, part in _with_probes(left.rows, matches):
                yield from self._pair(rows, part.rows)
        for matches in Matches.join_parts(self._candidates(right.rows, 0)):
            for rows, part in _with_probes(right.rows, matches):
                yield from self._pair(part.rows, rows)

    def _pair(self, left: pa.RecordBatch, right: pa.RecordBatch) -> Iterator[pa.Table]:
        if self._residual is not None:
            holds = pa.array(self._residual.holds(left, right))
            left, right = left.filter(holds), right.filter(holds)
        if left.num_rows:
            weights = multiply_weights(_weights(left), _weights(right))
            yield self._pairs.table(left, right, weights)

    def _candidates(
        self, rows: pa.RecordBatch, other: int, *, now: bool = False
    ) -> Iterator[Matches]:
        """Yield the rows of side `other` with the key of some rows: before the batch, or `now`."""
        hashes = np.asarray(rows.column(0).to_numpy())
        keys = self._keys(rows)
        yield from self._before(other, hashes, keys)
        if now:
            yield from self._new(hashes, keys, other)

    def _before(self, side: int, hashes: Hashes, keys: Sequence[pa.Array]) -> Iterator[Matches]:
        """Yield the rows of a side before the batch that have the keys."""
        old = self._old[side]
        if old is None:
            return
        self._counters["probes"] += len(hashes)
        for matches in old.probe(hashes, keys):
            self._counters["matches"] += len(matches.probes)
            yield matches

    def _new(self, hashes: Hashes, keys: Sequence[pa.Array], other: int) -> Iterator[Matches]:
        """Yield the changed rows of side `other` that have the keys."""
        delta = self._deltas[other]
        yield from match_page(delta.rows, *hash_ranges(delta.hashes, hashes), keys)

    def _keys(self, rows: pa.RecordBatch) -> list[pa.Array]:
        return list(rows.columns[2 : 2 + len(self._spec.keys)])

    # --- rows of one side, depending on whether they have a match --------------------------------

    def _by_match(self, port: int) -> Iterator[pa.Table]:
        """Yield the changes of the rows of a side that depend on their matches."""
        delta = self._deltas[port]
        if delta.unmatched.num_rows and KEPT_SIDES[self._spec.kind][port]:
            yield from self._iter_shown(
                port, delta.unmatched, _weights(delta.unmatched), matched=False
            )
        before, added = self._matches_of(port, delta.rows)
        matched = add_weights([before, added]) > 0
        for rows, flag in ((np.flatnonzero(matched), True), (np.flatnonzero(~matched), False)):
            picked_rows = _take(delta.rows, rows)
            yield from self._iter_shown(port, picked_rows, _weights(picked_rows), matched=flag)
        yield from self._iter_flips(port)

    def _iter_shown(
        self, port: int, rows: pa.RecordBatch, weights: Weights, *, matched: bool
    ) -> Iterator[pa.Table]:
        """Yield rows of a side with the given weights if rows of this kind are in the output."""
        kind = self._spec.kind
        if rows.num_rows and (kind == "mark" or (kind == "semi") == matched):
            yield self._pairs.alone(port, rows, weights, matched=matched)

    def _iter_flips(self, port: int) -> Iterator[pa.Table]:
        """Yield the changes of stored rows that got their first match or lost their last one."""
        hashes, keys = self._changed_keys(1 - port)
        if self._residual is None:
            hashes, keys, has_match = self._flipped_keys(1 - port, hashes, keys)
            for matches in self._before(port, hashes, keys):
                yield from self._iter_moves(port, matches.rows, has_match[matches.probes])
            return
        for pairs in Matches.join_parts(self._before(port, hashes, keys)):
            matches = pairs.by_probe()
            before, added = self._matches_of(port, matches.rows)
            was, now = before > 0, add_weights([before, added]) > 0
            flips = np.flatnonzero(was != now)
            yield from self._iter_moves(port, _take(matches.rows, flips), now[flips])

    def _iter_moves(self, port: int, rows: pa.RecordBatch, has_match: Mask) -> Iterator[pa.Table]:
        """Yield the changes of rows that have a match now (`has_match`), or had one before."""
        weights = _weights(rows)
        for matched, places in (
            (True, np.flatnonzero(has_match)),
            (False, np.flatnonzero(~has_match)),
        ):
            part, weight = _take(rows, places), weights[places]
            yield from self._iter_shown(port, part, -weight, matched=not matched)
            yield from self._iter_shown(port, part, weight, matched=matched)

    def _changed_keys(self, port: int) -> tuple[Hashes, list[pa.Array]]:
        """Return the different keys of the changed rows of a side."""
        delta = self._deltas[port]
        keys = self._keys(delta.rows)
        order, first = group_rows(delta.hashes, keys)
        first_rows = order[first]
        return delta.hashes[first_rows], take(keys, first_rows)

    def _flipped_keys(
        self, port: int, hashes: Hashes, keys: list[pa.Array]
    ) -> tuple[Hashes, list[pa.Array], Mask]:
        """Return the keys that have rows on a side now or before but not both, and which have now."""
        before = _total(self._before(port, hashes, keys), len(hashes))
        now = add_weights([before, _total(self._new(hashes, keys, port), len(hashes))]) > 0
        flips = np.flatnonzero((before > 0) != now)
        return hashes[flips], take(keys, flips), now[flips]

    def _matches_of(self, port: int, rows: pa.RecordBatch) -> tuple[Weights, Weights]:
        """Return the weight of the matches of rows of a side before the batch, and its change."""
        hashes, keys = np.asarray(rows.column(0).to_numpy()), self._keys(rows)
        before = self._iter_holding(port, rows, self._before(1 - port, hashes, keys))
        added = self._iter_holding(port, rows, self._new(hashes, keys, 1 - port))
        return _total(before, rows.num_rows), _total(added, rows.num_rows)

    def _iter_holding(
        self, port: int, rows: pa.RecordBatch, parts: Iterator[Matches]
    ) -> Iterator[Matches]:
        """Yield the matches for which the residual condition is true."""
        if self._residual is None:
            yield from parts
            return
        for matches in Matches.join_parts(parts):
            for probes, part in _with_probes(rows, matches):
                sides = [probes, part.rows]
                holds = self._residual.holds(sides[port], sides[1 - port])
                yield Matches(part.probes[holds], part.rows.filter(pa.array(holds))).by_probe()

    def _check_single(self) -> None:
        """Check that no row of the left side has several matches."""
        left = self._deltas[0].rows
        parts = [left, *(m.rows for m in self._before(0, *self._changed_keys(1)))]
        for rows in parts:
            many = np.flatnonzero(self._has_several(rows))
            if len(many) and self._has_several(self._live(_take(rows, many))).any():
                raise RunFailed(
                    "SINGLE_JOIN_MATCHES",
                    f"{self._spec.label} expects at most one match, and a row has several",
                    help="make the right side unique by the key, for example with an aggregate",
                )

    def _has_several(self, rows: pa.RecordBatch) -> Mask:
        """Return a mask of the rows of the left side that have several matches after the batch."""
        return add_weights(self._matches_of(0, rows)) > 1

    def _live(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of the left side, as they are after the batch, with the keys of some rows."""
        hashes, keys = np.asarray(rows.column(0).to_numpy()), self._keys(rows)
        layout = self._spec.sides[0].layout
        parts = [
            layout.schema.empty_table(),
            *(pa.Table.from_batches([m.rows]) for m in self._before(0, hashes, keys)),
            *(pa.Table.from_batches([m.rows]) for m in self._new(hashes, keys, 0)),
        ]
        live = consolidate_rows(pa.concat_tables(parts))
        return _one_batch(live.filter(pc.greater(live.column(1), 0)))


def _with_probes(
    rows: pa.RecordBatch, matches: Matches
) -> Iterator[tuple[pa.RecordBatch, Matches]]:
    """Yield matches, few enough at once, with the row of each probe."""
    for part in slices_to_take(rows.columns, matches.probes):
        probes = matches.probes[part]
        yield _take(rows, probes), Matches(probes, matches.rows[part])


def _total(parts: Iterator[Matches], probes: int) -> Weights:
    """Return the sum of the weights of the matches of each probe."""
    total = np.zeros(probes, np.int64)
    for matches in parts:
        starts = np.flatnonzero(np.diff(matches.probes, prepend=-1))
        sums = np.zeros(probes, np.int64)
        sums[matches.probes[starts]] = sum_runs_of_rows(matches.weights, starts)
        total = add_weights([total, sums])
    return total


def _weights(rows: pa.RecordBatch) -> Weights:
    return np.asarray(rows.column(1).to_numpy())


def _take(rows: pa.RecordBatch, at: npt.NDArray[np.int64]) -> pa.RecordBatch:
    return rows.take(pa.array(at))
