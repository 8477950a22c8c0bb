"""The work of a state of any size, in counts: rows and bytes written, merges, keys searched in runs.

The groups of a partition are simulated by the number of rows of each run. The program's own code
decides which runs are merged (`substrait_agg.state.merging`), so the simulation has no rules of
its own. Loads bring each group once; then every batch draws its keys at random from all groups.
The rows of a merged run are the expected number of different keys in the runs below it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from substrait_agg.state.merging import MergeSpan, after_merges, budget_for, spans_to_merge
from substrait_agg.state.run import COMPRESSED_BYTES, COMPRESSED_ROWS, HASH_MAX, PAGE_ROWS, RunFile

HASHES = HASH_MAX + 1


@dataclass(frozen=True, slots=True)
class StateCase:
    """A state and the batches that change it.

    Attributes:
        groups: groups held.
        load: groups that a batch of the load brings.
        rows: rows of each batch after it, with random keys.
        batches: number of these batches.
        partitions: of the state.
    """

    groups: int
    load: int
    rows: int
    batches: int
    partitions: int


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """What a batch does, added up over all partitions.

    Attributes:
        groups_touched: groups with rows.
        run_probes: keys searched in runs; a key counts once per run.
        page_reads: pages searched.
        run_rows: rows of the runs that batches write, before merges.
        merges: runs written by merges.
        merged_rows: rows written by merges.
        changes: rows of changes.
        runs: runs in the snapshot after the batch; a run counts once per range of hashes.
        state_rows: rows of these runs; replaced rows count until a merge drops them.
        files: files written.
    """

    groups_touched: float
    run_probes: float
    page_reads: float
    run_rows: float
    merges: float
    merged_rows: float
    changes: float
    runs: float
    state_rows: float
    files: float


@dataclass(frozen=True, slots=True)
class _Content:
    """The keys of a run.

    Attributes:
        loaded: part of all groups that the run has from loads.
        missed: probability that a group is in none of the random batches of the run.
    """

    loaded: float
    missed: float

    @property
    def part(self) -> float:
        """Return the part of all groups that the run has."""
        return 1 - (1 - self.loaded) * self.missed


def simulate(case: StateCase) -> Iterator[BatchCounts]:
    """Yield the counts of each batch: first the loads, then the batches with random keys."""
    partition = _Partition(case.groups / case.partitions)
    for held in range(0, case.groups, case.load):
        part = min(case.load, case.groups - held) / case.groups
        yield _times(partition.batch(_Content(part, 1.0), known=False), case.partitions)
    # Expected part of the groups that none of the rows of a batch has.
    missed = math.exp(case.rows * math.log1p(-1 / case.groups))
    for _ in range(case.batches):
        yield _times(partition.batch(_Content(0.0, missed), known=True), case.partitions)


def _times(counts: BatchCounts, partitions: int) -> BatchCounts:
    return BatchCounts(*(getattr(counts, n) * partitions for n in BatchCounts.__slots__))


class _Partition:
    """The runs of a partition with this number of groups."""

    def __init__(self, groups: float) -> None:
        self._groups = groups
        self._files: tuple[RunFile, ...] = ()
        self._contents: dict[str, _Content] = {}
        self._written = 0

    def batch(self, content: _Content, *, known: bool) -> BatchCounts:
        groups_touched = content.part * self._groups
        probes, pages = self._lookups(groups_touched, known=known)
        new = self._run(content, 1.0)
        files = (new, *self._files)
        spans = spans_to_merge(files, 0, HASH_MAX, budget_for(new.rows))
        merged = [(span, self._merge(span)) for span in spans]
        self._files = after_merges(files, merged)
        live = {file.name for file in self._files}
        self._contents = {name: self._contents[name] for name in live}
        return BatchCounts(
            groups_touched=groups_touched, run_probes=probes, page_reads=pages, run_rows=groups_touched,
            merges=len(merged), merged_rows=sum(run.rows for _, run in merged),
            changes=2 * groups_touched if known else groups_touched, runs=len(self._files),
            state_rows=sum({file.name: file.rows for file in self._files}.values()),
            files=2 + len(merged),
        )  # fmt: skip

    def _run(self, content: _Content, part: float) -> RunFile:
        self._written += 1
        name = f"run{self._written}"
        self._contents[name] = content
        return RunFile(name, round(content.part * self._groups * part), 0, 0)

    def _merge(self, span: MergeSpan) -> RunFile:
        below = [self._contents[name] for name in {file.name for file in span.files}]
        content = _Content(sum(c.loaded for c in below), math.prod(c.missed for c in below))
        return self._run(content, (span.high - span.low + 1) / HASHES)

    def _lookups(self, groups_touched: float, *, known: bool) -> tuple[float, float]:
        """Return the keys and the pages that a batch searches in all runs, newest run first."""
        cuts = sorted({0, *(f.low for f in self._files), *(f.high + 1 for f in self._files)})
        searched = dict.fromkeys((file.name for file in self._files), 0.0)
        for low, following in zip(cuts, [*cuts[1:], HASHES], strict=True):
            missing, loaded = groups_touched * (following - low) / HASHES, 0.0
            for file in self._files:
                if file.low <= low and file.high >= following - 1:
                    searched[file.name] += missing
                    content = self._contents[file.name]
                    if known and loaded < 1:
                        left = max(0.0, 1 - content.loaded / (1 - loaded))
                        missing, loaded = missing * left * content.missed, loaded + content.loaded
        rows = {file.name: file.rows for file in self._files}
        pages = sum(_pages(rows[name], keys) for name, keys in searched.items())
        return sum(searched.values()), pages


def _pages(rows: int, keys: float) -> float:
    """Return the expected number of pages of a run that some random keys are in."""
    pages = max(1, math.ceil(rows / PAGE_ROWS))
    return pages * -math.expm1(-keys / pages)


@dataclass(frozen=True, slots=True)
class RowBytes:
    """Bytes of a row in files.

    Attributes:
        run: of a run.
        small: of a compressed run of few rows.
        change: of a file of changes.
        entry: of a run in a snapshot.
        header: of a snapshot without runs.
    """

    run: float
    small: float
    change: float
    entry: float
    header: float


def written_bytes(counts: BatchCounts, size: RowBytes, partitions: int) -> float:
    """Return the bytes of runs, merges and changes that a batch writes."""
    rows = counts.run_rows / partitions
    small = rows <= COMPRESSED_ROWS and rows * size.run <= COMPRESSED_BYTES
    runs = counts.run_rows * (size.small if small else size.run)
    return runs + counts.merged_rows * size.run + counts.changes * size.change


def mean(counts: Sequence[BatchCounts]) -> BatchCounts:
    """Return the mean of several batches."""
    return BatchCounts(
        *(sum(getattr(c, n) for c in counts) / len(counts) for n in BatchCounts.__slots__)
    )
