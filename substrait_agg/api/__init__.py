"""Provide the public functions of the package.

`plans` loads, validates and explains plans, `queries` makes them of SQL and DataFrames, `runs` maintains
them, and `checkpoints` opens the results. Functions import the stages that they need when they are
called. So `import substrait_agg` is cheap and does not load Spark.
"""

from __future__ import annotations

from substrait_agg.api.checkpoints import open_state, open_view
from substrait_agg.api.plans import EXPLAIN_FORMATS, Plans, explain, load, validate
from substrait_agg.api.queries import from_dataframe, sql, sql_views
from substrait_agg.api.runs import run
from substrait_agg.checked_plan import Checked, Plan, PlanSource

__all__ = [
    "EXPLAIN_FORMATS",
    "Checked",
    "Plan",
    "PlanSource",
    "Plans",
    "explain",
    "from_dataframe",
    "load",
    "open_state",
    "open_view",
    "run",
    "sql",
    "sql_views",
    "validate",
]
