"""Look up the names that a plan declares for its functions."""

from __future__ import annotations

from substrait_agg.plan.messages.node import MessageNode


def function_names(root: MessageNode) -> dict[int, str]:
    """Return names such as ``sum:dec`` by anchor, as a ``Plan`` message declares them.

    The first declaration of an anchor counts. The fields stay marked as unread by the decoder.
    """
    names: dict[int, str] = {}
    for declaration in root.values.get("extensions", ()):
        function = declaration.values.get("extension_function")
        if function is not None:
            anchor = function.values.get("function_anchor", 0)
            names.setdefault(anchor, function.values.get("name", ""))
    return names
