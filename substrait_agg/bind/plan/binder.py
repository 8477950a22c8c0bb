"""Bind a whole plan: the root relation, its column names, its order and its fingerprint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

from substrait_agg.bind.aggregates.grouping_sets import addressed_wider
from substrait_agg.bind.aggregates.order import DIRECTIONS
from substrait_agg.bind.bound import BoundPlan, SortKey
from substrait_agg.bind.context import (
    BindContext,
    Bound,
    Opaque,
    Schema,
    SourceSchemas,
    UntypedTable,
    columns,
    is_keyable,
    schema_of,
)
from substrait_agg.bind.deep_stack import deep_call
from substrait_agg.bind.expressions.function_names import check_field_names
from substrait_agg.bind.expressions.windows import report_misplaced
from substrait_agg.bind.joins.normal_form import normal_form
from substrait_agg.bind.joins.single_rows import joins_without_key
from substrait_agg.bind.plan.fetch import (
    Ordered,
    OrderKey,
    RelationOrder,
    project_order,
    with_hidden_keys,
)
from substrait_agg.bind.plan.fingerprint import Names, fingerprint
from substrait_agg.bind.plan.grouping_index import uncounted_index
from substrait_agg.bind.plan.relations import bind_input, bind_relation
from substrait_agg.bind.plan.window_functions import bind_window
from substrait_agg.bind.plan_size import PlanLimitExceeded
from substrait_agg.bind.profiles import profile_of
from substrait_agg.bind.readings import (
    PlanReading,
    direct_project_in,
    possible_readings,
    reads_of,
    relations_of,
    release_of,
)
from substrait_agg.bind.recursion import misplaced_recursion
from substrait_agg.bind.rewrite import index_columns, selected_columns
from substrait_agg.plan.model import DecodedPlan
from substrait_agg.plan.types import Type, field_name, names_by_column, names_width, struct_fields
from substrait_agg.problems import Problems

CHANGE_COLUMNS: dict[str, str] = {"__version": "their versions", "__weight": "their weights"}
"""The columns that changes have besides those of the view -> what they hold."""


def bind(
    plan: DecodedPlan,
    problems: Problems,
    source_schemas: SourceSchemas | None = None,
) -> BoundPlan | None:
    """Bind a plan: resolve every function and give every expression a type.

    Args:
        plan: the decoded plan; `problems` already contains the problems of its decoding.
        problems: collects all problems of the plan, those of inputs first.
        source_schemas: schemas of the tables whose column types the plan leaves out
            (`untyped_tables`).

    Returns:
        The bound plan, or None if `problems` contains an error.
    """
    profile = profile_of(plan.producer, plan.version)
    readings = possible_readings(plan, profile.direct_project, merges_keys=profile.grouping_bitmask)
    begin = partial(
        BindContext,
        profile=profile,
        source_schemas=source_schemas or {},
        release=release_of(plan.version),
        bind_input=bind_input,
        bind_window=bind_window,
    )
    if len(readings) == 1:
        return _read_as(plan, begin(problems, reading=readings[0]))
    trials = [_try(plan, begin(_copy(problems), reading=reading)) for reading in readings]
    reading, unclear = _choose(trials)
    bound = _read_as(plan, begin(problems, reading=reading))
    if not unclear:
        return bound
    project = direct_project_in(plan)
    path = plan.place if project is None else project.path
    problems.add("PROJECT_UNCLEAR", path, producer=profile.name, version=_release(plan))
    return None


@dataclass(frozen=True, slots=True)
class _Trial:
    """The result of binding with one reading: number of errors, and the fingerprint without any."""

    reading: PlanReading
    errors: int
    identity: str | None


def _choose(trials: list[_Trial]) -> tuple[PlanReading, bool]:
    """Choose the reading with the fewest errors.

    Returns:
        The reading, and whether another one fits too and gives another plan.
    """
    least = min(trial.errors for trial in trials)
    best = [trial for trial in trials if trial.errors == least]
    # The specification merges equal keys. It decides if both readings of the keys fit.
    first: dict[bool, _Trial] = {}
    for trial in best:
        first.setdefault(trial.reading.project_replaces, trial)
    identities = {trial.identity for trial in first.values()}
    return best[0].reading, least == 0 and len(identities) > 1


def _copy(problems: Problems) -> Problems:
    """Copy the problems to try a reading, in lenient mode: the fit does not depend on the mode."""
    return Problems("lenient", list(problems.items))


def _try(plan: DecodedPlan, context: BindContext) -> _Trial:
    before = len(context.problems.errors)
    bound = _read_as(plan, context)
    errors = len(context.problems.errors) - before
    return _Trial(context.reading, errors, None if bound is None else bound.fingerprint)


def _read_as(plan: DecodedPlan, context: BindContext) -> BoundPlan | None:
    bound: BoundPlan | None = deep_call(_bind_plan, plan, context)
    return bound


def untyped_tables(plan: DecodedPlan) -> tuple[UntypedTable, ...]:
    """Return the tables that the plan reads with column names but without column types."""
    untyped = (read for read in reads_of(plan) if read.names and not read.types)
    return tuple(dict.fromkeys((read.table, read.names) for read in untyped))


def _release(plan: DecodedPlan) -> str:
    if plan.version is None or not any(plan.version):
        return "of unknown version"
    return ".".join(map(str, plan.version))


def _bind_plan(plan: DecodedPlan, context: BindContext) -> BoundPlan | None:
    try:
        return _bind(plan, context)
    except PlanLimitExceeded as limit:
        context.problems.add(limit.code, limit.path, **limit.params)
        return None


def _bind(plan: DecodedPlan, context: BindContext) -> BoundPlan | None:
    context = _with_readers(plan, context)
    ordered = bind_relation(plan.root, context)
    context.apart.extend(plan.others)
    while context.apart:
        bind_relation(context.apart.pop(), context)
    report_misplaced(ordered.relation, context)
    _check_keys(ordered.relation, context)
    _check_recursion(ordered.relation, context)
    if plan.names is not None:
        ordered = _without_index(ordered, len(plan.names), _names_path(plan), context)
    types = schema_of(ordered.relation)
    if ordered.order is not None and not ordered.order.used:
        ordered = with_hidden_keys(ordered)
    root = ordered.relation
    sorts = _sorts(ordered.order, context)
    if types is None or isinstance(root, Opaque):
        return None
    if not types:
        context.report("OUTPUT_EMPTY", root.path)
        return None
    names, fields = _names(plan.names, types, _names_path(plan), context)
    if selected_columns(root) is None:
        _check_rows(root.types, root.path, context)
    if context.problems.errors:
        return None
    identity = fingerprint(root, (names, fields), sorts)
    return BoundPlan(root, names, sorts, plan.producer, identity, fields)


def _with_readers(plan: DecodedPlan, context: BindContext) -> BindContext:
    """Return the context with the aggregates whose readers number columns in their own way."""
    relations, profile = relations_of(plan), context.profile
    if profile.grouping_bitmask:
        return replace(context, wider=addressed_wider(relations))
    uncounted = uncounted_index(relations, never_counted=profile.index_never_counted)
    return replace(context, uncounted=uncounted)


def _check_keys(root: Bound, context: BindContext) -> None:
    """Report the joins that have no key in normal form."""
    keyless = () if isinstance(root, Opaque) else joins_without_key(normal_form(root))
    for join in keyless:
        context.report("JOIN_WITHOUT_KEY", join.path)


def _check_recursion(root: Bound, context: BindContext) -> None:
    """Report rows of a last level that are read outside of the step of their recursion."""
    misplaced = None if isinstance(root, Opaque) else misplaced_recursion(root)
    if misplaced is not None:
        reason = f"the rows of recursion {misplaced.recursion} are read outside of its step"
        context.report("RECURSION_NOT_SUPPORTED", misplaced.path, reason=reason)


def _without_index(ordered: Ordered, names: int, path: str, context: BindContext) -> Ordered:
    """Remove the index of the grouping sets if exactly that column has no name.

    Builders that derive names from keys and measures only (substrait-python, DuckDB) leave it out.
    """
    root = ordered.relation
    if isinstance(root, Opaque) or names != sum(map(names_width, root.types)) - 1:
        return ordered
    index = index_columns(root)
    if len(index) != 1:
        return ordered
    context.report("GROUPING_INDEX_NOT_NAMED", path)
    values = [e for o, e in enumerate(columns(root.types)) if o not in index]
    return project_order(ordered, tuple(values), root.path)


def _sorts(order: RelationOrder | None, context: BindContext) -> tuple[SortKey, ...]:
    if order is None:
        return ()
    shown = order.keys
    lost = next((i for i, key in enumerate(shown) if key.ordinal is None and key.problem), None)
    if order.used and lost is not None:
        # The fetch has chosen the rows. Only their order cannot be shown in full.
        context.report("FETCH_ORDER_NOT_SHOWN", shown[lost].field.path)
        shown = shown[:lost]
    keys = (_sort_key(key, context) for key in shown)
    return tuple(key for key in keys if key is not None)


def _sort_key(key: OrderKey, context: BindContext) -> SortKey | None:
    direction = DIRECTIONS.get(key.field.direction)
    if direction is None:  # reported with the sort
        return None
    if key.ordinal is None:
        if key.problem:
            context.report(key.problem, key.field.path)
        return None
    return SortKey(key.ordinal, *direction)


def _names_path(plan: DecodedPlan) -> str:
    return plan.place if plan.names is None else f"{plan.place}.root.names"


def _names(names: tuple[str, ...] | None, types: Schema, path: str, context: BindContext) -> Names:
    """Return the column names and the names of struct fields from the depth-first list of the root."""
    if names is None:
        defaults = tuple(f"c{i}" for i in range(len(types)))
        context.report("ROOT_NAMES_MISSING", path, names=", ".join(defaults))
        return defaults, ()
    widths = [names_width(t) for t in types]
    if len(names) > sum(widths) and any(t.kind == "unknown" for t in types):
        return names, ()  # columns of unknown type may have named fields
    if len(names) != sum(widths):
        code = "NAMES_TOP_LEVEL" if len(names) == len(types) else "NAMES_COUNT"
        context.report(code, path, count=len(names), needed=sum(widths))
        return names, ()
    places = tuple(accumulate(widths[:-1], initial=0)) if widths else ()
    top = tuple(names[place] for place in places)
    check_field_names(top, path, context, places)
    _check_reserved(top, places, path, context)
    columns_of_names = zip(types, names_by_column(names, types), places, strict=True)
    fields = tuple(_fields(t, own, f, path, context) for t, own, f in columns_of_names)
    return top, fields if any(fields) else ()


def _check_reserved(
    names: Sequence[str], places: Sequence[int], path: str, context: BindContext
) -> None:
    """Report columns with the names that changes of the view add to its columns."""
    for ordinal, (name, place) in enumerate(zip(names, places, strict=True)):
        meaning = CHANGE_COLUMNS.get(name.lower())
        if meaning is not None:
            context.report(
                "NAME_RESERVED", f"{path}[{place}]", ordinal=ordinal, name=name, meaning=meaning
            )


def _fields(
    type_: Type, names: Sequence[str], first: int, path: str, context: BindContext
) -> tuple[str, ...]:
    """Return the names of the struct fields inside a column, whose own name is the first.

    The fields of a struct are named by their positions if one has no name or that of another: rows
    are shown as JSON objects, in which one would hide the other.
    """
    shown = list(names)
    for places in struct_fields(type_):
        own = tuple(names[place] for place in places)
        check_field_names(own, path, context, tuple(first + place for place in places))
        if "" in own or len(set(own)) < len(own):
            for ordinal, place in enumerate(places):
                shown[place] = field_name(ordinal)
    return tuple(shown[1:])


def _check_rows(types: Schema, path: str, context: BindContext) -> None:
    for ordinal, type_ in enumerate(types):
        if not is_keyable(type_):
            context.report("OUTPUT_TYPE_NOT_KEPT", path, ordinal=ordinal, type=type_)
