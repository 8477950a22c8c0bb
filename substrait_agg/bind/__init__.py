"""Bind: a decoded plan and the function tables -> a bound plan, or all its problems at once."""

from __future__ import annotations

from substrait_agg.bind.binder import bind
from substrait_agg.bind.bound import BoundPlan

__all__ = ["BoundPlan", "bind"]
