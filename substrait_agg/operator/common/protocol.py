"""The protocol between a task and a stateful operator.

An operator is a pure function of Arrow tables. The task (`commit.tasks.task`) handles files,
merges, spilling and counters, and does not depend on the type of the operator. An operator keeps
named trees. A tree whose rows are found by key has a `KeyedLayout`; an ordered tree has a
`TreeLayout`; weighted rows by key have an `ArrangementLayout`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.operator.common.emission import Emission
from substrait_agg.operator.common.names import GROUP, entries_tree
from substrait_agg.operator.common.spec import InputSpec, OperatorSpec
from substrait_agg.state.arrangement import Arrangement, ArrangementLayout
from substrait_agg.state.entries import Entries, TreeLayout
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.run import HASH_MAX, RunFile
from substrait_agg.state.tree import KeyedLayout, KeyedTree

Int64s = npt.NDArray[np.int64]
Runs = Sequence[RunFile]
Layouts = Mapping[str, KeyedLayout | TreeLayout | ArrangementLayout]
"""The layout of each named tree."""
InitialGroups = Sequence[tuple[int, int]]
"""Initial groups, which exist from the first version on: (sort hash, index of the grouping set)."""


@dataclass(frozen=True, slots=True)
class StateReader:
    """The state of an operator before a batch.

    Attributes:
        open_keyed: opens a tree of rows by key, given its name.
        open_ordered: opens an ordered tree, given its name and further entries on top of it.
        open_arranged: opens an arrangement, given its name.
        surrogates: returns this many surrogate keys that were never used before.
        version: the version that the batch makes.
    """

    open_keyed: Callable[[str], KeyedTree]
    open_ordered: Callable[[str, Entries | None], OrderedTree]
    open_arranged: Callable[[str], Arrangement]
    surrogates: Callable[[int], Int64s]
    version: int = 0

    def open_tree(self, ordinal: int, extra: Entries | None) -> OrderedTree:
        """Open the ordered tree with this ordinal."""
        return self.open_ordered(entries_tree(ordinal), extra)


@dataclass(frozen=True, slots=True)
class OperatorResult:
    """The output of an operator for one slice.

    Attributes:
        trees: per tree name, the rows to add to the tree, ordered by hash.
        changes: output columns and ``__weight``; retractions come first.
        counters: counters by name (`commit.tasks.counters.COUNTERS`).
        more_changes: further changes, computed while they are written, so that they need not fit
            into memory.
        count_pairs: counts the pairs of rows with equal keys that a join makes of the slice.
    """

    trees: Mapping[str, pa.Table]
    changes: pa.Table
    counters: Mapping[str, int] = field(default_factory=dict)
    more_changes: Iterable[pa.Table] = ()
    count_pairs: Callable[[], int] | None = None


@dataclass(frozen=True, slots=True)
class EstimatedWork:
    """The estimated work of a pass without rows.

    Attributes:
        rows: rows to process.
        visited: rows to scan to find them.
    """

    rows: float = 0
    visited: float = 0

    def __bool__(self) -> bool:
        return bool(self.rows or self.visited)


class SumOverflow(Exception):
    """A partial sum overflowed its Spark type; the batch must be summed again in parts."""


class StatefulOperator(Protocol):
    """An operator as its tasks run it.

    The default methods suit an operator that acts only on the rows of a batch.
    """

    @property
    def spec(self) -> InputSpec:
        """Return what the exchange and the tasks need to know about the operator's input."""

    @property
    def groups(self) -> OperatorSpec | None:
        """Return the spec of the groups that a plan change can rewrite.

        None means that the groups can only be kept as they are.
        """
        return None

    @property
    def ports(self) -> int:
        """Return the number of input ports; with several, ``__port`` of a row has its port."""
        return 1

    def state_schema(self, *, final: bool = True) -> Layouts:
        """Return the layout of each named tree that the operator writes.

        Args:
            final: whether the operator's output is the view. Some trees exist only for readers of
                the view.
        """

    def receive(
        self, batch: pa.RecordBatch, *, raw: bool, emission: Emission
    ) -> tuple[pa.RecordBatch, int]:
        """Convert rows of the exchange to delta rows.

        Args:
            batch: ``hash``, ``k*``, and the other columns of the exchange.
            raw: whether the rows are input rows rather than sums per key.
            emission: the rules of the batch.

        Returns:
            The delta rows, and the number of input rows that they sum up.

        Raises:
            SumOverflow: a partial sum overflowed.
        """

    def apply(
        self, ports: Sequence[pa.Table], state: StateReader, emission: Emission
    ) -> OperatorResult:
        """Process a slice: all delta rows of some keys in the batch.

        Args:
            ports: the delta rows of each input port.
            state: the trees before this batch.
            emission: the rules that select the groups to emit.

        Raises:
            RunFailed: a value does not fit its type, or the input is refused.
        """

    def rows_at_once(self, state: StateReader) -> int:
        """Return how many delta rows to process at once; each may need its group's stored row."""
        return state.open_keyed(GROUP).rows_at_once(self.spec.slice_rows)

    def looks_up(self, tree: str, port: int) -> bool:
        """Return whether rows of a port look up the rows with their key in an arrangement."""
        return True

    def expected(
        self, runs: Mapping[str, Runs], emission: Emission, low: int = 0, high: int = HASH_MAX
    ) -> EstimatedWork:
        """Estimate the work of a hash range in a pass without rows."""
        return EstimatedWork()

    def wake(
        self,
        state: StateReader,
        emission: Emission,
        low: int = 0,
        high: int = HASH_MAX,
        initial_groups: InitialGroups = (),
    ) -> tuple[list[pa.Table], Mapping[str, int]]:
        """Return delta rows for groups of a hash range that must act without input rows.

        These delta rows add nothing to their groups.

        Args:
            state: the trees before this batch.
            emission: the rules of the batch.
            low: least hash of the range.
            high: greatest hash of the range.
            initial_groups: the initial groups.

        Returns:
            Tables of delta rows, and counters by name.
        """
        return [], {}

    def complete(self, parts: Sequence[pa.Table], emission: Emission) -> pa.Table:
        """Concatenate input rows and the rows of `wake`, with every column that `apply` reads."""
        return pa.concat_tables(parts, promote_options="default")

    def advance(
        self, state: StateReader, emission: Emission, low: int = 0, high: int = HASH_MAX
    ) -> Iterator[OperatorResult]:
        """Delete state that is complete at the watermark of `emission`, in a pass without rows."""
        return iter(())

    def list_cleared(self, emission: Emission) -> frozenset[str]:
        """Return the trees that are empty after the batch."""
        return frozenset()
