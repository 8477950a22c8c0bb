"""List the aggregate functions of producers that cannot be maintained, with the reason."""

from __future__ import annotations

from substrait_agg.functions.aggregates.parts import DATAFUSION, DUCKDB, ISTHMUS
from substrait_agg.functions.aggregates.row import AggregateFunction, FunctionParameter, refused

_ANY = (FunctionParameter("x", optional=True, repeats=True),)
_REGRESSION = "write it with covar, variance, avg and count in a projection above the aggregate"
_SKETCH = "its result depends on an approximation that is not defined"


def _known(names: str, producers: tuple[str, ...], reason: str) -> tuple[AggregateFunction, ...]:
    return tuple(
        AggregateFunction(
            name,
            None,
            _ANY,
            producers=producers,
            reason=reason,
            distinct=refused(reason),
            order_by=refused(reason),
            filter=refused(reason),
        )
        for name in names.split()
    )


REFUSED: tuple[AggregateFunction, ...] = (
    *_known(
        "regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy",
        (*DATAFUSION, *DUCKDB),
        _REGRESSION,
    ),
    *_known("approx_percentile_cont_with_weight", DATAFUSION, _SKETCH),
    *_known("approx_top_k reservoir_quantile", DUCKDB, _SKETCH),
    *_known("skewness kurtosis kurtosis_pop entropy mad sem histogram", DUCKDB, "it is not part of the catalogue"),
    *_known("single_value", ISTHMUS, "it stands for a scalar subquery, which fails for more than one row"),
)  # fmt: skip
