"""The decode stage: from a Substrait plan of any release to the typed relation tree of `plan.model`.

Read `source` and `message` (bytes to messages), then `decoder`, which calls the ``read_*`` modules
in the order of `units`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from substrait_agg.deferred_imports import deferred

if TYPE_CHECKING:
    from substrait_agg.plan.decoder import decode
    from substrait_agg.plan.model import DecodedPlan
    from substrait_agg.plan.node import MAX_DEPTH, MAX_VALUES
    from substrait_agg.plan.source import MAX_PLAN_BYTES

__all__ = ["MAX_DEPTH", "MAX_PLAN_BYTES", "MAX_VALUES", "DecodedPlan", "decode"]

__getattr__ = deferred(
    __name__,
    {
        "MAX_DEPTH": "node",
        "MAX_PLAN_BYTES": "source",
        "MAX_VALUES": "node",
        "DecodedPlan": "model",
        "decode": "decoder",
    },
)
