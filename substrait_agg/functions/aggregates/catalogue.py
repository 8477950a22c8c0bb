"""Define the catalogue of aggregate functions, one row each. Binding and the documents read it."""

from __future__ import annotations

from substrait_agg.functions.aggregates.parts import (
    APPROX,
    ARITHMETIC,
    BOOLEAN,
    DATAFUSION,
    DATETIME,
    DECIMAL,
    DUCKDB,
    GENERIC,
    ISTHMUS,
    LIST,
    STRING,
    UNSIGNED_EXTENSION,
)
from substrait_agg.functions.aggregates.row import (
    AggregateFunction,
    Alias,
    FunctionParameter,
    refuse,
)
from substrait_agg.functions.aggregates.sums import CONDITIONS, COUNTS, GROUPS, SUMS
from substrait_agg.functions.aggregates.types import DECIMAL_OUTPUT
from substrait_agg.functions.aggregates.values import EXTREMES, LISTS, PLACES, RANKS

_ANY = (FunctionParameter("x", optional=True, repeats=True),)
_REGRESSION = (
    "producers differ where x or y is constant: compute it from covar, variance, avg and count"
)
_SKETCH = "its result depends on an undefined approximation"


def _list_known(
    names: str, producers: tuple[str, ...], reason: str
) -> tuple[AggregateFunction, ...]:
    return tuple(
        AggregateFunction(
            name,
            None,
            _ANY,
            producers=producers,
            reason=reason,
            distinct=refuse(reason),
            order_by=refuse(reason),
            filter=refuse(reason),
        )
        for name in names.split()
    )


REFUSED: tuple[AggregateFunction, ...] = (
    *_list_known(
        "regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy",
        (*DATAFUSION, *DUCKDB),
        _REGRESSION,
    ),
    *_list_known("approx_percentile_cont_with_weight", DATAFUSION, _SKETCH),
    *_list_known("approx_top_k reservoir_quantile", DUCKDB, _SKETCH),
    *_list_known("skewness kurtosis kurtosis_pop entropy mad sem histogram", DUCKDB, "it is not implemented"),
    *_list_known("single_value", ISTHMUS, "it is the result of a scalar subquery, which must fail for more than one row"),
)  # fmt: skip


_ROWS: tuple[AggregateFunction, ...] = (
    *COUNTS, *SUMS, *CONDITIONS, *EXTREMES, *RANKS, *LISTS, *PLACES, *GROUPS, *REFUSED,
)  # fmt: skip

AGGREGATES: dict[str, AggregateFunction] = {row.name: row for row in _ROWS}
"""Canonical name -> row."""

_ALIASES: dict[str, Alias] = {a.name: a for row in _ROWS for a in row.aliases}

AGGREGATE_NAMES: dict[str, str] = {name: row.name for row in _ROWS for name in row.names}
"""Every accepted spelling -> canonical name."""

MAINTAINED: tuple[str, ...] = tuple(row.name for row in _ROWS if row.kind is not None)
"""Names of the functions that can be maintained."""

WINDOW_FUNCTIONS = frozenset(
    {"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lead", "lag"}
)
"""Functions of the standard that exist as window functions only."""

RANKINGS = ("row_number", "rank", "dense_rank")
"""Those of them that are computed from the position of a row among others."""

STANDARD_URNS = frozenset(
    {
        ARITHMETIC, DECIMAL, GENERIC, DECIMAL_OUTPUT, APPROX, BOOLEAN, DATETIME, STRING, LIST,
        UNSIGNED_EXTENSION, "functions_comparison", "functions_logarithmic", "functions_rounding",
        "functions_set", "functions_rounding_decimal", "functions_geometry",
    }
)  # fmt: skip
"""Last parts of the URNs and URIs of the standard extension files that declare functions."""


def find(name: str) -> tuple[AggregateFunction, Alias] | None:
    """Return the row of a function by any of its names, and the alias; None for an unknown name."""
    canonical = AGGREGATE_NAMES.get(name)
    if canonical is None:
        return None
    return AGGREGATES[canonical], _ALIASES.get(name, Alias(name))
