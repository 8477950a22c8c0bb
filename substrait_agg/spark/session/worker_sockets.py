"""Connect a local Spark and its Python workers by Unix sockets instead of TCP.

They are faster, and TCP delays the end of a message by up to 40 ms. The path of a Unix socket is
short, and whoever may open the folder of the sockets may connect: the folder is private, and is
deleted at the end of the process.
"""

from __future__ import annotations

import atexit
import os
import re
from contextlib import suppress
from functools import cache
from pathlib import Path

from substrait_agg.files.download_cache import new_work_folder

MAX_FOLDER = 103 - len("/.01234567-89ab-cdef-0123-456789abcdef.sock")
"""Longest path of a folder for sockets in bytes: a socket's path has at most 103 bytes on macOS, 107
on Linux, and Spark names sockets like this."""

_LOCAL = re.compile(r"local(\[.*\])?")


def socket_settings(master: str) -> dict[str, str]:
    """Return the settings with which a new Spark uses Unix sockets.

    Returns:
        The settings; none for a Spark with executors in other processes, and where there is no
        private folder with a short path.
    """
    folder = _folder(os.getpid()) if _LOCAL.fullmatch(master) else None
    if folder is None:
        return {}
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(folder),
    }


@cache
def _folder(process: int) -> Path | None:
    """Return the folder for the sockets of this process; None if there is none."""
    with suppress(OSError):
        folder, delete = new_work_folder()
        if len(os.fsencode(folder)) > MAX_FOLDER:
            delete()
            return None
        # A forked process does not delete the folder of its parent.
        atexit.register(lambda: os.getpid() == process and delete())
        return folder
    return None
