"""Bind a decoded plan to the function tables.

A `DecodedPlan` comes in. A `BoundPlan`, or all problems of the plan at once, goes out. Read `bound`
first (the result), then `plan`, `aggregates` and `expressions`. `joins` writes joins in their normal
form. `profiles` and `readings` handle the differences between producers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from substrait_agg.deferred_imports import defer

if TYPE_CHECKING:
    from substrait_agg.bind.bound import BoundPlan
    from substrait_agg.bind.plan.binder import bind, untyped_tables

__all__ = ["BoundPlan", "bind", "untyped_tables"]

__getattr__ = defer(
    __name__, {"bind": "plan.binder", "untyped_tables": "plan.binder", "BoundPlan": "bound"}
)
