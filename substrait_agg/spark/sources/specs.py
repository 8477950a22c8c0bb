"""Parse source specifications: ``[FORMAT:]LOCATION[?key=value&...]``. Needs no Spark session.

The first ``?`` ends the location, so a glob for one character is written ``[!/]``. Keys and values
are percent-decoded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Literal as OneOf
from urllib.parse import unquote

from substrait_agg.connect.registry import KINDS, is_read_here
from substrait_agg.errors import UsageError
from substrait_agg.files.filesystem import filesystem
from substrait_agg.flow.passes.upserts import ENVELOPE_FIELDS, UpsertDeclaration
from substrait_agg.functions.aggregates.accumulators import WeightKind
from substrait_agg.redaction import redacted_options, redacted_place, remember
from substrait_agg.spark.sources.files import FileRules
from substrait_agg.spark.sources.format_options import (
    OF_SPARK_STREAM,
    OPTIONS,
    nearest,
    spell,
    with_zoneless_format,
)

if TYPE_CHECKING:
    import pyarrow as pa

Table = tuple[str, ...]

ChangeKind = OneOf["none", "weight", "op", "debezium"]
"""How rows distinguish inserts from deletes: not at all (every row is an insert), by a weight
column, by an operation column, or by the envelope of a change event."""

BadRowPolicy = OneOf["fail", "quarantine"]
"""What happens to a row that is unreadable or violates the plan: it fails the batch, or goes to the
quarantine."""

FORMAT_OF_SUFFIX: dict[str, str] = {
    "parquet": "parquet",
    "pq": "parquet",
    "csv": "csv",
    "tsv": "csv",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "orc": "orc",
    "avro": "avro",
}
COMPRESSIONS = ("gz", "bz2", "zst", "xz", "lz4", "snappy", "deflate")
FILE_FORMATS = frozenset({"parquet", "csv", "json", "orc", "avro", "text", "xml"})
URL_SCHEMES = frozenset(
    "file hdfs webhdfs viewfs s3 s3a s3n gs abfs abfss wasb wasbs adl oss dbfs".split()
)
CHANGES_COLUMN = "_change_type"
"""Operation column of the change feed of a table in Spark."""

ENCODINGS: dict[str, tuple[str, ...]] = {
    "times": ("ms", "us", "ns", "text"),
    "decimals": ("bytes", "text"),
}
"""Key of a SPEC -> the encodings of values in change events that it accepts.

``times`` covers timestamps and times of day.
"""

_FORMAT = re.compile(r"([A-Za-z][A-Za-z0-9_.+-]*):(?!//)(.*)", re.S)

OPERATIONS: dict[str, int] = {
    "insert": 1,
    "update_postimage": 1,
    "update_preimage": -1,
    "delete": -1,
    "+I": 1,
    "+U": 1,
    "-U": -1,
    "-D": -1,
    "c": 1,
    "r": 1,
    # A flat `u` row has the new values; the old values must come as a `d` row.
    "u": 1,
    "d": -1,
}
"""Value of an operation column -> the weight of its row."""


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """A parsed source specification.

    Attributes:
        format: Spark's name of the format, or ``table`` or ``changes`` for a catalogue table.
        location: path, folder, glob, table name or topic; may be empty if the format needs none.
        options: further keys for the format, as written.
        change: how rows distinguish inserts from deletes.
        change_column: column of the weight or of the operation; empty if there is none.
        batch_files: the maximum number of files per batch; None for no limit.
        times: encoding of timestamps and times of day in change events: ``ms``, ``us``, ``ns``,
            ``text``; empty if not given.
        decimals: encoding of decimals in change events: ``bytes``, ``text``; empty if not given.
        upsert: the declaration of upserts; None if a row does not replace the row of its key.
        bad_rows: what happens to a row that is unreadable or violates the plan.
        columns: the columns of the table in the plan, for files without a header.
        fields: column in the plan -> the names of the struct fields inside it, depth first.
        static: whether all rows are read once, in the first version.
        batch_bytes: the limit of a batch, in bytes of files; None for no limit. A batch has at least one
            file.
        decimal: the decimal sign of numbers in CSV, a point or a comma.
        schema: the columns of a table that a connector reads, once they are known.
        changes: how its changes come, as a phrase; empty without a connector.
    """

    format: str
    location: str = field(repr=False)
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    change: ChangeKind = "none"
    change_column: str = ""
    batch_files: int | None = None
    times: str = ""
    decimals: str = ""
    upsert: UpsertDeclaration | None = None
    bad_rows: BadRowPolicy = "fail"
    columns: tuple[str, ...] = ()
    static: bool = False
    batch_bytes: int | None = None
    fields: tuple[tuple[str, tuple[str, ...]], ...] = ()
    decimal: str = "."
    schema: pa.Schema | None = field(default=None, repr=False, compare=False)
    changes: str = ""

    @property
    def is_connected(self) -> bool:
        """Return whether a connector reads the source."""
        options = {key.lower(): value for key, value in self.options}
        return is_read_here(self.format, options)

    @property
    def by_position(self) -> bool:
        """Return whether the source is CSV without a header."""
        options = {key.lower(): value.lower() for key, value in self.options}
        return self.format == "csv" and options.get("header", "true") == "false"

    @property
    def file_rules(self) -> FileRules:
        """Return which files of the location Spark reads."""
        options = {name.lower(): value for name, value in self.options}
        recursive = options.get("recursivefilelookup", "").lower() == "true"
        return FileRules(options.get("pathglobfilter", ""), recursive)

    @property
    def is_files(self) -> bool:
        """Return whether the location is a path of files."""
        return self.format in FILE_FORMATS

    def redact(self) -> str:
        """Return the specification as text without passwords, for logs, messages and snapshots."""
        pairs = list(self.options)
        if self.change_column and self.format != "changes":
            pairs.append((self.change, self.change_column))
        if self.change == "debezium":
            said = (("cdc", "debezium"), ("times", self.times), ("decimals", self.decimals))
            pairs += [pair for pair in said if pair[1]]
        if self.upsert is not None:
            named = (("key", self.upsert.keys), ("order", self.upsert.order))
            pairs += [(word, ",".join(columns)) for word, columns in named if columns]
        if self.batch_files is not None:
            pairs.append(("batch-files", str(self.batch_files)))
        if self.batch_bytes is not None:
            pairs.append(("maxBytesPerTrigger", str(self.batch_bytes)))
        if self.bad_rows != "fail":
            pairs.append(("bad-rows", self.bad_rows))
        if self.decimal != ".":
            pairs.append(("decimal", self.decimal))
        if self.static:
            pairs.append(("static", "true"))
        shown = redacted_options(pairs)
        place = redacted_place(self.location)
        return f"{self.format}:{place}" + (f"?{shown}" if shown else "")

    def __str__(self) -> str:
        return self.redact()


def _bad(code: str, text: str, message: str, help: str) -> UsageError:
    return UsageError(code, f"{message} in the source {text!r}", help=help)


def _split_format(place: str) -> tuple[str, str]:
    """Return format and location of ``[FORMAT:]LOCATION``; an omitted format is empty."""
    match = _FORMAT.fullmatch(place)
    if match is None:
        return "", place
    name, rest = match.groups()
    if name.lower() in URL_SCHEMES and rest.startswith("/"):
        return "", place
    return name, rest


def _format_by_suffix(location: str, text: str) -> str:
    parts = location.rstrip("/").rsplit("/", 1)[-1].lower().split(".")[1:]
    while parts and parts[-1] in COMPRESSIONS:
        parts.pop()
    if parts and parts[-1] in FORMAT_OF_SUFFIX:
        return FORMAT_OF_SUFFIX[parts[-1]]
    raise _bad(
        "SPEC_FORMAT_MISSING", text, "no format is given, and the suffix does not imply one",
        _format_help(location),
    )  # fmt: skip


def _format_help(location: str) -> str:
    """Return how to write a location without a format: by the suffix of its files, if they have one."""
    names = [] if "://" in location else filesystem().names(Path(location))
    suffixes = {name.lower().rsplit(".", 1)[-1] for name in names if "." in name}
    formats = {FORMAT_OF_SUFFIX[suffix] for suffix in suffixes & FORMAT_OF_SUFFIX.keys()}
    if len(formats) == 1:
        return f"write the format of its files first: {formats.pop()}:{location}"
    return "write the format first, such as parquet:PATH, csv:PATH, json:PATH or table:NAME"


def _pairs(query: str, text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in query.split("&") if query else []:
        raw_key, equals, raw_value = part.partition("=")
        key = unquote(raw_key)
        if not key or not equals:
            raise _bad(
                "SPEC_OPTION_BAD", text, f"option {len(pairs) + 1} is not key=value",
                "write options as ?key=value&key=value, and encode & and = in values as %26 and %3D",
            )  # fmt: skip
        if key in pairs:
            raise _bad("SPEC_OPTION_TWICE", text, f"option {key} is given twice", "give it once")
        pairs[key] = unquote(raw_value)
    return pairs


def _change(pairs: dict[str, str], format_: str, text: str) -> tuple[ChangeKind, str]:
    change_options = [key for key in ("weight", "op", "cdc") if key in pairs]
    if len(change_options) > 1 or (change_options and format_ == "changes"):
        raise _bad(
            "SPEC_CHANGE_CONFLICT", text, f"only one of {', '.join(change_options)} and changes: can be given",
            "state once how rows distinguish inserts from deletes",
        )  # fmt: skip
    if format_ == "changes":
        return "op", CHANGES_COLUMN
    if not change_options:
        return "none", ""
    value = pairs.pop(change_options[0])
    if change_options[0] == "cdc":
        if value != "debezium":
            raise _bad("SPEC_OPTION_BAD", text, f"cdc={value} is not known", "write cdc=debezium")
        return "debezium", ""
    if not value:
        raise _bad(
            "SPEC_OPTION_BAD",
            text,
            f"{change_options[0]}= does not name a column",
            f"write {change_options[0]}=COLUMN",
        )
    return ("weight" if change_options[0] == "weight" else "op"), value


def _upsert(pairs: dict[str, str], change: ChangeKind, text: str) -> UpsertDeclaration | None:
    keys, order = (_split(pairs, word, text) for word in ("key", "order"))
    if not keys:
        if order:
            raise _bad(
                "SPEC_OPTION_BAD", text, "order= is given without key=",
                "add key=COLUMN[,COLUMN], the primary key of the table",
            )  # fmt: skip
        return None
    if change == "weight":
        raise _bad(
            "SPEC_CHANGE_CONFLICT", text, "key= and weight= cannot be combined",
            ("remove one of them: rows with weights are changes, but a row with a key replaces the previous row of "
             "the key"),
        )  # fmt: skip
    unknown = [name for name in order if name not in ENVELOPE_FIELDS]
    if change == "debezium" and unknown:
        raise _bad(
            "SPEC_OPTION_BAD", text, f"order={','.join(unknown)} is not a field that orders change events",
            f"write one of {', '.join(ENVELOPE_FIELDS)}, or several separated by commas",
        )  # fmt: skip
    events = change == "debezium"
    return UpsertDeclaration(
        keys, order, envelope=events and bool(order), partial=events and not order
    )


def _split(pairs: dict[str, str], word: str, text: str) -> tuple[str, ...]:
    if word not in pairs:
        return ()
    names = tuple(name.strip() for name in pairs.pop(word).split(","))
    if not all(names) or len(set(names)) != len(names):
        raise _bad(
            "SPEC_OPTION_BAD", text, f"{word}= has an empty or repeated column name",
            f"write {word}=COLUMN, or {word}=COLUMN,COLUMN",
        )  # fmt: skip
    return names


_LIMITS = ("batch-files", "maxFilesPerTrigger", "maxBytesPerTrigger")
"""Keys of a SPEC that limit a batch; the second is Spark's name of the first."""


def _limits(pairs: dict[str, str], format_: str, text: str) -> tuple[int | None, int | None]:
    """Take the limits of a batch out of the pairs: files, and bytes of files."""
    limits = {
        limit: int(_limit(limit, pairs.pop(name), format_, text))
        for limit in _LIMITS
        for name in tuple(pairs)
        if name.lower() == limit.lower() and (limit == "batch-files" or format_ in FILE_FORMATS)
    }
    files = limits.get("batch-files", limits.get("maxFilesPerTrigger"))
    return files, limits.get("maxBytesPerTrigger")


def _limit(name: str, value: str, format_: str, text: str) -> str:
    if not value.isascii() or not value.isdigit() or int(value) < 1:
        raise _bad(
            "SPEC_OPTION_BAD", text, f"{name}={value} is not a number of at least 1",
            f"write {name}=N, such as {name}=1",
        )  # fmt: skip
    if format_ not in FILE_FORMATS:
        raise _bad(
            "SPEC_OPTION_BAD", text, f"{name} does not apply to the format {format_}",
            "use the format's own limit, such as maxOffsetsPerTrigger",
        )  # fmt: skip
    return value


def _bad_rows(pairs: dict[str, str], text: str) -> BadRowPolicy:
    value = pairs.pop("bad-rows", "fail")
    policies: dict[str, BadRowPolicy] = {"fail": "fail", "quarantine": "quarantine"}
    if value in policies:
        return policies[value]
    raise _bad(
        "SPEC_OPTION_BAD", text, f"bad-rows={value} is not known",
        "write bad-rows=fail (the default), or bad-rows=quarantine to move bad rows to the quarantine",
    )  # fmt: skip


def _decimal_sign(pairs: dict[str, str], format_: str, text: str) -> str:
    value = pairs.pop("decimal", ".") if format_ == "csv" else "."
    if value in (".", ","):
        return value
    raise _bad(
        "SPEC_OPTION_BAD", text, f"decimal={value} is not known",
        "write decimal=, if a comma is the decimal sign of numbers, or decimal=. (the default)",
    )  # fmt: skip


_NOT_STATIC = ("key", "cdc", "batch-files", "bad-rows")
"""Keys of a SPEC that need a stream."""


def _static(pairs: dict[str, str], format_: str, text: str) -> bool:
    """Take the key ``static`` out of the pairs, before all others are."""
    value = pairs.pop("static", "false")
    if value not in ("true", "false"):
        raise _bad(
            "SPEC_OPTION_BAD", text, f"static={value} is not known",
            "write static=true for a table that is read once, or static=false (the default)",
        )  # fmt: skip
    if value == "false":
        return False
    conflicts = [key for key in _NOT_STATIC if key in pairs]
    conflicts += ["changes:"] if format_ == "changes" else []
    if conflicts:
        raise _bad(
            "SPEC_CHANGE_CONFLICT", text, f"static=true and {', '.join(conflicts)} cannot be combined",
            "remove one of them: a static table is read once, as a whole, in the first version",
        )  # fmt: skip
    return True


def _checked_options(pairs: dict[str, str], format_: str, text: str) -> dict[str, str]:
    """Return the options of a format in Spark's spelling; raise for unknown or refused options."""
    try:
        return with_zoneless_format(spell(pairs, format_))
    except KeyError as error:
        name = str(error.args[0])
        near = nearest(name, format_)
        kind = "change events" if format_ == "debezium" else format_
        raise _bad(
            "SPEC_OPTION_UNKNOWN", text, f"{name} is not an option of {kind}",
            f"did you mean {near}? docs/formats.md lists the options" if near else
            f"the options are {', '.join(sorted(OPTIONS[format_]))}",
        ) from error  # fmt: skip
    except ValueError as error:
        raise _bad(
            "SPEC_OPTION_BAD",
            text,
            f"the option {error}",
            "remove it, or write it as in docs/formats.md",
        ) from error


def _check_not_of_stream(pairs: Mapping[str, str], text: str) -> None:
    """Refuse options of Spark's stream of files, which would have no effect."""
    for name in pairs:
        if name.lower() in OF_SPARK_STREAM:
            raise _bad(
                "SPEC_OPTION_BAD", text, f"the option {name} is not supported: {OF_SPARK_STREAM[name.lower()]}",
                "remove it",
            )  # fmt: skip


def parse_spec(text: str) -> SourceSpec:
    """Parse a source specification.

    Raises:
        UsageError: ``SPEC_EMPTY``, ``SPEC_FORMAT_MISSING``, ``SPEC_OPTION_BAD``,
            ``SPEC_OPTION_TWICE``, ``SPEC_OPTION_UNKNOWN``, ``SPEC_CHANGE_CONFLICT``. Messages quote
            the text without its options.
    """
    # A tab at the end may be a separator.
    place, _, query = text.lstrip().rstrip(" \r\n").partition("?")
    shown = redacted_place(text.strip().partition("?")[0])
    name, location = _split_format(place)
    format_ = (name if "." in name else name.lower()) or (
        _format_by_suffix(location, shown) if location else ""
    )
    if not format_ or (not location and format_ in FILE_FORMATS | {"table", "changes"}):
        raise _bad(
            "SPEC_EMPTY", shown, "no location is given",
            "write [FORMAT:]LOCATION[?key=value&...], such as parquet:data/orders",
        )  # fmt: skip
    pairs = _pairs(query, shown)
    if is_read_here(format_, {key.lower(): value for key, value in pairs.items()}):
        return _connected_spec(format_, location, pairs, shown)
    remember([("", location), *pairs.items()])
    static = _static(pairs, format_, shown)
    change, column = _change(pairs, format_, shown)
    upsert = _upsert(pairs, change, shown)
    times, decimals = (_encoding(pairs, key, change, shown) for key in ENCODINGS)
    if change == "debezium" and format_ in FILE_FORMATS - {"json", "text"}:
        raise _bad(
            "SPEC_CHANGE_CONFLICT", shown, f"change events are JSON, and the format is {format_}",
            "write json:LOCATION, or a stream of messages such as kafka:TOPIC",
        )  # fmt: skip
    batch_files, batch_bytes = _limits(pairs, format_, shown)
    bad_rows = _bad_rows(pairs, shown)
    decimal = _decimal_sign(pairs, format_, shown)
    if format_ in FILE_FORMATS:
        _check_not_of_stream(pairs, shown)
    if format_ in OPTIONS:
        pairs = _checked_options(pairs, "debezium" if change == "debezium" else format_, shown)
    if format_ == "csv" and location.rstrip("/").lower().endswith(".tsv"):
        pairs = pairs if "delimiter" in pairs else {"sep": "\t", **pairs}
    options = tuple(pairs.items())
    return SourceSpec(
        format_, location, options, change, column, batch_files, times, decimals, upsert, bad_rows,
        static=static, batch_bytes=batch_bytes, decimal=decimal,
    )  # fmt: skip


def _connected_spec(format_: str, location: str, pairs: dict[str, str], text: str) -> SourceSpec:
    """Return the specification of a source that a connector reads."""
    remember([("", location), *pairs.items()])
    for name in pairs:
        if not KINDS[format_].takes(name):
            raise _bad(
                "SPEC_OPTION_UNKNOWN", text, f"{name} is not an option of {format_}",
                f"the options are {', '.join(sorted(KINDS[format_].options))}; reader=spark reads with a package of Spark",
            )  # fmt: skip
    return SourceSpec(format_, location, tuple(pairs.items()))


def _encoding(pairs: dict[str, str], key: str, change: ChangeKind, text: str) -> str:
    """Remove an encoding from `pairs` and return it; empty if it is not given.

    Other sources than change events have no encodings, so the key stays in `pairs` as an option.
    """
    if change != "debezium":
        return ""
    value, encodings = pairs.pop(key, ""), ENCODINGS[key]
    if value and value not in encodings:
        raise _bad(
            "SPEC_OPTION_BAD",
            text,
            f"{key}={value} is not known",
            f"write one of {', '.join(encodings)}",
        )
    return value


def as_spec(spec: str | SourceSpec) -> SourceSpec:
    """Return the specification, parsed if it is text. Raises what `parse_spec` raises."""
    return parse_spec(spec) if isinstance(spec, str) else spec


_WEIGHT_KINDS: dict[ChangeKind, WeightKind] = {
    "none": "append_only",
    "weight": "weighted",
    "op": "changelog",
    "debezium": "changelog",
}


def weight_kind(spec: str | SourceSpec) -> WeightKind:
    """Return which weights the rows of a source can have. Raises what `parse_spec` raises."""
    parsed = as_spec(spec)
    return _WEIGHT_KINDS[parsed.change] if parsed.upsert is None else "changelog"
