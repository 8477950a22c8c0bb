"""Assign the outputs of a run to its views.

An output names its view (``revenue=stream-json=out.json``). Without a name it belongs to the only
view. With several views, `EACH` and `FOLDERS` are the kinds of outputs that every view gets, and
any other output must name its view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from substrait_agg.changes.outputs.outputs import OutputSpec, parse_output
from substrait_agg.changes.outputs.sinks import Sink
from substrait_agg.errors import UsageError

EACH = frozenset({"batch-table", "batch-csv"})
"""Kinds that write every view to stdout, one after another, each with its name above it."""

FOLDERS = frozenset({"changes-parquet", "view-parquet"})
"""Kinds that write every view to a folder of its own, with its name, in the folder of the output."""

ONCE = frozenset({"late-parquet", "none"})
"""Kinds that do not depend on the view."""

OnChanges = Callable[[Any, int], None]
Output = OutputSpec | Sink


@dataclass(frozen=True, slots=True)
class ViewOutputs:
    """The outputs of one view.

    Attributes:
        view: its name; empty for the view of one plan without a name.
        on_changes: called with its changes.
    """

    view: str
    outputs: tuple[Output, ...]
    on_changes: OnChanges | None = None


def outputs_by_view(
    outputs: Iterable[Any],
    on_changes: OnChanges | Mapping[str, OnChanges] | None,
    views: Sequence[str],
) -> tuple[ViewOutputs, ...]:
    """Return the outputs of each view.

    Args:
        outputs: ``[VIEW=]KIND[=LOCATION]`` texts, `OutputSpec` or `Sink` objects, or pairs of the
            name of a view and one of these.
        on_changes: the function for the only view, or a function by name of view.
        views: names of the views.

    Raises:
        UsageError: OPTION_INVALID, VIEW_UNKNOWN, OUTPUT_VIEW_MISSING.
    """
    assigned = [pair for output in outputs for pair in _assign(output, views)]
    functions = _functions(on_changes, views)
    return tuple(
        ViewOutputs(view, tuple(o for v, o in assigned if v == view), functions.get(view))
        for view in views
    )


def _assign(output: Any, views: Sequence[str]) -> Iterator[tuple[str, Output]]:
    view = ""
    if isinstance(output, tuple):
        view, output = output
    spec = parse_output(output) if isinstance(output, str) else output
    if isinstance(spec, OutputSpec):
        view = view or spec.view
        spec = replace(spec, view=view)
    if view:
        yield _check_view(view, views), spec
    elif len(views) == 1:
        yield views[0], replace(spec, view=views[0]) if isinstance(spec, OutputSpec) else spec
    else:
        yield from _of_each(spec, views)


def _of_each(spec: Output, views: Sequence[str]) -> Iterator[tuple[str, Output]]:
    """Yield an output without the name of a view for each of several views."""
    kind = spec.kind if isinstance(spec, OutputSpec) else ""
    if isinstance(spec, OutputSpec) and kind in ONCE:
        yield views[0], replace(spec, view=views[0])
    elif isinstance(spec, OutputSpec) and kind in EACH and spec.location is None:
        yield from ((view, replace(spec, titled=True, view=view)) for view in views)
    elif isinstance(spec, OutputSpec) and kind in FOLDERS and spec.location is not None:
        for view in views:
            yield view, replace(spec, location=spec.location / view, view=view)
    else:
        name = str(spec) if isinstance(spec, OutputSpec) else spec.name or type(spec).__name__
        raise UsageError(
            "OUTPUT_VIEW_MISSING",
            f"output {name} does not say which view it is for: {', '.join(views)}",
            help=f"name the view, as in {views[0]}={name}",
            path="--output",
        )


def _functions(
    on_changes: OnChanges | Mapping[str, OnChanges] | None, views: Sequence[str]
) -> Mapping[str, OnChanges]:
    if on_changes is None:
        return {}
    if isinstance(on_changes, Mapping):
        return {_check_view(view, views): function for view, function in on_changes.items()}
    if len(views) == 1:
        return {views[0]: on_changes}
    raise UsageError(
        "OUTPUT_VIEW_MISSING",
        f"on_changes does not say which view it is for: {', '.join(views)}",
        help="give a mapping from the name of a view to its function",
        path="on_changes",
    )


def _check_view(view: str, views: Sequence[str]) -> str:
    if view in views:
        return view
    names = ", ".join(name for name in views if name)
    raise UsageError(
        "VIEW_UNKNOWN",
        f"an output names the view {view!r}, which is not a view of this run",
        help=f"use one of: {names}" if names else "the run has one view, without a name",
        path="--output",
    )
