"""Compare the locations of sources with those of the newest version of a checkpoint.

The files of another location have not been read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import DataFrame

from substrait_agg.commit.documents.snapshot import InputPlace
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.errors import StateRefused
from substrait_agg.redaction import redacted_place
from substrait_agg.spark.sources.specs import SourceSpec, Table, as_spec

GIVEN = "a DataFrame"


def input_locations(
    sources: Mapping[Table, str | SourceSpec | DataFrame],
) -> tuple[InputPlace, ...]:
    """Return format and location of every source by table name, without options and passwords."""
    places = (InputPlace(".".join(table), _place(source)) for table, source in sources.items())
    return tuple(sorted(places, key=lambda place: place.table))


def _place(source: str | SourceSpec | DataFrame) -> str:
    if isinstance(source, DataFrame):
        return GIVEN
    spec = as_spec(source)
    location = spec.location
    if spec.is_files:
        path = location.removeprefix("file://") if location.startswith("file:///") else location
        location = path if "://" in path else os.path.abspath(path)  # noqa: PTH100 - it may be a glob
    return f"{spec.format}:{redacted_place(location)}"


def source_folders(sources: Mapping[Table, str | SourceSpec | DataFrame]) -> dict[Path, str]:
    """Return the local folders whose files are rows, whatever their names: folder -> table."""
    specs = {
        ".".join(table): as_spec(source)
        for table, source in sources.items()
        if not isinstance(source, DataFrame)
    }
    folders = {
        Path(spec.location.removeprefix("file://")).resolve(): table
        for table, spec in specs.items()
        if spec.is_files and not spec.file_rules.pattern
    }
    return {folder: table for folder, table in folders.items() if folder.is_dir()}


def check_locations(store: Checkpoint, places: Sequence[InputPlace], *, accept: bool) -> None:
    """Refuse to read a table from another location than the newest version did.

    Args:
        store: the checkpoint.
        places: the current locations of the tables.
        accept: treat all rows at a changed location as new input instead of refusing.

    Raises:
        StateRefused: SOURCE_DIFFERS.
    """
    last = store.newest_snapshot() if store.exists() and not accept else None
    if last is None:
        return
    now = {place.table: place.place for place in places}
    moved = [p for p in last.inputs if now.get(p.table, p.place) != p.place]
    if not moved:
        return
    differences = "; ".join(
        f"{p.table} was read from {p.place} and is now read from {now[p.table]}" for p in moved
    )
    raise StateRefused(
        "SOURCE_DIFFERS",
        f"the source differs from the checkpoint: {differences}",
        help="give the source as before; if the files were only moved, link them under their old path. "
        "--accept-source-change continues with the new location: files that have not been read under their path "
        "count as new rows",
        path=str(store.folder),
    )
