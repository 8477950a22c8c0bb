"""`Run.progress`: what a run has done, and what its newest version holds."""

from __future__ import annotations

from dataclasses import dataclass

END_OF_INPUT = 2**63 - 1
"""The watermark behind the last row of a bounded input."""

BATCH_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the classes in which batches are counted by their duration; one more class has no bound."""


@dataclass(frozen=True, slots=True)
class OperatorProgress:
    """What one operator has done in this run.

    Attributes:
        operator: its id, as `explain` shows it.
        input_rows: rows that reached it.
        partial_rows: rows that were left of them after summing per key, before the exchange.
        groups_touched: groups that rows touched or whose time had come.
        groups_emitted: those of them whose value was shown anew or confirmed; the others wait.
        retracted: rows of its changes that take an old row back.
        inserted: rows of its changes that bring a new one.
        early_retractions: with ``carry``, how often the total weight of a group fell below zero; with ``quarantine``, the
            rows that had to be kept aside.
        merges: runs that merges wrote.
        merged_rows: rows in them.
        merged_bytes: their size.
        written_bytes: size of all runs and change files written, those of merges included.
        merge_seconds: time that tasks spent on merges, added up over tasks, as the next three.
        fold_seconds: time that tasks spent on folding rows into groups.
        lookup_seconds: the part of it that looking groups up took.
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
    """One tree of state as the newest version has it.

    Attributes:
        operator: id of its operator.
        tree: ``group``, ``pending``, ``tree0``, ``tree1``, ..., ``closed``.
        runs: files.
        rows: rows in them; what a newer run replaces is counted until a merge drops it.
        bytes: their size.
    """

    operator: int
    tree: str
    runs: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SinkProgress:
    """How far one output is.

    Attributes:
        sink: the output as it was given, without passwords.
        version: the last version that it has, -1 before the first.
        lag: committed versions that it has not had yet.
        delivered: versions delivered to it in this run.
        failures: attempts that failed in this run.
        seconds: time spent on it in this run.
    """

    sink: str
    version: int = -1
    lag: int = 0
    delivered: int = 0
    failures: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is. What is counted is counted from the start of this run; another run begins at zero.

    Attributes:
        version: newest committed version, -1 before the first.
        batches: versions committed by this run.
        input_rows: rows that reached the operators.
        groups_touched: groups touched.
        changes: rows of changes of the view.
        rows_per_second: input rows of the last batch by its duration.
        batch_seconds: duration of the last batch, from its rows to its commit.
        quarantined: rows that wait for their insertion at that version.
        watermark: no row with an earlier event time is expected, in microseconds since 1970; `END_OF_INPUT` at the end of
            the input, None where nothing is known.
        late_rows: rows that came behind the watermark and were left out.
        bad_rows: rows that were set aside because they could not be read or broke a rule of the plan.
        early_retractions: retractions that came before their insertion (see `OperatorProgress`).
        groups_emitted: groups emitted.
        retracted: rows of changes of the view that take an old row back.
        inserted: rows of changes of the view that bring a new one.
        groups_waiting: groups that wait to be emitted at that version.
        busy_seconds: duration of all batches.
        commit_seconds: time spent on publishing versions.
        sweep_seconds: time spent on deleting what is no longer named.
        batch_times: number of batches per class of `BATCH_SECONDS`, the last without a bound.
        operators: the same per operator.
        trees: state by operator and tree.
        sinks: outputs.
        started: when the run began, in seconds since 1970.
        committed: when the newest version was committed, in seconds since 1970; 0 before the first of this run.
        plan: fingerprint of the plan.
        checkpoint: path of the checkpoint.
        start_phases: seconds of each phase (`startup.PHASES`) from the call of ``run`` to the commit of the first batch; empty
            before it.
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

    @property
    def input_ended(self) -> bool:
        """Whether the input has come to its end."""
        return self.watermark == END_OF_INPUT
