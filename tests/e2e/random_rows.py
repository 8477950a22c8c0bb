"""Random weighted rows over every type of key and value, edges preferred, and the plan and model over them."""

from __future__ import annotations

import math
import random
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.e2e.plans import Builder, Json, aggregate, column, kind_of, read
from tests.e2e.rows import Bag, plain
from tests.operator.measures_reference import measured

KEYS: dict[str, tuple[str, list[Any]]] = {
    "ki": ("i32", [None, 0, -1, 2**31 - 1]),
    "kl": ("i64", [None, 7, -(2**63)]),
    "ks": ("string", [None, "", "a", "A ", "\0\u00e4\U0001f600"]),
    "kd": ("decimal<38,4>", [None, Decimal("0.0000"), Decimal(f"{10**38 - 1}e-4")]),
    "kt": ("date", [None, date(1, 1, 1), date(2024, 2, 29)]),
    "kf": ("fp64", [None, math.nan, 0.0, -0.0, 1e-320]),
    "kb": ("bool", [None, True, False]),
}
"""Key columns: type, values."""

VALUES: dict[str, str] = {
    "b": "i8", "h": "i16", "i": "i32", "l": "i64", "f": "fp32", "d": "fp64", "m": "decimal<38,10>", "n": "decimal<9,2>"
}  # fmt: skip

OUTPUTS: dict[str, tuple[str, str]] = {
    "i8": ("i64", "i8"),
    "i16": ("i64", "i16"),
    "i32": ("i64", "fp64"),
    "i64": ("i64", "i64"),
    "fp32": ("fp64", "fp32"),
    "fp64": ("fp64", "fp64"),
    "decimal<38,10>": ("decimal<38,10>", "decimal<38,8>"),
    "decimal<9,2>": ("decimal<19,2>", "decimal<13,6>"),
}
"""Type of a value -> types of its sum and of its average."""

FLOATS = [
    0.0, -0.0, 1.0, -1.5, 0.1, 5e-324, -5e-324, 2.2250738585072014e-308, 1e308, -1e308, 1.7976931348623157e308,
    1e20, -1e20, 2.0**-32, 2.0**32, -(2.0**32 - 2**-20), math.nan, math.inf, -math.inf,
]  # fmt: skip
WORDS = {
    1: ["insert", "update_postimage", "+I", "+U", "c", "r", "u"],
    -1: ["delete", "update_preimage", "-D", "-U", "d"],
}
HUGE = [2**58, -(2**58), 2**40 + 1, -(2**33)]


@dataclass(frozen=True)
class RandomMeasure:
    """A measure over a value column, counted where the column ``flag`` is true if `filtered`."""

    kind: str
    value: str
    filtered: bool

    @property
    def output(self) -> str:
        """Type of its result."""
        if self.kind == "count":
            return "i64!"
        total, average = OUTPUTS[VALUES[self.value]]
        return average if self.kind == "avg" else total + ("!" if self.kind == "sum0" else "")


@dataclass(frozen=True)
class Case:
    """A grouping, its measures, and how rows carry their weights (one, op, weight)."""

    keys: tuple[str, ...]
    measures: tuple[RandomMeasure, ...]
    weights: str

    def plan(self) -> str:
        """The plan as JSON."""
        builder = Builder()
        relation = self.relation(builder)
        shown = [*self.keys, "rows", *(f"m{i}" for i in range(len(self.measures)))]
        return builder.plan(relation, *shown)

    def relation(self, builder: Builder) -> Json:
        """The aggregate over the table t."""
        columns = {k: KEYS[k][0] for k in self.keys} | VALUES | {"flag": "bool"}
        names = list(columns)
        measures = [builder.measure("count", output="i64!")]
        for m in self.measures:
            argument = (column(names.index(m.value)), VALUES[m.value])
            where = column(names.index("flag")) if m.filtered else None
            measures.append(
                builder.measure(m.kind, argument, output=m.output, where=where, overflow="SATURATE")
            )
        keys = [column(i) for i in range(len(self.keys))]
        return aggregate(read("t", columns), keys, measures)

    def spec(self, folder: object) -> str:
        """The source."""
        how = {"one": "", "op": "&op=change", "weight": "&weight=change"}[self.weights]
        return f"parquet:{folder}?batch-files=1{how}"

    def expected(self, rows: Sequence[dict[str, Any]]) -> Bag:
        """The view over all rows."""
        return Counter(tuple(map(plain, row)) for row in self.rows(rows))

    def rows(self, rows: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
        """The rows of the view: keys, number of rows, measures."""
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in rows:
            groups.setdefault(tuple(plain(row[k]) for k in self.keys), []).append(row)
        if not self.keys:
            return [tuple(self._values(list(rows)))]
        return [
            (*(members[0][k] for k in self.keys), *self._values(members))
            for members in groups.values()
            if sum(row["weight"] for row in members) > 0
        ]

    def _values(self, rows: list[dict[str, Any]]) -> list[Any]:
        values: list[Any] = [max(0, sum(row["weight"] for row in rows))]
        for m in self.measures:
            taken = [r for r in rows if r["flag"] or not m.filtered]
            pairs = [(r[m.value], r["weight"]) for r in taken]
            values.append(measured(m.kind, pairs, m.output, saturate=True))
        return values


@dataclass(frozen=True)
class Nested:
    """An aggregate over the rows of another: by its first key, counts and sums of every column computed there."""

    inner: Case

    @property
    def weights(self) -> str:
        """How rows carry their weights."""
        return self.inner.weights

    def plan(self) -> str:
        """The plan as JSON."""
        builder = Builder()
        source = self.inner.relation(builder)
        keys = len(self.inner.keys)
        measures = [builder.measure("count", output="i64!")]
        for i, type_ in enumerate(self._types(), keys):
            output = self._total(type_)
            for kind in ("sum", "count"):
                declared = output if kind == "sum" else "i64!"
                measures.append(
                    builder.measure(kind, (column(i), type_), output=declared, overflow="SATURATE")
                )
        names = [*self.inner.keys[:1], *(f"o{i}" for i in range(len(measures)))]
        return builder.plan(aggregate(source, [column(0)][:keys], measures), *names)

    def _types(self) -> list[str]:
        return ["i64!", *(m.output for m in self.inner.measures)]

    def _total(self, type_: str) -> str:
        if kind_of(type_) == "decimal":
            return f"decimal<38,{type_.rstrip('!>').rpartition(',')[2]}>"
        return "fp64" if kind_of(type_).startswith("fp") else "i64"

    def expected(self, rows: Sequence[dict[str, Any]]) -> Bag:
        """The view over all rows."""
        keys = len(self.inner.keys)
        groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {} if keys else {(): []}
        for row in self.inner.rows(rows):
            groups.setdefault(tuple(map(plain, row[:keys][:1])), []).append(row)
        return Counter((*key, *self._values(members, keys)) for key, members in groups.items())

    def _values(self, rows: list[tuple[Any, ...]], keys: int) -> list[Any]:
        values: list[Any] = [len(rows)]
        for i, type_ in enumerate(self._types(), keys):
            pairs = [(row[i], 1) for row in rows]
            values.append(plain(measured("sum", pairs, self._total(type_), saturate=True)))
            values.append(measured("count", pairs, "i64"))
        return values


def random_case(rng: random.Random, weights: str) -> Case:
    """Up to three keys; measures over some of the value columns, so that they share state."""
    keys = tuple(rng.sample(list(KEYS), rng.randint(0, 3)))
    values = rng.sample(list(VALUES), 3)
    measures = [
        RandomMeasure(kind, value, rng.random() < 0.4)
        for value in values
        for kind in rng.sample(["count", "sum", "sum0", "avg"], 3)
    ]
    return Case(keys, tuple(measures), weights)


def random_rows(rng: random.Random, case: Case, count: int) -> list[dict[str, Any]]:
    """Rows with ``weight``: 1; 1 or -1; or anything."""
    rows = []
    for _ in range(count):
        row = {key: rng.choice(KEYS[key][1][:4]) for key in case.keys}
        row |= {name: _value(rng, kind) for name, kind in VALUES.items()}
        row["flag"] = rng.choice([True, True, False, None])
        row["weight"] = _weight(rng, case.weights)
        rows.append(row)
    return rows


def retracted(rng: random.Random, rows: list[dict[str, Any]], case: Case) -> list[dict[str, Any]]:
    """Some of the rows with the opposite weight."""
    if case.weights == "one" or not rows:
        return []
    return [{**row, "weight": -row["weight"]} for row in rng.sample(rows, len(rows) // 2)]


def _weight(rng: random.Random, weights: str) -> int:
    if weights == "one":
        return 1
    if weights == "op":
        return rng.choice([1, 1, 1, -1])
    return rng.choice(HUGE) if rng.random() < 0.03 else rng.randint(-2, 4)


def _value(rng: random.Random, type_: str) -> Any:
    kind = kind_of(type_)
    if rng.random() < 0.2:
        return None
    if kind in ("fp32", "fp64"):
        return _float(rng, single=kind == "fp32")
    if kind == "decimal":
        precision, scale = (int(p) for p in type_.rstrip(">").partition("<")[2].split(","))
        most = 10**precision - 1
        unscaled = rng.choice([rng.randint(-500, 500), rng.randint(-most, most), most, -most])
        return Decimal(f"{unscaled}e-{scale}")
    limit = 1 << (int(kind[1:]) - 1)
    return rng.choice([rng.randint(-5, 5), rng.randint(-limit, limit - 1), limit - 1, -limit])


def _float(rng: random.Random, *, single: bool) -> float:
    kind = rng.randrange(3)
    value = rng.choice(FLOATS) if kind == 0 else rng.uniform(-1000, 1000)
    if kind == 1:
        value = struct.unpack("d", rng.randbytes(8))[0]
    return _single(value) if single else value


def _single(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


ARROW = {
    "bool": pa.bool_(), "string": pa.string(), "date": pa.date32(), "i8": pa.int8(), "i16": pa.int16(),
    "i32": pa.int32(), "i64": pa.int64(), "fp32": pa.float32(), "fp64": pa.float64(),
}  # fmt: skip


def arrow_type(text: str) -> pa.DataType:
    """The Arrow type of a type as text."""
    if kind_of(text) != "decimal":
        return ARROW[kind_of(text)]
    return pa.decimal128(*(int(p) for p in text.rstrip(">!").partition("<")[2].split(",")))


def change_table(rng: random.Random, case: Case, rows: list[dict[str, Any]]) -> pa.Table:
    """The rows as a source file."""
    types = {k: KEYS[k][0] for k in case.keys} | VALUES | {"flag": "bool"}
    columns = {n: pa.array([r[n] for r in rows], arrow_type(t)) for n, t in types.items()}
    if case.weights == "op":
        words = [rng.choice(WORDS[r["weight"]]) for r in rows]
        columns["change"] = pa.array(words, pa.string())
    if case.weights == "weight":
        columns["change"] = pa.array([r["weight"] for r in rows], pa.int64())
    return pa.table(columns)
