"""Handle plans that ignore the index column of an aggregate with several grouping sets.

Isthmus counted no index column before October 2025, DataFusion none before release 43, and DuckDB
counts none. References to such an aggregate then mean other columns than in the specification: a
project over *w* keys and measures writes its first expression as column *w*, which is the index.
`uncounted_index` finds these aggregates by their readers, and `bind.plan.relations` gives them the
intended columns.

Isthmus also numbered the keys by their columns in the input, independently of their order in the
grouping sets (until August 2026, when it began to write an output mapping for that).
`keys_by_column` finds these aggregates.
"""

from __future__ import annotations

from collections.abc import Iterable

from substrait_agg.bind.readings import aggregate_below
from substrait_agg.plan import model


def uncounted_index(relations: Iterable[object], *, never_counted: bool) -> frozenset[int]:
    """Return identities of the aggregates whose readers do not count the grouping-set index.

    Args:
        relations: all relations of the plan.
        never_counted: whether the producer is known to count no index; the specification's
            numbering then requires evidence.
    """
    aggregates: set[int] = set()
    for node in relations:
        if not isinstance(node, model.ProjectRel):
            continue
        source = aggregate_below(node.input)
        if (
            source is not None
            and len(source.groupings) > 1
            and _not_counted(node, source, never_counted)
        ):
            aggregates.add(id(source))
    return frozenset(aggregates)


def _not_counted(project: model.ProjectRel, source: model.AggregateRel, never: bool) -> bool:
    """Return whether the project numbers its expressions from the column of the index.

    The evidence is an expression that is computed and not used. With the index counted, a mapping
    meant for all expressions contains the index instead of the first one, and leaves the last one
    out.
    """
    if project.emit is None:
        return never
    width, count = len(source.grouping_expressions) + len(source.measures), len(project.expressions)
    emitted, all_ = set(project.emit), set(range(width, width + count))
    highest = max(emitted, default=-1)
    if highest < width or highest >= width + count:
        return False  # nothing refers to the index, or its column is counted
    if never or emitted == all_:
        return True
    # A plain reference is no evidence: a project needs at least one expression.
    computed = any(not isinstance(e, model.FieldRef) for e in project.expressions)
    return emitted >= all_ and computed


def keys_by_column(node: model.AggregateRel) -> tuple[int, ...] | None:
    """Return the ordinals of the keys in the order of their input columns.

    Return None if they already have this order. Also return None if a key is not a column, because
    Isthmus computes such keys in a project below.
    """
    if len(node.groupings) < 2:
        return None
    columns = []
    for key in node.grouping_expressions:
        if not isinstance(key, model.FieldRef) or len(key.steps) != 1:
            return None
        columns.append(key.steps[0])
    order = tuple(sorted(range(len(columns)), key=columns.__getitem__))
    return None if order == tuple(range(len(columns))) else order
