"""The table of output kinds, and how ``--output`` is parsed, checked and opened."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Literal as OneOf
from typing import TextIO

from substrait_agg.changes.outputs.parquet_sinks import (
    ChangesParquet,
    LateParquet,
    VersionFiles,
    ViewParquet,
)
from substrait_agg.changes.outputs.sinks import (
    CHANGE_ENCODERS,
    VIEW_ENCODERS,
    AppendText,
    BatchText,
    LiveText,
    Sink,
    SinkContext,
    StreamText,
)
from substrait_agg.changes.outputs.versioned_sink import VersionedSink
from substrait_agg.changes.records import Record
from substrait_agg.changes.targets.delta import DeltaTarget, parse_delta
from substrait_agg.changes.targets.iceberg import IcebergTarget, parse_iceberg
from substrait_agg.changes.targets.kafka import KafkaTarget, parse_kafka
from substrait_agg.changes.targets.postgres import PostgresTarget, parse_postgres
from substrait_agg.changes.targets.spark import SparkTarget, parse_target
from substrait_agg.errors import UsageError
from substrait_agg.files.locations import Location, location_of
from substrait_agg.optional_packages import require

TableTarget = PostgresTarget | DeltaTarget | IcebergTarget | KafkaTarget
"""Where an output of the rule ``table`` writes."""


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """A parsed ``[VIEW=]KIND[=LOCATION]``.

    Attributes:
        kind: key of `OUTPUTS`.
        location: file or folder; None for stdout, for no location, or if there is a `target`.
        target: where Spark writes, for the kind ``spark``.
        table: the table or topic to write, for kinds of the rule ``table``.
        view: name of the view; empty if it is not given.
        titled: whether the name of the view is written above it.
    """

    kind: str
    location: Path | None
    target: SparkTarget | None = None
    view: str = ""
    titled: bool = False
    table: TableTarget | None = None

    def __str__(self) -> str:
        place = self.target or self.table or self.location
        written = self.kind if place is None else f"{self.kind}={place}"
        return f"{self.view}={written}" if self.view else written


def _record(spec: OutputSpec, location: Path, place: SinkContext) -> Record:
    output = f"{spec.kind}={location.absolute()}"
    return Record.of(place.checkpoint, output, place.fence, place.view)


def _check_nothing(_spec: OutputSpec, _place: SinkContext) -> None:
    """Check nothing."""


@dataclass(frozen=True, slots=True)
class OutputKind:
    """A row of `OUTPUTS`.

    Attributes:
        location: whether the kind takes a location.
        check: checks the output before it is opened, without writing.
        parse: parses the location of a kind of the rule ``table``.
    """

    location: OneOf["none", "optional", "required", "target", "table"]
    open: Callable[[OutputSpec, SinkContext], Sink]
    check: Callable[[OutputSpec, SinkContext], object] = _check_nothing
    parse: Callable[[str], TableTarget] | None = None


def _batch_text(spec: OutputSpec, place: SinkContext) -> Sink:
    title = f"view {place.view}" if spec.titled else ""
    target = spec.location or place.stdout
    return BatchText(VIEW_ENCODERS[spec.kind], target, place.fence.guard, title)


def _live_text(spec: OutputSpec, place: SinkContext) -> Sink:
    if spec.location is None and can_draw(place.stdout):
        # Importing rich takes longer than most commands take to run.
        from substrait_agg.changes.outputs.screen import FRAMES, Screen

        return Screen(place.stdout, FRAMES[spec.kind])
    return LiveText(VIEW_ENCODERS[spec.kind], spec.location or place.stdout, place.fence.guard)


def can_draw(stream: TextIO) -> bool:
    """Return whether live outputs can be redrawn: a terminal with cursor control and UTF-8."""
    able = os.environ.get("TERM", "").lower() not in ("dumb", "unknown")
    encoding = (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "")
    return able and encoding == "utf8" and stream.isatty()


def _stream_text(spec: OutputSpec, place: SinkContext) -> Sink:
    encode = CHANGE_ENCODERS[spec.kind]
    if spec.location is None:
        return StreamText(encode, place.stdout)
    if _is_device(spec.location):
        # A device or pipe receives the lines as they come; it has no size and cannot be truncated.
        return StreamText(encode, spec.location.open("w"), owned=True)
    return AppendText(encode, spec.location, _record(spec, spec.location, place))


def _check_stream_text(spec: OutputSpec, place: SinkContext) -> None:
    _check_text(spec, place)
    if spec.location is None or _is_device(spec.location):
        return
    AppendText.check(spec.location, _record(spec, spec.location, place))


def _is_device(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


def _check_text(spec: OutputSpec, _place: SinkContext) -> None:
    if spec.location is not None and spec.location.is_dir():
        message = f"output {spec.kind} needs a file, but this is a folder"
        help = "give the path of a file; every version replaces it"
        raise UsageError("OUTPUT_NOT_A_FILE", message, help=help, path=str(spec.location))


def _check_versions(sink: type[VersionFiles], spec: OutputSpec, place: SinkContext) -> None:
    folder = _folder(spec)
    sink.check(folder, _record(spec, folder, place))


def _versions(sink: type[VersionFiles], spec: OutputSpec, place: SinkContext) -> Sink:
    folder = _folder(spec)
    return sink(folder, _record(spec, folder, place))


def _view_parquet(spec: OutputSpec, place: SinkContext) -> Sink:
    return ViewParquet(_folder(spec), place.fence)


def _spark(spec: OutputSpec, place: SinkContext) -> Sink:
    if place.writer is None or spec.target is None:
        raise TypeError("an output of Spark needs a run")
    return place.writer(spec.target, place)


def _table(parse: Callable[[str], TableTarget], package: str, module: str, sink: str) -> OutputKind:
    """Return the row of a sink whose module imports an optional package."""

    def open_(spec: OutputSpec, _place: SinkContext) -> VersionedSink:
        """Import the module of the sink and open the table."""
        require(package)
        opened: VersionedSink = getattr(import_module(f"{__package__}.{module}"), sink)(spec.table)
        return opened

    return OutputKind("table", open_, lambda spec, place: open_(spec, place).check(place), parse)


def _folder(spec: OutputSpec) -> Path:
    folder = spec.location or Path()
    if folder.exists() and not folder.is_dir():
        message = f"output {spec.kind} needs a folder, but this is a file"
        help = "give the path of a folder; it is created if it does not exist"
        raise UsageError("OUTPUT_NOT_A_FOLDER", message, help=help, path=str(folder))
    return folder


def _by_version(sink: type[VersionFiles]) -> OutputKind:
    return OutputKind("required", partial(_versions, sink), partial(_check_versions, sink))


OUTPUTS: dict[str, OutputKind] = {
    "batch-table": OutputKind("optional", _batch_text, _check_text),
    "batch-csv": OutputKind("optional", _batch_text, _check_text),
    "live-table": OutputKind("optional", _live_text, _check_text),
    "live-csv": OutputKind("optional", _live_text, _check_text),
    "stream-json": OutputKind("optional", _stream_text, _check_stream_text),
    "debezium-json": OutputKind("optional", _stream_text, _check_stream_text),
    "changes-parquet": _by_version(ChangesParquet),
    "late-parquet": _by_version(LateParquet),
    "view-parquet": OutputKind("required", _view_parquet, lambda spec, _: _folder(spec)),
    "spark": OutputKind("target", _spark),
    "postgres": _table(parse_postgres, "psycopg2", "postgres_sink", "PostgresSink"),
    "delta": _table(parse_delta, "deltalake", "delta_sink", "DeltaSink"),
    "iceberg": _table(parse_iceberg, "pyiceberg", "iceberg_sink", "IcebergSink"),
    "kafka-upserts": _table(parse_kafka, "confluent_kafka", "kafka_sink", "KafkaSink"),
    "none": OutputKind("none", lambda _spec, _place: Sink()),
}


def parse_output(text: str) -> OutputSpec:
    """Parse ``[VIEW=]KIND[=LOCATION]``; ``-`` is stdout.

    A text that begins with a kind has no name of a view.

    >>> str(parse_output("changes-parquet=out"))
    'changes-parquet=out'
    >>> parse_output("revenue=batch-csv").view
    'revenue'

    Raises:
        UsageError: unknown kind, missing or unexpected location, or invalid target.
    """
    kind, equals, location = text.partition("=")
    if kind not in OUTPUTS and location.partition("=")[0] in OUTPUTS:
        return replace(parse_output(location), view=kind)
    if kind not in OUTPUTS:
        message = f"output {kind!r} is not known"
        raise UsageError("OPTION_INVALID", message, help=_how_to_write(text), path="--output")
    rule, parse = OUTPUTS[kind].location, OUTPUTS[kind].parse
    if rule == "target":
        return OutputSpec(kind, None, parse_target(location))
    if parse is not None:
        return OutputSpec(kind, None, table=parse(location))
    if rule == "required" and location in ("", "-"):
        message = f"output {kind} needs a folder"
        raise UsageError("OPTION_INVALID", message, help=f"write {kind}=DIR", path="--output")
    if rule == "none" and equals:
        message = f"output {kind} does not take a location"
        raise UsageError("OPTION_INVALID", message, help=f"write {kind}", path="--output")
    return OutputSpec(kind, None if location in ("", "-") else Path(location))


def _how_to_write(text: str) -> str:
    kind, colon, location = text.partition(":")
    if colon and kind in OUTPUTS:
        return f"write {kind}={location}"
    return f"write [VIEW=]KIND or [VIEW=]KIND=LOCATION, with one of {', '.join(OUTPUTS)}"


def check_outputs(
    outputs: Iterable[str | OutputSpec | Sink],
    checkpoint: str | Location,
    metrics: str | Path | None = None,
    tables: Mapping[Path, str] | None = None,
) -> None:
    """Check that outputs can be opened, before anything is written.

    Args:
        outputs: the outputs of one run.
        checkpoint: folder or URL of the checkpoint.
        metrics: file of the metrics.
        tables: the folders that the run reads: folder -> table.

    Raises:
        UsageError: OPTION_INVALID, OPTION_CONFLICT, OUTPUT_EXISTS, OUTPUT_NOT_A_FILE,
            OUTPUT_NOT_A_FOLDER.
        StateRefused: OUTPUT_DAMAGED, OUTPUT_RECORD_DAMAGED.
    """
    place = SinkContext(location_of(checkpoint), sys.stdout)
    users: dict[Path | str, str] = {}
    if metrics is not None and not _is_device(Path(metrics)):
        users[Path(metrics).resolve()] = "metrics"
        _check_not_read("metrics", Path(metrics), tables or {})
        _check_apart("metrics", Path(metrics), place.checkpoint)
    for output in outputs:
        if isinstance(output, Sink):
            continue
        spec = parse_output(output) if isinstance(output, str) else output
        OUTPUTS[spec.kind].check(spec, replace(place, view=spec.view))
        if spec.location is not None and not _is_device(spec.location):
            resolved = spec.location.resolve()
            if resolved in users:
                raise _location_conflict(spec, users[resolved])
            users[resolved] = spec.kind
            _check_not_read(spec.kind, spec.location, tables or {})
            _check_apart(spec.kind, spec.location, place.checkpoint)
        if spec.table is not None:
            sink = OUTPUTS[spec.kind].open(spec, place)
            identity = sink.identity if isinstance(sink, VersionedSink) else str(spec)
            if identity in users:
                raise _location_conflict(spec, users[identity])
            users[identity] = spec.kind
        if isinstance(spec.table, DeltaTarget) and spec.table.local_path is not None:
            _check_not_read(spec.kind, spec.table.local_path, tables or {})
            _check_apart(spec.kind, spec.table.local_path, place.checkpoint)
        if spec.target is not None and spec.target.local_path is not None:
            _check_apart(spec.kind, spec.target.local_path, place.checkpoint)


def reach_version(
    output: OutputSpec | Sink,
    checkpoint: Location,
    writer: Callable[[SparkTarget], Sink],
    view: str = "",
) -> tuple[Sink, int | None]:
    """Return a sink with the properties of an output, and the version that earlier runs reached.

    Nothing is written. The version is None for custom `Sink` objects: their position is only known
    after `Sink.begin`.
    """
    if isinstance(output, OutputSpec) and output.target is not None:
        output = writer(output.target)
    if isinstance(output, OutputSpec) and output.table is not None:
        output = OUTPUTS[output.kind].open(output, SinkContext(checkpoint, sys.stdout))
    if isinstance(output, VersionedSink):
        return output, output.reach_version(checkpoint, view)
    if isinstance(output, Sink):
        return output, None
    properties, files = Sink(), _BY_VERSION.get(output.kind)
    properties.changes_columns = files is None
    if files is None or output.location is None:
        return properties, None
    properties.takes_changes, properties.takes_late = files.takes_changes, files.takes_late
    place = SinkContext(checkpoint, sys.stdout, view=view)
    return properties, _record(output, output.location, place).version


_BY_VERSION: dict[str, type[VersionFiles]] = {
    "changes-parquet": ChangesParquet,
    "late-parquet": LateParquet,
}


def keeps_late(output: str | OutputSpec | Sink) -> bool:
    """Return whether an output receives late rows.

    Raises:
        UsageError: as `parse_output`.
    """
    if isinstance(output, Sink):
        return output.takes_late
    spec = parse_output(output) if isinstance(output, str) else output
    return spec.kind == "late-parquet"


def _check_not_read(kind: str, location: Path, tables: Mapping[Path, str]) -> None:
    """Refuse an output in a folder whose files are rows of a table. Spark skips hidden files."""
    in_folder = kind in OUTPUTS and OUTPUTS[kind].location in ("required", "table")
    folder = location.resolve() if in_folder else location.resolve().parent
    if folder in tables and (in_folder or not location.name.startswith((".", "_"))):
        message = f"the run would read the files of {kind} as rows of the table {tables[folder]}"
        help = "give a location outside of the folder of the source"
        raise UsageError("OPTION_CONFLICT", message, help=help, path=str(location))


def _check_apart(kind: str, location: Path, checkpoint: Location) -> None:
    """Refuse an output in the folder of the checkpoint, and one of Spark in a folder that contains it.

    Such a folder is a table, whose upkeep may delete other files, as VACUUM of Delta does.
    """
    if not isinstance(checkpoint, Path):
        return
    output, folder = location.resolve(), checkpoint.resolve()
    is_table = kind in OUTPUTS and OUTPUTS[kind].location in ("target", "table")
    if output.is_relative_to(folder) or (is_table and folder.is_relative_to(output)):
        raise UsageError(
            "OPTION_CONFLICT",
            f"the output {kind} and the checkpoint {checkpoint} would write to the same folder",
            help="give the output a folder beside that of the checkpoint",
            path=str(location),
        )


def _location_conflict(spec: OutputSpec, other: str) -> UsageError:
    message = f"{other} and {spec.kind} would overwrite each other"
    help = "give each output its own location"
    return UsageError("OPTION_CONFLICT", message, help=help, path=str(spec.location or spec))


def open_output(output: str | OutputSpec | Sink, place: SinkContext) -> tuple[str, Sink]:
    """Open an output and return its name and its sink, ready for deliveries.

    Raises:
        UsageError: the output is unknown, or its location holds other data.
        StateRefused: the output or its record is damaged.
    """
    if isinstance(output, Sink):
        sink, name = output, output.name or type(output).__name__
    else:
        spec = parse_output(output) if isinstance(output, str) else output
        name = str(spec)
        if spec.location is not None:  # the working folder may change before it is written
            spec = replace(spec, location=spec.location.absolute())
        sink = OUTPUTS[spec.kind].open(spec, place)
    sink.begin(place)
    return name, sink
