"""Another file system in place of that of the disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from substrait_agg.files import filesystem
from substrait_agg.files.filesystem import FileSystem


@contextmanager
def use_filesystem(other: FileSystem) -> Iterator[None]:
    """Use another file system in this process for the duration of the block."""
    with patch.object(filesystem, "_DISK", other):
        yield
