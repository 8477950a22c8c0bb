"""Check the demo: compare every value with TPC-H query 1 by DuckDB over the surviving rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

MAX_DIGITS = 76

# TPC-H query 1 as in the plan. DuckDB's averages are floats, so the query computes exact sums and
# counts instead.
QUERY = """
SELECT l_returnflag, l_linestatus,
    sum(l_quantity) AS sum_qty,
    sum(l_extendedprice) AS sum_base_price,
    sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
    sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
    sum(l_discount) AS sum_disc,
    count(*) AS count_order
FROM lineitem
WHERE l_shipdate <= DATE '1998-08-03'
GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus
"""
AVERAGES = {"avg_qty": "sum_qty", "avg_price": "sum_base_price", "avg_disc": "sum_disc"}
"""Column of the plan that is an average -> its sum."""


@dataclass(frozen=True, slots=True)
class ColumnCheck:
    """The comparison of a column of the view: its differences as (row, view, DuckDB)."""

    name: str
    different: tuple[tuple[int, object, object], ...]

    @property
    def ok(self) -> bool:
        """Whether every value is equal."""
        return not self.different


def expected(connection: Any, schema: Any) -> dict[str, list[Any]]:
    """Run query 1 over the table ``lineitem`` of a DuckDB connection.

    An average is the exact sum divided by the count, rounded once, half away from zero, to the
    scale of the view's column.

    Returns:
        Values by column of the view's `schema`.
    """
    cursor = connection.execute(QUERY)
    names = [column[0] for column in cursor.description]
    rows = cursor.fetchall()
    values = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    for name, total in AVERAGES.items():
        scale = schema.field(name).type.scale
        pairs = zip(values[total], values["count_order"], strict=True)
        values[name] = [rounded_quotient(s, n, scale) for s, n in pairs]
    return {name: values[name] for name in schema.names}


def rounded_quotient(total: Decimal, count: int, scale: int) -> Decimal:
    """Return the exact quotient, rounded once, half away from zero."""
    with localcontext() as context:
        context.prec = MAX_DIGITS
        unit = Decimal(1).scaleb(-scale)
        # Integer division of the doubled quotient rounds only once.
        twice = abs(total) * 2 * Decimal(10) ** scale
        units = (twice + count) // (2 * count)
        return (units * unit).copy_sign(total)


def compare(
    found: Mapping[str, Sequence[Any]], wanted: Mapping[str, Sequence[Any]]
) -> list[ColumnCheck]:
    """Compare every column of the view, value by value.

    A missing or surplus row is a difference.
    """
    return [
        ColumnCheck(
            name,
            tuple(
                (row, a, b)
                for row, (a, b) in enumerate(_padded(found[name], values))
                if type(a) is not type(b) or a != b
            ),
        )
        for name, values in wanted.items()
    ]


def _padded(found: Sequence[Any], wanted: Sequence[Any]) -> list[tuple[Any, Any]]:
    size = max(len(found), len(wanted))
    return [
        (found[i] if i < len(found) else None, wanted[i] if i < len(wanted) else None)
        for i in range(size)
    ]


def changes_add_up(changes: Any, rows: Sequence[tuple[Any, ...]]) -> bool:
    """Return whether the changes of all versions consolidate to exactly the rows of the view."""
    weights: dict[tuple[Any, ...], int] = {}
    for *row, _version, weight in zip(*(c.to_pylist() for c in changes.columns), strict=True):
        weights[tuple(row)] = weights.get(tuple(row), 0) + weight
    for shown in rows:
        weights[shown] = weights.get(shown, 0) - 1
    return not any(weights.values())
