"""Cut back the outputs that have received versions after the target of a rollback."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from substrait_agg.changes.delivery.output_cursor import tables_to_deliver
from substrait_agg.changes.outputs.sinks import CHANGE_ENCODERS
from substrait_agg.changes.postgres.owner import empty_again
from substrait_agg.changes.records import Record
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.fence import Fence
from substrait_agg.commit.view.view import View
from substrait_agg.document_fields import DOCUMENT_OMITTED
from substrait_agg.errors import StateRefused
from substrait_agg.files.filesystem import filesystem
from substrait_agg.files.locations import Location
from substrait_agg.tools.checks.findings import FindingCollector

Way = Literal["cut text", "delete files", "deliver again", "write again", "stuck"]

DELTA = "spark=delta:"
NO_VERSION_TWICE = (DELTA, "delta=", "iceberg=", "kafka-upserts=")
"""Beginnings of outputs that refuse a version that they have."""
POSTGRES = "postgres="
TRANSACTIONS = (DELTA, POSTGRES)
"""Beginnings of outputs that write a version as a transaction, which a record may not know yet."""

_RECORD = re.compile(r"([A-Za-z0-9_-]+)(?:\.([0-9]+))?\.json")
"""Name of a record, and the number of the run that wrote it."""


@dataclass(frozen=True, slots=True)
class OutputAhead:
    """An output that has received later versions than the target of a rollback.

    Attributes:
        record: file name of its record.
        output: the output as text.
        version: the last version that it has received.
        way: its treatment. ``cut text``: the lines of later versions are cut off. ``delete files``:
            the files of later versions are deleted. ``deliver again``: the output keeps what it has
            received, and also receives the new versions. ``write again``: the next run empties the
            table and writes it from the first version on. ``stuck``: it accepts no version twice, so
            the rollback is impossible.
        bytes: size of the text afterwards, 0 otherwise.
        anew: whether it restarts without a delivered version: it is written again, or has received
            only versions of a later plan with other columns.
        view: name of its view; empty for the view of one plan without a name.
    """

    record: str
    output: str
    version: int
    way: Way
    bytes: int = 0
    anew: bool = False
    view: str = field(default="", metadata={DOCUMENT_OMITTED: True})

    def to_json(self) -> dict[str, Any]:
        """Return the values as JSON."""
        return asdict(self)

    @property
    def place(self) -> Path:
        """The file or folder that the output writes."""
        return Path(self.output.partition("=")[2])


def ahead_of(folder: Location, version: int) -> list[tuple[Record, int, int]]:
    """Return the outputs that have received more than `version`.

    A run may have been killed between a delivery and its record. A text is cut to the size in its
    record in that case. Files and transactions are not: the part of the next version that they have
    received would be taken for the version that replaces it. So this function also looks at files,
    and assumes such a transaction for tables.

    Returns:
        Per output its record, the last version that it has received, and the size in the record.

    Raises:
        StateRefused: OUTPUT_RECORD_DAMAGED.
    """
    ahead = []
    for record in records(folder):
        state = record.read()
        if state is None:
            continue
        had = max(-1 if state[0] is None else state[0], *_numbers_of_files(record.output), -1)
        unknown = record.output.startswith(TRANSACTIONS) and had == version
        if unknown or (record.output.startswith(POSTGRES) and state[0] is None):
            had = version + 1  # unknown without the table, so assume a transaction
        if had > version:
            ahead.append((record, had, state[1]))
    return ahead


def _numbers_of_files(output: str) -> list[int]:
    """Return the versions of the files of an output. Other kinds of outputs have none."""
    kind, _, location = output.partition("=")
    return [number for number, _ in _FILES[kind](Path(location))] if kind in _FILES else []


def records(folder: Location) -> Iterator[Record]:
    """Yield the records of a checkpoint's outputs."""
    place = FolderFiles(folder / "outputs")
    newest: dict[str, tuple[int, str]] = {}
    for file in place.names():
        match = _RECORD.fullmatch(file)
        if match is not None:
            numbered = (int(match[2] or 0), file)
            newest[match[1]] = max(newest.get(match[1], numbered), numbered)
    for name, (_, file) in sorted(newest.items()):
        try:
            body = json.loads(place.read(file))
            output, view = str(body["output"]), str(body.get("view", ""))
        except (
            OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, StateRefused
        ):  # fmt: skip
            output, view = file, ""
        yield Record(folder / "outputs" / f"{name}.json", output, view=view)


def check_records(folder: Location, findings: FindingCollector) -> None:
    """Check that the records of all outputs can be read."""
    for record in records(folder):
        try:
            record.read()
        except StateRefused as error:
            findings.fault(
                error.code, f"outputs/{Path(error.path).name}", error.message, error.help
            )
        except OSError as error:
            help = "check the disk and the permissions, then verify again"
            findings.fault("FILE_NOT_USABLE", f"outputs/{record.path.name}", str(error), help)


def losses(checkpoint: Checkpoint, version: int) -> list[OutputAhead]:
    """Return the treatment of each output that has received more than `version`.

    An output of a view that the current plan does not have keeps what it has received. If it is a
    text, it is stuck.

    Raises:
        StateRefused: OUTPUT_DAMAGED, OUTPUT_RECORD_DAMAGED, STATE_DAMAGED.
    """
    treatments, document = [], checkpoint.document()
    for record, had, size in ahead_of(checkpoint.folder, version):
        kind, _, location = record.output.partition("=")
        has_view = document.view_schema(record.view) is not None
        view = View(checkpoint, record.view) if has_view else None
        if kind in CHANGE_ENCODERS and view is not None:
            left = _size_at(Path(location), kind, size, view, range(version + 1, had + 1))
            treatments.append(
                OutputAhead(
                    record.path.name, record.output, had, "cut text", left, view=record.view
                )
            )
            continue
        files: Way = "delete files" if kind in _FILES else "deliver again"
        if record.output.startswith(POSTGRES):
            files = "write again"
        # A table whose record does not go beyond `version` is not stuck: it receives the next
        # version under a new transaction id.
        stuck = record.output.startswith(NO_VERSION_TWICE) and _recorded_version(record) > version
        stuck |= kind in CHANGE_ENCODERS
        late = kind == "late-parquet"
        evolutions = [] if view is None else view.evolutions()
        again = any(
            version < e.version <= had and not (e.same_tables if late else e.same_columns)
            for e in evolutions
        )
        again |= files == "write again"
        way: Way = "stuck" if stuck else files
        treatments.append(
            OutputAhead(record.path.name, record.output, had, way, anew=again, view=record.view)
        )
    return treatments


def _recorded_version(record: Record) -> int:
    state = record.read()
    return -1 if state is None or state[0] is None else state[0]


def _size_at(path: Path, kind: str, size: int, view: View, later: range) -> int:
    """Return the size of a text without the lines of later versions.

    The lines must be equal to the end of the text.
    """
    evolved = {e.version: e.same_columns for e in view.evolutions()}
    texts = (
        text
        for v in later
        for table in (
            tables_to_deliver(view, v, same_columns=evolved[v])
            if v in evolved
            else [view.changes(since=v - 1, until=v)]
        )
        for text in CHANGE_ENCODERS[kind](table)
    )
    tail = "".join(texts).encode()
    start = size - len(tail)
    try:
        with path.open("rb") as file:
            file.seek(max(0, start))
            content = file.read(len(tail))
    except OSError as error:
        raise _refuse_damage(path, f"it cannot be read: {error.strerror}") from error
    if start < 0 or content != tail:
        raise _refuse_damage(path, "its end does not contain the versions to remove")
    return start


def _refuse_damage(path: Path, message: str) -> StateRefused:
    help = "restore the file; or remove it and its record in outputs/, and the next run writes both again"
    return StateRefused("OUTPUT_DAMAGED", message, help=help, path=str(path))


def cut_output(folder: Location, ahead: OutputAhead, version: int, fence: Fence) -> None:
    """Cut an output back to `version`. The call can be repeated."""
    # Write the record first: a run cuts off any text beyond the size in the record.
    record = Record(folder / "outputs" / ahead.record, ahead.output, fence, ahead.view)
    record.take_over(None if ahead.anew else version, ahead.bytes)
    if ahead.way == "cut text" and ahead.place.exists():
        with ahead.place.open("r+b") as file:
            file.truncate(ahead.bytes)
    if ahead.way == "write again":
        empty_again(record)
    if ahead.output.startswith(DELTA):
        filesystem().remove(record.path.with_suffix(".id"))
    if ahead.way == "delete files":
        for number, path in _FILES[ahead.output.partition("=")[0]](ahead.place):
            if number > version:
                path.unlink(missing_ok=True)


def _list_named(paths: Iterable[Path], prefix: str) -> list[tuple[int, Path]]:
    """Return versions and paths of files with the names of an output. Other files are ignored."""
    pattern = re.compile(rf"{prefix}-([0-9]{{20}})\.parquet")
    matches = ((pattern.fullmatch(path.name), path) for path in paths)
    return sorted((int(name[1]), path) for name, path in matches if name)


_FILES: dict[str, Callable[[Path], list[tuple[int, Path]]]] = {
    "changes-parquet": lambda folder: _list_named(folder.glob("changes-*.parquet"), "changes"),
    "late-parquet": lambda folder: _list_named(folder.glob("*/late-*.parquet"), "late"),
}
"""Files of an output by kind, each with its version."""
