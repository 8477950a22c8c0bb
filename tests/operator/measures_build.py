"""Measures and rows by name, for tests of exact results."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from substrait_agg.bind.bound import BoundMeasure, Call, Expr, MeasureSort
from substrait_agg.functions.aggregates.accumulators import WeightKind
from substrait_agg.functions.aggregates.kinds import MeasureKind
from substrait_agg.plan.types import BOOL, FP64, I64, STRING, Type, decimal
from tests.operator.measures_draw import COLUMNS, column, node_of
from tests.operator.measures_reference import Row
from tests.operator.measures_world import World
from tests.operator.tasks import SPREAD

_SURE: dict[str, Any] = {"sure_long": 0, "sure_double": 0.0, "sure_flag": True, "sure_text": ""}
_TYPES: dict[str, Type] = {
    "count": I64.as_nullable(False),
    "variance": FP64,
    "std_dev": FP64,
    "covar": FP64,
    "corr": FP64,
    "bool_and": BOOL,
    "bool_or": BOOL,
    "string_agg": STRING,
    "surrogate_key": I64.as_nullable(False),
}


def row(weight: int = 1, **values: Any) -> Row:
    """A row; columns left out are null, or zero where they cannot be."""
    return Row(tuple(values.get(name, _SURE.get(name)) for name in COLUMNS), weight)


def gone(*rows: Row) -> list[Row]:
    """The deletions of rows."""
    return [Row(r.values, -r.weight) for r in rows]


def measure(
    kind: MeasureKind,
    *names: str,
    type_: Type | None = None,
    filter_: Expr | None = None,
    order: tuple[str, ...] = (),
    **more: Any,
) -> BoundMeasure:
    """A measure over columns; `order` names columns, with a minus sign where descending."""
    arguments = tuple(map(column, names))
    if type_ is None:
        type_ = _TYPES.get(kind) or arguments[0].type.as_nullable(kind != "sum0")
        if kind == "list":
            type_ = Type("list", False, (), (arguments[0].type,))
        if kind in ("sum", "sum0", "avg") and type_.kind == "i64":
            type_ = decimal(38, 0, type_.nullable)
    sorts = tuple(MeasureSort(column(o.lstrip("-")), o.startswith("-"), False) for o in order)
    return BoundMeasure(kind, arguments, filter_, type_, kind, "m", order=sorts, **more)


def world(
    folder: Path,
    *measures: BoundMeasure,
    keys: tuple[str, ...] = ("k0",),
    weight: WeightKind = "changelog",
    sets: tuple[tuple[int, ...], ...] = (),
    spread: int = SPREAD,
    **sizes: int,
) -> World:
    """An operator with these measures in its own folder."""
    return World(node_of(keys, measures, weight, sets), folder, spread, **sizes)


FLAG = column("flag")
OTHER = Call(BOOL, "not", (FLAG,))

EVERYTHING: tuple[BoundMeasure, ...] = (
    measure("count"),
    measure("sum", "long"),
    measure("min", "long"),
    measure("max", "text"),
    measure("list", "long"),
    measure("count", "text", distinct=True),
    measure("median", "long"),
    measure("min_by", "text", "long"),
    measure("first_value", "text", order=("-long",)),
)
"""Measures of every class of state."""


class Saved:
    """The snapshot of a world; restoring it is a restart after a crash."""

    def __init__(self, world: World) -> None:
        self.now, self.rows, self.log = world.now, list(world.rows), Counter(world.log)

    def restore(self, world: World) -> None:
        """Return to the snapshot."""
        world.now, world.rows, world.log = self.now, list(self.rows), Counter(self.log)


def changes_of(world: World) -> list[tuple[int, Any]]:
    """The changes of the last batch: (weight, first measure) in the order written."""
    return [(r["__weight"], r.get("v0")) for r in written_by(world)]


def written_by(world: World) -> list[dict[str, Any]]:
    """The rows of the change files of the last batch."""
    files = [c for r in world.results for c in r.changes]
    tables = [
        pq.ParquetFile(world.folder / "changes" / f.name).read(use_threads=False) for f in files
    ]
    return [r for t in tables for r in t.to_pylist()]
