"""A simple model of the incremental aggregate that computes every version from exact fractions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from substrait_agg.functions.aggregates.accumulators import Accumulator, WeightKind, digits_for
from substrait_agg.operator.common.spec import MeasureSpec, OperatorSpec
from substrait_agg.operator.numeric.delta import MINUS_BIN, NAN_BIN, PLUS_BIN
from substrait_agg.plan.types import FP32, FP64, I64, Type, decimal
from substrait_agg.required import require
from tests.operator.measures_reference import measured
from tests.operator.tasks import hash_of

INT, FLOAT, DECIMAL = 0, 1, 2
SCALE = 4
DECIMAL_SUM, DECIMAL_AVG = decimal(38, SCALE), decimal(38, 6)


@dataclass(frozen=True)
class Row:
    """One weighted input row: a key of (int or None, text or None), and an int, a float, an unscaled decimal."""

    key: tuple[Any, ...]
    values: tuple[int | None, float | None, int | None]
    weight: int


def spec_for(weight: WeightKind, *, keys: int = 2, **sizes: Any) -> OperatorSpec:
    """An operator with every measure over every kind of argument."""
    accumulators = (
        Accumulator("count", INT, 0, 2),
        Accumulator("integer", INT, 64, digits_for(64, weight)),
        Accumulator("count", FLOAT, 0, 2),
        Accumulator("float", FLOAT, 0, 0),
        Accumulator("count", DECIMAL, 0, 2),
        Accumulator("decimal", DECIMAL, 128, digits_for(128, weight)),
    )
    wide = decimal(38, 0)
    measures = (
        _measure("count", None, None, I64),
        _measure("count", None, 0, I64),
        _measure("sum", 1, 0, wide),
        _measure("sum0", 1, 0, wide),
        _measure("avg", 1, 0, I64),
        _measure("avg", 1, 0, FP64),
        _measure("sum", 3, 2, FP64),
        _measure("avg", 3, 2, FP64),
        _measure("avg", 3, 2, FP32),
        _measure("sum", 5, 4, DECIMAL_SUM, SCALE),
        _measure("avg", 5, 4, DECIMAL_AVG, SCALE),
    )
    return OperatorSpec(
        keys=(pa.int64(), pa.string())[:keys],
        accumulators=accumulators,
        measures=measures,
        weight=weight,
        is_global=not keys,
        **sizes,
    )


def _measure(
    kind: Any, total: int | None, count: int | None, type_: Type, scale: int = 0
) -> MeasureSpec:
    accumulators = (count,) if total is None else (total, count)
    options = (("OVERFLOW", "SATURATE"),)
    return MeasureSpec(kind, accumulators, type_, kind, scale, options=options)


# --- rows as they are exchanged without being summed ------------------------------------------


def raw_rows(spec: OperatorSpec, rows: Sequence[Row], spread: int) -> pa.RecordBatch:
    """The rows with their keys, arguments, weights and hashes."""
    ints, floats, units = zip(*(row.values for row in rows), strict=True)
    hashes = [_key_hash(spec, row, spread) for row in rows]
    columns = {
        "__m": pa.array(hashes, pa.int32()),
        "__x": pa.array([7] * len(rows), pa.int32()),
        **{f"k{i}": pa.array([r.key[i] for r in rows], t) for i, t in enumerate(spec.keys)},
        "x0": pa.array(ints, pa.int64()),
        "x1": pa.array(floats, pa.float64()),
        "x2": pa.array(
            [None if u is None else Decimal(f"{u}e-{SCALE}") for u in units],
            pa.decimal128(38, SCALE),
        ),
    }
    if spec.weight != "append_only":
        columns["__weight"] = pa.array([r.weight for r in rows], pa.int64())
    return pa.RecordBatch.from_pydict(columns)


def _key_hash(spec: OperatorSpec, row: Row, spread: int) -> int:
    return hash_of(row.key, spread) if spec.keys else 0


# --- partial sums, row by row ----------------------------------------------------------------


def partial_sums(spec: OperatorSpec, rows: Sequence[Row], spread: int) -> pa.RecordBatch:
    """One delta row per input row; keys share `spread` different hashes.

    Arbitrary weights are multiplied in halves of 16 bits if one of them is large, as on Spark.
    """
    kind = spec.weight
    if kind == "weighted" and all(abs(row.weight) <= 16 for row in rows):
        kind = "changelog"
    columns: dict[str, list[Any]] = {"__m": [], "__x": [], "__rows": []}
    if spec.weight == "weighted":
        columns["__large"] = []
    for row in rows:
        cells: dict[str, Any] = {
            "__m": _key_hash(spec, row, spread),
            "__x": 7 if spec.keys else 0,
            "__rows": 1,
        }
        if spec.weight == "weighted":
            cells["__large"] = 1 if abs(row.weight) > 16 else None
        cells |= {f"k{i}": v for i, v in enumerate(row.key[: len(spec.keys)])}
        cells |= _coefficients("w", [1], row.weight, kind)
        for i, accumulator in enumerate(spec.accumulators):
            cells |= _cells(i, accumulator, row, kind)
        for name in cells.keys() - columns.keys():
            columns[name] = [None] * (len(columns["__m"]) - 1)
        for name, column in columns.items():
            column.append(cells.get(name))
    types = {"__m": pa.int32(), "__x": pa.int32()}
    types |= {f"k{i}": t for i, t in enumerate(spec.keys)}
    arrays = {n: pa.array(c, types.get(n, pa.int64())) for n, c in columns.items()}
    return pa.RecordBatch.from_pydict(arrays)


def _limbs(value: int, count: int, size: int) -> list[int]:
    mask = (1 << size) - 1
    return [
        *((value >> (size * j)) & mask for j in range(count - 1)),
        value >> (size * (count - 1)),
    ]


def _coefficients(
    prefix: str, values: Sequence[int], weight: int, kind: WeightKind
) -> dict[str, int]:
    weights = _limbs(weight, 4, 16) if kind == "weighted" else [weight]
    result = [0] * (len(values) + len(weights) - 1)
    for i, value in enumerate(values):
        for j, part in enumerate(weights):
            result[i + j] += value * part
    prefix += "h" if kind == "weighted" else ""
    return {f"{prefix}_{k}": total for k, total in enumerate(result)}


def _cells(
    ordinal: int, accumulator: Accumulator, row: Row, kind: WeightKind
) -> dict[str, int | None]:
    size = 16 if kind == "weighted" else 32
    value = row.values[require(accumulator.argument)]
    prefix = f"a{ordinal}"
    if accumulator.kind == "count":
        cells = _coefficients(prefix, [1], row.weight, kind)
        return dict(cells) if value is not None else dict.fromkeys(cells, 0)
    if accumulator.kind == "integer":
        return dict(
            _coefficients(prefix, _limbs(int(value or 0), 64 // size, size), row.weight, kind)
        )
    if accumulator.kind == "float":
        bin_, limbs = _float_limbs(value, size)
        return {f"b{ordinal}": bin_, **_coefficients(prefix, limbs, row.weight, kind)}
    cells = {}
    unscaled = abs(int(value or 0))
    for part in range(3):
        digits = (unscaled // 10 ** (18 * part)) % 10**18 * (-1 if (value or 0) < 0 else 1)
        cells |= _coefficients(
            f"{prefix}_{part}", _limbs(digits, 64 // size, size), row.weight, kind
        )
    return dict(cells)


def _float_limbs(value: float | None, size: int) -> tuple[int | None, list[int]]:
    count = 128 // size
    if value is None:
        return None, [0] * count
    special = {"nan": NAN_BIN, "inf": PLUS_BIN, "-inf": MINUS_BIN}.get(str(value))
    bin_ = special if special is not None else _bin(value)
    scaled = Fraction(1) if special is not None else Fraction(value) / Fraction(2) ** (64 * bin_)
    units = scaled * 2**96
    assert units.denominator == 1
    return bin_ or None, _limbs(int(units), count, size)


def _bin(value: float) -> int:
    return 0 if value == 0 else math.floor((math.frexp(abs(value))[1] - 1 + 32) / 64)


# --- what must be shown -----------------------------------------------------------------------


def expected(spec: OperatorSpec, rows: Iterable[Row]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """The view over all rows so far, from scratch: key -> values of the measures of `spec_for`."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(row.key[: len(spec.keys)], []).append(row)
    if spec.is_global:
        groups.setdefault((), [])
    return {
        key: _values(members)
        for key, members in groups.items()
        if spec.is_global or sum(r.weight for r in members) > 0
    }


def _values(rows: list[Row]) -> tuple[Any, ...]:
    def value(kind: str, argument: int, output: str) -> Any:
        pairs = [(_argument(row, argument), row.weight) for row in rows]
        return measured(kind, pairs, output, saturate=True)

    return (
        max(0, sum(row.weight for row in rows)),
        value("count", INT, "i64"),
        value("sum", INT, "decimal<38,0>"),
        value("sum0", INT, "decimal<38,0>"),
        value("avg", INT, "i64"),
        value("avg", INT, "fp64"),
        value("sum", FLOAT, "fp64"),
        value("avg", FLOAT, "fp64"),
        value("avg", FLOAT, "fp32"),
        value("sum", DECIMAL, f"decimal<38,{SCALE}>"),
        value("avg", DECIMAL, "decimal<38,6>"),
    )


def _argument(row: Row, argument: int) -> Any:
    value = row.values[argument]
    return value if argument != DECIMAL or value is None else Fraction(int(value), 10**SCALE)
