"""What a task asks of a stateful operator, and what it gives it.

An operator is pure: Arrow in, Arrow out. Files, merges, spilling and counters are the task's (`commit.runtime.task`), which knows no operator
by its kind. An operator keeps named trees. Those whose rows are found by key have a `KeyedLayout`, ordered ones a `TreeLayout`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.operator.common.emission import Emission
from substrait_agg.operator.common.names import GROUP, entries_tree
from substrait_agg.operator.common.spec import InputSpec, OperatorSpec
from substrait_agg.state.entries import Entries, TreeLayout
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.run import HASH_MAX, RunFile
from substrait_agg.state.tree import KeyedLayout, Tree

Int64s = npt.NDArray[np.int64]
Runs = Sequence[RunFile]
Seeds = Sequence[tuple[int, int]]
"""Groups that are there from the first version on: sort hash, and index of the grouping set."""


@dataclass(frozen=True, slots=True)
class State:
    """What an operator works against: its trees before this batch, by name.

    Attributes:
        keyed: gives a tree of rows by key.
        ordered: gives an ordered tree, with further entries on top of it.
        surrogates: gives that many keys which were never given before.
        version: the version being made.
    """

    keyed: Callable[[str], Tree]
    ordered: Callable[[str, Entries | None], OrderedTree]
    surrogates: Callable[[int], Int64s]
    version: int = 0

    def open_tree(self, ordinal: int, extra: Entries | None) -> OrderedTree:
        """Open an ordered tree of entries of groups by its ordinal."""
        return self.ordered(entries_tree(ordinal), extra)


@dataclass(frozen=True, slots=True)
class OperatorResult:
    """What an operator made of its input.

    Attributes:
        trees: per named tree the rows to add to it, in order of hash.
        changes: output columns and ``__weight``; retractions first.
        counters: what it counted, by name (`commit.runtime.counters.COUNTERS`).
    """

    trees: Mapping[str, pa.Table]
    changes: pa.Table
    counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Work:
    """What there is to do where no rows come.

    Attributes:
        rows: rows that are taken up.
        visited: rows that are looked through to find what to do.
    """

    rows: float = 0
    visited: float = 0

    def __bool__(self) -> bool:
        return bool(self.rows or self.visited)


class SumOverflow(Exception):
    """A partial sum did not fit where Spark kept it: the batch has to be summed again, in parts."""


class StatefulOperator(Protocol):
    """An operator as its tasks run it. The defaults are those of an operator that acts only on rows that come."""

    @property
    def spec(self) -> InputSpec:
        """What the exchange and the tasks have to know of its rows."""

    @property
    def groups(self) -> OperatorSpec | None:
        """The groups that can be rewritten when a checkpoint goes on with another plan; None where they only stay as they are."""
        return None

    @property
    def ports(self) -> int:
        """How many input ports it has. Rows of several say in ``__port`` of which they are."""
        return 1

    def state_schema(self, *, final: bool = True) -> Mapping[str, KeyedLayout | TreeLayout]:
        """Return the named trees that it writes.

        Args:
            final: whether its output is the view. Some trees are there for readers of the view alone.
        """

    def receive(
        self, batch: pa.RecordBatch, *, raw: bool, emission: Emission
    ) -> tuple[pa.RecordBatch, int]:
        """Return rows of the exchange as delta rows, and how many input rows they stand for.

        Args:
            batch: ``hash``, ``k*``, and the other columns of the exchange.
            raw: whether rows come as they are instead of summed per key.
            emission: the rules of the batch.

        Raises:
            SumOverflow: see there.
        """

    def apply(self, ports: Sequence[pa.Table], state: State, emission: Emission) -> OperatorResult:
        """Take up a slice: all delta rows that some keys have in the batch.

        Args:
            ports: per input port its delta rows.
            state: the trees before this batch.
            emission: which groups are emitted now.

        Raises:
            RunFailed: a value does not fit its type, or the input is refused.
        """

    def rows_at_once(self, state: State) -> int:
        """Return how many delta rows to take up at once: each may bring what is kept of its group."""
        return state.keyed(GROUP).rows_at_once(self.spec.slice_rows)

    def expected(
        self, runs: Mapping[str, Runs], emission: Emission, low: int = 0, high: int = HASH_MAX
    ) -> Work:
        """Return about how much there is to do for a range of hashes without rows."""
        return Work()

    def wake(
        self,
        state: State,
        emission: Emission,
        low: int = 0,
        high: int = HASH_MAX,
        seeds: Seeds = (),
    ) -> tuple[list[pa.Table], Mapping[str, int]]:
        """Return delta rows, which add nothing, of the groups of a range that act without rows, and what that counts."""
        return [], {}

    def completed(self, parts: Sequence[pa.Table], emission: Emission) -> pa.Table:
        """Return rows that came and rows that were woken as one table, with every column that `apply` reads."""
        return pa.concat_tables(parts, promote_options="default")

    def advance(
        self, state: State, emission: Emission, low: int = 0, high: int = HASH_MAX
    ) -> Iterator[OperatorResult]:
        """Let go of what is finished at the watermark of `emission`, in a pass without rows."""
        return iter(())

    def cleared(self, emission: Emission) -> frozenset[str]:
        """Return the trees of which nothing is left after the batch."""
        return frozenset()
