"""What an aggregate keeps per group: prepared arguments and accumulators, each once, however many measures read it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from substrait_agg.bind.bound import BoundMeasure, Expr
from substrait_agg.functions.accumulators import Accumulator, WeightKind, digits_for
from substrait_agg.functions.derive import FLOATS
from substrait_agg.plan.types import INTEGER_BITS, Type

_Item = TypeVar("_Item")
Argument = tuple[Expr | None, Expr | None]

ALL_ROWS = -1
NO_TOTAL = -1
DECIMAL_BITS = 128
COUNT_DIGITS = 2  # a count of more than 63 bits is an error: no output type holds it


@dataclass(slots=True)
class _Sharing:
    """Arguments and accumulators collected so far."""

    weight: WeightKind
    arguments: list[Argument] = field(default_factory=list)
    accumulators: list[Accumulator] = field(default_factory=list)

    def argument(self, value: Expr | None, condition: Expr | None) -> int:
        """Ordinal of the argument; rows without value and filter are all rows."""
        if value is None and condition is None:
            return ALL_ROWS
        return _place(self.arguments, (value, condition))

    def count(self, value: Expr | None, condition: Expr | None) -> int:
        """Ordinal of the accumulator that counts the rows where the filter holds and the value is not null.

        All rows need none: the group's total weight counts them, and `ALL_ROWS` stands for it.
        """
        counted = value if value is not None and value.type.nullable else None
        argument = self.argument(counted, condition)
        if argument == ALL_ROWS:
            return ALL_ROWS
        return _place(self.accumulators, Accumulator("count", argument, 0, COUNT_DIGITS))

    def total(self, value: Expr, condition: Expr | None) -> int:
        """Ordinal of the accumulator that adds up the values."""
        argument = self.argument(value, condition)
        return _place(self.accumulators, _adder(value.type, argument, self.weight))


def _place(items: list[_Item], item: _Item) -> int:
    # Written forms are compared: 0.0 equals -0.0, and NaN equals nothing, but what they compute is told by how
    # they are written.
    written = [repr(i) for i in items]
    if repr(item) in written:
        return written.index(repr(item))
    items.append(item)
    return len(items) - 1


def _adder(type_: Type, argument: int, weight: WeightKind) -> Accumulator:
    if type_.kind in FLOATS:
        return Accumulator("float", argument, 0, 0)
    if type_.kind == "decimal":
        return Accumulator("decimal", argument, DECIMAL_BITS, digits_for(DECIMAL_BITS, weight))
    bits = INTEGER_BITS[type_.kind]
    return Accumulator("integer", argument, bits, digits_for(bits, weight))


@dataclass(frozen=True, slots=True)
class Shared:
    """Arguments, accumulators and per measure its (total or -1, count) accumulators, as in `AggregateNode`."""

    arguments: tuple[Argument, ...]
    accumulators: tuple[Accumulator, ...]
    reads: tuple[tuple[int, int], ...]


def share(measures: tuple[BoundMeasure, ...], weight: WeightKind) -> Shared:
    """The accumulators from which all measures can be computed, none of them twice.

    Args:
        measures: over one input.
        weight: what is known of the weights of that input.
    """
    sharing = _Sharing(weight)
    reads = tuple(_reads(measure, sharing) for measure in measures)
    return Shared(tuple(sharing.arguments), tuple(sharing.accumulators), reads)


def _reads(measure: BoundMeasure, sharing: _Sharing) -> tuple[int, int]:
    total = NO_TOTAL
    if measure.kind != "count" and measure.argument is not None:
        total = sharing.total(measure.argument, measure.filter)
    return total, sharing.count(measure.argument, measure.filter)
