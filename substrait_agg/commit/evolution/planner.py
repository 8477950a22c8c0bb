"""Plan an evolution: how to make the state of a new plan from that of the old one.

The planner decides which parts are kept, which are computed from kept parts, and which are
impossible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from substrait_agg.commit.documents.plan_document import PlanDocument
from substrait_agg.commit.documents.snapshot import OperatorState, Snapshot
from substrait_agg.commit.documents.state_schema import OperatorSchema
from substrait_agg.commit.evolution.row_sources import RowSource, rows_for_number, rows_for_tree
from substrait_agg.flow.graph.graph import trees_together
from substrait_agg.operator.common.names import CLOSED, PENDING

SURROGATE = "surrogate_key"
WAITING = (
    "groups wait to be emitted, and the new value would be newer than the row that they show: run the old "
    "plan once with --emit batch"
)
FINISHED = "groups are closed or evicted, and only their rows in the view are stored"
ARRIVALS = "it depends on the order in which rows arrived, which is not stored"
ROUNDS = "a recursion is computed in rounds"
UNREAD = "the values that it reads are not in the stored state"
_LEVELS = "rows of levels"
_ONLY_KEPT = ("sessions", "upserts", "ordered rows", "rows of both sides", _LEVELS)
"""Kinds of state that cannot be changed, and whose rows other operators cannot be made from."""
_BY_ARRIVAL = ("sessions", "upserts")
_PORTS = ("left", "right")
ENDS_ALONE = "; for append-only input, only the extremes of min and max are stored"

UnreadableTables = Callable[[], Mapping[str, str]]
"""Returns the tables of a run whose rows so far cannot be read again, and why."""


@dataclass(frozen=True, slots=True)
class Migration:
    """An operator whose state is made from that of an old operator over the same rows.

    Attributes:
        operator: ordinal of the old operator.
        digits: number of digits of its accumulators (0: as many as needed).
        entries: per old tree the ordinal of the accumulator that counts its entries; None
            without one.
        numbers: per accumulator its ordinal in the old operator, here and below None for a new one.
        trees: per ordered tree its ordinal in the old operator.
        extremes: per stored extreme of a tree its ordinal in the old operator.
        measures: per measure its ordinal in the old operator.
        number_rows: per accumulator the rows that it is computed from; None if it is kept, or made
            from the entries of a tree.
        tree_rows: per ordered tree the rows that it is made from; None if it is kept.
        runs: per old tree the tree whose runs have its weights, and the ordinal of their column.
        same: whether all parts are kept, in the same order.
        ports: if the rows of each port are stored, per port and column besides the keys its ordinal
            among the stored ones; empty if the columns are the same.
    """

    operator: int
    digits: tuple[int, ...]
    entries: tuple[int | None, ...]
    numbers: tuple[int | None, ...]
    trees: tuple[int | None, ...]
    extremes: tuple[int | None, ...]
    measures: tuple[int | None, ...]
    number_rows: tuple[RowSource | None, ...]
    tree_rows: tuple[RowSource | None, ...]
    runs: tuple[tuple[int, int], ...]
    same: bool
    ports: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Evolution:
    """How a checkpoint continues with another plan.

    Attributes:
        operators: per operator of the new plan its migration; None: its state is made from all its
            input rows.
        fed: operators whose output rows are read for that.
        reread: operators for which rows of tables are read again for that.
    """

    operators: tuple[Migration | None, ...]
    fed: frozenset[int]
    reread: frozenset[int] = frozenset()


class _Unmigratable(Exception):
    """Raised when the state of an operator cannot be made from stored state.

    Attributes:
        reasons: why.
        rebuildable: whether it can be made from all its input rows, if these can be read again.
    """

    def __init__(self, *reasons: str, rebuildable: bool = False) -> None:
        super().__init__(*reasons)
        self.reasons = reasons
        self.rebuildable = rebuildable


def evolution(
    stored: PlanDocument,
    document: PlanDocument,
    last: Snapshot | None,
    unreadable: UnreadableTables | None = None,
) -> tuple[Evolution | None, tuple[str, ...]]:
    """Plan how a checkpoint continues with another plan.

    Args:
        stored: the document of the current plan.
        document: that of the new plan.
        last: the newest version.
        unreadable: returns the tables whose rows cannot be read again; None: no rows can be.

    Returns:
        The evolution, or None and all reasons why it is impossible.
    """
    if last is None:
        return None, ("the checkpoint has no version yet",)
    if other_tables := _other_tables(stored, document):
        return None, (other_tables,)
    planner = _Planner(stored, document, last)
    migrations, lost, reasons = planner.migrations()
    first = [reason for of_operator in lost.values() for reason in of_operator]
    if reasons or (lost and unreadable is None):
        return None, tuple(dict.fromkeys((*reasons, *first)))
    again = planner.rebuilt(lost)
    if unreadable is not None and lost:
        obstacles = list(planner.obstacles(again, unreadable()))
        if obstacles:
            return None, tuple(dict.fromkeys((*first, *planner.new_columns(), *obstacles)))
    migrations = [None if i in again else m for i, m in enumerate(migrations)]
    if _drops_quarantine(stored, last, migrations):
        return None, ("an operator that is not in the new plan has rows in quarantine",)
    pairs = zip(document.state_schemas, migrations, strict=True)
    fed = frozenset(b for o, m in pairs if m is None for b in o.below)
    return Evolution(tuple(migrations), fed, again), ()


def _other_tables(stored: PlanDocument, document: PlanDocument) -> str:
    """Return how the tables of two plans differ; empty if they are the same in the same order."""
    # A table is one source, even if a plan reads it several times with different columns.
    before, now = (list(dict.fromkeys(r.table for r in d.inputs)) for d in (stored, document))
    if before == now:
        return ""
    lists = ", then ".join(", ".join(names) or "none" for names in (before, now))
    return f"the plan reads other tables, or reads them in another order: {lists}"


def _drops_quarantine(
    stored: PlanDocument, last: Snapshot, migrations: Sequence[Migration | None]
) -> bool:
    """Return whether an operator with rows in quarantine has no migration."""
    dropped = set(range(len(stored.state_schemas)))
    dropped -= {m.operator for m in migrations if m is not None}
    return bool(last.counters.get("quarantined")) and any(
        stored.state_schemas[ordinal].early == "quarantine" for ordinal in dropped
    )


class _Planner:
    def __init__(self, stored: PlanDocument, document: PlanDocument, last: Snapshot) -> None:
        self._there, self._wanted, self._last = stored, document, last
        self._free = set(range(len(stored.state_schemas)))
        self._found: dict[int, int] = {}

    def migrations(
        self,
    ) -> tuple[list[Migration | None], Mapping[int, tuple[str, ...]], list[str]]:
        """Return the migration of each operator, and the reasons of those without one.

        Returns:
            The migrations; per operator that can be rebuilt, why it has none; why others have none.
        """
        migrations: list[Migration | None] = []
        lost: dict[int, tuple[str, ...]] = {}
        reasons: list[str] = []
        for ordinal in range(len(self._wanted.state_schemas)):
            try:
                migrations.append(self.operator(ordinal))
            except _Unmigratable as refused:
                migrations.append(None)
                if refused.rebuildable:
                    lost[ordinal] = refused.reasons
                else:
                    reasons += refused.reasons
        return migrations, lost, reasons

    def operator(self, ordinal: int) -> Migration | None:
        """Return the migration of an operator. None: its input operators provide all rows."""
        now = self._wanted.state_schemas[ordinal]
        old = self._counterpart(now)
        failure: _Unmigratable | None = None
        if old is not None:
            self._free.discard(old)
            self._found[ordinal] = old
            try:
                return self._migration(old, ordinal)
            except _Unmigratable as refused:
                failure = refused
        elif now.reads:
            raise _Unmigratable(self._reads_others(ordinal))
        self._check_anew(old, ordinal, failure)
        return None

    def _name_operator(self, ordinal: int) -> str:
        """Return the name of an operator for messages."""
        return f"operator {ordinal}" if len(self._wanted.state_schemas) > 1 else "the plan"

    def _reads_others(self, ordinal: int) -> str:
        return f"{self._name_operator(ordinal)} reads other rows, or groups them by other keys"

    def _would_rebuild(self, ordinal: int, why_not: str) -> str:
        return f"{self._name_operator(ordinal)} would have to be rebuilt: {why_not}"

    def _measure(self, ordinal: int, measure: int) -> str:
        where = f" of operator {ordinal}" if len(self._wanted.state_schemas) > 1 else ""
        return f"measure {self._wanted.operator_texts[ordinal].measures[measure]}{where}"

    def _counterpart(self, now: OperatorSchema) -> int | None:
        """Return the free operator over the same rows that shares most measures."""
        same = [i for i in sorted(self._free) if self._there.state_schemas[i].rows == now.rows]
        return max(same, key=lambda i: _in_common(self._there.state_schemas[i], now), default=None)

    # --- state from the same operator -------------------------------------------------------------

    def _migration(self, old: int, ordinal: int) -> Migration:
        old_schema, now = self._there.state_schemas[old], self._wanted.state_schemas[ordinal]
        state = self._last.operators[old]
        migration = _match(old, old_schema, now)
        self._check_options(old_schema, now, ordinal)
        if migration.same and _same_input(old_schema, now):
            self._check_shown(state, old, ordinal)
            return migration
        if old_schema.ports and now.ports:
            return replace(migration, same=False, ports=self._ports(old_schema, now, ordinal))
        if now.kind in _ONLY_KEPT:
            raise _Unmigratable(
                f"{self._name_operator(ordinal)} stores {now.kind} with the columns that the plan reads, and these columns "
                "differ"
            )
        self._check_shown(state, old, ordinal)
        unmade = list(self._unmade(migration, old_schema, now, ordinal))
        mixed = list(self._iter_mixed(migration, state, ordinal))
        if unmade or mixed:
            raise _Unmigratable(*unmade, *mixed, rebuildable=not mixed)
        return migration

    def _ports(
        self, old_schema: OperatorSchema, now: OperatorSchema, ordinal: int
    ) -> tuple[tuple[int, ...], ...]:
        """Return where the stored rows of each port have the columns of the new plan."""
        ports = []
        for port, side in enumerate(_PORTS):
            stored = [argument.value for argument in old_schema.arguments_of(port)]
            values = [argument.value for argument in now.arguments_of(port)]
            missing = sum(value not in stored for value in values)
            if missing:
                raise _Unmigratable(
                    f"{self._name_operator(ordinal)} now reads {missing} more "
                    f"{'column' if missing == 1 else 'columns'} of the {side} input of a join; only the "
                    "columns that the plan read before are stored",
                    rebuildable=True,
                )
            ports.append(tuple(map(stored.index, values)))
        return tuple(ports)

    def _check_options(self, old_schema: OperatorSchema, now: OperatorSchema, ordinal: int) -> None:
        for what, option, before, after in (
            ("weights", "weight= or op= of the sources", old_schema.weight, now.weight),
            ("early retractions", "--early-retraction", old_schema.early, now.early),
            ("idle groups", "--ttl", old_schema.forget, now.forget),
        ):
            if before != after:
                raise _Unmigratable(
                    f"{self._name_operator(ordinal)} has other {what}: give {option} as before"
                )

    def _check_shown(self, state: OperatorState, old: int, ordinal: int) -> None:
        """Check the state that only an operator of a view has."""
        if state[PENDING] and not self._wanted.state_schemas[ordinal].shown:
            raise _Unmigratable(
                f"{self._name_operator(ordinal)} is now read by another operator: {WAITING}"
            )
        if self._wanted.shows(ordinal) and not self._there.shows(old) and self._forgets:
            raise _Unmigratable(
                f"{self._name_operator(ordinal)} now produces the view, and {FINISHED}"
            )

    @property
    def _forgets(self) -> bool:
        """Whether groups may have been closed or evicted."""
        return bool(self._there.watermarks or self._there.forget)

    def _unmade(
        self, migration: Migration, old_schema: OperatorSchema, now: OperatorSchema, ordinal: int
    ) -> Iterator[str]:
        """Yield the parts that cannot be made from the kept state."""
        unread = UNREAD + (ENDS_ALONE if any(t.holds == "ends" for t in old_schema.trees) else "")
        trees = {
            i: ARRIVALS if tree.holds == "arrivals" else unread
            for i, tree in enumerate(now.trees)
            if migration.trees[i] is None and migration.tree_rows[i] is None
        }
        numbers = {
            i: unread if number.tree is None else trees.get(number.tree, unread)
            for i, number in enumerate(now.numbers)
            if migration.numbers[i] is None
            and (number.tree in trees or (number.tree is None and migration.number_rows[i] is None))
        }
        named = False
        for i, measure in enumerate(now.measures):
            if migration.measures[i] is not None:  # a kept measure has all that it needs
                continue
            why = [trees[t] for t in (measure.tree,) if t in trees]
            why += [numbers[n] for n in measure.numbers if n in numbers]
            if why:
                named = True
                yield f"{self._measure(ordinal, i)}: {why[0]}"
        guards = [i for i, t in enumerate(now.trees) if t.holds == "whole rows"]
        if not named and (trees or numbers) and not any(i in trees for i in guards):
            yield f"{self._name_operator(ordinal)}: {unread}"
        elif any(i in trees for i in guards) and not named:
            yield (
                f"{self._name_operator(ordinal)} now reads more columns, and all columns that it reads are stored to "
                "detect early retractions"
            )
        elif any(migration.trees[i] is None for i in guards) and self._last.counters.get(
            "quarantined"
        ):
            yield "rows wait in quarantine for their insertion, and they have other columns than the new plan reads"

    def _iter_mixed(
        self, migration: Migration, state: OperatorState, ordinal: int
    ) -> Iterator[str]:
        """Yield the new measures that would not match what the view shows.

        Waiting groups show an older instant, and closed groups have no state.
        """
        for why, runs in ((WAITING, state[PENDING]), (FINISHED, state[CLOSED])):
            for i, measure in enumerate(migration.measures):
                if runs and measure is None:
                    yield f"{self._measure(ordinal, i)}: {why}"

    # --- state from the input operators -----------------------------------------------------------

    def _check_anew(self, old: int | None, ordinal: int, failure: _Unmigratable | None) -> None:
        """Refuse to rebuild state if the result could differ from the stored state."""
        now = self._wanted.state_schemas[ordinal]
        reasons = () if failure is None else failure.reasons
        if now.kind == _LEVELS:
            raise _Unmigratable(*reasons, self._would_rebuild(ordinal, ROUNDS))
        if now.reads and failure is not None:
            raise failure
        if self._forgets:
            raise _Unmigratable(*reasons, self._would_rebuild(ordinal, FINISHED))
        if any(tree.holds == "arrivals" for tree in now.trees):
            raise _Unmigratable(*reasons, self._would_rebuild(ordinal, ARRIVALS))
        if old is not None:
            if self._last.operators[old][PENDING]:
                raise _Unmigratable(*reasons, self._would_rebuild(ordinal, WAITING))
            surrogates = self._surrogates(old, ordinal)
            if surrogates:
                raise _Unmigratable(*reasons, f"{surrogates[0]}: its keys would change")
        if any(self._wanted.state_schemas[b].kind in _ONLY_KEPT for b in now.below):
            raise _Unmigratable(*(reasons or (self._reads_others(ordinal),)), rebuildable=True)

    # --- state from rows that are read again ------------------------------------------------------

    def rebuilt(self, lost: Iterable[int]) -> frozenset[int]:
        """Return the operators to rebuild: those that lost their state, and those that feed them.

        An operator whose output rows cannot be read from its state provides them only if it is
        rebuilt, too.
        """
        schemas, waiting, rebuilt_operators = self._wanted.state_schemas, list(lost), set[int]()
        while waiting:
            ordinal = waiting.pop()
            if ordinal not in rebuilt_operators:
                rebuilt_operators.add(ordinal)
                waiting += [b for b in schemas[ordinal].below if schemas[b].kind in _ONLY_KEPT]
        return frozenset(rebuilt_operators)

    def obstacles(self, again: Iterable[int], unreadable: Mapping[str, str]) -> Iterator[str]:
        """Yield why operators cannot be rebuilt from rows that are read again."""
        if self._forgets:
            yield f"nothing can be rebuilt from the tables: {FINISHED}"
        for ordinal in sorted(again):
            now, old = self._wanted.state_schemas[ordinal], self._found.get(ordinal)
            if now.kind in _BY_ARRIVAL:
                yield f"{self._name_operator(ordinal)} ({now.kind}) would have to be rebuilt: {ARRIVALS}"
            if any(tree.holds == "arrivals" for tree in now.trees):
                yield self._would_rebuild(ordinal, ARRIVALS)
            if now.early == "quarantine":
                yield f"{self._name_operator(ordinal)} may have rows in quarantine"
            if old is not None and self._last.operators[old][PENDING]:
                yield self._would_rebuild(ordinal, WAITING)
            surrogates = [] if old is None else self._surrogates(old, ordinal)
            if surrogates:
                yield f"{surrogates[0]}: its keys would change"
        for table, reason in unreadable.items():
            yield f"the rows of the table {table} cannot be read again: {reason}"

    def new_columns(self) -> Iterator[str]:
        """Yield the columns that only the new plan reads, as a reason."""
        before = {(read.table, name) for read in self._there.inputs for name in read.columns}
        now = ((read.table, name) for read in self._wanted.inputs for name in read.columns)
        new = [
            f"{name} of {table}"
            for table, name in dict.fromkeys(now)
            if (table, name) not in before
        ]
        if new:
            yield f"only the new plan reads {', '.join(new)}"

    def _surrogates(self, old: int, ordinal: int) -> list[str]:
        old_schema, now = self._there.state_schemas[old], self._wanted.state_schemas[ordinal]
        prints = {m.print for m in old_schema.measures if m.kind == SURROGATE}
        return [self._measure(ordinal, i) for i, m in enumerate(now.measures) if m.print in prints]


def _same_input(old_schema: OperatorSchema, now: OperatorSchema) -> bool:
    """Return whether two operators store the same columns of their input."""
    before, after = ((o.kind, o.arguments, o.ports) for o in (old_schema, now))
    return before == after


def _in_common(old_schema: OperatorSchema, now: OperatorSchema) -> int:
    common = Counter(m.print for m in old_schema.measures) & Counter(m.print for m in now.measures)
    return sum(common.values())


def _match(old: int, old_schema: OperatorSchema, now: OperatorSchema) -> Migration:
    numbers = _positions([n.print for n in old_schema.numbers], [n.print for n in now.numbers])
    trees = _positions([t.print for t in old_schema.trees], [t.print for t in now.trees])
    kept_ends = [(old_schema.trees[e.tree].print, e.side) for e in old_schema.extremes]
    ends = _positions(kept_ends, [(now.trees[e.tree].print, e.side) for e in now.extremes])
    measures = _positions(
        *([_turn(o, i) for i in range(len(o.measures))] for o in (old_schema, now))
    )
    trees = _with_same_runs(old_schema, now, _with_needed_extremes(now, trees, ends))
    lists = ((numbers, old_schema.numbers), (trees, old_schema.trees), (ends, old_schema.extremes))
    return Migration(
        operator=old,
        digits=tuple(n.digits for n in old_schema.numbers),
        entries=tuple(t.entries for t in old_schema.trees),
        numbers=numbers,
        trees=trees,
        extremes=ends,
        measures=measures,
        number_rows=tuple(
            rows_for_number(old_schema, now, n) if at is None and n.tree is None else None
            for n, at in zip(now.numbers, numbers, strict=True)
        ),
        tree_rows=tuple(
            rows_for_tree(old_schema, now, t) if at is None else None
            for t, at in zip(now.trees, trees, strict=True)
        ),
        runs=tuple(map(old_schema.runs_of, range(len(old_schema.trees)))),
        same=all(
            found == tuple(range(len(kept)))
            for found, kept in (*lists, (measures, old_schema.measures))
        ),
    )


def _with_needed_extremes(
    now: OperatorSchema, trees: tuple[int | None, ...], ends: tuple[int | None, ...]
) -> tuple[int | None, ...]:
    """Return the ordinals of the trees.

    A tree that only keeps extremes counts as kept only if all extremes that are needed are kept.
    """
    lost = {end.tree for end, at in zip(now.extremes, ends, strict=True) if at is None}
    return tuple(
        None if i in lost and tree.entries is None else at
        for i, (tree, at) in enumerate(zip(now.trees, trees, strict=True))
    )


def _with_same_runs(
    old_schema: OperatorSchema, now: OperatorSchema, trees: tuple[int | None, ...]
) -> tuple[int | None, ...]:
    """Return the ordinals of the trees.

    A tree counts as kept only if all trees that share its runs are kept, and no others share them.
    """

    def together(schema: OperatorSchema, tree: int) -> list[int]:
        return trees_together([other.within for other in schema.trees], tree)

    return tuple(
        at
        if at is not None and [trees[t] for t in together(now, i)] == together(old_schema, at)
        else None
        for i, at in enumerate(trees)
    )


def _turn(operator: OperatorSchema, measure: int) -> tuple[str, int]:
    """Return the identity of a measure within its operator.

    Surrogate keys of a group have equal fingerprints. Their number distinguishes them.
    """
    schema = operator.measures[measure]
    before = [m.kind for m in operator.measures[:measure]]
    return schema.print, before.count(SURROGATE) if schema.kind == SURROGATE else 0


def _positions(olds: Sequence[object], news: Sequence[object]) -> tuple[int | None, ...]:
    """Return the ordinal of each of `news` in `olds`; None for a new one.

    Of equal ones, the same position is preferred.
    """
    place = {what: i for i, what in reversed(tuple(enumerate(olds)))}
    return tuple(
        i if i < len(olds) and olds[i] == what else place.get(what) for i, what in enumerate(news)
    )
