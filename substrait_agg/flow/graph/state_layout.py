"""Collect the state per group of an aggregate: prepared arguments, trees and accumulators.

Each is stored once, however many measures read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from substrait_agg.bind.bound import BoundMeasure, Constant, Expr
from substrait_agg.flow.graph.graph import (
    ARRIVAL_BATCH,
    ARRIVAL_POSITION,
    COMPUTED,
    ArrivalTree,
    TreeComponent,
    UserColumn,
    ValueTree,
)
from substrait_agg.functions.aggregates.accumulators import (
    COUNT_DIGITS,
    Accumulator,
    WeightKind,
    digits_for,
    tree_counters,
)
from substrait_agg.functions.signatures.derive import FLOATS
from substrait_agg.plan.types import BOOL, INTEGER_BITS, Type
from substrait_agg.required import require

Argument = tuple[Expr | None, Expr | None]

_WHEN = (TreeComponent(ARRIVAL_BATCH), TreeComponent(ARRIVAL_POSITION))
DECIMAL_BITS = 128


@dataclass(slots=True)
class StateLayoutBuilder:
    """The arguments, trees and accumulators collected so far."""

    weight: WeightKind
    arguments: list[Argument] = field(default_factory=list)
    trees: list[ValueTree] = field(default_factory=list)
    accumulators: list[Accumulator] = field(default_factory=list)
    computed: list[UserColumn] = field(default_factory=list)
    _places: dict[tuple[str, str], int] = field(default_factory=dict)

    def argument(self, value: Expr | None, condition: Expr | None) -> int | None:
        """Return the ordinal of an argument; None without value and filter, for all rows."""
        if value is None and condition is None:
            return None
        return self._place("arguments", (value, condition))

    def count(self, value: Expr | None, condition: Expr | None) -> int | None:
        """Return the accumulator that counts rows whose filter is true and whose value is not null.

        All rows need no accumulator: None stands for the group's total weight, which counts
        them.
        """
        counted = value if value is not None and value.type.nullable else None
        argument = self.argument(counted, condition)
        if argument is None:
            return None
        return self.accumulator(Accumulator("count", argument, 0, COUNT_DIGITS))

    def total(self, value: Expr, condition: Expr | None, tree: int | None = None) -> int:
        """Return the accumulator that sums the values of rows, or of the live entries of a tree."""
        argument = require(self.argument(value, condition))
        weight: WeightKind = self.weight if tree is None else "changelog"
        return self.accumulator(_adder(value.type, argument, weight, tree))

    def product(
        self, left: Expr, right: Expr, condition: Expr | None, tree: int | None = None
    ) -> int:
        """Return the accumulator that sums the products of two float values."""
        x, y = self.argument(left, condition), self.argument(right, condition)
        return self.accumulator(Accumulator("product", x, 0, 0, other=y, tree=tree))

    def add_contributed(
        self, implementation: str, column: str, arguments: tuple[int, ...], tree: int | None
    ) -> int:
        """Return the accumulator that sums a column computed by a user-defined measure."""
        ordinal = COMPUTED + self._place("computed", UserColumn(implementation, arguments, column))
        digits = digits_for(DECIMAL_BITS, self.weight if tree is None else "changelog")
        return self.accumulator(Accumulator("decimal", ordinal, DECIMAL_BITS, digits, tree=tree))

    def live(self, tree: int) -> int:
        """Return the accumulator that counts the live entries of a tree."""
        return self.accumulator(tree_counters(tree)[0])

    def accumulator(self, accumulator: Accumulator) -> int:
        """Return the ordinal of an accumulator."""
        return self._place("accumulators", accumulator)

    def values(
        self, measure: BoundMeasure, arguments: Sequence[Expr], *, keep_nulls: bool = False
    ) -> int:
        """Return the shared tree over the values of a measure, in their own order."""
        components = [(a, False, keep_nulls) for a in arguments]
        skipped = () if keep_nulls else tuple(range(len(components)))
        return self.tree(measure, components, skipped)

    def arrivals(self, measure: BoundMeasure, *, latest: bool) -> int:
        """Return the tree of the values of a measure in the order of arrival."""
        if self.weight == "append_only":
            return self._rows_by_arrival(measure)
        base = self.values(measure, measure.arguments, keep_nulls=measure.keep_nulls)
        value = self.trees[base].components[0]
        skipped = self.trees[base].skipped
        follows = ArrivalTree(base, latest, by_value=True)
        self._place_tree(ValueTree((value, *_WHEN), skipped, None, follows=follows))
        follows = ArrivalTree(base, latest, by_value=False)
        last = tuple(2 for _ in skipped)
        return self._place_tree(ValueTree((*_WHEN, value), last, None, follows=follows))

    def _rows_by_arrival(self, measure: BoundMeasure) -> int:
        """Return the tree of `arrivals` for append-only input.

        No row goes away, so the first and last rows with a value are those that brought it first
        and last.
        """
        keep = measure.keep_nulls
        present = self.argument(None, measure.filter) if keep else None
        value = require(self.argument(measure.arguments[0], None if keep else measure.filter))
        components = (*_WHEN, TreeComponent(value))
        return self._place_tree(ValueTree(components, () if keep else (2,), present))

    def whole_rows(self, keys: Sequence[Expr]) -> None:
        """Add the tree of all columns that are read of the input rows, `keys` included."""
        for key in keys:
            self.argument(key, None)
        if not self.arguments:
            self.arguments.append((Constant(BOOL.as_nullable(False), value=True), None))
        components = tuple(TreeComponent(i) for i in range(len(self.arguments)))
        self.trees.append(ValueTree(components, (), None))
        self._count_entries(len(self.trees) - 1)

    def tree(
        self,
        measure: BoundMeasure,
        components: Sequence[tuple[Expr, bool, bool]],
        skipped: tuple[int, ...],
        *,
        elements: bool = False,
    ) -> int:
        """Return the tree with these components: (value, descending, nulls first)."""
        present = None if skipped else self.argument(None, measure.filter)
        keys = []
        for i, (value, descending, nulls_first) in enumerate(components):
            argument = require(self.argument(value, measure.filter if i in skipped else None))
            keys.append(TreeComponent(argument, descending, nulls_first))
        return self._place_tree(ValueTree(tuple(keys), skipped, present, elements))

    def _place_tree(self, tree: ValueTree) -> int:
        return self._count_entries(self._place("trees", tree))

    def _count_entries(self, tree: int) -> int:
        for counter in tree_counters(tree):
            self.accumulator(counter)
        return tree

    def _place(self, kind: str, item: object) -> int:
        """Return the ordinal of an item in the list attribute `kind`; append a new item."""
        # Compare the written forms: 0.0 equals -0.0 and NaN equals nothing, but equal written forms
        # compute the same.
        items: list[object] = getattr(self, kind)
        place = self._places.setdefault((kind, repr(item)), len(items))
        if place == len(items):
            items.append(item)
        return place


def _adder(type_: Type, argument: int, weight: WeightKind, tree: int | None) -> Accumulator:
    if type_.kind in FLOATS:
        return Accumulator("float", argument, 0, 0, tree=tree)
    if type_.kind in ("decimal", "u64"):
        digits = digits_for(DECIMAL_BITS, weight)
        return Accumulator("decimal", argument, DECIMAL_BITS, digits, tree=tree)
    bits = max(8, INTEGER_BITS[type_.kind] * (2 if type_.kind.startswith("u") else 1))
    return Accumulator("integer", argument, bits, digits_for(bits, weight), tree=tree)
