"""Binding a whole plan: the root relation, its column names, its order, its identity."""

from __future__ import annotations

from substrait_agg.bind.bound import BoundPlan, SortKey
from substrait_agg.bind.context import Context, Opaque, Schema, columns, is_keyable, names_width
from substrait_agg.bind.deep import deep_call
from substrait_agg.bind.fingerprint import fingerprint
from substrait_agg.bind.grouping import addressed_wider
from substrait_agg.bind.profiles import profile_of
from substrait_agg.bind.relations import Order, Ordered, OrderKey, bind_relation, projected
from substrait_agg.bind.walk import index_columns, selected_columns
from substrait_agg.plan.model import DecodedPlan
from substrait_agg.problems import Problems

DIRECTIONS: dict[str, tuple[bool, bool]] = {
    "asc_nulls_first": (False, True),
    "asc_nulls_last": (False, False),
    "desc_nulls_first": (True, True),
    "desc_nulls_last": (True, False),
}
"""Sort direction -> (descending, nulls first)."""


def bind(plan: DecodedPlan, problems: Problems) -> BoundPlan | None:
    """The plan with every expression typed and every function resolved.

    Args:
        plan: as decoded; what its decoding found wrong is already in `problems`.
        problems: takes everything that is wrong with the plan, inputs before what reads them.

    Returns:
        The bound plan, or None when `problems` holds an error.
    """
    return deep_call(_bind, plan, Context(problems, profile_of(plan.producer)))


def _bind(plan: DecodedPlan, context: Context) -> BoundPlan | None:
    if context.profile.grouping_bitmask:
        context.wider = addressed_wider(plan.root)
    ordered = bind_relation(plan.root, context)
    if plan.names is not None:
        ordered = _without_index(ordered, len(plan.names), _names_path(plan), context)
    root = ordered.relation
    sorts = _sorts(ordered.order, context)
    if isinstance(root, Opaque):
        return None
    names = _names(plan.names, root.types, _names_path(plan), context)
    if selected_columns(root) is None:
        _check_rows(root.types, root.path, context)
    if context.problems.errors:
        return None
    identity = fingerprint(root, names, sorts)
    return BoundPlan(root, names, sorts, plan.producer, identity)


def _without_index(ordered: Ordered, names: int, path: str, context: Context) -> Ordered:
    """The relation without the index of its grouping sets, where exactly that column has no name.

    Builders that derive names from keys and measures alone (substrait-python, DuckDB) leave it out.
    """
    root = ordered.relation
    if isinstance(root, Opaque) or names != sum(map(names_width, root.types)) - 1:
        return ordered
    index = index_columns(root)
    if len(index) != 1:
        return ordered
    context.report("GROUPING_INDEX_NOT_NAMED", path)
    kept = [e for o, e in enumerate(columns(root.types)) if o not in index]
    return projected(ordered, tuple(kept), root.path)


def _sorts(order: Order | None, context: Context) -> tuple[SortKey, ...]:
    if order is None:
        return ()
    keys = (_sort_key(key, context) for key in order.keys)
    return tuple(key for key in keys if key is not None)


def _sort_key(key: OrderKey, context: Context) -> SortKey | None:
    direction = DIRECTIONS.get(key.field.direction)
    if direction is None:
        context.report(
            "SORT_DIRECTION_NOT_SUPPORTED", key.field.path, direction=key.field.direction.upper()
        )
        return None
    if key.ordinal is None:
        if key.problem:
            context.report(key.problem, key.field.path)
        return None
    return SortKey(key.ordinal, *direction)


def _names_path(plan: DecodedPlan) -> str:
    return plan.root.path.partition(".input")[0] + ".names"


def _names(
    names: tuple[str, ...] | None, types: Schema, path: str, context: Context
) -> tuple[str, ...]:
    """The top-level column names out of the depth-first list of the root."""
    if names is None:
        made = tuple(f"c{i}" for i in range(len(types)))
        context.report("ROOT_NAMES_MISSING", path, names=", ".join(made))
        return made
    widths = [names_width(t) for t in types]
    if len(names) != sum(widths):
        code = "NAMES_TOP_LEVEL" if len(names) == len(types) else "NAMES_COUNT"
        context.report(code, path, count=len(names), needed=sum(widths))
        return names
    return tuple(names[sum(widths[:i])] for i in range(len(widths)))


def _check_rows(types: Schema, path: str, context: Context) -> None:
    for ordinal, type_ in enumerate(types):
        if not is_keyable(type_):
            context.report("OUTPUT_TYPE_NOT_KEPT", path, ordinal=ordinal, type=type_)
