"""What tables of lakes have in common: a position is a state of the table, changes are files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from substrait_agg.connect.protocol import TableSource
from substrait_agg.errors import InputRefused, UsageError
from substrait_agg.redaction import clean, safe_cause

F = TypeVar("F")

NOT_FOUND = re.compile("Object at location .* not found", re.S)
"""What the object stores of deltalake say of a file that is gone."""


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column of a table.

    Attributes:
        kind: its type in the format.
        nullable: whether it may be null.
        stored: its name or number in the files.
    """

    kind: object
    nullable: bool
    stored: str

    def difference(self, other: LakeColumn | None) -> str:
        """Return how a later column differs in a way that matters; empty if it does not."""
        if other is None:
            return "is missing"
        if self.kind != other.kind:
            return f"is another one: {self.kind} is now {other.kind}"
        if self.stored != other.stored:
            return "was removed, and another one has its name"
        return "may be null now" if other.nullable and not self.nullable else ""


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A table in messages, with what they say.

    Attributes:
        format: ``Delta`` or ``Iceberg``.
        state: what a position names: ``version`` or ``snapshot``.
        place: where the table is, without a password.
    """

    format: str
    state: str
    place: str

    def refuse_recreated(self) -> InputRefused:
        """Return the error SOURCE_RECREATED."""
        message = f"this is not the {self.format} table that the checkpoint has read: it was created again, or set back"
        help = "start a new checkpoint, or restore the table"
        return InputRefused("SOURCE_RECREATED", message, help=help, path=self.place)

    def gone(self, what: str) -> InputRefused:
        """Return the error SOURCE_POSITION_GONE."""
        message = f"the {self.format} table no longer has {what}"
        help = f"start a new checkpoint, and keep files and {self.state}s of the table for longer than runs pause"
        return InputRefused("SOURCE_POSITION_GONE", message, help=help, path=self.place)

    def unreadable(
        self, reason: object, help: str = "check the table with the program that writes it"
    ) -> InputRefused:
        """Return the error SOURCE_UNREADABLE."""
        message = f"the {self.format} table cannot be read: {clean(str(reason))}"
        return InputRefused("SOURCE_UNREADABLE", message, help=help, path=self.place)

    @contextmanager
    def translate_errors(self, *errors: type[Exception]) -> Iterator[None]:
        """Turn errors of reading files, and some others, into those of the source."""
        try:
            yield
        except (OSError, pa.ArrowException, *errors) as error:
            text = str(error)
            if isinstance(error, FileNotFoundError) or NOT_FOUND.search(text):
                raise self.gone(f"one of its files: {clean(text)}") from safe_cause(error)
            raise self.unreadable(text) from safe_cause(error)

    def read_start(self, sources: Iterable[TableSource]) -> int | None:
        """Return the state with which a run begins; None for the newest.

        Raises:
            UsageError: OPTION_CONFLICT, SPEC_OPTION_BAD.
        """
        text, *others = {source.options.get("from", "") for source in sources}
        if others:
            message = f"one {self.format} table has two values of from="
            help = "give the same one to all names of the table"
            raise UsageError("OPTION_CONFLICT", message, help=help, path=self.place)
        if text and not (text.isascii() and text.isdigit()):
            raise self.start_missing(text)
        return int(text) if text else None

    def start_missing(self, start: object) -> UsageError:
        """Return the error for a start that the table does not have."""
        message = f"the {self.format} table has no {self.state} {start}"
        help = f"give from= the number of a {self.state} that the table has"
        return UsageError("SPEC_OPTION_BAD", message, help=help, path=self.place)

    def check_same(
        self,
        old: Mapping[str, LakeColumn],
        new: Mapping[str, LakeColumn],
        columns: Mapping[str, Iterable[str]],
    ) -> None:
        """Check that later columns are the same.

        Args:
            old: the columns by their names.
            new: the later ones.
            columns: the names of those to check, for each name of the table.

        Raises:
            InputRefused: SOURCE_SCHEMA_CHANGED.
        """
        for name in dict.fromkeys(name for names in columns.values() for name in names):
            column = old.get(name)
            reason = column.difference(new.get(name)) if column else "is missing"
            if reason:
                raise InputRefused(
                    "SOURCE_SCHEMA_CHANGED",
                    f"a column that the plan reads has changed: the column {name} {reason}",
                    help="start a new checkpoint; columns that the plan does not read may change",
                    path=self.place,
                )


def net_files(new: Iterable[F], removed: Iterable[F]) -> dict[F, int]:
    """Return how often each file counts: new ones add their rows, and those that are gone take them back.

    >>> net_files("aab", "bc")
    {'a': 2, 'c': -1}
    """
    weights = Counter(new)
    weights.subtract(removed)
    return {file: weight for file, weight in weights.items() if weight}
