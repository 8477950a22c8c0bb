"""Compute comparisons, tests and choices. NaN equals NaN and is the greatest float; -0.0 is 0.0.

Inside of lists and structs a null equals a null, and comes before all values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.bind.bound import Call
from substrait_agg.evaluation.columns import Numbers, null_unless, per_value
from substrait_agg.evaluation.constants import arrow_type
from substrait_agg.evaluation.kernels import Kernel, KernelArguments, Kernels, first_of
from substrait_agg.state.keys.variable_keys import order_bytes

Compare = Callable[[pa.Array, pa.Array], pa.Array]


def comparable(type_: pa.DataType) -> bool:
    """Return whether values of an Arrow type can be compared here."""
    return not pa.types.is_null(type_)


def alike(call: Call) -> bool:
    """Return whether all arguments have one Arrow type but for nulls of parts, whose values can be compared."""
    first, *others = call.arguments
    type_ = arrow_type(first.type)
    if type_ is None or not comparable(type_):
        return False
    return all(o.type.same_kind(first.type) or arrow_type(o.type) == type_ for o in others)


def _of_one_type(call: Call) -> bool:
    return alike(call) and len({arrow_type(a.type) for a in call.arguments}) == 1


def in_order(column: pa.Array) -> pa.Array:
    """Return values that compare like those of the column in Spark."""
    if pa.types.is_floating(column.type):
        return _float_order(column)
    if pa.types.is_nested(column.type):
        return null_unless(column.is_valid(), order_bytes(column))
    return column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column


def _float_order(column: pa.Array) -> pa.Array:
    """Map floats to integers of the same order."""
    size = column.type.bit_width

    def to_ordered(values: Numbers) -> Numbers:
        """Return integers whose order is that of the floats, NaN last."""
        kind = np.dtype(f"int{size}")
        plain = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
        bits = (plain + np.array(0, values.dtype)).view(kind)
        orders: Numbers = np.where(bits < 0, bits ^ np.iinfo(kind).max, bits)
        return orders

    return per_value(to_ordered, pa.int64() if size == 64 else pa.int32(), column)


def equal(left: pa.Array, right: pa.Array) -> pa.Array:
    """Return whether values are equal in Spark's sense; null where one is null."""
    return pc.equal(in_order(left), in_order(right))


def _to_kernel(compare: Compare) -> Kernel:
    return Kernel(alike, lambda args: compare(in_order(args[0]), in_order(args[1])))


def same(left: pa.Array, right: pa.Array) -> pa.Array:
    """Return whether values are equal, where null equals null."""
    both = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(pc.fill_null(equal(left, right), False), both)


def _between(args: KernelArguments) -> pa.Array:
    x, low, high = map(in_order, args.columns)
    return pc.and_kleene(pc.greater_equal(x, low), pc.less_equal(x, high))


def _truth(expected: bool | None, negated: bool) -> Kernel:
    def compute(args: KernelArguments) -> pa.Array:
        """Return whether each value is true, false or null, as asked."""
        value = args[0] if expected else pc.invert(args[0])
        matches = pc.is_null(args[0]) if expected is None else pc.fill_null(value, False)
        return pc.invert(matches) if negated else matches

    return Kernel(first_of("bool"), compute)


def _extreme(compare: Compare, *, skip_nulls: bool) -> Kernel:
    """Return a kernel of the least or greatest value; of equal values the first."""

    def better(x: pa.Array, y: pa.Array) -> pa.Array:
        """Return the second value where it is more extreme or the first one is null."""
        wins = pc.fill_null(compare(in_order(y), in_order(x)), False)
        return pc.if_else(pc.or_(wins, pc.is_null(x)), y, x)

    def compute(args: KernelArguments) -> pa.Array:
        """Return the extreme of the arguments of each row; null where one is, unless nulls are skipped."""
        extreme = reduce(better, args.columns)
        if skip_nulls:
            return extreme
        return null_unless(reduce(pc.and_, map(pc.is_valid, args.columns)), extreme)

    return Kernel(_of_one_type, compute)


def _nullif(args: KernelArguments) -> pa.Array:
    differs = pc.fill_null(pc.invert(equal(args[0], args[1])), True)
    return null_unless(differs, args[0])


def _float_test(test: Callable[[Numbers], Numbers]) -> Kernel:
    return Kernel(first_of("fp32", "fp64"), lambda args: per_value(test, pa.bool_(), args[0]))


def is_in(value: pa.Array, options: pa.Array) -> pa.Array:
    """Return whether each value is among the options, in three-valued logic."""
    comparable = in_order(options.drop_null())
    contained = pc.is_in(in_order(value), value_set=comparable)
    certain = contained if options.null_count else pa.repeat(pa.scalar(True), len(value))
    return null_unless(pc.and_(certain, pc.is_valid(value)), contained)


_EVERYWHERE = partial(Kernel, lambda _call: True)

COMPARISONS: Kernels = {
    "equal": (_to_kernel(pc.equal),),
    "not_equal": (_to_kernel(pc.not_equal),),
    "lt": (_to_kernel(pc.less),),
    "lte": (_to_kernel(pc.less_equal),),
    "gt": (_to_kernel(pc.greater),),
    "gte": (_to_kernel(pc.greater_equal),),
    "is_distinct_from": (Kernel(alike, lambda args: pc.invert(same(args[0], args[1]))),),
    "is_not_distinct_from": (Kernel(alike, lambda args: same(args[0], args[1])),),
    "between": (Kernel(alike, _between),),
    "is_null": (_EVERYWHERE(lambda args: pc.is_null(args[0])),),
    "is_not_null": (_EVERYWHERE(lambda args: pc.is_valid(args[0])),),
    "is_true": (_truth(expected=True, negated=False),),
    "is_not_true": (_truth(expected=True, negated=True),),
    "is_false": (_truth(expected=False, negated=False),),
    "is_not_false": (_truth(expected=False, negated=True),),
    "is_unknown": (_truth(expected=None, negated=False),),
    "is_not_unknown": (_truth(expected=None, negated=True),),
    "is_nan": (_float_test(np.isnan),),
    "is_finite": (_float_test(np.isfinite),),
    "is_infinite": (_float_test(np.isinf),),
    "nullif": (Kernel(alike, _nullif),),
    "least": (_extreme(pc.less, skip_nulls=False),),
    "greatest": (_extreme(pc.greater, skip_nulls=False),),
    "least_skip_null": (_extreme(pc.less, skip_nulls=True),),
    "greatest_skip_null": (_extreme(pc.greater, skip_nulls=True),),
    "not": (Kernel(first_of("bool"), lambda args: pc.invert(args[0])),),
    "xor": (Kernel(first_of("bool"), lambda args: pc.xor(args[0], args[1])),),
}
