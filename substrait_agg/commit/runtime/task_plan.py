"""What a task is given, and what it gives back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from substrait_agg.commit.documents.json_codec import built, encoded
from substrait_agg.commit.documents.snapshot import ChangeFile, OperatorState
from substrait_agg.operator.common.emission import ALL, Emission
from substrait_agg.operator.common.protocol import StatefulOperator


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """What a task is told.

    Attributes:
        checkpoint: folder of the checkpoint.
        node: id of the operator in the flow.
        operator: what the task executes.
        low: least sort hash of the range.
        high: greatest sort hash of the range.
        state: its trees in the range.
        seeds: groups that are there from the first version on: sort hash and set index (0 without grouping sets).
        again: whether this is the second pass of a version, over groups that its watermark has passed.
        earlier: change files of the first pass over the range, where the view's changes are made.
        version: the version being made.
        emission: which of the touched and pending groups are emitted.
        columns: per column of a change file its operator column and its name (``c0``, ``c1``, ... of the view).
        final: whether the changes are those of the view (then they carry the version).
        raw: whether rows come as they are, instead of summed per key.
    """

    checkpoint: str
    node: int
    operator: StatefulOperator
    low: int
    high: int
    state: OperatorState
    version: int
    columns: tuple[tuple[str, str], ...]
    final: bool
    raw: bool = False
    emission: Emission = ALL
    seeds: tuple[tuple[int, int], ...] = ()
    again: bool = False
    earlier: tuple[ChangeFile, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task did, and the state of its range then; `misplaced` and `decimal_overflow` ask the driver to sum this batch again, more carefully.

    Where `joined`, the change files hold those of the first pass over the range as well. `received` are the bytes of the rows
    that came.
    """

    low: int
    high: int
    state: OperatorState = field(default_factory=OperatorState)
    changes: tuple[ChangeFile, ...] = ()
    counters: dict[str, int] = field(default_factory=dict)
    misplaced: bool = False
    decimal_overflow: bool = False
    joined: bool = False
    received: int = 0

    def to_json(self) -> str:
        """As one line of JSON."""
        return json.dumps(encoded(self))

    @staticmethod
    def from_json(text: str) -> TaskResult:
        """From `to_json`."""
        return built(TaskResult, json.loads(text))


def task_of(tasks: tuple[TaskPlan, ...], partition: int) -> TaskPlan:
    """The task of a partition; an exchange other than the expected one shows as a range that its rows do not fall in."""
    if partition < len(tasks):
        return tasks[partition]
    return replace(tasks[0], low=1, high=0, state=OperatorState(), seeds=())
