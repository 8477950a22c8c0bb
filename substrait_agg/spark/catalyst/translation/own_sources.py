"""The sources of the tables of a DataFrame: its own files and the tables of the catalogue, as SPECs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from substrait_agg.errors import UsageError
from substrait_agg.redaction import redacted_place
from substrait_agg.spark.sources.files import is_glob
from substrait_agg.spark.sources.specs import parse_spec

_FORMATS = ("parquet", "csv", "json", "orc")
_NOT_COUNTED = frozenset(
    "columnnameofcorruptrecord columnpruning dropfieldifallnull enforceschema infertimestamp inferschema path preferdate "
    "prefersdecimal primitivesasstring samplingratio".split()
)
"""Options, in lower case, that do not count for columns with types, which are read strictly."""


@dataclass(frozen=True)
class OwnSource:
    """Where a table of a DataFrame comes from.

    Attributes:
        spec: its SPEC; empty if it has none.
        reason: why it has none.
        place: what tells it from other tables.
    """

    spec: str = ""
    reason: str = ""
    place: str = ""

    @property
    def by_position(self) -> bool:
        """Return whether its columns are matched by position."""
        return bool(self.spec) and parse_spec(self.spec).by_position


@dataclass
class OwnTables:
    """The tables of a DataFrame by their dotted names.

    Attributes:
        zone: time zone of the session, in which texts of times are read.
        sources: name of a table -> where it comes from.
    """

    zone: str = "UTC"
    sources: dict[str, OwnSource] = field(default_factory=dict)

    def name(self, candidates: Sequence[tuple[str, ...]], source: OwnSource) -> tuple[str, ...]:
        """Return the first name that no other table has, and note its source."""
        for names in candidates:
            named = self.sources.setdefault(".".join(names), source)
            if named.place == source.place:
                return names
        return self.name([(*candidates[-1][:-1], f"{candidates[-1][-1]}_")], source)

    def files(self, relation: Mapping[str, Any]) -> OwnSource:
        """Return the source of a relation over files."""
        place = f"{relation['format']} {sorted(relation['paths'])} {sorted(relation['options'].items())}"
        try:
            return OwnSource(_spec(relation, self.zone), "", place)
        except _NoSpec as reason:
            return OwnSource("", str(reason), place)


class _NoSpec(Exception):
    """Why files have no SPEC."""


def location_of(relation: Mapping[str, Any]) -> str:
    """Return the path of a relation over files as the user wrote it; the first of several."""
    path: str = relation["options"].get("path") or next(iter(relation["paths"]), "")
    return path.removeprefix("file:") if path.startswith("file:/") else path


def names_of(location: str) -> list[tuple[str, ...]]:
    """Return names for the table of a path: its last part, or more of its last parts."""
    parts = [p for p in location.split("/") if p and not is_glob(p)] or ["files"]
    return [tuple(parts[-count:]) for count in range(1, len(parts) + 1)]


def _spec(relation: Mapping[str, Any], zone: str) -> str:
    location, format_ = location_of(relation), str(relation["format"]).lower()
    if format_ not in _FORMATS:
        raise _NoSpec(f"it is read from files of the format {relation['format']}")
    if "path" not in relation["options"] and len(relation["paths"]) != 1:
        raise _NoSpec(f"it is read from {len(relation['paths'])} paths")
    if "?" in location:
        raise _NoSpec("its path has a question mark")
    options = _options(relation["options"])
    if format_ == "csv":
        # A SPEC reads the first line as a header and takes quotes as in RFC 4180; Spark does neither.
        options = {"header": "false", "escape": "\\", **options}
    if format_ in ("csv", "json") and zone != "UTC":
        options = {"timezone": zone, **options}
    text = f"{format_}:{location}" + (f"?{urlencode(options, quote_via=quote)}" if options else "")
    try:
        parse_spec(text)
    except UsageError as error:
        raise _NoSpec(f"{error.message}, {redacted_place(location)}") from error
    return text


def _options(reader_options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a reader that count, with names in lower case."""
    options = {name.lower(): value for name, value in reader_options.items()}
    if options.pop("mode", "").lower() == "dropmalformed":
        raise _NoSpec("it leaves out lines that cannot be read (mode=DROPMALFORMED)")
    return {name: value for name, value in options.items() if name not in _NOT_COUNTED}
