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

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.errors import RunFailed
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
from substrait_agg.operator.join.lookup import KeyLookup, ProbeSet, lookup_of
from substrait_agg.operator.join.pairs import Pairs, ResidualFilter, one_batch
from substrait_agg.operator.join.spec import NESTED_LOOP_ROWS, JoinSpec
from substrait_agg.state.arrangement import (
    Arrangement,
    Matches,
    arrange,
    consolidate_rows,
)
from substrait_agg.state.keys.row_sizes import slices_to_take
from substrait_agg.state.keys.rows import Mask, take, whole
from substrait_agg.state.weights import add_weights, multiply_weights, sum_runs_of_rows

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
        lookup = lookup_of(self.spec)
        deltas = [_delta(self.spec, lookup, port, rows) for port, rows in enumerate(ports)]
        names = [arrangement_tree(port) for port in range(2)]
        stored = list(zip(names, deltas, self.spec.stored, strict=True))
        old = [state.open_arranged(name) if kept else None for name, _, kept in stored]
        _check_few(self.spec, deltas, old)
        counters = {"touched": sum(d.rows.num_rows for d in deltas), "probes": 0, "matches": 0}
        step = _Step(self.spec, lookup, deltas, old, counters)
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


def _check_few(spec: JoinSpec, deltas: Sequence[_Delta], old: Sequence[Arrangement | None]) -> None:
    """Check that a join without a key and without a range has a side with few rows.

    Static sides come whole, in the first version.
    """
    sides = [(deltas[port].rows, old[port]) for port in spec.few]
    rows = min((_count_rows(*side, NESTED_LOOP_ROWS) for side in sides), default=0)
    if rows > NESTED_LOOP_ROWS:
        raise RunFailed(
            "NESTED_LOOP_TOO_LARGE",
            f"{spec.label} has neither a key nor a range, and its smaller input has {rows} different rows, "
            f"more than {NESTED_LOOP_ROWS}",
            help="compare columns of both inputs in the join with =, <, <=, >, >= or BETWEEN, or filter the smaller "
            "input in the plan",
        )


def _count_rows(changed: pa.RecordBatch, old: Arrangement | None, enough: int) -> int:
    """Return the number of different rows of a side; exactly only if it may exceed `enough`."""
    stored = 0 if old is None else old.row_bound
    if old is None or not stored or stored + changed.num_rows <= enough:
        return int(stored + changed.num_rows)
    parts = [pa.Table.from_batches([changed]), *old.scan()]
    return int(consolidate_rows(pa.concat_tables(parts)).num_rows)


def _typed(column: pa.Array, type_: pa.DataType) -> pa.Array:
    # A cast of a null struct to its own type fails if a field is required.
    return column if column.type == type_ else column.cast(type_)


def _delta(spec: JoinSpec, lookup: KeyLookup, port: int, table: pa.Table) -> _Delta:
    layout = spec.sides[port].layout
    if not table.num_rows:  # then the columns of this side may be missing
        none = one_batch(layout.schema.empty_table())
        return _Delta(none, none, none)
    keys = [whole(table, f"k{i}") for i in range(len(spec.keys))]
    values = [
        _typed(whole(table, name), type_)
        for name, type_ in zip(spec.arguments_of(port), layout.value_types, strict=True)
    ]
    weights = np.ones(table.num_rows, np.int64)
    if WEIGHT in table.column_names:
        weights = whole(table, WEIGHT).fill_null(1).to_numpy()
    rows, alone = lookup.order(
        port, arrange(layout, whole(table, "hash").to_numpy(), keys, values, weights)
    )
    if not alone.any():
        return _Delta(rows, rows.slice(0, 0), rows)
    matching, unmatched = (rows.filter(pa.array(mask)) for mask in (~alone, alone))
    return _Delta(matching, unmatched, rows if spec.whole[port] else matching)


class _Step:
    """The changes of a slice.

    Args:
        spec: the join.
        lookup: finds the rows of one side that rows of the other look for.
        deltas: the changes of each side.
        old: the rows of each side before the batch; None for a side that is not stored, whose rows
            are never read again.
        counters: counts the keys that are looked up in stored rows, and the rows found.
    """

    def __init__(
        self,
        spec: JoinSpec,
        lookup: KeyLookup,
        deltas: Sequence[_Delta],
        old: Sequence[Arrangement | None],
        counters: dict[str, int],
    ) -> None:
        self._lookup = lookup
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
        """Return the number of pairs of a changed row and a row of the other side that are tested."""
        left, right = (delta.rows for delta in self._deltas)
        lookup = self._lookup
        return lookup.count(lookup.probes(0, left), self._old[1], right) + lookup.count(
            lookup.probes(1, right), self._old[0], left.slice(0, 0)
        )

    # --- pairs of matching rows ------------------------------------------------------------------

    def _iter_pairs(self) -> Iterator[pa.Table]:
        left, right = self._deltas
        for matches in Matches.join_parts(self._candidates(0, left.rows, now=True)):
            for rows, part in _with_probes(left.rows, matches):
                yield from self._pair(rows, part.rows)
        for matches in Matches.join_parts(self._candidates(1, right.rows)):
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
        self, port: int, rows: pa.RecordBatch, *, now: bool = False
    ) -> Iterator[Matches]:
        """Yield the rows of the other side that some rows look for: before the batch, or `now`."""
        probes = self._lookup.probes(port, rows)
        yield from self._before(1 - port, probes)
        if now:
            yield from self._new(1 - port, probes)

    def _before(self, side: int, probes: ProbeSet) -> Iterator[Matches]:
        """Yield the rows of a side before the batch that probes look for."""
        old = self._old[side]
        if old is None:
            return
        self._counters["probes"] += len(probes.low)
        for matches in self._lookup.iter_stored(probes, old):
            self._counters["matches"] += len(matches.probes)
            yield matches

    def _new(self, side: int, probes: ProbeSet) -> Iterator[Matches]:
        """Yield the changed rows of a side that probes look for."""
        return self._lookup.iter_changed(probes, self._deltas[side].rows)

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
        probes = self._probes_of_changes(1 - port)
        if self._residual is None:
            flipped, has_match = self._flipped(1 - port, probes)
            for matches in self._before(port, flipped):
                yield from self._iter_moves(port, matches.rows, has_match[matches.probes])
            return
        for pairs in Matches.join_parts(self._before(port, probes)):
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

    def _probes_of_changes(self, port: int) -> ProbeSet:
        """Return what the changed rows of a side look for together."""
        return self._lookup.distinct_probes(port, self._deltas[port].rows)

    def _flipped(self, port: int, probes: ProbeSet) -> tuple[ProbeSet, Mask]:
        """Return the keys that have rows on a side now or before but not both, and which have now."""
        before = _total(self._before(port, probes), len(probes.low))
        now = add_weights([before, _total(self._new(port, probes), len(probes.low))]) > 0
        flips = np.flatnonzero((before > 0) != now)
        hashes = probes.low[flips]
        return ProbeSet(hashes, hashes, take(probes.keys, flips)), now[flips]

    def _matches_of(self, port: int, rows: pa.RecordBatch) -> tuple[Weights, Weights]:
        """Return the weight of the matches of rows of a side before the batch, and its change."""
        probes = self._lookup.probes(port, rows)
        before = self._iter_holding(port, rows, self._before(1 - port, probes))
        added = self._iter_holding(port, rows, self._new(1 - port, probes))
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
        parts = [left, *(m.rows for m in self._before(0, self._probes_of_changes(1)))]
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
        probes, layout = self._lookup.probes_beside(rows), self._spec.sides[0].layout
        parts = [
            layout.schema.empty_table(),
            *(pa.Table.from_batches([m.rows]) for m in self._before(0, probes)),
            *(pa.Table.from_batches([m.rows]) for m in self._new(0, probes)),
        ]
        live = consolidate_rows(pa.concat_tables(parts))
        return one_batch(live.filter(pc.greater(live.column(1), 0)))


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
