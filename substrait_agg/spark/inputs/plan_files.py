"""Find the files that a plan names: by the sources of the user, or below a folder that is allowed.

The author of a plan is not the user who runs it. So a path of a plan is only a name, unless the
user allows a folder; then every file has to lie below it, also behind links.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import quote, urlencode

from substrait_agg.bind.plan.table_sources import has_source
from substrait_agg.connect.protocol import CLOCK_TABLE
from substrait_agg.errors import InputRefused
from substrait_agg.plan.files import PlanFile, table_path
from substrait_agg.spark.sources.files import is_glob
from substrait_agg.spark.sources.specs import SourceSpec, Table, parse_spec

FORMATS = {"parquet": "parquet", "orc": "orc", "text": "csv"}
"""Field of the format in a plan -> format of a source."""

TEXT_OPTIONS = {
    "field_delimiter": "sep",
    "quote": "quote",
    "escape": "escape",
    "value_treated_as_null": "nullValue",
}
"""Field of the options of text files -> option of CSV."""

Source = TypeVar("Source")


class Read(Protocol):
    """A read of a table, decoded or bound."""

    @property
    def table(self) -> Table:
        """Return the name of the table."""
        ...

    @property
    def files(self) -> tuple[PlanFile, ...]:
        """Return the files that the plan names for it; empty for a named table."""
        ...


def with_plan_files(
    sources: Mapping[str, Source], reads: Iterable[Read], allowed: Path | None = None
) -> dict[str, Source | SourceSpec]:
    """Return the sources by the names of tables, with the clock and the files that plans may read.

    Args:
        sources: the sources of the user by the names of tables, or by paths of a plan's files.
        reads: the reads of the plans.
        allowed: the folder whose files plans may read, without links; None for no folder.

    Raises:
        InputRefused: SOURCE_AMBIGUOUS; FILES_NOT_ALLOWED; FILES_NOT_READABLE.
    """
    files = _files_by_table(reads)
    named: dict[str, Source | SourceSpec] = {**_by_table(sources, files)}
    if CLOCK_TABLE in files and not has_source(CLOCK_TABLE, named):
        named[".".join(CLOCK_TABLE)] = parse_spec("clock:")
    if allowed is not None:
        for table, of_table in files.items():
            if of_table and not has_source(table, named):
                named[".".join(table)] = _spec(".".join(table), of_table, allowed)
    return named


def _files_by_table(reads: Iterable[Read]) -> dict[Table, tuple[PlanFile, ...]]:
    files: dict[Table, tuple[PlanFile, ...]] = {}
    for read in reads:
        first = files.setdefault(read.table, read.files)
        if first != read.files:
            shown = ".".join(read.table)
            raise InputRefused(
                "SOURCE_AMBIGUOUS",
                f"several plans read different tables or files that are called {shown}",
                help="rename one of the files, or run the plans separately",
            )
    return files


def _by_table(
    sources: Mapping[str, Source], files: Mapping[Table, Sequence[PlanFile]]
) -> dict[str, Source]:
    """Return sources whose names are paths of files by the names of their tables."""
    tables = {
        spelling: ".".join(table)
        for table, of_table in files.items()
        if of_table
        for spelling in _spellings(of_table)
    }
    named: dict[str, Source] = {}
    for name, source in sources.items():
        table = tables.get(name, name)
        if table in named:
            raise InputRefused(
                "SOURCE_AMBIGUOUS",
                f"two sources are given for the files {table}, one of them as {name}",
                help="give one source per table",
            )
        named[table] = source
    return named


def _spellings(files: Sequence[PlanFile]) -> Iterable[str]:
    """Return the paths that mean a table of files."""
    yield table_path(files)
    if len(files) == 1:
        yield files[0].uri


# --- files that a plan may read ------------------------------------------------------------------


def _spec(table: str, files: Sequence[PlanFile], allowed: Path) -> SourceSpec:
    """Return the source of a table of files, all of which lie below a folder."""
    kinds = {(file.format, file.options) for file in files}
    format_, options = next(iter(kinds))
    if len(kinds) > 1 or format_ not in FORMATS or any(file.glob for file in files):
        reason = "they have several formats" if len(kinds) > 1 else f"their format is {format_}"
        if any(file.glob for file in files):
            reason = "they are given as a glob"
        raise _not_readable(table, reason if format_ else "the plan does not state their format")
    places = [_place(table, file, allowed) for file in files]
    spec = parse_spec(
        f"{FORMATS[format_]}:files?{urlencode(_csv_options(table, options), quote_via=quote)}"
    )
    return replace(spec, location=_location(table, places))


def _csv_options(table: str, written: Iterable[tuple[str, str]]) -> dict[str, str]:
    options = dict(written)
    skipped = options.pop("header_lines_to_skip", None)
    if skipped not in (None, "0", "1"):
        raise _not_readable(table, f"they begin with {skipped} lines that are no rows")
    named = {TEXT_OPTIONS[name]: value for name, value in options.items()}
    return named if skipped is None else {**named, "header": str(skipped == "1").lower()}


def _place(table: str, file: PlanFile, allowed: Path) -> Path:
    """Return the path of a file or folder without links, if all of it lies below a folder.

    Raises:
        InputRefused: FILES_NOT_ALLOWED; SOURCE_NOT_FOUND.
    """
    if not file.path or ":" in file.path.partition("/")[0] or "\0" in file.path:
        raise _not_allowed(table, file.path, allowed)
    try:
        place = Path(file.path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        # A path outside the folder gets the same answer whether it exists or not.
        if not Path(os.path.normpath(Path(file.path).absolute())).is_relative_to(allowed):
            raise _not_allowed(table, file.path, allowed) from None
        raise InputRefused(
            "SOURCE_NOT_FOUND",
            f"the file of table {table} ({file.path}) does not exist",
            help=f"check the path; or add --source {table}=SPEC",
        ) from None
    if not place.is_relative_to(allowed):
        raise _not_allowed(table, file.path, allowed)
    for link in _links_below(place):
        if not link.resolve().is_relative_to(allowed):
            raise _not_allowed(table, str(link), allowed)
    return place


def _links_below(folder: Path) -> Iterable[Path]:
    """Yield the links in a folder and in all folders below, also behind links."""
    seen: set[str] = set()
    for root, folders, names in os.walk(folder, followlinks=True):
        if os.path.realpath(root) in seen:
            folders.clear()
            continue
        seen.add(os.path.realpath(root))
        yield from (Path(root, n) for n in (*folders, *names) if Path(root, n).is_symlink())


def _location(table: str, places: Sequence[Path]) -> str:
    """Return one location for all files of a table."""
    if any(is_glob(str(place)) or "," in str(place) for place in places):
        raise _not_readable(table, "a path has one of the characters of globs, or a comma")
    if len(places) == 1:
        return str(places[0])
    folder = os.path.commonpath([place.parent for place in places])
    names = ",".join(place.relative_to(folder).as_posix() for place in dict.fromkeys(places))
    return f"{folder}/{{{names}}}"


def _not_allowed(table: str, path: str, allowed: Path) -> InputRefused:
    return InputRefused(
        "FILES_NOT_ALLOWED",
        f"the plan reads {path} for table {table}, which is not below the allowed folder {allowed}",
        help=f"add --source {table}=SPEC; or allow a folder that has the file, if you trust the plan",
    )


def _not_readable(table: str, reason: str) -> InputRefused:
    return InputRefused(
        "FILES_NOT_READABLE",
        f"the files that the plan names for table {table} cannot be read: {reason}",
        help=f"add --source {table}=SPEC",
    )
