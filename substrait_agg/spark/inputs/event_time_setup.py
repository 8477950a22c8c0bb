"""Check the time options of a run against its plan, before any row is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from substrait_agg.bind.plan.views import BoundViews
from substrait_agg.errors import UsageError
from substrait_agg.flow.graph.graph import Forget
from substrait_agg.flow.graph.nodes import (
    Flow,
    FlowView,
    Node,
    all_operators_below,
    operators_below,
    shown_by,
    shown_operators,
)
from substrait_agg.flow.passes.event_time import EventColumns, tables_without_time
from substrait_agg.flow.passes.upserts import Upserts
from substrait_agg.operator.common.policy import EmitPolicy
from substrait_agg.operator.common.watermarks import Ttl
from substrait_agg.runtime.event_sources import EventSource, Table, event_sources
from substrait_agg.runtime.event_state import EventOptions
from substrait_agg.spark.inputs.inputs import Source
from substrait_agg.spark.sources.open import is_static


def event_options(
    plan: BoundViews, watermarks: Mapping[str, str], ttl: Ttl | None, *, keep_late: bool
) -> EventOptions:
    """Return the time options of a run.

    Raises:
        UsageError: OPTION_INVALID, WATERMARK_COLUMN; OPTION_CONFLICT if `keep_late` is set without
            a watermark.
    """
    sources = event_sources(plan, watermarks)
    if keep_late and not sources:
        raise UsageError(
            "OPTION_CONFLICT",
            "the output late-parquet needs a watermark: without one no row is late",
            help="give --watermark TABLE.COLUMN=max-diff:5s, or remove the output late-parquet",
            path="--output",
        )
    return EventOptions(sources, ttl, keep_late)


def with_times(upserts: Upserts, options: EventOptions) -> Upserts:
    """Return the upserts. If groups expire by event time, upserts also store the event time."""
    if options.ttl is None:
        return upserts
    columns = {source.table: (source.column,) for source in options.sources}
    return {t: replace(upsert, stored_columns=columns.get(t, ())) for t, upsert in upserts.items()}


def event_columns(sources: Mapping[Table, Source], options: EventOptions) -> EventColumns:
    """Return the columns with a watermark.

    Raises:
        UsageError: OPTION_CONFLICT: a watermark is given for a table that does not stream.
    """
    fixed = {table for table, source in sources.items() if is_static(source)}
    for source in options.sources:
        if source.table in fixed:
            raise UsageError(
                "OPTION_CONFLICT",
                f"the rows of {'.'.join(source.table)} are read once, before any watermark: its watermark would stop all other watermarks",
                help=f"remove the watermark {source.label}, or give a source that streams",
                path="watermark",
            )
    return EventColumns(
        {source.table: source.column for source in options.sources},
        fixed,
        # The late rows of a join are not those of a table, so they cannot be written as such.
        through_lookups=not options.keep_late,
    )


def read_forget(options: EventOptions) -> Forget:
    """Return what happens to the rows in the view of idle groups."""
    if options.ttl is None:
        return ""
    return "keep" if options.ttl.keep else "retract"


def check_times(
    flow: Flow, options: EventOptions, policy: EmitPolicy, columns: EventColumns
) -> None:
    """Check that the time options and the emission policy apply to a flow.

    Args:
        flow: the flow.
        options: the time options.
        policy: the emission policy.
        columns: the columns with a watermark (`event_columns`).

    Raises:
        UsageError: EMIT_TOGETHER, EMIT_SEVERAL_VIEWS, EVENT_TIME_MISSING, TTL_MEANINGLESS.
    """
    _check_together(flow, policy)
    _check_watermark(flow, options.sources, policy, columns)
    if options.ttl is not None and not any(node.forget for node in flow.operators):
        raise UsageError(
            "TTL_MEANINGLESS",
            "--ttl has no effect on this plan: it applies to groups over tables whose keys have no event time",
            help="remove --ttl; groups with an event time are closed when the watermark passes them",
            path="ttl",
        )


def _check_together(flow: Flow, policy: EmitPolicy) -> None:
    """Refuse to delay rows of a view that come and go together, or that another view computes with."""
    if policy.batch:
        return
    shown = shown_operators(flow)
    for view in flow.views:
        last = flow.view_node(view)
        _check_rows_apart(flow, view, last)
        delayed = shown & all_operators_below(flow, last) - shown_by(flow, view)
        other = next((v.name for v in flow.views if shown_by(flow, v) & delayed), "")
        if other:
            raise UsageError(
                "EMIT_SEVERAL_VIEWS",
                f"the view {view.name} computes with the groups of the view {other}, which --emit would delay",
                help=f"remove --emit, or run {view.name} and {other} apart",
                path="emit",
            )


def _check_rows_apart(flow: Flow, view: FlowView, last: Node) -> None:
    if not last.shows_rows_below or last.id not in shown_by(flow, view):
        return
    if any(flow.operators[o].emits_together for o in operators_below(last)):
        name = f" {view.name}" if view.name else ""
        raise UsageError(
            "EMIT_TOGETHER",
            f"the view{name} has the rows of a join, a fetch or a window function over tables, which change together, so --emit cannot delay them",
            help="remove --emit; it can delay only the groups of aggregates, above a join or below a fetch",
            path="emit",
        )


def _check_watermark(
    flow: Flow, sources: tuple[EventSource, ...], policy: EmitPolicy, columns: EventColumns
) -> None:
    if not policy.watermark:
        return
    shown = shown_operators(flow)
    if all(node.events for node in flow.operators if node.id in shown):
        return
    labels = ", ".join(source.label for source in sources)
    others = [".".join(table) for table in tables_without_time(flow, columns)]
    if others:
        raise UsageError(
            "EVENT_TIME_MISSING",
            f"emission by watermark is not possible: {labels} has a watermark, but {', '.join(others)}, read into the same groups, has none",
            help=f"give --watermark {others[0]}.COLUMN=max-diff:5s as well; every table of a union needs a watermark on the column of the key",
            path="emit",
        )
    raise UsageError(
        "EVENT_TIME_MISSING",
        "emission by watermark is not possible: no grouping key depends on event time"
        + (
            f" ({labels} is not a grouping key, and no grouping key is computed from it)"
            if labels
            else ", and no --watermark is given"
        ),
        help=(
            "give --watermark TABLE.COLUMN=max-diff:5s for a column that is a grouping key or that a window is "
            "computed from"
        ),
        path="emit",
    )
