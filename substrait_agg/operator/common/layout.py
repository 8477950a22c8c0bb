"""Where things stand in a row of the group tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from substrait_agg.functions.aggregates.accumulators import COUNT_DIGITS, Accumulator


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a run of the group tree.

    Attributes:
        schema: hash, dead, keys, ``fixed`` (digits of the total weight and of all accumulators of fixed size), per
            float accumulator ``p`` (position of the lowest digit) and ``f`` (its digits), ``shown`` (weight with which the row
            was last emitted), ``v`` (the measures as last emitted), and where there are ordered trees ``chain`` (tells groups
            with one hash apart in them) and per remembered end of a tree ``e{end}_{component}``; where idle groups are
            forgotten, ``time`` (the newest event time of the group's rows).
        offsets: per accumulator its first digit in ``fixed``, -1 for floats; the total weight stands at 0.
        digits: digits in ``fixed``.
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
        """The layout of an operator.

        Args:
            output: its output columns, keys first.
            keys: number of keys.
            accumulators: what it keeps.
            ends: per remembered end of a tree the types of its components.
            chained: whether it has ordered trees.
            timed: whether it remembers when groups had their last row.
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
