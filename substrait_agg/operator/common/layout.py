"""Column layout of the group tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from substrait_agg.functions.aggregates.accumulators import COUNT_DIGITS, Accumulator


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a run of the group tree.

    Attributes:
        schema: the columns listed below, in this order.
        offsets: per accumulator, the position of its first digit in ``fixed``; -1 for float
            accumulators. The total weight starts at position 0.
        digits: number of digits in ``fixed``.

    Columns of `schema`:

    - ``hash`` (uint64), ``dead`` (bool), and the key columns ``k*``.
    - ``fixed`` (fixed size binary): the digits of the total weight and of all accumulators of fixed
      size, 4 bytes each.
    - Per float accumulator i, ``p{i}`` (int16), the position of its lowest digit, and ``f{i}``
      (list of int32), its digits.
    - ``shown`` (int64): the weight with which the row was last emitted.
    - ``v*``: the measures as last emitted.
    - With ordered trees, ``chain`` (uint16), the collision id of the group, and per stored extreme
      ``e{end}_{component}``.
    - If idle groups are evicted, ``time`` (int64), the newest event time of the group's rows.
    """

    schema: pa.Schema
    offsets: tuple[int, ...]
    digits: int

    @staticmethod
    def of(
        output: pa.Schema,
        keys: int,
        accumulators: Sequence[Accumulator],
        ends: Sequence[Sequence[pa.DataType]],
        *,
        chained: bool,
        timed: bool = False,
    ) -> Layout:
        """Return the layout of an operator.

        Args:
            output: its output columns, keys first.
            keys: number of keys.
            accumulators: its accumulators.
            ends: per stored extreme, the types of its components.
            chained: whether the operator has ordered trees.
            timed: whether the operator stores the newest event time of each group.
        """
        offsets, digits = [], COUNT_DIGITS
        floats: list[pa.Field] = []
        for i, accumulator in enumerate(accumulators):
            if accumulator.floating:
                offsets.append(-1)
                floats.append(pa.field(f"p{i}", pa.int16()))
                floats.append(pa.field(f"f{i}", pa.list_(pa.int32())))
            else:
                offsets.append(digits)
                digits += accumulator.digits
        columns = list(output)
        remembered = [
            pa.field(f"e{end}_{component}", type_)
            for end, types in enumerate(ends)
            for component, type_ in enumerate(types)
        ]
        fields = [
            pa.field("hash", pa.uint64()),
            pa.field("dead", pa.bool_()),
            *columns[:keys],
            pa.field("fixed", pa.binary(4 * digits)),
            *floats,
            pa.field("shown", pa.int64()),
            *columns[keys:],
            *([pa.field("chain", pa.uint16())] if chained else []),
            *remembered,
            *([pa.field("time", pa.int64())] if timed else []),
        ]
        return Layout(pa.schema(fields), tuple(offsets), digits)
