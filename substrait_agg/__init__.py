"""Runs Substrait aggregation plans incrementally: rows with weights in, exact changes out.

Importing this package imports neither pyspark nor pyarrow and starts no JVM; `run` does, when it is called.
"""

from __future__ import annotations

from substrait_agg.api import Plan, Report, explain, load, open_view, run, validate
from substrait_agg.errors import (
    CommitConflict,
    InputRefused,
    PlanRefused,
    PlanUnreadable,
    RunFailed,
    StateRefused,
    SubstraitAggError,
    UsageError,
)
from substrait_agg.problems import Problem

__version__ = "0.1.0"

__all__ = [
    "CommitConflict",
    "InputRefused",
    "Plan",
    "PlanRefused",
    "PlanUnreadable",
    "Problem",
    "Report",
    "RunFailed",
    "StateRefused",
    "SubstraitAggError",
    "UsageError",
    "__version__",
    "explain",
    "load",
    "open_view",
    "run",
    "validate",
]
