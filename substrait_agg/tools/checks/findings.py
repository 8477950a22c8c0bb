"""What verifying finds: every fault with a code, the file it is in, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal

import pyarrow as pa

from substrait_agg.errors import SubstraitAggError

Level = Literal["error", "note"]

COPY = "restore the checkpoint folder from a copy, roll back to a version before it, or begin a new checkpoint"
"""What to do about damage that nothing else can undo."""

_SWEPT = "VERSION_EXPIRED"

CAUGHT = (
    OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError,
    RecursionError, MemoryError, pa.ArrowException,
)  # fmt: skip
"""What reading damaged content may raise."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something found.

    Attributes:
        code: stable word, one of the table of error codes.
        path: of the file, relative to the checkpoint.
        message: what is wrong.
        help: what to do.
        level: ``error``, or ``note`` for what harms nothing.
    """

    code: str
    path: str
    message: str
    help: str
    level: Level = "error"

    def to_json(self) -> dict[str, str]:
        """As JSON values."""
        return asdict(self)


class Findings:
    """Collects findings, each once."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], Finding] = {}

    def fault(self, code: str, path: str, message: str, help: str = COPY) -> None:
        """An error."""
        self._found.setdefault((code, path, message), Finding(code, path, message, help))

    def note(self, code: str, path: str, message: str, help: str) -> None:
        """Something that harms nothing."""
        self._found.setdefault((code, path, message), Finding(code, path, message, help, "note"))

    @contextmanager
    def caught(self, code: str, path: str) -> Iterator[None]:
        """Make a fault of whatever a check raises: damaged content may break any reader."""
        try:
            yield
        except SubstraitAggError as error:
            if error.code == _SWEPT:  # while it was looked at, beside a run
                return
            self.fault(error.code, path, error.message)
        except CAUGHT as error:
            self.fault(code, path, repr(error))

    def forget(self, paths: Iterable[str]) -> None:
        """Take back what was found about files: they were deleted meanwhile because nobody needs them."""
        gone = frozenset(paths)
        self._found = {key: f for key, f in self._found.items() if f.path not in gone}

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._found.values())

    def __len__(self) -> int:
        return len(self._found)

    @property
    def faulty(self) -> frozenset[str]:
        """Paths that a fault is about."""
        return frozenset(f.path for f in self if f.level == "error")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What `verify` says.

    Attributes:
        checkpoint: the folder.
        findings: everything found, errors first.
        checked: how many versions, files, rows and bytes were looked at.
    """

    checkpoint: str
    findings: tuple[Finding, ...]
    checked: dict[str, int]

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The faults."""
        return tuple(f for f in self.findings if f.level == "error")

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "checkpoint": self.checkpoint,
            "ok": self.ok,
            "checked": self.checked,
            "findings": [finding.to_json() for finding in self.findings],
        }
