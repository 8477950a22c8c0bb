"""What an operator instance needs to know, free of plan and Spark: types, state layout, what each measure reads."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from substrait_agg.bind.bound import BoundMeasure
from substrait_agg.flow.graph import AggregateNode
from substrait_agg.functions.accumulators import (
    DIGIT_BITS,
    Accumulator,
    MeasureKind,
    WeightKind,
)
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import Type
from substrait_agg.state.run import PAGE_ROWS

COUNT_DIGITS = 2
ROW_COUNT = -1  # ordinal that stands for the group's total weight
SLICE_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class MeasureSpec:
    """How a measure's value is made.

    Attributes:
        kind: count, sum, sum0 or avg.
        total: ordinal of the accumulator summed, -1 for counts.
        count: ordinal of the accumulator that counts its contributors (`ROW_COUNT` = all rows).
        scale: decimal digits of the total's unit.
        type: type of the measure's column.
        overflow: ERROR, SATURATE or SILENT.
        label: how an error message names the measure.
    """

    kind: MeasureKind
    total: int
    count: int
    scale: int
    type: Type
    overflow: str
    label: str


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """An incremental aggregate.

    Attributes:
        keys: Arrow types of the grouping columns.
        accumulators: exact numbers kept per group, after its total weight.
        measures: output columns after the keys.
        weight: what is known of the weights of the input.
        multiset: keeps rows with their weights; its changes carry weights other than 1 and -1.
        is_global: no grouping: one group that is always shown.
        page_rows: rows per page of a run.
        slice_rows: rows of input held at once.
    """

    keys: tuple[pa.DataType, ...]
    accumulators: tuple[Accumulator, ...]
    measures: tuple[MeasureSpec, ...]
    weight: WeightKind
    multiset: bool
    is_global: bool
    page_rows: int = PAGE_ROWS
    slice_rows: int = SLICE_ROWS
    layout: Layout = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layout", Layout.of(self))

    @property
    def limb_bits(self) -> int:
        """Distance in bits between the partial sums of one accumulator."""
        return 16 if self.weight == "any" else DIGIT_BITS

    @property
    def output(self) -> pa.Schema:
        """Columns of the operator's changes, without weight: ``k*`` then ``v*``."""
        keys = [pa.field(f"k{i}", t) for i, t in enumerate(self.keys)]
        values = [pa.field(f"v{i}", to_arrow(m.type)) for i, m in enumerate(self.measures)]
        return pa.schema([*keys, *values])


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things stand in a row of the group tree.

    Attributes:
        schema: columns of a run: hash, dead, keys, ``fixed`` (digits of the total weight and of all accumulators
            of fixed size), per float accumulator ``p`` (position of the lowest digit) and ``f`` (its digits),
            ``shown`` (weight with which the row was last emitted), ``v`` (the measures as last emitted).
        offsets: per accumulator its first digit in ``fixed``, -1 for floats; the total weight stands at 0.
        digits: digits in ``fixed``.
    """

    schema: pa.Schema
    offsets: tuple[int, ...]
    digits: int

    @staticmethod
    def of(spec: OperatorSpec) -> Layout:
        """The layout that follows from a spec."""
        offsets, digits = [], COUNT_DIGITS
        floats: list[pa.Field] = []
        for i, accumulator in enumerate(spec.accumulators):
            if accumulator.kind == "float":
                offsets.append(-1)
                floats.append(pa.field(f"p{i}", pa.int16()))
                floats.append(pa.field(f"f{i}", pa.list_(pa.int32())))
            else:
                offsets.append(digits)
                digits += accumulator.digits
        names = [pa.field("hash", pa.uint64()), pa.field("dead", pa.bool_())]
        fixed = [pa.field("fixed", pa.binary(4 * digits))]
        shown = [pa.field("shown", pa.int64())]
        output = list(spec.output)
        count = len(spec.keys)
        columns = [*names, *output[:count], *fixed, *floats, *shown, *output[count:]]
        return Layout(pa.schema(columns), tuple(offsets), digits)


def operator_spec(node: AggregateNode) -> OperatorSpec:
    """The spec of a node of the flow."""
    key_types = node.types[: len(node.keys)]
    measures = tuple(
        MeasureSpec(
            kind=measure.kind,
            total=total,
            count=count,
            scale=_scale(measure, total),
            type=measure.type,
            overflow=measure.overflow,
            label=f"{measure.name} at {measure.path}",
        )
        for measure, (total, count) in zip(node.measures, node.reads, strict=True)
    )
    return OperatorSpec(
        keys=tuple(to_arrow(t) for t in key_types),
        accumulators=node.accumulators,
        measures=measures,
        weight=node.weight,
        multiset=node.multiset,
        is_global=not node.keys,
    )


def _scale(measure: BoundMeasure, total: int) -> int:
    # A count has no unit, whatever it counts.
    if total < 0 or measure.argument is None or measure.argument.type.kind != "decimal":
        return 0
    return measure.argument.type.params[1]
