"""Decide how outputs receive the version with which a new plan began (``--evolve``).

In that version all rows of the view are retracted in the old columns and inserted in the new
columns. An output that supports changing columns receives both, one after the other. Any other
output requires equal columns; it receives the consolidated difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from substrait_agg.changes.outputs.outputs import OutputSpec, parse_output, reach_version
from substrait_agg.changes.outputs.sinks import Sink
from substrait_agg.changes.targets.spark import SparkTarget
from substrait_agg.commit.view.schema import PlanChange
from substrait_agg.errors import StateRefused
from substrait_agg.files.locations import Location


def is_same(sink: Sink, evolved: PlanChange) -> bool:
    """Return whether the columns that a sink receives are unchanged."""
    late = evolved.same_tables or not sink.takes_late
    return late and (evolved.same_columns or not sink.takes_changes)


def first_version(sink: Sink, evolutions: Iterable[PlanChange]) -> int | None:
    """Return the version with which a new sink begins; None for the oldest available version."""
    if sink.changes_columns:
        return None
    return max((e.version for e in evolutions if not is_same(sink, e)), default=None)


def refusal(name: str, evolved: PlanChange) -> StateRefused:
    """Return the error for an output that has received versions with other columns."""
    return StateRefused(
        "OUTPUT_OF_OTHER_PLAN",
        f"output {name} contains versions before {evolved.version}, which have other columns",
        help="use a new location, or a new name: the output then starts with the new columns and the whole view",
    )


def check_outputs_go_on(
    outputs: Iterable[str | OutputSpec | Sink],
    checkpoint: Location,
    evolutions: Sequence[PlanChange],
    writer: Callable[[SparkTarget], Sink],
    view: str = "",
) -> None:
    """Refuse outputs that received versions of another plan and do not support its new columns.

    Nothing is written.

    Raises:
        StateRefused: OUTPUT_OF_OTHER_PLAN, OUTPUT_RECORD_DAMAGED.
    """
    for output in outputs if evolutions else ():
        spec = parse_output(output) if isinstance(output, str) else output
        kind, position = reach_version(spec, checkpoint, writer, view)
        if kind.changes_columns or position is None:
            continue
        for evolved in evolutions:
            if evolved.version > position and not is_same(kind, evolved):
                raise refusal(str(spec) if isinstance(spec, OutputSpec) else spec.name, evolved)
