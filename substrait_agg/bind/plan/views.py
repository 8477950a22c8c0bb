"""Put the plans of several views together: which view reads which, in an order to compute them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

from substrait_agg.bind.bound import BoundAggregate, BoundPlan, BoundRead, BoundRelation
from substrait_agg.bind.deep_stack import deep_call
from substrait_agg.bind.plan.fingerprint import digest
from substrait_agg.bind.rewrite import inputs_of, table_reads, with_inputs
from substrait_agg.errors import InputRefused, UsageError

FORMAT = "views-1"


@dataclass(frozen=True, slots=True)
class BoundView:
    """A plan with the name by which other plans read its result.

    Attributes:
        name: the name; empty for the only view of a run of one plan.
        stored: whether its rows are stored; else only other views read them.
    """

    name: str
    plan: BoundPlan
    stored: bool = True


@dataclass(frozen=True, slots=True)
class BoundViews:
    """The views of a run, each after those that it reads as tables with their names."""

    views: tuple[BoundView, ...]

    @property
    def roots(self) -> tuple[BoundRelation, ...]:
        """Return the root relation of each view."""
        return tuple(view.plan.root for view in self.views)

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the views."""
        return frozenset(view.name for view in self.views)

    @property
    def reads(self) -> tuple[BoundRead, ...]:
        """Return the reads of tables that are not views, in the order of the views."""
        reads = (read for root in self.roots for read in table_reads(root))
        return tuple(read for read in reads if view_name(read) not in self.names)

    @property
    def fingerprint(self) -> str:
        """Return what identifies the views: for one plan without a name, its own fingerprint."""
        if len(self.views) == 1 and not self.views[0].name:
            return self.views[0].plan.fingerprint
        contents = sorted([view.name, view.plan.fingerprint, view.stored] for view in self.views)
        return digest([FORMAT, contents])


def one_view(plan: BoundPlan) -> BoundViews:
    """Return the one view of a plan, without a name."""
    return BoundViews((BoundView("", plan),))


def as_views(plan: BoundPlan | BoundViews) -> BoundViews:
    """Return views unchanged, and a plan as one view without a name."""
    return plan if isinstance(plan, BoundViews) else one_view(plan)


def view_name(read: BoundRead) -> str:
    """Return the name of the view that a read refers to."""
    return ".".join(read.table)


def bound_views(
    plans: Mapping[str, BoundPlan],
    temporary: Collection[str] = (),
    sources: Iterable[str] = (),
) -> BoundViews:
    """Return several plans as the views of one run.

    The order depends on the names and reads only, not on the order of `plans`: operators of a
    checkpoint are numbered in this order.

    Args:
        plans: the plans by the name of their view.
        temporary: the views that are not stored.
        sources: names of the tables that have a source.

    Raises:
        UsageError: VIEWS_MISSING, VIEW_NAME_INVALID, VIEW_NAME_TAKEN or VIEW_CYCLE.
        InputRefused: VIEW_COLUMNS_DIFFER.
    """
    _check_names(plans, temporary, sources)
    below = {
        name: sorted({view_name(read) for read in table_reads(plan.root)} & plans.keys())
        for name, plan in sorted(plans.items())
    }
    for name, plan in plans.items():
        for read in table_reads(plan.root):
            if view_name(read) in plans:
                columns_read(read, plans[view_name(read)], name)
    placed = {name: deep_call(_with_paths, plan, name) for name, plan in plans.items()}
    return BoundViews(
        tuple(BoundView(name, placed[name], name not in temporary) for name in _order(below))
    )


def _with_paths(plan: BoundPlan, view: str) -> BoundPlan:
    """Return a plan whose paths begin with the name of its view. Shared relations stay shared."""
    copies: dict[int, BoundRelation] = {}

    def place(relation: BoundRelation) -> BoundRelation:
        """Return the copy of a relation with new paths."""
        if id(relation) not in copies:
            moved = with_inputs(relation, tuple(map(place, inputs_of(relation))))
            if isinstance(moved, BoundAggregate):
                measures = (replace(m, path=f"{view}: {m.path}") for m in moved.measures)
                moved = replace(moved, measures=tuple(measures))
            copies[id(relation)] = replace(moved, path=f"{view}: {relation.path}")
        return copies[id(relation)]

    return replace(plan, root=place(plan.root))


def _check_names(
    plans: Mapping[str, BoundPlan], temporary: Collection[str], sources: Iterable[str]
) -> None:
    if not any(name not in temporary for name in plans):
        raise UsageError(
            "VIEWS_MISSING",
            "there is no view to maintain",
            help="give at least one plan whose view is stored",
        )
    for name in plans:
        if not name or not name.isprintable() or "=" in name or "/" in name:
            raise UsageError(
                "VIEW_NAME_INVALID",
                f"{name!r} cannot be the name of a view",
                help="use a name without control characters, = and /",
            )
    for name in sorted({*sources} & plans.keys()):
        raise UsageError(
            "VIEW_NAME_TAKEN",
            f"{name} is the name of a view and of a source",
            help="rename the view, or remove the source",
            path=name,
        )


def _order(below: Mapping[str, list[str]]) -> tuple[str, ...]:
    try:
        return tuple(TopologicalSorter(below).static_order())
    except CycleError as error:
        raise UsageError(
            "VIEW_CYCLE",
            f"the views read each other in a circle: {' reads '.join(reversed(error.args[1]))}",
            help="remove one of these reads; recursive views are not supported",
        ) from error


def columns_read(read: BoundRead, plan: BoundPlan, reader: str = "") -> tuple[int, ...]:
    """Return the ordinals of the columns of a view that a relation reads.

    A name that no column has exactly may be that of the only column that differs by letter case.

    Raises:
        InputRefused: VIEW_COLUMNS_DIFFER.
    """
    exact = {name: i for i, name in reversed(tuple(enumerate(plan.names)))}
    ordinals = []
    for name, type_ in zip(read.names, read.types, strict=True):
        close = [i for i, other in enumerate(plan.names) if other.lower() == name.lower()]
        ordinal = exact.get(name, close[0] if len(close) == 1 else None)
        actual = None if ordinal is None else plan.types[ordinal]
        if ordinal is None or actual is None:
            shown = ", ".join(plan.names)
            raise _refuse(read, reader, f"column {name}, but the columns are: {shown}")
        if not actual.same_kind(type_) or (actual.nullable and not type_.nullable):
            raise _refuse(read, reader, f"column {name} as {type_}, but its type is {actual}")
        ordinals.append(ordinal)
    return tuple(ordinals)


def _refuse(read: BoundRead, reader: str, what: str) -> InputRefused:
    view = view_name(read)
    return InputRefused(
        "VIEW_COLUMNS_DIFFER",
        f"view {reader} reads of view {view} the {what}",
        help=f"declare {view} in the plan of {reader} with the columns and types of its view",
        path=read.path,
    )
