"""Where the tables of a checkpoint are read from: another place is another input, of which nothing has been read yet."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from substrait_agg.commit.documents.snapshot import InputPlace
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.errors import StateRefused
from substrait_agg.redaction import redacted_place
from substrait_agg.spark.sources.specs import SourceSpec, Table, as_spec

GIVEN = "a DataFrame"


def input_places(sources: Mapping[Table, str | SourceSpec | DataFrame]) -> tuple[InputPlace, ...]:
    """Format and location of every table's source, in order of the tables' names; without options and passwords."""
    found = (InputPlace(".".join(table), _place(source)) for table, source in sources.items())
    return tuple(sorted(found, key=lambda place: place.table))


def _place(source: str | SourceSpec | DataFrame) -> str:
    if isinstance(source, DataFrame):
        return GIVEN
    spec = as_spec(source)
    location = spec.location
    if spec.is_files:
        path = location.removeprefix("file://") if location.startswith("file:///") else location
        location = path if "://" in path else os.path.abspath(path)  # noqa: PTH100 - it may be a glob
    return f"{spec.format}:{redacted_place(location)}"


def check_places(store: Checkpoint, places: Sequence[InputPlace], *, accept: bool) -> None:
    """Refuse to read a table from another place than the newest version did.

    Args:
        store: the checkpoint.
        places: where the tables are read from now.
        accept: take what is at another place as new input.

    Raises:
        StateRefused: SOURCE_DIFFERS.
    """
    last = store.latest() if store.exists() and not accept else None
    if last is None:
        return
    now = {place.table: place.place for place in places}
    moved = [p for p in last.inputs if now.get(p.table, p.place) != p.place]
    if not moved:
        return
    told = "; ".join(f"{p.table} was read from {p.place}, not from {now[p.table]}" for p in moved)
    raise StateRefused(
        "SOURCE_DIFFERS",
        f"in this checkpoint {told}",
        help="give the source as before; files that were only moved: link them under their old path, by which Spark knows them."
        " --accept-source-change goes on with the new place: what Spark has not read there counts as new rows",
        path=str(store.folder),
    )
