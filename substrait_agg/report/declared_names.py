"""The names that a plan gives the functions it calls: what a bare anchor is shown with."""

from __future__ import annotations

from substrait_agg.plan.node import Node


def function_names(root: Node) -> dict[int, str]:
    """Names such as ``sum:dec`` by anchor, as a ``Plan`` message declares them; of two, the first counts.

    Takes nothing from the message: what decoding has not read stays unread.
    """
    names: dict[int, str] = {}
    for declaration in root.values.get("extensions", ()):
        function = declaration.values.get("extension_function")
        if function is not None:
            anchor = function.values.get("function_anchor", 0)
            names.setdefault(anchor, function.values.get("name", ""))
    return names
