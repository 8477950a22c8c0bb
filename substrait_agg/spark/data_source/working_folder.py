"""Find the working folder of the program that reads, from a worker of its Spark.

Spark creates a data source in a worker. The working folder of a worker is that in which Spark was
started, which need not be that of the program.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from substrait_agg.errors import UsageError
from substrait_agg.files.filesystem import filesystem

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PROCESSES = Path("/proc")
_MOST_ANCESTORS = 10


def absolute(path: str) -> str:
    """Return the path of a checkpoint, a relative one in the working folder of the Python program.

    Raises:
        UsageError: OPTION_INVALID for a relative path if the program is not known: it did not start
            Spark itself, or the system does not tell which process did.
    """
    if _SCHEME.match(path) or Path(path).is_absolute():
        return path
    folder = program_folder()
    if folder is None:
        raise UsageError(
            "OPTION_INVALID",
            f"the path {path!r} is relative, and Spark does not know the working folder of your program",
            help="give an absolute path: str(Path(...).resolve())",
            path="path",
        )
    return str(folder / path)


def program_folder(process: int | None = None) -> Path | None:
    """Return the working folder of the Python program that started the JVM above a process.

    Returns:
        The folder; None if no Python program started the JVM, or the system has no ``/proc``.
    """
    current = os.getpid() if process is None else process
    try:
        for _ in range(_MOST_ANCESTORS):
            parent = _parent(current)
            if _program(current) == "java":
                is_python = _program(parent).startswith("python")
                return (_PROCESSES / str(parent) / "cwd").readlink() if is_python else None
            current = parent
    except (OSError, ValueError):
        return None
    return None


def _program(process: int) -> str:
    return (_PROCESSES / str(process) / "exe").readlink().name


def _parent(process: int) -> int:
    # The name of the program, in brackets, may contain blanks and brackets.
    status = filesystem().read(_PROCESSES / str(process) / "stat").decode(errors="replace")
    return int(status.rpartition(")")[2].split()[1])
