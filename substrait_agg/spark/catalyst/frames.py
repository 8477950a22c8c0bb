"""Plan DataFrames."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame

from substrait_agg.checked_plan import Plan
from substrait_agg.errors import UsageError
from substrait_agg.spark.catalyst.analyzed.refusals import What
from substrait_agg.spark.catalyst.plan import NotMaintained, plan_of_tree

_ANSI = "spark.sql.ansi.enabled"
_CODES: Mapping[What, str] = {
    "relation": "DATAFRAME_RELATION",
    "expression": "DATAFRAME_EXPRESSION",
    "type": "DATAFRAME_TYPE",
    "changing": "DATAFRAME_EXPRESSION",
    "function": "DATAFRAME_EXPRESSION",
}


def plan_of_frame(frame: DataFrame) -> Plan:
    """Return the plan of a DataFrame of a classic session, with the sources of its tables.

    Raises:
        UsageError: DATAFRAME_SETTING without ANSI mode; DATAFRAME_RELATION, DATAFRAME_EXPRESSION or
            DATAFRAME_TYPE for what cannot be maintained.
    """
    spark = frame.sparkSession
    if spark.conf.get(_ANSI, "true") != "true":
        raise UsageError(
            "DATAFRAME_SETTING",
            f"{_ANSI} is false, so overflows and bad casts give other values than in a plan",
            help=f"set {_ANSI} to true",
        )
    try:
        planned = plan_of_tree(spark, frame._jdf.queryExecution().analyzed())
    except NotMaintained as error:
        first, *others = error.refusals
        also = "".join(f"; also: {refusal.message}" for refusal in others)
        message = f"the DataFrame cannot be turned into a plan: {first.message}{also}"
        raise UsageError(_CODES[first.what], message, help=first.help) from error
    return Plan("", json.dumps(planned.message), sources=planned.sources)
