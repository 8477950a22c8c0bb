"""Find the joins that pair every row of one input with every row of the other."""

from __future__ import annotations

from collections.abc import Iterator

from substrait_agg.bind.bound import (
    BoundAggregate,
    BoundFetch,
    BoundFilter,
    BoundJoin,
    BoundProject,
    BoundRelation,
    BoundRows,
    BoundWindowValues,
)
from substrait_agg.bind.context import is_unknown
from substrait_agg.bind.joins.conjunctions import conjuncts
from substrait_agg.bind.joins.ranges import find_range
from substrait_agg.bind.rewrite import inputs_of, table_reads


def has_one_row(relation: BoundRelation) -> bool:
    """Return whether a relation never has more than one row."""
    match relation:
        case BoundAggregate(keys=keys, sets=sets):
            return not any(sets) and len(sets) < 2 if sets else not keys
        case BoundRows(rows=rows):
            return len(rows) < 2
        case BoundFetch(input=source, count=count, partitions=partitions):
            return (count is not None and count < 2 and not partitions) or has_one_row(source)
        case (
            BoundFilter(input=source) | BoundProject(input=source) | BoundWindowValues(input=source)
        ):
            return has_one_row(source)
        case BoundJoin(left=left, right=right, kind=kind):
            if kind == "full":
                return False
            both = kind in ("inner", "left")
            return has_one_row(left) and (not both or has_one_row(right))
        case _:
            return False


def reads_no_table(relation: BoundRelation) -> bool:
    """Return whether a relation reads nothing but rows of the plan."""
    return not any(True for _ in table_reads(relation))


def joins_without_key(root: BoundRelation) -> Iterator[BoundRelation]:
    """Yield the joins that have no key, no range, and several rows of tables on both sides.

    A join is left out if a condition that decides about its keys has a reported problem.
    """
    waiting, seen = [(root, False)], set[tuple[int, bool]]()
    while waiting:
        relation, doubtful = waiting.pop()
        if (id(relation), doubtful) in seen:
            continue
        seen.add((id(relation), doubtful))
        doubtful = _is_doubtful(relation, doubtful)
        keyless = isinstance(relation, BoundJoin) and not (relation.keys or doubtful)
        # A single join fails for a second row, so without a condition its right input has one row.
        keyless = keyless and not (_is_plain_single(relation) or _has_range(relation))
        if keyless and not any(has_one_row(i) or reads_no_table(i) for i in inputs_of(relation)):
            yield relation
        waiting.extend((source, doubtful) for source in reversed(inputs_of(relation)))


def _has_range(relation: BoundRelation) -> bool:
    return (
        isinstance(relation, BoundJoin)
        and find_range(relation.residual, len(relation.left.types)) is not None
    )


def _is_plain_single(relation: BoundRelation) -> bool:
    return (
        isinstance(relation, BoundJoin) and relation.kind == "single" and relation.residual is None
    )


def _is_doubtful(relation: BoundRelation, above: bool) -> bool:
    """Return whether a condition with a problem decides about keys, of the relation or above it."""
    match relation:
        case BoundFilter(condition=condition):
            return above or is_unknown(*conjuncts(condition))
        case BoundProject():
            return above
        case BoundJoin(residual=residual, kind=kind):
            return (above and kind == "inner") or is_unknown(*conjuncts(residual))
        case _:
            return False
