"""The rows of aggregate cases as batches of changes, in three ways with the same result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from substrait_agg.plan.types import Type
from tests.conformance.aggregate_plans import KEY, MARKER, AggregatePlan, table_of
from tests.conformance.arrow_values import column_of
from tests.conformance.cases import Case

WEIGHT = "weight"

Row = tuple[int, bool, tuple[Any, ...], int]
"""Number of the case, marker, a value per slot, weight."""
Batch = list[Row]


def in_one_batch(plan: AggregatePlan) -> list[Batch]:
    """Every row of every case at once."""
    return [[*_markers(plan), *(row for rows in _rows(plan) for row in rows)]]


def row_by_row(plan: AggregatePlan) -> list[Batch]:
    """Of every case one row per batch."""
    cases = _rows(plan)
    longest = max(map(len, cases), default=0)
    batches = [[rows[i] for rows in cases if i < len(rows)] for i in range(longest)]
    return [_markers(plan), *batches]


def with_noise(plan: AggregatePlan) -> list[Batch]:
    """Add rows in other batches and retract them before, with and after the true rows.

    The added rows are null or zero, so that no sum leaves its range in between.
    """
    early, late = _noise(plan, _wild), _noise(plan, _tame)
    rows = [row for case in _rows(plan) for row in case]
    half = len(rows) // 2
    return [
        early,
        [*_retracted(early), *rows[:half], *_markers(plan)],
        [*rows[half:], *late],
        _retracted(late),
    ]


WAYS: dict[str, Callable[[AggregatePlan], list[Batch]]] = {
    "in one batch": in_one_batch,
    "row by row": row_by_row,
    "with noise": with_noise,
}


def tables(plan: AggregatePlan, batches: Sequence[Batch]) -> list[pa.Table]:
    """The batches as Arrow tables with a column of weights."""
    return [_table(plan, batch) for batch in batches]


def _table(plan: AggregatePlan, batch: Batch) -> pa.Table:
    cells = {
        KEY: pa.array([row[0] for row in batch], pa.int32()),
        MARKER: pa.array([row[1] for row in batch], pa.bool_()),
    }
    for i, (type_, _) in enumerate(plan.slots):
        cells[f"v{i}"] = column_of([row[2][i] for row in batch], type_)
    cells[WEIGHT] = pa.array([row[3] for row in batch], pa.int64())
    return pa.table(cells)


def _with_positions(plan: AggregatePlan, case: Case, values: Sequence[Any]) -> tuple[Any, ...]:
    cells: list[Any] = [None] * len(plan.slots)
    for position, value in zip(plan.positions(case), values, strict=True):
        cells[position] = value
    return tuple(cells)


def _rows(plan: AggregatePlan) -> list[Batch]:
    return [
        [(number, True, _with_positions(plan, case, row), 1) for row in table_of(case).rows]
        for number, case in enumerate(plan.cases)
    ]


def _markers(plan: AggregatePlan) -> Batch:
    nothing = (None,) * len(plan.slots)
    return [(n, False, nothing, 1) for n, case in enumerate(plan.cases) if not table_of(case).rows]


def _noise(plan: AggregatePlan, values: Callable[[Case, Type, int], list[Any]]) -> Batch:
    batch: Batch = []
    for number, case in enumerate(plan.cases):
        types = table_of(case).types
        columns = [values(case, type_, i) for i, type_ in enumerate(types)]
        for cells in zip(*columns, strict=True):
            batch.append((number, True, _with_positions(plan, case, cells), 1))
    return batch


def _wild(case: Case, type_: Type, ordinal: int) -> list[Any]:
    """The first value of the case itself, null, and values at the edges."""
    own = [row[ordinal] for row in table_of(case).rows[:1]] or [None]
    edges = [math.nan, -math.inf] if type_.kind in ("fp32", "fp64") else [_zero(type_), None]
    return [*own, *edges, None, _zero(type_)]


def _tame(_case: Case, type_: Type, _ordinal: int) -> list[Any]:
    return [_zero(type_), None, _zero(type_)]


def _zero(type_: Type) -> Any:
    return _ZEROS.get(type_.kind, 0)


_ZEROS: dict[str, Any] = {
    "bool": False,
    "string": "",
    "varchar": "",
    "fixedchar": "",
    "binary": b"",
    "fp32": 0.0,
    "fp64": 0.0,
    "interval_day": (0, 0),
}


def _retracted(batch: Batch) -> Batch:
    return [(number, marker, cells, -weight) for number, marker, cells, weight in batch]
