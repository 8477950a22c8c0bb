"""Outputs that are ahead of the version to go back to: what each has to lose, and cutting it off."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from substrait_agg.changes.evolved import given
from substrait_agg.changes.files import Record
from substrait_agg.changes.sinks import CHANGE_ENCODERS
from substrait_agg.commit.fence import Fence
from substrait_agg.commit.view import View
from substrait_agg.errors import StateRefused

Way = Literal["cut text", "delete files", "deliver again", "stuck"]

DELTA = "spark=delta:"
_RECORD = re.compile(r"(.+?)(?:\.(\d+))?\.json")
"""Name of a record, and the number of the run that wrote it."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """An output that has had versions behind the one to go back to.

    Attributes:
        record: file name of its record.
        output: the output as text.
        version: the last it has had.
        way: what becomes of it. ``cut text``: the lines of later versions are cut off; ``delete files``: the files of later
            versions are deleted; ``deliver again``: what it has had stays there, and the versions that are made then come on top;
            ``stuck``: it takes no version a second time, so nothing can be done.
        bytes: size of the text afterwards, 0 otherwise.
        anew: it has had only versions of a later plan with other columns, and begins as if it had had nothing.
    """

    record: str
    output: str
    version: int
    way: Way
    bytes: int = 0
    anew: bool = False

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @property
    def place(self) -> Path:
        """The file or folder that it writes."""
        return Path(self.output.partition("=")[2])


def ahead_of(folder: Path, version: int) -> list[tuple[Record, int, int]]:
    """Records of outputs that have had more than `version`, with the version and the size that they tell.

    Raises:
        StateRefused: OUTPUT_RECORD_DAMAGED.
    """
    found = []
    for record in records(folder):
        told = record.read()
        if told is not None and told[0] is not None and told[0] > version:
            found.append((record, told[0], told[1]))
    return found


def records(folder: Path) -> Iterator[Record]:
    """The records of a checkpoint's outputs."""
    place = folder / "outputs"
    newest: dict[str, tuple[int, Path]] = {}
    for path in place.glob("*.json") if place.is_dir() else ():
        found = _RECORD.fullmatch(path.name)
        if found is not None:
            numbered = (int(found[2] or 0), path)
            newest[found[1]] = max(newest.get(found[1], numbered), numbered)
    for name, (_, path) in sorted(newest.items()):
        try:
            output = str(json.loads(path.read_text())["output"])
        except (ValueError, KeyError, TypeError):
            output = path.name
        yield Record(place / f"{name}.json", output)


def losses(folder: Path, version: int, view: View) -> list[Ahead]:
    """What each output that is ahead of `version` has to lose.

    Raises:
        StateRefused: OUTPUT_DAMAGED, OUTPUT_RECORD_DAMAGED, STATE_DAMAGED.
    """
    found, evolutions = [], view.evolutions()
    for record, had, size in ahead_of(folder, version):
        kind, _, location = record.output.partition("=")
        if kind in CHANGE_ENCODERS:
            left = _size_at(Path(location), kind, size, view, range(version + 1, had + 1))
            found.append(Ahead(record.path.name, record.output, had, "cut text", left))
            continue
        files: Way = "delete files" if kind in _FILES else "deliver again"
        way: Way = "stuck" if record.output.startswith(DELTA) else files
        late = kind == "late-parquet"
        anew = any(
            version < e.version <= had and not (e.same_tables if late else e.same_columns)
            for e in evolutions
        )
        found.append(Ahead(record.path.name, record.output, had, way, anew=anew))
    return found


def _size_at(path: Path, kind: str, size: int, view: View, later: range) -> int:
    """Size of a text before the lines of later versions, which are compared with what is cut off."""
    evolved = {e.version: e.same_columns for e in view.evolutions()}
    texts = (
        text
        for v in later
        for table in (
            given(view, v, same_columns=evolved[v])
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
            there = file.read(len(tail))
    except OSError as error:
        raise _damaged(path, f"it cannot be read: {error.strerror}") from error
    if start < 0 or there != tail:
        raise _damaged(path, "its end is not what the versions to be taken back wrote")
    return start


def _damaged(path: Path, message: str) -> StateRefused:
    help = "put the file back as it was; or remove it and its record in outputs/, then it is written anew"
    return StateRefused("OUTPUT_DAMAGED", message, help=help, path=str(path))


def cut_output(folder: Path, ahead: Ahead, version: int, fence: Fence) -> None:
    """Take an output back to `version`; what is done already is no matter."""
    # The record first: what a text has behind it is cut off by any run that goes on.
    record = Record(folder / "outputs" / ahead.record, ahead.output, fence)
    record.take_over(None if ahead.anew else version, ahead.bytes)
    if ahead.way == "cut text" and ahead.place.exists():
        with ahead.place.open("r+b") as file:
            file.truncate(ahead.bytes)
    if ahead.way == "delete files":
        for path in _FILES[ahead.output.partition("=")[0]](ahead.place):
            if int(path.stem.rpartition("-")[2]) > version:
                path.unlink(missing_ok=True)


_FILES: dict[str, Callable[[Path], list[Path]]] = {
    "changes-parquet": lambda folder: sorted(folder.glob("changes-*.parquet")),
    "late-parquet": lambda folder: sorted(folder.glob("*/late-*.parquet")),
}
"""Output kind -> its files, each named by its version."""
