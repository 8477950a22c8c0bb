"""The decode stage: from a Substrait plan of any release to the typed relation tree of `plan.model`.

Read `messages.source` and `messages.message` (bytes to messages), then `decoding.decoder`, which
calls the other modules of its folder in the order of `decoding.units`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from substrait_agg.deferred_imports import defer

if TYPE_CHECKING:
    from substrait_agg.plan.decoding.decoder import decode
    from substrait_agg.plan.messages.node import MAX_DEPTH, MAX_VALUES
    from substrait_agg.plan.messages.source import MAX_PLAN_BYTES
    from substrait_agg.plan.model import DecodedPlan

__all__ = ["MAX_DEPTH", "MAX_PLAN_BYTES", "MAX_VALUES", "DecodedPlan", "decode"]

__getattr__ = defer(
    __name__,
    {
        "MAX_DEPTH": "messages.node",
        "MAX_PLAN_BYTES": "messages.source",
        "MAX_VALUES": "messages.node",
        "DecodedPlan": "model",
        "decode": "decoding.decoder",
    },
)
