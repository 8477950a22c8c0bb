"""All rows of the tables of a run up to and including a batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic
from urllib.parse import unquote

from substrait_agg.commit.documents.positions import ReadFile
from substrait_agg.refresh.cost_model import InputSize, LostFile
from substrait_agg.runtime.executor import BranchInput, Rows

RowsByOperator = tuple[Mapping[int, Rows], Mapping[int, BranchInput[Rows]]]
"""Prepared rows by operator id, and rows by operator id that the executor prepares."""


@dataclass(frozen=True, slots=True)
class WholeInput(Generic[Rows]):
    """All rows of the tables up to and including a batch.

    Attributes:
        size: bytes of the files of the batch and of all files; None if they are not known.
        lost: a file whose rows cannot be read again; None if all can.
        read: returns the rows of some operators.
    """

    size: InputSize | None
    lost: LostFile | None
    read: Callable[[Collection[int]], RowsByOperator[Rows]]


def input_size(
    batch: Collection[str], whole: Iterable[ReadFile]
) -> tuple[InputSize | None, LostFile | None]:
    """Return the bytes of the files of a batch and of all files, or a file that was changed.

    Earlier batches have read the files as they were planned. The batch reads its own as they are.
    """
    sizes: dict[bool, int] = {True: 0, False: 0}
    for file in whole:
        try:
            status = Path(local_path(file.uri)).stat()
        except OSError:
            return None, LostFile(file.uri, "no longer exists")
        if file.uri not in batch and status.st_mtime_ns // 1_000_000 != file.modified:
            return None, LostFile(file.uri, "has been modified since it was read")
        sizes[file.uri in batch] += status.st_size
    return InputSize(sizes[True], sum(sizes.values())), None


def local_path(uri: str) -> str:
    """Return the path of a local file from its URI."""
    return unquote(uri.partition(":")[2].removeprefix("//")) if uri.startswith("file:") else uri
