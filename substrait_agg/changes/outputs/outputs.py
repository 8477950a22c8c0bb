"""The table of output kinds, and how ``--output`` is parsed, checked and opened."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from typing import Literal as OneOf

from substrait_agg.changes.outputs.delta_target import DeltaTarget, parse_delta
from substrait_agg.changes.outputs.iceberg_sink import IcebergSink, IcebergTarget, parse_iceberg
from substrait_agg.changes.outputs.parquet_sinks import (
    ChangesParquet,
    LateParquet,
    VersionFiles,
    ViewParquet,
)
from substrait_agg.changes.outputs.postgres_target import PostgresTarget, parse_postgres
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
from substrait_agg.changes.outputs.spark_sink import SparkSink
from substrait_agg.changes.outputs.spark_target import (
    KafkaTarget,
    SparkTarget,
    parse_kafka,
    parse_target,
)
from substrait_agg.changes.records import Record
from substrait_agg.errors import UsageError
from substrait_agg.files.locations import Location, location_of
from substrait_agg.optional_packages import require

if TYPE_CHECKING:
    from substrait_agg.changes.outputs.delta_sink import DeltaSink
    from substrait_agg.changes.outputs.postgres_sink import PostgresSink


TableTarget = PostgresTarget | DeltaTarget | IcebergTarget | KafkaTarget
"""Where an output of the rule ``table`` writes."""


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """A parsed ``[VIEW=]KIND[=LOCATION]``.

    Attributes:
        kind: key of `OUTPUTS`.
        location: file or folder; None for stdout, for no location, or if there is a `target`.
        target: where Spark writes, for the kind ``spark``.
        table: the table to write, for the kinds ``postgres``, ``delta`` and ``iceberg``.
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
    return Record.of(place.checkpoint, spec.kind, location, place.fence, place.view)


def _nothing(_spec: OutputSpec, _place: SinkContext) -> None:
    """Check nothing."""


@dataclass(frozen=True, slots=True)
class OutputKind:
    """A row of `OUTPUTS`.

    Attributes:
        location: whether the kind takes a location.
        check: checks the output before it is opened, without writing.
    """

    location: OneOf["none", "optional", "required", "target", "table"]
    open: Callable[[OutputSpec, SinkContext], Sink]
    check: Callable[[OutputSpec, SinkContext], object] = _nothing


def _batch_text(spec: OutputSpec, place: SinkContext) -> Sink:
    title = f"view {place.view}" if spec.titled else ""
    target = spec.location or place.stdout
    return BatchText(VIEW_ENCODERS[spec.kind], target, place.fence.guarded, title)


def _live_text(spec: OutputSpec, place: SinkContext) -> Sink:
    if spec.location is None and can_draw(place.stdout):
        # Importing rich takes longer than most commands take to run.
        from substrait_agg.changes.outputs.screen import FRAMES, Screen

        return Screen(place.stdout, FRAMES[spec.kind])
    return LiveText(VIEW_ENCODERS[spec.kind], spec.location or place.stdout, place.fence.guarded)


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


def _postgres(spec: OutputSpec, _place: SinkContext) -> PostgresSink:
    if not isinstance(spec.table, PostgresTarget):
        raise TypeError("an output postgres without a table")
    require("psycopg2")
    # The module imports an optional package.
    from substrait_agg.changes.outputs.postgres_sink import PostgresSink

    return PostgresSink(spec.table)


def _delta(spec: OutputSpec, _place: SinkContext) -> DeltaSink:
    if not isinstance(spec.table, DeltaTarget):
        raise TypeError("an output delta without a table")
    require("deltalake")
    # The module imports an optional package.
    from substrait_agg.changes.outputs.delta_sink import DeltaSink

    return DeltaSink(spec.table.absolute)


def _iceberg(spec: OutputSpec, _place: SinkContext) -> IcebergSink:
    if not isinstance(spec.table, IcebergTarget):
        raise TypeError("an output iceberg without a table")
    require("pyiceberg")
    return IcebergSink(spec.table)


def _kafka(spec: OutputSpec, _place: SinkContext) -> Any:
    if not isinstance(spec.table, KafkaTarget):
        raise TypeError("an output kafka-upserts without a topic")
    require("confluent_kafka")
    # The module imports an optional package.
    return import_module("substrait_agg.changes.kafka.sink").KafkaSink(spec.table)


def _table_sink(
    spec: OutputSpec, place: SinkContext
) -> PostgresSink | DeltaSink | IcebergSink | Any:
    if isinstance(spec.table, IcebergTarget):
        return _iceberg(spec, place)
    if isinstance(spec.table, KafkaTarget):
        return _kafka(spec, place)
    open_ = _delta if isinstance(spec.table, DeltaTarget) else _postgres
    return open_(spec, place)


def _check_delta(spec: OutputSpec, place: SinkContext) -> None:
    _delta(spec, place).check(place)


def _check_iceberg(spec: OutputSpec, place: SinkContext) -> None:
    _iceberg(spec, place).check(place)


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
    "postgres": OutputKind("table", _postgres, _postgres),
    "delta": OutputKind("table", _delta, _check_delta),
    "iceberg": OutputKind("table", _iceberg, _check_iceberg),
    "kafka-upserts": OutputKind("table", _kafka, _kafka),
    "none": OutputKind("none", lambda _spec, _place: Sink()),
}


_TARGETS: dict[str, Callable[[str], TableTarget]] = {
    "postgres": parse_postgres,
    "delta": parse_delta,
    "iceberg": parse_iceberg,
    "kafka-upserts": parse_kafka,
}
"""Output kind -> parser of its table."""


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
    rule = OUTPUTS[kind].location
    if rule == "target":
        return OutputSpec(kind, None, parse_target(location))
    if rule == "table":
        return OutputSpec(kind, None, table=_TARGETS[kind](location))
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
            identity = _table_sink(spec, place).identity
            if identity in users:
                raise _location_conflict(spec, users[identity])
            users[identity] = spec.kind
        if isinstance(spec.table, DeltaTarget) and spec.table.local_path is not None:
            _check_not_read(spec.kind, spec.table.local_path, tables or {})
            _check_apart(spec.kind, spec.table.local_path, place.checkpoint)
        if spec.target is not None and spec.target.local_path is not None:
            _check_apart(spec.kind, spec.target.local_path, place.checkpoint)


def reached(
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
        sink = _table_sink(output, SinkContext(checkpoint, sys.stdout))
        return sink, sink.reached(checkpoint, view)
    if isinstance(output, SparkSink):
        return output, output.reached(checkpoint, view)
    if isinstance(output, Sink):
        return output, None
    properties, files = Sink(), _BY_VERSION.get(output.kind)
    properties.changes_columns = files is None
    if files is None or output.location is None:
        return properties, None
    properties.takes_changes, properties.takes_late = files.takes_changes, files.takes_late
    record = Record.of(checkpoint, output.kind, output.location, view=view).read()
    return properties, record[0] if record else None


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
