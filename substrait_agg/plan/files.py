"""The files that a plan names itself."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A file, a folder or a glob that a plan reads.

    Attributes:
        uri: the path or URI as the plan writes it.
        glob: whether it is a glob.
        format: the field of the format in the message, such as ``parquet``; empty if not stated.
        options: the options of text files by the names of their fields.
    """

    uri: str
    glob: bool = False
    format: str = ""
    options: tuple[tuple[str, str], ...] = ()

    @property
    def path(self) -> str:
        """Return the path of a file on this machine; another URI is returned as it is."""
        parts = urlsplit(self.uri) if self.uri.startswith("file:") else None
        if parts is None or parts.netloc not in ("", "localhost"):
            return self.uri
        return unquote(self.uri.removeprefix("file:").removeprefix(f"//{parts.netloc}"))


def table_path(files: Sequence[PlanFile]) -> str:
    """Return the path of a table: of its only file, or of the folder that has all of its files."""
    paths = [file.path for file in files]
    if len(paths) == 1:
        return paths[0]
    try:
        return posixpath.commonpath(paths) or paths[0]
    except ValueError:
        return paths[0] if paths else ""
