"""The findings of a verification. Each has a code, the path of a file, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal

import pyarrow as pa

from substrait_agg.errors import SubstraitAggError

Level = Literal["error", "note"]

COPY = "restore the checkpoint folder from a copy, roll back to an earlier version, or start a new checkpoint"
"""Advice for damage that nothing else can repair."""

_SWEPT = "VERSION_EXPIRED"

CAUGHT = (
    OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError,
    RecursionError, MemoryError, pa.ArrowException,
)  # fmt: skip
"""Exceptions that reading damaged content may raise."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding.

    Attributes:
        code: stable word, one of the table of error codes.
        path: of the file, relative to the checkpoint.
        message: what is wrong.
        help: what to do.
        level: ``error``, or ``note`` for something harmless.
    """

    code: str
    path: str
    message: str
    help: str
    level: Level = "error"

    def to_json(self) -> dict[str, str]:
        """Return the finding as JSON values."""
        return asdict(self)


class FindingCollector:
    """A collection of distinct findings."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], Finding] = {}

    def fault(self, code: str, path: str, message: str, help: str = COPY) -> None:
        """Add an error."""
        self._found.setdefault((code, path, message), Finding(code, path, message, help))

    def note(self, code: str, path: str, message: str, help: str) -> None:
        """Add a note on something harmless."""
        self._found.setdefault((code, path, message), Finding(code, path, message, help, "note"))

    @contextmanager
    def catch(self, code: str, path: str) -> Iterator[None]:
        """Turn exceptions of a check into errors: damaged content may break any reader."""
        try:
            yield
        except SubstraitAggError as error:
            if error.code == _SWEPT:  # a concurrent run expired the version
                return
            self.fault(error.code, path, error.message)
        except CAUGHT as error:
            self.fault(code, path, repr(error))

    def forget(self, paths: Iterable[str]) -> None:
        """Remove the findings about unneeded files that were deleted during verification."""
        deleted = frozenset(paths)
        self._found = {key: f for key, f in self._found.items() if f.path not in deleted}

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._found.values())

    def __len__(self) -> int:
        return len(self._found)

    @property
    def faulty(self) -> frozenset[str]:
        """Paths that have errors."""
        return frozenset(f.path for f in self if f.level == "error")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of `verify`.

    Attributes:
        checkpoint: the folder.
        findings: all findings, errors first.
        checked: number of versions, files, rows, bytes and changes that were checked.
    """

    checkpoint: str
    findings: tuple[Finding, ...]
    checked: dict[str, int]

    @property
    def ok(self) -> bool:
        """Whether there are no errors."""
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that are errors."""
        return tuple(f for f in self.findings if f.level == "error")

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as JSON values."""
        return {
            "checkpoint": self.checkpoint,
            "ok": self.ok,
            "checked": self.checked,
            "findings": [finding.to_json() for finding in self.findings],
        }
