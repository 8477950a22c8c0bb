"""Tables as weighted multisets of rows that compare as values do: NaN equals NaN, -0.0 equals 0.0."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

import substrait_agg as sa

VERSION, WEIGHT = "__version", "__weight"

Bag = Counter[tuple[Any, ...]]


def plain(value: Any) -> Any:
    """The value in a form that can be counted: NaN as a word, lists and structs as tuples."""
    if isinstance(value, list):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return tuple((k, plain(v)) for k, v in value.items())
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def bag(table: pa.Table) -> Bag:
    """The rows of a view."""
    return Counter(_rows(table))


def view_rows(checkpoint: Path | str, version: int | None = None) -> Bag:
    """The rows of the view of a checkpoint."""
    return bag(sa.open_view(checkpoint).to_arrow(version))


def net(batches: Iterable[Iterable[tuple[tuple[Any, ...], int]]]) -> Bag:
    """The weight of each row of some batches."""
    total: Bag = Counter()
    for batch in batches:
        for row, weight in batch:
            total[row] += weight
    return total


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [[plain(v) for v in column.to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def running_sums(changes: pa.Table, versions: list[int]) -> dict[int, Bag]:
    """Per version the sum of all changes up to it; checks that no sum is ever below zero, retractions coming first."""
    by_version: dict[int, list[tuple[tuple[Any, ...], int]]] = {v: [] for v in versions}
    rows = _rows(changes.drop_columns([VERSION, WEIGHT]))
    weights, at = changes.column(WEIGHT).to_pylist(), changes.column(VERSION).to_pylist()
    for row, weight, version in zip(rows, weights, at, strict=True):
        by_version[version].append((row, weight))
    total: Bag = Counter()
    sums = {}
    for version in versions:
        here = by_version[version]
        signs = [weight > 0 for _, weight in here]
        assert signs == sorted(signs), "a retraction comes after an insertion"
        assert all(weight for _, weight in here), "a change of weight 0"
        for row, weight in here:
            total[row] += weight
            assert total[row] >= 0, f"version {version} retracts a row that is not there: {row}"
        cancelled = {row for row, w in here if w < 0} & {row for row, w in here if w > 0}
        assert not cancelled, f"version {version} retracts and inserts the same row"
        sums[version] = +total
    return sums


def changes_by_version(changes: pa.Table) -> dict[int, Bag]:
    """Per version its changes: row -> weight."""
    result: dict[int, Bag] = {}
    rows = _rows(changes.drop_columns([VERSION, WEIGHT]))
    weights, at = changes.column(WEIGHT).to_pylist(), changes.column(VERSION).to_pylist()
    for row, weight, version in zip(rows, weights, at, strict=True):
        result.setdefault(version, Counter())[row] += weight
    return result
