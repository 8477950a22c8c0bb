"""Random aggregates over all kinds of measures, and random changes of their input."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from substrait_agg.bind.bound import BoundMeasure, Call, Column, Expr, MeasureSort
from substrait_agg.flow.graph.aggregate import Aggregate
from substrait_agg.flow.graph.measures import state_layout
from substrait_agg.flow.graph.nodes import Port
from substrait_agg.functions.aggregates.accumulators import WeightKind
from substrait_agg.functions.aggregates.kinds import MeasureKind
from substrait_agg.plan.types import BOOL, FP32, FP64, I32, I64, INTEGER_BITS, STRING, Type, decimal
from tests.operator.measures_changes import Stream
from tests.operator.measures_columns import (
    ANYTHING,
    COLUMNS,
    KEYS,
    LIST,
    NAMES,
    NUMBERS,
    ORDERED,
    REAL,
    ROUNDINGS,
    WHOLE,
    column,
)

__all__ = [
    "COLUMNS",
    "DRAWS",
    "KEYS",
    "NAMES",
    "DrawnMeasures",
    "Stream",
    "column",
    "node_of",
    "random_node",
]

# --- measures ------------------------------------------------------------------------------------


class DrawnMeasures:
    """Draws the parts of one measure."""

    def __init__(self, random: Random, path: str) -> None:
        self.random = random
        self.path = path

    def one(self, names: tuple[str, ...]) -> Column:
        """A column among `names`."""
        return column(self.random.choice(names))

    def chance(self, share: float) -> bool:
        """True that often."""
        return self.random.random() < share

    def condition(self) -> Expr | None:
        """A filter, or none."""
        flag = self.one(("flag", "sure_flag"))
        present = Call(BOOL.as_nullable(False), "is_not_null", (column("text"),))
        forms: tuple[Expr | None, ...] = (
            None, None, None, flag, Call(flag.type, "not", (flag,)), present,
            Call(BOOL, "and", (flag, present)),
        )  # fmt: skip
        return self.random.choice(forms)

    def order(self, least: int, names: tuple[str, ...] = ORDERED) -> tuple[MeasureSort, ...]:
        """Sort keys, `least` or more, each expression once."""
        count = self.random.choice((least, least, 1, 2))
        chosen = self.random.sample(names, min(len(names), max(least, count)))
        return tuple(MeasureSort(column(n), self.chance(0.5), self.chance(0.5)) for n in chosen)

    def own_order(self, value: Column) -> tuple[MeasureSort, ...]:
        """Descending order of the value itself, or none."""
        return (MeasureSort(value, True, self.chance(0.5)),) if self.chance(0.3) else ()

    def make(
        self, kind: MeasureKind, arguments: tuple[Expr, ...], type_: Type, **more: Any
    ) -> BoundMeasure:
        """The measure."""
        options = tuple(sorted(dict(more.pop("options", ())).items()))
        condition = self.condition()
        return BoundMeasure(
            kind, arguments, condition, type_, kind, self.path, options=options, **more
        )


def _count(d: DrawnMeasures) -> BoundMeasure:
    names = d.random.sample(ANYTHING, d.random.choice((0, 1, 1, 2)))
    distinct = bool(names) and d.chance(0.5)
    return d.make("count", tuple(map(column, names)), I64.as_nullable(False), distinct=distinct)


def _summed(type_: Type) -> Type:
    if type_.kind == "decimal":
        return decimal(38, type_.params[1])
    return Type("u64") if type_.kind.startswith("u") else I64


def _sum(kind: MeasureKind) -> Callable[[DrawnMeasures], BoundMeasure]:
    def draw(d: DrawnMeasures) -> BoundMeasure:
        value = d.one(NUMBERS)
        wide = decimal(38, value.type.params[1] if value.type.kind == "decimal" else 2)
        own = value.type if kind == "avg" else _summed(value.type)
        types = (
            [FP64, FP32] if value.type.kind in ("fp32", "fp64") else [own, own, wide, FP64, FP32]
        )
        overflow = d.random.choice(("SATURATE", "SILENT"))
        return d.make(
            kind, (value,), d.random.choice(types).as_nullable(kind != "sum0"),
            distinct=d.chance(0.3), options={"OVERFLOW": overflow},
        )  # fmt: skip

    return draw


def _condition(kind: MeasureKind) -> Callable[[DrawnMeasures], BoundMeasure]:
    return lambda d: d.make(kind, (d.one(("flag", "sure_flag")),), BOOL)


def _moment(kind: MeasureKind, arguments: int) -> Callable[[DrawnMeasures], BoundMeasure]:
    def draw(d: DrawnMeasures) -> BoundMeasure:
        values = tuple(d.one((*REAL, "y")) for _ in range(arguments))
        options = {"ROUNDING": d.random.choice(ROUNDINGS)}
        narrow = kind != "corr" and all(v.type.kind == "fp32" for v in values)
        if kind != "corr":
            options["DISTRIBUTION"] = d.random.choice(("SAMPLE", "POPULATION"))
        type_ = FP32 if narrow else FP64
        return d.make(kind, values, type_, distinct=d.chance(0.3), options=options)

    return draw


def _of_value(kind: MeasureKind, names: tuple[str, ...]) -> Callable[[DrawnMeasures], BoundMeasure]:
    def draw(d: DrawnMeasures) -> BoundMeasure:
        value = d.one(names)
        type_ = value.type.as_nullable()
        if d.chance(0.3):
            type_ = {"i32": I64, "i64": FP64, "u64": decimal(38, 0)}.get(type_.kind, type_)
        return d.make(kind, (value,), type_)

    return draw


def _ranked(kind: MeasureKind, names: tuple[str, ...]) -> Callable[[DrawnMeasures], BoundMeasure]:
    def draw(d: DrawnMeasures) -> BoundMeasure:
        value = d.one(names)
        distinct, mode = d.chance(0.3), d.random.choice(ROUNDINGS)
        if kind == "median":
            return d.make(
                kind,
                (value,),
                value.type.as_nullable(),
                distinct=distinct,
                options={"ROUNDING": mode},
            )
        type_ = value.type.as_nullable()
        if kind == "percentile_cont" and value.type.kind in INTEGER_BITS:
            type_ = FP64
        fraction = d.random.choice((0.0, 0.1, 0.3, 0.5, 0.75, 1.0))
        order = d.own_order(value) if kind == "percentile_disc" else ()
        return d.make(kind, (value,), type_, distinct=distinct, order=order, constants=(fraction,))

    return draw


def _quantile(d: DrawnMeasures) -> BoundMeasure:
    value = d.one((*NUMBERS, "day"))
    type_ = Type("list", True, (), (value.type.as_nullable(False),))
    boundaries = d.random.choice(("NEITHER", "MINIMUM", "MAXIMUM", "BOTH"))
    options = {"BOUNDARIES": boundaries, "ROUNDING": d.random.choice(ROUNDINGS)}
    return d.make(
        "quantile", (value,), type_, distinct=d.chance(0.3), order=d.own_order(value), options=options,
        constants=(d.random.choice((None, 0, 1, 2, 4)),), keep_nulls=True,
    )  # fmt: skip


def _product(d: DrawnMeasures) -> BoundMeasure:
    value = d.one((*WHOLE, *REAL))
    options = {"OVERFLOW": d.random.choice(("SATURATE", "SILENT"))}
    options |= {"EMPTY": "NULL"} if d.chance(0.3) else {}
    return d.make(
        "product", (value,), value.type.as_nullable(), distinct=d.chance(0.3), options=options
    )


def _bits(kind: MeasureKind) -> Callable[[DrawnMeasures], BoundMeasure]:
    def draw(d: DrawnMeasures) -> BoundMeasure:
        value = d.one(WHOLE)
        distinct = kind == "bit_xor" and d.chance(0.4)
        return d.make(kind, (value,), value.type.as_nullable(), distinct=distinct)

    return draw


def _list(d: DrawnMeasures) -> BoundMeasure:
    value = d.one(ANYTHING)
    distinct, keep = d.chance(0.3), d.chance(0.5)
    order = d.order(0)
    if distinct:
        # The sort keys of distinct values are among the arguments.
        order = d.own_order(value)
    type_ = Type("list", keep, (), (value.type if keep else value.type.as_nullable(False),))
    options = {"EMPTY": "NULL"} if keep else {}
    return d.make(
        "list", (value,), type_, distinct=distinct, order=order, options=options, keep_nulls=keep
    )


def _text(d: DrawnMeasures) -> BoundMeasure:
    value = d.one(("text", "sure_text"))
    distinct = d.chance(0.3)
    order = d.own_order(value) if distinct else d.order(0)
    separator = d.random.choice(("", ",", "--"))
    return d.make(
        "string_agg", (value,), STRING, distinct=distinct, order=order, constants=(separator,)
    )


def _place(kind: MeasureKind) -> Callable[[DrawnMeasures], BoundMeasure]:
    def draw(d: DrawnMeasures) -> BoundMeasure:
        value = d.one(ANYTHING)
        nth = kind == "nth_value"
        distinct = nth and d.chance(0.3)
        order = d.own_order(value) if distinct else d.order(0 if nth else 1)
        constants = (d.random.choice((1, 2, 3)),) if nth else ()
        return d.make(
            kind, (value,), value.type.as_nullable(), distinct=distinct, order=order,
            constants=constants, keep_nulls=d.chance(0.6),
        )  # fmt: skip

    return draw


def _arrival(kind: MeasureKind) -> Callable[[DrawnMeasures], BoundMeasure]:
    def draw(d: DrawnMeasures) -> BoundMeasure:
        value = d.one(ANYTHING)
        return d.make(kind, (value,), value.type.as_nullable(), keep_nulls=d.chance(0.6))

    return draw


def _by(kind: MeasureKind) -> Callable[[DrawnMeasures], BoundMeasure]:
    def draw(d: DrawnMeasures) -> BoundMeasure:
        value = d.one(ANYTHING)
        options = {"IGNORE_NULLS": "TRUE"} if d.chance(0.4) else {}
        by = d.one(ORDERED)
        return d.make(kind, (value, by), value.type.as_nullable(), options=options)

    return draw


def _union(d: DrawnMeasures) -> BoundMeasure:
    return d.make("list_union_distinct", (column("list"),), LIST.as_nullable(False))


def _key(d: DrawnMeasures) -> BoundMeasure:
    return BoundMeasure("surrogate_key", (), None, I64.as_nullable(False), "key", d.path)


DRAWS: dict[MeasureKind, Callable[[DrawnMeasures], BoundMeasure]] = {
    "count": _count,
    **{kind: _sum(kind) for kind in ("sum", "sum0", "avg")},
    **{kind: _condition(kind) for kind in ("bool_and", "bool_or")},
    "variance": _moment("variance", 1),
    "std_dev": _moment("std_dev", 1),
    "covar": _moment("covar", 2),
    "corr": _moment("corr", 2),
    "min": _of_value("min", ORDERED),
    "max": _of_value("max", ORDERED),
    "any_value": _of_value("any_value", ANYTHING),
    "mode": _of_value("mode", ORDERED),
    "median": _ranked("median", NUMBERS),
    "percentile_cont": _ranked("percentile_cont", NUMBERS),
    "percentile_disc": _ranked("percentile_disc", ORDERED),
    "quantile": _quantile,
    "product": _product,
    **{kind: _bits(kind) for kind in ("bit_and", "bit_or", "bit_xor")},
    "list": _list,
    "string_agg": _text,
    **{kind: _place(kind) for kind in ("first_value", "last_value", "nth_value")},
    **{kind: _arrival(kind) for kind in ("first", "last")},
    **{kind: _by(kind) for kind in ("min_by", "max_by")},
    "list_union_distinct": _union,
    "surrogate_key": _key,
}  # fmt: skip
"""Draws a measure of each kind but ``grouping``, as binding would hand it over."""


# --- aggregates ----------------------------------------------------------------------------------


def node_of(
    keys: tuple[str, ...],
    measures: tuple[BoundMeasure, ...],
    weight: WeightKind,
    sets: tuple[tuple[int, ...], ...] = (),
) -> Aggregate:
    """The operator of an aggregate over the columns `COLUMNS`."""
    arguments, groups = state_layout(measures, weight)
    index = (I32.as_nullable(False),) if sets else ()
    return Aggregate(
        id=0,
        inputs=(Port((), tuple(map(column, keys)), arguments, sets),),
        groups=groups,
        types=(*(COLUMNS[k] for k in keys), *(m.type for m in measures), *index),
        weight=weight,
        path="relations[0]",
    )


def random_node(random: Random, weight: WeightKind) -> Aggregate:
    """An aggregate of up to six measures, some of them over the same values and filters."""
    usual = random.random() < 0.5
    keys = tuple(random.sample(KEYS[:3] if usual else KEYS, random.choice((0, 1, 2, 3))))
    sets: tuple[tuple[int, ...], ...] = ()
    if random.random() < 0.35:
        count = random.choice((2, 2, 3, 4))
        sets = tuple(
            tuple(i for i in range(len(keys)) if random.random() < 0.6) for _ in range(count)
        )
    kinds = tuple(DRAWS)
    measures = [
        DRAWS[random.choice(kinds)](DrawnMeasures(random, f"m{i}"))
        for i in range(random.choice((1, 2, 3, 6)))
    ]
    if random.random() < 0.2:
        bits = tuple(random.randrange(8) for _ in sets or (0,))
        type_ = I64.as_nullable(False)
        measures.append(BoundMeasure("grouping", (), None, type_, "grouping", "m9", constants=bits))
    return node_of(keys, tuple(measures), weight, sets)
