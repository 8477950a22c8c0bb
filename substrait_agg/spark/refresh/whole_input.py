"""All rows of the tables of a run up to and including a batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic
from urllib.parse import unquote

from substrait_agg.files.filesystem import filesystem
from substrait_agg.refresh.cost_model import InputSize
from substrait_agg.spark.executors.executor import BranchInput, Rows

RowsByOperator = tuple[Mapping[int, Rows], Mapping[int, BranchInput[Rows]]]
"""Prepared rows by operator id, and rows by operator id that the executor prepares."""


@dataclass(frozen=True, slots=True)
class WholeInput(Generic[Rows]):
    """All rows of the tables up to and including a batch.

    Attributes:
        size: bytes of the files of the batch and of all files; None if they are not known.
        missing: a file that no longer exists; empty if all do.
        read: returns the rows of some operators.
    """

    size: InputSize | None
    missing: str
    read: Callable[[Collection[int]], RowsByOperator[Rows]]


class FileSizes:
    """The sizes of files, each looked up once."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def look_up(self, batch: Sequence[str], whole: Sequence[str]) -> tuple[InputSize | None, str]:
        """Return the bytes of the files of a batch and of all files, or a file that is missing."""
        for uri in whole:
            try:
                # A file that was there may be gone: ask again.
                self._known[uri] = filesystem().size(Path(local_path(uri)))
            except OSError:
                return None, uri
        sizes = (sum(self._known.get(uri, 0) for uri in uris) for uris in (batch, whole))
        return InputSize(*sizes), ""


def local_path(uri: str) -> str:
    """Return the path of a local file from its URI in Spark's log."""
    return unquote(uri.partition(":")[2].removeprefix("//")) if uri.startswith("file:") else uri
