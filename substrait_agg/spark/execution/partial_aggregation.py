"""Compute exact partial sums on Spark: values split into integers, summed per group in int64.

A value is a sum of *limbs* times powers of 2^32, and each limb is multiplied by the weight of its
row. These are the *coefficients*; `operator.numeric.delta` describes the columns of their sums per
group. Spark raises an error if a sum of coefficients passes 2^63, which takes 2^29 rows of one group
in one batch with weights of 1 and -1.

Where weights may be any int64, the column `LARGE` counts the rows with larger weights than
`small_weight` allows. These rows add nothing, and if there are any, the batch is summed again in
halves (`split_weights`): limbs and weights are powers of 2^16 then, so that limb times weight limb
times row count stays below 2^63. Products of value limbs and weight limbs of the same power are
added per row.

Floats are scaled by the power of two of their bin. They are cut into a whole part and fractions of
32 bits with operations that are exact in binary floating point.

Where keys hardly repeat within a batch, summing before the exchange saves nothing. Then rows are
exchanged as they are (`raw_rows`), and the tasks do the same arithmetic
(`operator.measures.row_partials`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructType

from substrait_agg.commit.tasks.task import MURMUR, OTHER
from substrait_agg.functions.aggregates.accumulators import Accumulator, WeightKind
from substrait_agg.operator.common.names import END, LARGE, POSITION, ROWS, TIME, WEIGHT
from substrait_agg.operator.common.spec import InputSpec
from substrait_agg.operator.numeric.delta import HALVES, MINUS_BIN, NAN_BIN, PART_POWER, PLUS_BIN
from substrait_agg.required import require
from substrait_agg.spark.types.cached_transform import RecordedTransform
from substrait_agg.spark.types.decimals import Params, negative
from substrait_agg.spark.types.keys import normalise, restored_keys, with_normalised_keys

_SMALLEST, _LARGEST = 2.0**-32, 2.0**32  # magnitudes of bin 0
_DECIMAL_PARTS = 3
_LIMBS_AT_ONCE = 3
_SMALL_WEIGHT = 1 << 4


@dataclass(frozen=True, slots=True)
class Summing:
    """How partial sums are computed.

    Attributes:
        place: exchange once more so that every row is in the partition of its key. Otherwise the
            exchange of the aggregation decides; it puts float values of unusual magnitude into
            other partitions.
        split_decimals: sum decimals in parts that cannot overflow, instead of in 38 digits.
        split_weights: multiply in halves of 16 bits, so that weights may be any int64.
        sum_before_sets: sum rows with equal keys before they are repeated for every grouping set.
    """

    place: bool = False
    split_decimals: bool = False
    split_weights: bool = False
    sum_before_sets: bool = False


def can_sum_before_sets(spec: InputSpec) -> bool:
    """Return whether partial sums can be summed again: sums of decimals may be null by overflow."""
    return bool(spec.sets) and all(a.kind != "decimal" for a in spec.accumulators)


def small_weight(spec: InputSpec, summing: Summing) -> int:
    """Return the largest magnitude of a weight that needs no halves.

    Sums of up to 2^25 rows of one group fit. A decimal in 38 digits is not multiplied: it takes the
    sign of the weight.
    """
    decimals = any(a.kind == "decimal" and a.tree is None for a in spec.accumulators)
    return 1 if decimals and not summing.split_decimals else _SMALL_WEIGHT


def _contributions(
    frame: RecordedTransform, spec: InputSpec, summing: Summing
) -> RecordedTransform:
    """Return what each row adds to each partial sum.

    Args:
        frame: columns ``k*``, ``x*`` and, unless all weights are 1, ``__weight``.
        spec: the operator.
        summing: how sums are computed.

    Returns:
        ``k*``, ``b*``, and a column per partial sum under its name. For decimals, which are summed
        in one of two ways, the arguments ``x*`` and the weight.
    """
    floats = _floats(spec)
    kind: WeightKind = spec.weight
    if kind == "weighted":
        frame = _with_checked_weights(frame, small_weight(spec, summing), summing)
        kind = "weighted" if summing.split_weights else "changelog"
    frame = _with_float_limbs(frame, spec, floats, kind)
    keys = [key for key in _keys(spec) if key in frame.columns]
    names = [*keys, *(f"b{i}" for i in floats), *_raw_columns(spec)]
    names += [f"x{a}" for a in _end_arguments(spec) if f"x{a}" not in names]
    names += [name for name in (TIME, LARGE) if name in frame.columns]
    columns = [F.col(name) for name in names]
    if spec.weight != "append_only":
        columns += _to_columns("w", weight_limbs(kind), kind)
    for i, accumulator in enumerate(spec.accumulators):
        if accumulator.kind != "decimal" and accumulator.tree is None:
            columns += _to_columns(f"a{i}", _coefficient_columns(i, accumulator, kind), kind)
    # A frame without columns loses its rows: count(*) alone reads nothing.
    return frame.select(*(columns or [F.lit(True).alias("x")]))


def _with_checked_weights(
    frame: RecordedTransform, most: int, summing: Summing
) -> RecordedTransform:
    """Add `LARGE`, 1 for rows with large weights; without halves, these rows have no weight."""
    small = F.col(WEIGHT).between(-most, most)
    columns = {LARGE: F.when(~small, F.lit(1).cast("bigint"))}
    if not summing.split_weights:
        columns[WEIGHT] = F.when(small, F.col(WEIGHT))
    return frame.withColumns(columns)


def partial_sums(
    frame: RecordedTransform,
    spec: InputSpec,
    partitions: int,
    *,
    decimals: Sequence[Params | None],
    summing: Summing,
) -> RecordedTransform:
    """Return the delta rows of an operator.

    Args:
        frame: columns ``k*``, ``x*`` and, unless all weights are 1, ``__weight``.
        spec: the operator.
        partitions: number of state partitions, a power of two.
        decimals: per argument its precision and scale if it is a decimal.
        summing: how sums are computed.

    Returns:
        ``k*``, ``b*``, ``w_*``, ``lo*``, ``hi*``, ``a*``, ``c*``, the two hashes of the keys, and
        ``__rows`` (number of rows summed) unless it equals the total weight. If weights may be any
        int64, also `LARGE`.
    """
    twice = summing.sum_before_sets and _lacks_sets(frame, spec) and can_sum_before_sets(spec)
    if not twice:
        frame = _with_sets(frame, spec)
    keys = [key for key in _keys(spec) if key in frame.columns]
    types = {k: frame.schema[k].dataType for k in keys}
    frame = with_normalised_keys(_contributions(frame, spec, summing), keys, floats=False)
    bins = [f"b{i}" for i in _floats(spec)]
    ends = [f"x{a}" for a in _end_arguments(spec)]
    not_summed = {*keys, *bins, *_raw_columns(spec), *ends, "x", TIME}
    sums = [F.sum(name).alias(name) for name in frame.columns if name not in not_summed]
    sums.append(F.count(F.lit(1)).alias("w_0" if spec.weight == "append_only" else ROWS))
    if TIME in frame.columns:
        sums.append(F.max(TIME).alias(TIME))
    sums += _end_columns(spec)
    for i, accumulator in enumerate(spec.accumulators):
        if accumulator.kind != "decimal":
            continue
        argument = require(accumulator.argument)
        params = decimals[argument]
        if params is not None:
            sums += _decimal_sums(i, argument, params, spec.weight, summing)
    grouped = frame.group((*keys, *bins), *sums)
    if twice:
        grouped, keys = _summed_again(_with_sets(grouped, spec), spec, bins), _keys(spec)
        types[keys[-1]] = grouped.schema[keys[-1]].dataType
    if not keys:
        zero = F.lit(0).cast("int")
        return grouped.coalesce(1).withColumns({MURMUR: zero, OTHER: zero})
    result = _hash_keys(grouped, keys)
    return restored_keys(_exchange(result, partitions) if summing.place else result, types)


def _summed_again(
    frame: RecordedTransform, spec: InputSpec, bins: Sequence[str]
) -> RecordedTransform:
    """Return the sums of partial sums per key."""
    keys, ends = _keys(spec), tuple(END.values())
    sums = []
    for name in frame.columns:
        if name in keys or name in bins:
            continue
        combine = F.sum
        if name == TIME or name.startswith(END["last"]):
            combine = F.max
        elif name.startswith(ends):
            combine = F.min
        sums.append(combine(name).alias(name))
    return frame.group((*keys, *bins), *sums)


def raw_rows(frame: RecordedTransform, spec: InputSpec, partitions: int) -> RecordedTransform:
    """Return the input rows, each in the partition of its key, with the two hashes of the keys.

    Arguments that the task computes from others (`MaskedArgument`) are left out.
    """
    if spec.masked:
        left_out = {f"x{masked.argument}" for masked in spec.masked}
        frame = frame.select(*(F.col(name) for name in frame.columns if name not in left_out))
    if not spec.keys:
        return unplaced_rows(frame, spec, lambda rows: rows.repartition(1))
    return unplaced_rows(frame, spec, lambda rows: _exchange(rows, partitions))


def unplaced_rows(
    frame: RecordedTransform,
    spec: InputSpec,
    exchange: Callable[[RecordedTransform], RecordedTransform] = lambda rows: rows,
) -> RecordedTransform:
    """Return the input rows with the two hashes of their keys.

    The rows stay in their partitions unless `exchange` moves them.
    """
    keys = _keys(spec)
    frame = _in_one_form(_with_sets(frame, spec), spec)
    if spec.by_arrival:
        frame = frame.withColumns({POSITION: F.monotonically_increasing_id()})
    if not keys:
        zero = F.lit(0).cast("int")
        return exchange(frame).withColumns({MURMUR: zero, OTHER: zero})
    types = {k: frame.schema[k].dataType for k in keys}
    hashed = _hash_keys(with_normalised_keys(frame, keys, floats=True), keys)
    return restored_keys(exchange(hashed), types)


def _in_one_form(frame: RecordedTransform, spec: InputSpec) -> RecordedTransform:
    """Give equal nested values of trees the same form.

    These values are shown, so the result must not depend on which of several equal rows came first.
    """
    read = {f"x{a}" for tree in spec.trees for a in tree.arguments}
    nested = (ArrayType, MapType, StructType)
    changed = {
        f.name: normalise(F.col(f.name), f.dataType)
        for f in frame.schema.fields
        if f.name in read and isinstance(f.dataType, nested)
    }
    return frame.withColumns(changed)


def _hash_keys(frame: RecordedTransform, keys: Sequence[str]) -> RecordedTransform:
    other = F.xxhash64(*keys).bitwiseAND(0x7FFFFFFF).cast("int")
    return frame.withColumns({MURMUR: F.hash(*keys), OTHER: other})


def _exchange(frame: RecordedTransform, partitions: int) -> RecordedTransform:
    return frame.repartitionById(partitions, F.pmod(F.col(MURMUR), F.lit(partitions)))


def _keys(spec: InputSpec) -> list[str]:
    return [f"k{i}" for i in range(len(spec.keys))]


def _raw_columns(spec: InputSpec) -> list[str]:
    """Return the columns from which every batch computes decimal sums."""
    arguments = {require(a.argument) for a in spec.accumulators if a.kind == "decimal"}
    if not arguments:
        return []
    weights = [] if spec.weight == "append_only" else [WEIGHT]
    return [*(f"x{i}" for i in sorted(arguments)), *weights]


def _end_arguments(spec: InputSpec) -> list[int]:
    """Return the arguments whose least or greatest values are read."""
    return sorted({spec.trees[tree].arguments[0] for tree, _ in spec.extremes})


def _end_columns(spec: InputSpec) -> list[Column]:
    """Return the least and greatest values that are read."""
    least_or_greatest = {"first": F.min, "last": F.max}
    ends_read = {(spec.trees[tree].arguments[0], side) for tree, side in spec.extremes}
    return [
        least_or_greatest[side](f"x{a}").alias(f"{END[side]}{a}") for a, side in sorted(ends_read)
    ]


def _floats(spec: InputSpec) -> list[int]:
    return [i for i, a in enumerate(spec.accumulators) if a.kind == "float"]


def weight_limbs(kind: WeightKind) -> list[Column]:
    """Return the weight as limbs: the weight itself, or four limbs of 16 bits."""
    if kind == "append_only":
        return [F.lit(1).cast("bigint")]
    if kind == "changelog":
        return [F.col(WEIGHT)]
    return _limbs(F.col(WEIGHT), 64, 16)


def _limbs(value: Column, bits: int, size: int) -> list[Column]:
    """Split a signed integer of `bits` bits into limbs of `size` bits, lowest first.

    The highest limb carries the sign.
    """
    wide = value.cast("bigint")
    count = -(-bits // size)
    low = [
        _shift(wide, size * j).bitwiseAND(F.lit((1 << size) - 1).cast("bigint"))
        for j in range(count - 1)
    ]
    return [*low, _shift(wide, size * (count - 1))]


def _shift(value: Column, bits: int) -> Column:
    return F.shiftright(value, bits) if bits else value


def _coefficients(values: Sequence[Column], kind: WeightKind) -> list[Column]:
    """Return the products of value limbs and weight limbs, by power."""
    if kind == "append_only":
        return list(values)
    weights = weight_limbs(kind)
    result: list[Column] = []
    for power in range(len(values) + len(weights) - 1):
        terms = [
            values[i] * weights[power - i]
            for i in range(len(values))
            if 0 <= power - i < len(weights)
        ]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        result.append(total)
    return result


def _to_columns(prefix: str, columns: Sequence[Column], kind: WeightKind) -> list[Column]:
    prefix += HALVES if kind == "weighted" else ""
    return [column.alias(f"{prefix}_{j}") for j, column in enumerate(columns)]


def _coefficient_columns(ordinal: int, accumulator: Accumulator, kind: WeightKind) -> list[Column]:
    argument = F.col(f"x{accumulator.argument}")
    make: dict[str, Callable[[], list[Column]]] = {
        "count": lambda: [F.when(argument.isNotNull(), w) for w in weight_limbs(kind)],
        "integer": lambda: _coefficients(
            _limbs(argument, accumulator.bits, _limb_size(kind)), kind
        ),
        "float": lambda: _coefficients(
            [F.col(f"a{ordinal}l{j}") for j in range(_float_limbs(kind))], kind
        ),
    }
    return make[accumulator.kind]()


def _limb_size(kind: WeightKind) -> int:
    return 16 if kind == "weighted" else 32


def _float_limbs(kind: WeightKind) -> int:
    return 128 // _limb_size(kind)


def _decimal_sums(
    ordinal: int, argument: int, params: Params, kind: WeightKind, summing: Summing
) -> list[Column]:
    value = F.col(f"x{argument}")
    if kind == "weighted" and not summing.split_weights:
        kind = "changelog"
    if kind != "weighted" and not summing.split_decimals:
        signed = value if kind == "append_only" else _sign(value, params)
        return [F.try_sum(signed).alias(f"a{ordinal}"), F.count(signed).alias(f"c{ordinal}")]
    sums: list[Column] = []
    for part in range(_DECIMAL_PARTS):
        limbs = _limbs(_decimal_part(value, params[1], part), 64, _limb_size(kind))
        halves = HALVES if kind == "weighted" else ""
        for j, column in enumerate(_coefficients(limbs, kind)):
            sums.append(F.sum(column).alias(f"a{ordinal}_{part}{halves}_{j}"))
    return sums


def _sign(value: Column, params: Params) -> Column:
    weight = F.col(WEIGHT)
    return F.when(weight > 0, value).when(weight < 0, negative(value, params))


def _decimal_part(value: Column, scale: int, part: int) -> Column:
    """Return digits 18 * part to 18 * part + 17 of the unscaled value, with its sign, as int64."""
    unit = PART_POWER * part - scale
    above = unit + PART_POWER
    if above <= 38 - scale:
        value = value % F.lit(Decimal(1).scaleb(above))
    return F.call_function("div", value, F.lit(Decimal(1).scaleb(unit)))


def _with_float_limbs(
    frame: RecordedTransform, spec: InputSpec, floats: Sequence[int], kind: WeightKind
) -> RecordedTransform:
    """Add the bin ``b{i}`` and the limbs ``a{i}l0``, ... (lowest first) of float accumulators i."""
    if not floats:
        return frame
    value = {i: F.col(f"x{spec.accumulators[i].argument}").cast("double") for i in floats}
    frame = frame.withColumns({f"b{i}": _bin(value[i]) for i in floats})
    frame = frame.withColumns({f"r{i}": _scale(value[i], F.col(f"b{i}")) for i in floats})
    size = _limb_size(kind)
    at = _float_limbs(kind) - 32 // size
    frame = frame.withColumns(_cut(floats, lambda i, rest: _whole_part(i, rest, at, size)))
    while at:
        # Each limb depends on the remainder of those above it. Computing more of them at once makes
        # the expressions too long.
        top, at = at, max(0, at - _LIMBS_AT_ONCE)
        frame = frame.withColumns(_cut(floats, partial(_fractions, top=top, low=at, size=size)))
    return frame


def _cut(
    floats: Sequence[int], cut: Callable[[int, Column], dict[str, Column]]
) -> dict[str, Column]:
    """Return the columns cut off the remainders ``r*``, and the new remainders."""
    return {name: column for i in floats for name, column in cut(i, F.col(f"r{i}")).items()}


def _whole_part(ordinal: int, rest: Column, at: int, size: int) -> dict[str, Column]:
    whole = rest.cast("bigint")
    # The whole part may carry a sign and is below 2^33, so its highest limb takes the rest.
    limbs = _limbs(whole, 32, size)
    columns = {f"a{ordinal}l{at + j}": limb for j, limb in enumerate(limbs)}
    return {**columns, f"r{ordinal}": rest - whole}


def _fractions(ordinal: int, rest: Column, *, top: int, low: int, size: int) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for j in range(top - 1, low - 1, -1):
        shifted = rest * 2.0**size
        columns[f"a{ordinal}l{j}"] = shifted.cast("bigint")
        rest = shifted - shifted.cast("bigint")
    return {**columns, f"r{ordinal}": rest}


def _bin(value: Column) -> Column:
    """Return the bin of 64 powers of two that contains a magnitude; null for bin 0 and null."""
    size = F.abs(value)
    usual = ((size >= _SMALLEST) & (size < _LARGEST)) | (size == 0)
    return (
        F.when(value.isNull() | usual, F.lit(None).cast("int"))
        .when(F.isnan(value), F.lit(NAN_BIN))
        .when(value == float("inf"), F.lit(PLUS_BIN))
        .when(value == float("-inf"), F.lit(MINUS_BIN))
        .otherwise(F.floor((F.log2(size) + 32) / 64).cast("int"))
    )


def _scale(value: Column, bin_: Column) -> Column:
    """Return the value in units of its bin; 1 for values that are not finite, which are counted."""
    half = F.pow(F.lit(2.0), bin_ * -32.0)  # twice, so that neither factor overflows
    return (
        F.when(bin_.isNull(), value)
        .when(bin_ >= NAN_BIN, F.when(value.isNotNull(), F.lit(1.0)))
        .otherwise(value * half * half)
    )


# --- grouping sets -----------------------------------------------------------------------------

# Rows with all keys become one row per grouping set: the last key is then the index of the set, and
# the keys outside of the set are null.


def _lacks_sets(frame: RecordedTransform, spec: InputSpec) -> bool:
    """Return whether each row of a frame represents one row per grouping set."""
    return bool(spec.sets) and _set_index(spec) not in frame.columns


def _with_sets(frame: RecordedTransform, spec: InputSpec) -> RecordedTransform:
    """Repeat rows that represent one row per grouping set; return other rows unchanged."""
    if not _lacks_sets(frame, spec):
        return frame
    every = F.array(*(F.lit(index).cast("int") for index in range(len(spec.sets))))
    rows = frame.select(*map(F.col, frame.columns), F.explode(every).alias(_set_index(spec)))
    index, masked = F.col(_set_index(spec)), {}
    # Spark computes this faster than rows from an array of structs.
    for ordinal in range(len(spec.keys) - 1):
        inside = [i for i, keys in enumerate(spec.sets) if ordinal in keys]
        if len(inside) < len(spec.sets):
            masked[f"k{ordinal}"] = F.when(index.isin(inside), F.col(f"k{ordinal}"))
    return rows.withColumns(masked)


def _set_index(spec: InputSpec) -> str:
    return f"k{len(spec.keys) - 1}"
