"""The targets: what is compared with what, and by how much."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.phases import OUTSIDE_JOB
from benchmarks.results import LaneResult, Results

Value = Callable[[Results], float | None]
"""The figure of a target; None where it was not measured."""


@dataclass(frozen=True)
class Target:
    """A row of the table of targets.

    Attributes:
        what: the figure in words.
        limit: that it must reach.
        most: whether it must not be above the limit; else not below.
        value: the figure in some results.
        unit: behind the figure.
    """

    what: str
    limit: float
    most: bool
    value: Value
    unit: str = ""

    def met(self, results: Results) -> bool | None:
        """Whether the target is met; None where it was not measured."""
        found = self.value(results)
        if found is None:
            return None
        return found <= self.limit if self.most else found >= self.limit


def _ratio(workload: str, over: str, under: str, kinds: tuple[str | None, str | None]) -> Value:
    def value(results: Results) -> float | None:
        lanes = results.lane(workload, over), results.lane(workload, under)
        medians = [
            lane.median(kind) if lane is not None else None
            for lane, kind in zip(lanes, kinds, strict=True)
        ]
        return medians[0] / medians[1] if medians[0] and medians[1] else None

    return value


def at_most(
    workload: str, over: str, under: str, limit: float, what: str, *kinds: str | None
) -> Target:
    """The median of one lane (of a kind of its batches) over that of another."""
    chosen = (kinds[0], kinds[1]) if kinds else (None, None)
    return Target(f"{workload}: {what}", limit, True, _ratio(workload, over, under, chosen))


def at_least(workload: str, over: str, under: str, limit: float, what: str) -> Target:
    """The same, for how many times faster the second is."""
    return Target(f"{workload}: {what}", limit, False, _ratio(workload, over, under, (None, None)))


def _per_measure(results: Results) -> float | None:
    """What an extra measure costs, as a part of a batch with one."""
    ratio = _ratio("W6", "ours@30", "ours@1", (None, None))(results)
    return None if ratio is None else (ratio - 1) / 29 * 100


def _phases(workload: str, names: tuple[str, ...]) -> Value:
    def value(results: Results) -> float | None:
        lane = results.lane(workload, "ours")
        told = [b.parts for b in lane.batches if b.parts] if lane is not None else []
        spent = [sum(parts.get(name, 0.0) for name in names) for parts in told]
        return statistics.median(spent) * 1000 if spent else None

    return value


def _written(workload: str) -> Value:
    def value(results: Results) -> float | None:
        lane = results.lane(workload, "ours")
        return written(lane) if lane is not None else None

    return value


def written(lane: LaneResult) -> float | None:
    """Bytes written for a byte of input; None for what keeps nothing."""
    return lane.written / lane.read if lane.written is not None and lane.read else None


def _workers(results: Results) -> float | None:
    lane = results.lane("W10", "ours")
    return lane.memory["workers_own"] / 2**30 if lane and "workers_own" in lane.memory else None


TARGETS: tuple[Target, ...] = (
    at_least("W1", "rocksdb", "ours", 6, "times faster than RocksDB"),
    at_least("W1", "default", "ours", 3, "times faster than the default store"),
    at_most("W1", "ours", "floor", 1.3, "times the floor"),
    at_most("W2", "ours@x50", "ours@x1", 1.3, "50 times the groups, times as long"),
    at_least("W2", "rocksdb@x20", "ours@x20", 6, "times faster than RocksDB with 20 times the groups"),
    at_least("W3", "rocksdb", "ours", 1, "times as fast as RocksDB"),
    at_least("W3", "default", "ours", 1, "times as fast as the default store"),
    at_most("W4", "ours", "ours", 1.5, "deleting the greatest over inserting", "delete", "insert"),
    at_most("W5", "ours@global", "batch@global", 1.2, "global, times Spark's batch aggregation"),
    at_most("W5", "ours@hot", "batch@hot", 1.2, "hot key, times Spark's batch aggregation"),
    Target("W6: an extra measure, of the first", 4, True, _per_measure, " %"),
    at_most("W6", "ours@cube", "rocksdb@cube", 1, "cube, times RocksDB"),
    at_most("W6", "ours@cube", "default@cube", 1, "cube, times the default store"),
    at_least("W8", "rocksdb@q17", "ours@q17", 2, "q17, times faster than RocksDB"),
    at_least("W8", "default@q17", "ours@q17", 3, "q17, times faster than the default store"),
    at_most("W8", "ours@q15", "ours@q17", 1.5, "q15, times q17"),
    at_most("W8", "ours@q16", "ours@q17", 1.5, "q16, times q17"),
    at_most("W11", "ours@op", "ours@inserts", 1.15, "rows with an operation, times inserts"),
    at_most("W11", "ours@weight", "ours@inserts", 1.15, "rows with a weight, times inserts"),
    at_most("W11", "ours@churn-weight", "ours@churn-op", 1.15, "churn by weight, times by operation"),
    at_most("X1", "ours@float-few", "ours@int-few", 1.15, "exact float sums over integers, few keys"),
    at_most("X1", "ours@float-many", "ours@int-many", 1.15, "exact float sums over integers, many keys"),
    Target("B: bytes written for a byte of input, 1,000 batches", 8, True, _written("B")),
    Target("W3: outside the Spark job", 60, True, _phases("W3", OUTSIDE_JOB), " ms"),
    Target("W10: memory of the workers", 3, True, _workers, " GiB"),
)  # fmt: skip
