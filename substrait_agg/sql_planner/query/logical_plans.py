"""Read the logical plans of DataFusion."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from substrait_agg.sql_planner.query.tokens import QueryText

_RELATION = re.compile(
    r"(?:  )*(?:Projection|Filter|WindowAggr|Aggregate|Sort|(?:\w+ )?Join|Repartition|Union|TableScan|EmptyRelation"
    r"|Subquery|SubqueryAlias|Limit|Values|Distinct|DistinctOn|Unnest|RecursiveQuery)(?=[: \n]|$)"
)
"""The beginning of a relation in the text of a logical plan."""


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


def relation_lines(plan: Any, query: QueryText) -> list[str]:
    """Return the relations of a logical plan with those of subqueries, each in one line.

    What the texts of the query contain is left out, as it could look like a relation.

    Args:
        plan: the logical plan.
        query: the query that it was made from.
    """
    shown = str(plan.display_indent())
    values = {t.text[1:-1].replace("''", "'") for t in query.tokens if t.text.startswith("'")}
    for value in sorted(values, key=len, reverse=True):
        shown = shown.replace(f'Utf8("{value}")', 'Utf8("")')
    lines: list[str] = []
    for line in shown.split("\n"):
        if lines and not _RELATION.match(line):
            lines[-1] += f" {line}"  # a name with a line break
        else:
            lines.append(line)
    return lines
