"""Check the size of a decoded relation before it is bound."""

from __future__ import annotations

from typing import Any

from substrait_agg.bind.context import names_width
from substrait_agg.bind.plan_size import MAX_SETS, check_width, too_large

_WIDE = ("expressions", "measures", "grouping_expressions", "emit", "projection", "sorts", "keys")
"""Attributes of decoded relations that define, name or compare columns."""


def check_written(node: Any) -> None:
    """Refuse a decoded relation that is too wide.

    Raises:
        PlanLimitExceeded: it has more than `MAX_COLUMNS` columns or `MAX_SETS` grouping sets.
    """
    widest = max(len(getattr(node, name, None) or ()) for name in _WIDE)
    check_width(max(widest, sum(map(names_width, getattr(node, "types", ())))), node.path)
    if len(getattr(node, "groupings", ())) > MAX_SETS:
        raise too_large(node.path, f"{MAX_SETS} grouping sets of one aggregate")
