"""List the relations that are bound and checked, but have no operator yet."""

from __future__ import annotations

from substrait_agg.bind.context import BindContext

NOT_RUN: frozenset[str] = frozenset(
    {"join", "cross", "hash_join", "merge_join", "nested_loop_join"}
)
"""Kinds of relation that binding understands and lowering does not."""


def refuse_pending(kind: str, path: str, context: BindContext) -> None:
    """Report a relation that has no operator."""
    if kind in NOT_RUN:
        context.report("RELATION_NOT_SUPPORTED", path, kind=kind)
