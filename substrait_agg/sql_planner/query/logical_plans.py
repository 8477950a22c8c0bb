"""Read the logical plans of DataFusion."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any


def below(plan: Any) -> Iterator[Any]:
    """Yield the relations of a logical plan, outer ones first. Subqueries in expressions are not among them."""
    waiting = [plan]
    while waiting:
        relation = waiting.pop()
        yield relation
        waiting.extend(reversed(relation.inputs()))


def subquery_text(plan: Any) -> str:
    """Return the text of a logical plan without the relations that `below` yields."""
    text = str(plan.display_indent())
    for relation in below(plan):
        line = rf"^ *{re.escape(relation.display())}$"
        text = re.sub(line, "", text, count=1, flags=re.MULTILINE)
    return text
