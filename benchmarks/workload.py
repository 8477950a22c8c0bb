"""What a workload is: data, queries over it, the engines that run them, and how the batches are taken in turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.data.data_sets import Generator

WARM = "warm"
"""Kind of the batches in which JVMs compile and workers start: all engines run them, none is measured."""


@dataclass(frozen=True)
class DataSource:
    """A data set by its generator and parameters; `Source.name` is the generator's."""

    generator: Generator
    parameters: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Of the data set."""
        return self.generator.__name__


@dataclass(frozen=True)
class Lane:
    """A query run by an engine over a data set: what is compared with other lanes.

    Attributes:
        name: unique in the workload; the engine's, with ``@`` and what is special where an engine has several lanes.
        engine: one of `benchmarks.process.ENGINES`.
        query: one of `benchmarks.queries.QUERIES`.
        data: one of the workload's data sets.
        weighted: whether rows leave by their weight instead of their operation.
    """

    name: str
    engine: str
    query: str
    data: str
    weighted: bool = False


@dataclass(frozen=True)
class Workload:
    """A row of the table of workloads.

    Attributes:
        id: ``W1`` and so on.
        what: in a few words.
        data: sources by name.
        lanes: in the order of reports; ours first.
        rounds: turns that the measured batches are divided into.
        batch_files: files per batch.
        samples: batches of each turn, from its end, for which recomputing engines compute everything.
        first: whether the first batch of a turn counts; else it is a warm-up.
        absent: lane -> why an engine that might be expected has none.
    """

    id: str
    what: str
    data: Mapping[str, DataSource]
    lanes: tuple[Lane, ...]
    rounds: int = 2
    batch_files: int = 1
    samples: int = 3
    first: bool = False
    absent: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sizes:
    """How large workloads are.

    Attributes:
        large: the sizes of the table; else those of ``make bench``.
        scale: factor on rows and groups.
        most: batches that a workload measures at most, of each of its kinds.
    """

    large: bool = False
    scale: float = 1.0
    most: int = 10_000

    def rows(self, small: int, large: int) -> int:
        """A number of rows or groups, at least 100."""
        return max(100, int((large if self.large else small) * self.scale))

    def count(self, small: int, large: int) -> int:
        """A number of batches."""
        return min(large if self.large else small, self.most)

    def batches(self, kind: str, count: int, rows: int, warm: int = 4) -> list[tuple[str, int]]:
        """Kinds and rows of batches of one size, warm-ups first."""
        return [*self.warm(rows, warm), *((kind, rows) for _ in range(count))]

    def warm(self, rows: int, count: int) -> list[tuple[str, int]]:
        """Warm-ups; fewer in a quick look."""
        return [(WARM, rows)] * min(count, self.most)


def lanes(
    query: str, data: str, engines: Sequence[str], suffix: str = "", *, weighted: bool = False
) -> tuple[Lane, ...]:
    """A lane per engine for one query."""
    return tuple(Lane(engine + suffix, engine, query, data, weighted) for engine in engines)
