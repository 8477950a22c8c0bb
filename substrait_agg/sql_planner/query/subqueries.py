"""Refuse subqueries that DataFusion plans as joins with other rows.

A subquery that is a value must have at most one row: DataFusion joins all its rows. If a subquery refers to the outer
query, DataFusion moves a condition such as ``u.k = t.k`` out of the subquery and joins what is left. Above an aggregate without
keys, a window function or OFFSET, this is another query: they would see the rows of all outer rows at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from itertools import pairwise
from typing import Any

from substrait_agg.sql_planner.query.logical_plans import relation_lines
from substrait_agg.sql_planner.query.tokens import QueryText

_MARKER = re.compile(r"(EXISTS |\bIN )?\(<subquery>\)")
_BEFORE_IN = re.compile(r"\(<subquery>\) (?:NOT )?IN \(<subquery>\)")
_BLOCK = "Subquery:"
_OUTER = "outer_ref("
_WHOLE = re.compile(
    r"WindowAggr: |DistinctOn: |Limit: skip=[1-9]|Aggregate: groupBy=\[\[(?:ROLLUP|CUBE|GROUPING SETS) \("
)
"""Relations that depend on all rows of their input."""
_ONE_ROW = re.compile(r"Aggregate: groupBy=\[\[\]\]")
"""An aggregate that has a row without input. DataFusion adds this row to the join of a scalar subquery or of LATERAL."""


_AT_MOST_ONE = re.compile(
    r"Aggregate: groupBy=\[\[\]\]|Limit: skip=\d+, fetch=[01]$|EmptyRelation: rows=[01]"
)
"""Relations of at most one row."""
_OF_ITS_INPUT = re.compile(r"Projection: |SubqueryAlias: |Sort: |Filter: |Distinct:|Limit: ")
"""Relations without more rows than their input."""


class _Kind(Enum):
    """Where a subquery is."""

    CONDITION = auto()
    SCALAR = auto()
    LATERAL = auto()


def check_subqueries(logical: Any, query: QueryText) -> None:
    """Refuse subqueries whose rows DataFusion would change.

    Args:
        logical: the logical plan before it was optimized.
        query: the query.

    Raises:
        SqlRefused: SQL_NOT_PLANNED.
    """
    blocks = list(_blocks(relation_lines(logical, query)))
    lost = any(_is_lost(*block) for block in blocks)
    if not lost and any(_may_repeat(*block) for block in blocks):
        place = next((b for a, b in pairwise(query.tokens) if a.text == "(" and b.is_word("select")), query.tokens[0])  # fmt: skip
        message = "a subquery that is a value may have several rows, which would be joined"
        help = (
            "select an aggregate such as max(y), or add LIMIT 1; write IN to compare with all rows"
        )
        raise query.refused_token("SQL_NOT_PLANNED", place, message, help)
    if lost:
        place = next((t for t in query.tokens if t.is_word("exists", "in", "lateral")), query.tokens[0])  # fmt: skip
        message = "a subquery refers to the outer query below an aggregate without keys, a window function or OFFSET, which cannot be planned as a join"
        help = "compare with a scalar subquery, x = (SELECT max(y) ...) or (SELECT count(*) ...) > 0, or join a subquery without such references"
        raise query.refused_token("SQL_NOT_PLANNED", place, message, help)


def _blocks(lines: Sequence[str]) -> Iterator[tuple[Sequence[str], _Kind]]:
    """Yield the lines of each subquery, without those of subqueries inside of it."""
    for number, line in enumerate(lines):
        depth = _indent(line) + 2
        inner = _deeper(lines, number)
        starts = [n for n in inner if _indent(lines[n]) == depth and lines[n].strip() == _BLOCK]
        markers = list(_MARKER.finditer(line))
        kinds = [_Kind.CONDITION if marker[1] else _Kind.SCALAR for marker in markers]
        if len(kinds) != len(starts) or _BEFORE_IN.search(line):
            kinds = [_Kind.CONDITION if markers else _Kind.LATERAL] * len(starts)
        for start, kind in zip(starts, kinds, strict=True):
            yield _own_lines(lines, start), kind


def _own_lines(lines: Sequence[str], start: int) -> Sequence[str]:
    inner = _deeper(lines, start)
    nested = {n for b in inner if lines[b].strip() == _BLOCK for n in _deeper(lines, b)}
    return [lines[n] for n in inner if n not in nested]


def _is_lost(lines: Sequence[str], kind: _Kind) -> bool:
    """Return whether a condition on the outer query is below a relation that must not lose it."""
    for number, line in enumerate(lines):
        inner = [lines[n] for n in _deeper(lines, number)]
        loses = _WHOLE.search(line) is not None
        if kind is _Kind.CONDITION:
            loses |= _ONE_ROW.search(line) is not None
        elif kind is _Kind.LATERAL and line.strip().startswith("Filter: "):
            loses |= any(map(_ONE_ROW.search, inner))  # HAVING
        if loses and any(_OUTER in below for below in inner):
            return True
    return False


def _may_repeat(lines: Sequence[str], kind: _Kind) -> bool:
    """Return whether a value is selected from several rows. DataFusion checks those that refer to the outer query."""
    if kind is not _Kind.SCALAR or any(_OUTER in line for line in lines):
        return False
    for line in map(str.strip, lines):
        if _AT_MOST_ONE.match(line):
            return False
        if line != _BLOCK and not _OF_ITS_INPUT.match(line):
            return True
    return False


def _deeper(lines: Sequence[str], number: int) -> range:
    """Return the numbers of the lines of the inputs of a relation, given by its line."""
    end = number + 1
    while end < len(lines) and _indent(lines[end]) > _indent(lines[number]):
        end += 1
    return range(number + 1, end)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
