"""Random changes of the rows that random aggregates read."""

from __future__ import annotations

from random import Random

from substrait_agg.functions.aggregates.accumulators import WeightKind
from tests.operator.measures_columns import NAMES, random_value, random_values
from tests.operator.measures_reference import Row, Values


class Stream:
    """Random changes: insertions, deletions, updates, and deletions that come before their insertion.

    Args:
        random: decides.
        weight: weights are 1; 1 and -1; or anything small.
        early: whether rows may be taken away before they are there.
    """

    def __init__(self, random: Random, weight: WeightKind, *, early: bool) -> None:
        self.random = random
        self.weight = weight
        self.early = early
        self.there: list[Values] = []
        self.owed: list[Values] = []
        self.values = [random_values(random) for _ in range(random.choice((3, 12, 40)))]

    def batch(self) -> list[Row]:
        """The rows of the next batch."""
        rows: list[Row] = []
        for _ in range(self.random.choice((0, 1, 3, 10, 25))):
            rows += self._change()
        self.random.shuffle(rows)
        return rows if self.early else sorted(rows, key=lambda r: r.weight < 0)

    def _change(self) -> list[Row]:
        draw = self.random.random()
        if self.weight == "append_only" or draw < 0.45 or not self.there:
            return self._insert(self.random.choice(self.values))
        if self.early and draw < 0.6:
            values = self.random.choice(self.values)
            self.owed.append(values)
            return self._weighted(values, -1)
        if self.owed and draw < 0.75:
            return self._weighted(self.owed.pop(), 1)
        old = self.there.pop(self.random.randrange(len(self.there)))
        rows = self._weighted(old, -1)
        if draw < 0.85:
            new = list(old)
            place = self.random.randrange(3, len(NAMES))
            new[place] = random_value(self.random, NAMES[place])
            rows += self._insert(tuple(new))
        return rows

    def _insert(self, values: Values) -> list[Row]:
        times = self.random.choice((1, 1, 2, 3)) if self.weight == "weighted" else 1
        self.there += [values] * times
        return self._weighted(values, times)

    def _weighted(self, values: Values, weight: int) -> list[Row]:
        if self.weight == "weighted" and self.random.random() < 0.1:
            # Through zero within the batch.
            return [Row(values, weight + 5), Row(values, -5), Row(values, 0)]
        return [Row(values, weight)]

    def missing_insertions(self) -> list[Row]:
        """The insertions that are still missing."""
        rows = [Row(values, 1) for values in self.owed]
        self.owed = []
        return rows

    def clear(self) -> list[Row]:
        """The deletions of all live rows."""
        rows = [Row(values, -1) for values in self.there]
        self.there = []
        return rows
