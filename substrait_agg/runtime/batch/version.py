"""Make the snapshot of a version from the results of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from substrait_agg.commit.documents.positions import Positions
from substrait_agg.commit.documents.snapshot import (
    AdmissionRecord,
    InputPlace,
    RefreshRecord,
    Snapshot,
    ViewVersion,
)
from substrait_agg.flow.graph.nodes import Flow, FlowView
from substrait_agg.metrics.batch_stats import count_tasks
from substrait_agg.refresh.chooser import Choice
from substrait_agg.refresh.cost_model import BatchCost, CostHistory
from substrait_agg.runtime.event_state import AdvancedEventState
from substrait_agg.runtime.job import JobResult, changes_of, counters_of


@dataclass(frozen=True, slots=True)
class VersionParts:
    """What a version has besides the results of its operators.

    Attributes:
        moved: the event time after the batch, and the rows that it left out.
        positions: how far the sources have been read.
        inputs: locations of the tables.
        admission: the limit of the batch.
        refresh: how the batch was computed.
    """

    moved: AdvancedEventState
    positions: Positions
    inputs: tuple[InputPlace, ...]
    admission: AdmissionRecord
    refresh: RefreshRecord


def make_snapshot(
    flow: Flow, last: Snapshot | None, results: Sequence[JobResult], parts: VersionParts
) -> Snapshot:
    """Return the snapshot of the version after `last`."""
    changes = {view.name: _of_view(view, last, results) for view in flow.views}
    moved = parts.moved
    return Snapshot(
        version=0 if last is None else last.version + 1,
        plan=flow.fingerprint,
        operators=tuple(result.state for result in results),
        changes=changes.pop("", ViewVersion()).changes,
        views=changes,
        counters={
            **count_tasks(counters_of(results), last),
            "late": moved.late,
            "bad": moved.bad,
        },
        created=datetime.now(UTC).isoformat(timespec="milliseconds"),
        watermark=moved.state.watermark,
        sources=moved.state.sources,
        idle=moved.state.idle,
        late=moved.files,
        bad=moved.bad_files,
        inputs=parts.inputs,
        positions=parts.positions,
        begun=0 if last is None else last.begun,
        refresh=parts.refresh,
        admission=parts.admission,
    )


def _of_view(view: FlowView, last: Snapshot | None, results: Sequence[JobResult]) -> ViewVersion:
    """Return what the version that is being made has of a view."""
    begun = 0 if last is None else last.of_view(view.name).begun
    return ViewVersion(tuple(changes_of([results[view.operator]])), begun)


def refresh_record(
    last: Snapshot | None, choice: Choice, microseconds: int, *, cold: bool
) -> RefreshRecord:
    """Return how a batch was computed, with its cost and those of past batches.

    Args:
        last: the version before.
        choice: which operators were computed again.
        microseconds: the time of the batch.
        cold: whether no batch of this process was measured before.
    """
    history = CostHistory(() if last is None else last.refresh.costs)
    for full, size in choice.measured:
        history = history.add(BatchCost(full, size, microseconds, cold=cold))
        cold = False
    estimate = choice.estimate
    return RefreshRecord(
        tuple(sorted(choice.operators)),
        choice.reason,
        history.costs,
        None if estimate is None else int(estimate.incremental),
        None if estimate is None else int(estimate.full),
    )
