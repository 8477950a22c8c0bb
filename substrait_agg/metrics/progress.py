"""The progress of a run (`Run.progress`): its counters, and the content of its newest version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

END_OF_INPUT = 2**63 - 1
"""The watermark after the last row of a bounded input."""

BATCH_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the buckets of batch durations, in seconds; one more bucket has no bound."""


@dataclass(frozen=True, slots=True)
class OperatorProgress:
    """The counters of one operator since the start of the run.

    Attributes:
        operator: id of the operator, as `explain` shows it.
        input_rows: rows that reached the operator.
        partial_rows: rows sent through the exchange, after pre-aggregation per key.
        groups_touched: groups that received rows or whose timer fired.
        groups_emitted: touched groups whose result was emitted, changed or not; the others wait.
        retracted: rows of the operator's changes that retract an old row.
        inserted: rows of the operator's changes that insert a new row.
        early_retractions: with ``carry``, how often the total weight of a group fell below zero;
            with ``quarantine``, the number of rows put into quarantine.
        probes: keys of changed rows that a join looked up in the stored rows of its other side.
        matches: stored rows that it found.
        run_probes: keys searched in runs of groups; a key counts once per run.
        page_reads: pages of these runs that were searched.
        merges: runs written by merges.
        merged_rows: rows written by merges.
        merged_bytes: bytes written by merges.
        written_bytes: bytes of all runs and change files written, including merges.
        merge_seconds: time that tasks spent on merges; this and the next three are sums over tasks.
        fold_seconds: time that tasks spent on applying rows to groups.
        lookup_seconds: the part of `fold_seconds` spent on looking up groups.
        write_seconds: time that tasks spent on writing runs and changes.
        job_seconds: time of the Spark jobs, from reading the input to the result of the last task.
    """

    operator: int
    input_rows: int = 0
    partial_rows: int = 0
    groups_touched: int = 0
    groups_emitted: int = 0
    retracted: int = 0
    inserted: int = 0
    early_retractions: int = 0
    probes: int = 0
    matches: int = 0
    run_probes: int = 0
    page_reads: int = 0
    merges: int = 0
    merged_rows: int = 0
    merged_bytes: int = 0
    written_bytes: int = 0
    merge_seconds: float = 0.0
    fold_seconds: float = 0.0
    lookup_seconds: float = 0.0
    write_seconds: float = 0.0
    job_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class TreeSize:
    """The size of one tree of state in the newest version.

    Attributes:
        operator: id of the operator.
        tree: ``group``, ``pending``, ``tree0``, ``tree1``, ..., ``closed``.
        runs: number of files.
        rows: rows in the files; a row replaced by a newer run counts until a merge drops it.
        bytes: size of the files.
    """

    operator: int
    tree: str
    runs: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SinkProgress:
    """The progress of one output.

    Attributes:
        sink: the output as the user gave it, without passwords.
        version: the last version delivered, -1 before the first.
        lag: committed versions not yet delivered.
        delivered: versions delivered in this run.
        failures: failed attempts in this run.
        seconds: time spent on deliveries in this run.
    """

    sink: str
    version: int = -1
    lag: int = 0
    delivered: int = 0
    failures: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """How far a connector is behind its source.

    Attributes:
        source: the group of the connector, without passwords.
        lag: measure -> value, such as ``bytes``; measured at most every few seconds.
    """

    source: str
    lag: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ViewProgress:
    """The progress of one of several views.

    Attributes:
        view: its name.
        changes: rows of its changes in this run.
    """

    view: str
    changes: int = 0


@dataclass(frozen=True, slots=True)
class JoinProgress:
    """The join that the batch in progress is computing.

    Attributes:
        operator: id of the operator.
        name: its inputs and its operator in words.
        rows: rows that it has produced so far in this batch. Tasks on other machines are not counted.
    """

    operator: int
    name: str
    rows: int


@dataclass(frozen=True, slots=True)
class RefreshProgress:
    """How batches were computed, if a refresh policy chooses.

    Attributes:
        incremental: batches of this run that were incremental.
        full: batches of this run in which operators were computed again from all rows.
        reason: why the last batch was computed as it was.
        incremental_seconds: estimate for the last batch; None without one.
        full_seconds: the same, if it is computed again.
    """

    incremental: int = 0
    full: int = 0
    reason: str = ""
    incremental_seconds: float | None = None
    full_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run. All counters start at zero in each run.

    Attributes:
        version: newest committed version, -1 before the first.
        batches: versions committed by this run.
        input_rows: rows that reached the operators.
        groups_touched: groups that received rows or whose timer fired.
        changes: rows of changes of all views.
        rows_per_second: input rows of the last batch divided by its duration.
        batch_seconds: duration of the last batch, from reading its rows to its commit.
        quarantined: rows in quarantine at `version`.
        watermark: microseconds since 1970; no row with an earlier event time is expected.
            `END_OF_INPUT` at the end of the input, None if it is unknown.
        late_rows: rows dropped because they were later than the watermark allows.
        bad_rows: rows set aside because they could not be read or broke a rule of the plan.
        early_retractions: retractions that came before their insertion (see `OperatorProgress`).
        groups_emitted: groups whose result was emitted.
        retracted: rows of changes of all views that retract an old row.
        inserted: rows of changes of all views that insert a new row.
        groups_waiting: groups that wait to be emitted at `version`.
        busy_seconds: duration of all batches.
        commit_seconds: time spent on publishing versions.
        sweep_seconds: time spent on deleting files that no version references any more.
        batch_times: number of batches per bucket of `BATCH_SECONDS`; the last bucket has no bound.
        operators: counters per operator.
        trees: state by operator and tree.
        sinks: progress per output.
        started: start of the run, in seconds since 1970.
        committed: time of the last commit, in seconds since 1970; 0 before the first of this run.
        plan: fingerprint of the plan.
        checkpoint: path of the checkpoint.
        start_phases: seconds of each phase (`startup.PHASES`) from the call of ``run`` to the first
            commit; empty before it.
        target_seconds: duration that a batch should not exceed; None without ``latency``.
        limit_bytes: limit of the last batch; None without ``latency``.
        refresh: how batches were computed; None if no refresh policy chooses.
        join: the join that is being computed; None without one, or if it has few rows.
        views: progress per view; empty for the view of one plan without a name.
        sources: how far each connector is behind its source.
    """

    version: int = -1
    batches: int = 0
    input_rows: int = 0
    groups_touched: int = 0
    changes: int = 0
    rows_per_second: float = 0.0
    batch_seconds: float = 0.0
    quarantined: int = 0
    watermark: int | None = None
    late_rows: int = 0
    bad_rows: int = 0
    early_retractions: int = 0
    groups_emitted: int = 0
    retracted: int = 0
    inserted: int = 0
    groups_waiting: int = 0
    busy_seconds: float = 0.0
    commit_seconds: float = 0.0
    sweep_seconds: float = 0.0
    batch_times: tuple[int, ...] = (0,) * (len(BATCH_SECONDS) + 1)
    operators: tuple[OperatorProgress, ...] = ()
    trees: tuple[TreeSize, ...] = ()
    sinks: tuple[SinkProgress, ...] = ()
    started: float = 0.0
    committed: float = 0.0
    plan: str = ""
    checkpoint: str = ""
    start_phases: tuple[tuple[str, float], ...] = ()
    views: tuple[ViewProgress, ...] = ()
    target_seconds: float | None = None
    limit_bytes: int | None = None
    refresh: RefreshProgress | None = None
    join: JoinProgress | None = None
    sources: tuple[SourceProgress, ...] = ()

    @property
    def input_ended(self) -> bool:
        """Return whether the end of the input was reached."""
        return self.watermark == END_OF_INPUT
