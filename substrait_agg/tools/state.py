"""Inspect, check and change the state of a checkpoint, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any

from substrait_agg.arguments import check_types
from substrait_agg.commit.hash_ranges import check_partitions
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.retention import parse_retention
from substrait_agg.commit.view.schema import named_view, view_name
from substrait_agg.errors import StateRefused, UsageError
from substrait_agg.files.locations import Location
from substrait_agg.tools.checks.findings import Verdict
from substrait_agg.tools.checks.trees import (
    chosen_operator,
    chosen_tree,
    main_trees,
    shape_of,
    trees_with_runs,
)
from substrait_agg.tools.listing import Listing, listing
from substrait_agg.tools.rollback.rollback import Rollback, rollback
from substrait_agg.tools.showing import Showing
from substrait_agg.tools.vacuum import VacuumResult, vacuum
from substrait_agg.tools.verify.recomputed import EngineQuery, Recompute
from substrait_agg.tools.verify.verify import verify

if TYPE_CHECKING:
    import pyarrow as pa

    from substrait_agg.commit.documents.snapshot import Snapshot

ANY: Any = object()
"""The default of `key`: groups with any key."""

LIMIT = 20
"""Default number of versions, groups or entries that are shown."""


OpenSources = Callable[
    [Checkpoint, Mapping[str, str], IO[bytes] | None, EngineQuery | None], Recompute
]
"""Opens the sources of tables, given as SPEC by name. It takes the file for the output of Spark, and the query of
another engine."""


def open_state(checkpoint: str | Location, open_sources: OpenSources) -> State:
    """Open the state in a checkpoint folder.

    Args:
        checkpoint: the folder.
        open_sources: opens sources for `State.verify`.

    Raises:
        StateRefused: NOT_A_CHECKPOINT.
    """
    opened = Checkpoint(checkpoint)
    if not opened.exists() and not opened.versions():
        opened.document()
    return State(opened, open_sources)


class State:
    """Access to the state of a checkpoint.

    `ls`, `show` and `verify` may be used while a run is active; `rollback` and `vacuum` are refused
    then. `rescale` takes effect from the next run on.
    """

    def __init__(self, checkpoint: Checkpoint, open_sources: OpenSources) -> None:
        self._checkpoint, self._open_sources = checkpoint, open_sources

    @check_types
    def ls(self, limit: int | None = LIMIT) -> Listing:
        """List versions (the newest `limit`, None for all), and the trees of the newest version.

        Raises:
            StateRefused: STATE_DAMAGED.
            UsageError: OPTION_INVALID.
        """
        _check_limit(limit, 1)
        return listing(self._checkpoint, limit)

    @check_types
    def show(
        self,
        tree: str | None = None,
        *,
        key: Any = ANY,
        operator: int | None = None,
        name: str | None = None,
        version: int | None = None,
        limit: int | None = LIMIT,
    ) -> dict[str, pa.Table]:
        """Return groups, or entries of ordered trees, as tables.

        Args:
            tree: ``group``, ``pending``, ``closed``, ``tree0``, ``tree1``, ...; None: the groups;
                with a key, all trees.
            key: of the wanted groups: a value, a list of values, or a mapping by name of column,
                with values as JSON outputs write them. Not given: any.
            operator: ordinal; the last if None.
            name: name of a view, in place of the ordinal of the operator that has its rows.
            version: the newest if None.
            limit: greatest number of rows, None for all.

        Returns:
            A table by name of tree.

        Raises:
            StateRefused: VERSION_UNKNOWN, VERSION_EXPIRED, STATE_DAMAGED.
            UsageError: OPERATOR_UNKNOWN, VIEW_UNKNOWN, OPTION_CONFLICT, OPTION_INVALID, TREE_UNKNOWN,
                KEY_INVALID.
        """
        _check_limit(limit, 0)
        snapshot = self.at(version)
        if name is not None:
            operator = self._operator_of(name, operator, snapshot)
        ordinal = chosen_operator(snapshot, operator)
        state, any_key = snapshot.operators[ordinal], key is ANY
        shape = shape_of(self._checkpoint.document_of(snapshot.plan), ordinal)
        showing = Showing(self._checkpoint.state, state, shape, limit)
        names = main_trees(state, shape) if tree is None else [chosen_tree(state, shape, tree)]
        if tree is None and not any_key:
            names = trees_with_runs(state, shape)
        try:
            return {name: showing.table(name, key, any_key=any_key) for name in names}
        except StateRefused:
            # A concurrent run may have swept the version in the meantime.
            self.at(snapshot.version)
            raise

    def _operator_of(self, view: str, operator: int | None, snapshot: Snapshot) -> int:
        """Return the ordinal of the operator that has the rows of a view."""
        if operator is not None:
            raise UsageError(
                "OPTION_CONFLICT",
                "a view and an operator are given",
                help="give one of them",
                path="--name",
            )
        return named_view(self._checkpoint.document_of(snapshot.plan), view).operator

    @check_types
    def at(self, version: int | None = None) -> Snapshot:
        """Return a version whose state is kept, the newest if None.

        Raises:
            StateRefused: VERSION_UNKNOWN, VERSION_EXPIRED, STATE_DAMAGED.
        """
        if version is None:
            newest = self._checkpoint.newest_snapshot()
            if newest is not None:
                return newest
            version = 0
        snapshot = self._checkpoint.snapshot(version)
        self._checkpoint.check_kept(version)
        return snapshot

    @check_types
    def rollback(
        self, to: int, *, force: bool = False, dry_run: bool = False, no_run: bool = False
    ) -> Rollback:
        """Roll back to version `to`.

        It becomes the newest, and runs read their input again from there.

        Args:
            to: a version whose state is kept.
            force: roll back even if outputs have received later versions
                (`tools.rollback.rollback`).
            dry_run: only return what would be done.
            no_run: the user confirms that no run is active, for checkpoints that cannot be locked,
                as in a store.

        Raises:
            StateRefused: the rollback is impossible. Nothing has been changed.
        """
        return rollback(self._checkpoint, to, force=force, dry_run=dry_run, no_run=no_run)

    @check_types
    def rescale(self, partitions: int | None) -> int | None:
        """Set the default number of state partitions; None: one per core.

        Nothing is rewritten: any number of partitions reads the same runs. An active run keeps its
        own number.

        Returns:
            The previous setting.

        Raises:
            UsageError: PARTITIONS_INVALID.
            StateRefused: NOT_A_CHECKPOINT.
        """
        if partitions is not None:
            check_partitions(partitions)
        self._checkpoint.document()
        before = self._checkpoint.settings()
        self._checkpoint.set(replace(before, partitions=partitions))
        return before.partitions

    @check_types
    def vacuum(
        self,
        *,
        keep: int | None = None,
        older_than: str | None = None,
        changes: bool = False,
        dry_run: bool = False,
        no_run: bool = False,
    ) -> VacuumResult:
        """Delete the state of old versions, and the files of failed attempts.

        A version is old if it is neither among the newest `keep` nor younger than `older_than`.

        Args:
            keep: number of versions that keep their state at any age; 10 if None.
            older_than: an age such as ``12h`` or ``7d``; None: age does not count.
            changes: also delete snapshots and changes of versions that do not keep their state, if
                all outputs have received them.
            dry_run: only return what would be deleted.
            no_run: as in `rollback`.

        Raises:
            UsageError: OPTION_INVALID.
            StateRefused: CHECKPOINT_BUSY, CHECKPOINT_NOT_LOCKED, ROLLBACK_UNFINISHED,
                STATE_DAMAGED.
        """
        retention = parse_retention(keep, older_than, ("--keep", "--older-than"))
        return vacuum(self._checkpoint, retention, changes=changes, dry_run=dry_run, no_run=no_run)

    @check_types
    def verify(
        self,
        *,
        deep: bool = False,
        sources: Mapping[str, str] | None = None,
        against: str | None = None,
        query: str | None = None,
        name: str | None = None,
        spark_log: IO[bytes] | None = None,
    ) -> Verdict:
        """Check the whole checkpoint: checksums, order, counters, the view against its changes.

        Args:
            deep: also compute the views of the newest version again from all rows of their sources,
                with Spark and in a temporary folder, and compare them and the state of their
                operators. A note names each view that cannot be computed again, and why.
            sources: with `deep` or `against`, the sources of tables as they are given to a run.
            against: ``duckdb`` or ``spark``, to compare a sample of the rows of a view with the result of
                `query` there.
            query: with `against`, the query of the view as that engine reads it, over the tables of
                `sources`.
            name: with `against`, the name of the view; None for the only one.
            spark_log: with `deep` or `against`, as in `run`.

        Raises:
            UsageError: OPTION_CONFLICT: sources without `deep` or `against`, both of them, or `against`
                without `query`; a source is not valid. VIEW_UNKNOWN, VIEW_NAME_MISSING. PYSPARK_MISSING,
                PANDAS_MISSING, DUCKDB_MISSING or JAVA_MISSING.
            InputRefused: SOURCE_UNKNOWN: the checkpoint has no table for a source.
        """
        if sources and not deep and against is None:
            raise UsageError(
                "OPTION_CONFLICT", "sources are only read by a deep check, or with another engine",
                help="give --deep (deep=True) or --against too", path="--source",
            )  # fmt: skip
        if (against is None) != (query is None) or (deep and against) or (name and not against):
            raise UsageError(
                "OPTION_CONFLICT", "--against needs --query, and --query and --name need --against, without --deep",
                help="give --against ENGINE --query TEXT, or --deep", path="--against",
            )  # fmt: skip
        if not deep and against is None:
            return verify(self._checkpoint)
        of_engine = None
        if against is not None and query is not None:
            view = view_name(self._checkpoint.document(), name)
            of_engine = EngineQuery(against, view, query)
        opened = self._open_sources(self._checkpoint, sources or {}, spark_log, of_engine)
        return verify(self._checkpoint, opened)


def _check_limit(limit: int | None, least: int) -> None:
    if limit is not None and limit < least:
        help = f"give a number from {least} on, or None for all"
        raise UsageError("OPTION_INVALID", f"limit is {limit}", help=help, path="limit")
