"""Runs Substrait aggregation plans incrementally: rows with weights in, exact changes out.

Importing this package imports neither pyspark nor pyarrow and starts no JVM; `run` does, when it is called.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from substrait_agg.api import (
    Plan,
    explain,
    from_dataframe,
    load,
    open_state,
    open_view,
    run,
    sql,
    sql_views,
    validate,
)
from substrait_agg.errors import (
    CommitConflict,
    InputRefused,
    PlanRefused,
    PlanUnreadable,
    RunFailed,
    SqlRefused,
    StateRefused,
    SubstraitAggError,
    UsageError,
)
from substrait_agg.problems import Problem
from substrait_agg.report.report import Report

if TYPE_CHECKING:
    from substrait_agg.changes.outputs.spark_sink import SparkSink
    from substrait_agg.commit.view.view import View
    from substrait_agg.functions.aggregates.user import (
        AdditiveMeasure,
        GroupedValues,
        OrderedMeasure,
        register_measure,
        unregister_measure,
    )
    from substrait_agg.metrics.listener import RunListener
    from substrait_agg.plan.types import Type
    from substrait_agg.scripts.pipeline import PlanSet
    from substrait_agg.tools.state import State

__version__ = "0.1.0"

__all__ = [
    "AdditiveMeasure",
    "CommitConflict",
    "GroupedValues",
    "InputRefused",
    "OrderedMeasure",
    "Plan",
    "PlanRefused",
    "PlanSet",
    "PlanUnreadable",
    "Problem",
    "Report",
    "RunFailed",
    "RunListener",
    "SparkSink",
    "SqlRefused",
    "State",
    "StateRefused",
    "SubstraitAggError",
    "Type",
    "UsageError",
    "View",
    "__version__",
    "explain",
    "from_dataframe",
    "load",
    "open_state",
    "open_view",
    "register_measure",
    "run",
    "sql",
    "sql_views",
    "unregister_measure",
    "validate",
]

_MEASURES = "substrait_agg.functions.aggregates.user"
_LATER = {
    **dict.fromkeys(
        (
            "AdditiveMeasure",
            "GroupedValues",
            "OrderedMeasure",
            "register_measure",
            "unregister_measure",
        ),
        _MEASURES,
    ),
    "RunListener": "substrait_agg.metrics.listener",
    "SparkSink": "substrait_agg.changes.outputs.spark_sink",
    "PlanSet": "substrait_agg.scripts.pipeline",
    "State": "substrait_agg.tools.state",
    "Type": "substrait_agg.plan.types",
    "View": "substrait_agg.commit.view.view",
}
"""Names that are imported when they are first used: they need more than most programs do."""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_LATER[name]), name)
    globals()[name] = value
    return value
