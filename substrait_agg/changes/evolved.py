"""Outputs of a checkpoint that has gone on with another plan: what each is given of the version in which that happened.

There the view has been taken back as it was and given as it is. An output that takes changes of columns gets both, one after the other;
for the others the columns have to be the same, and what is the same in both is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import pyarrow as pa

from substrait_agg.changes.outputs import OutputSpec, parse_output, reached
from substrait_agg.changes.sinks import Sink, Table
from substrait_agg.changes.targets import SparkTarget
from substrait_agg.commit.passes import added_up
from substrait_agg.commit.view import Evolved
from substrait_agg.errors import StateRefused
from substrait_agg.locations import Location


class Evolving(Protocol):
    """What is read of `substrait_agg.commit.View`."""

    def changes(self, since: int | None = None, until: int | None = None) -> Any:
        """Changes of the versions after `since` up to `until`."""

    def taken_back(self, version: int) -> Any:
        """What the view showed before another plan began with a version, as retractions."""


def given(view: Evolving, version: int, *, same_columns: bool) -> list[Table]:
    """What an output that had the version before is given of one with which another plan began."""
    back, new = view.taken_back(version), view.changes(until=version)
    if not same_columns:
        return [back, new]
    both = pa.concat_tables([back.replace_schema_metadata(new.schema.metadata), new])
    return [added_up(both.combine_chunks()) if both.num_rows else both]


def is_same(sink: Sink, evolved: Evolved) -> bool:
    """Whether nothing changes of the columns that a sink takes."""
    late = evolved.same_tables or not sink.takes_late
    return late and (evolved.same_columns or not sink.takes_changes)


def first_version(sink: Sink, evolutions: Iterable[Evolved]) -> int | None:
    """Where a sink begins that has had nothing: None for the first version there is."""
    if sink.changes_columns:
        return None
    return max((e.version for e in evolutions if not is_same(sink, e)), default=None)


def refusal(name: str, evolved: Evolved) -> StateRefused:
    """The error for an output that has had versions with other columns."""
    return StateRefused(
        "OUTPUT_OF_OTHER_PLAN",
        f"output {name} has had versions before {evolved.version}, with which the columns are others",
        help="give a new location, or a new name: it begins with the new columns, and all that the view shows then",
    )


def check_outputs_go_on(
    outputs: Iterable[str | OutputSpec | Sink],
    checkpoint: Location,
    evolutions: Sequence[Evolved],
    writer: Callable[[SparkTarget], Sink],
) -> None:
    """Refuse outputs that have had versions of another plan and cannot take the columns of this one; nothing is written.

    Raises:
        StateRefused: OUTPUT_OF_OTHER_PLAN, OUTPUT_RECORD_DAMAGED.
    """
    for output in outputs if evolutions else ():
        spec = parse_output(output) if isinstance(output, str) else output
        kind, position = reached(spec, checkpoint, writer)
        if kind.changes_columns or position is None:
            continue
        for evolved in evolutions:
            if evolved.version > position and not is_same(kind, evolved):
                raise refusal(str(spec) if isinstance(spec, OutputSpec) else spec.name, evolved)
