"""The queries of the files in `queries/`, and what a comment in front of one says about it.

``-- refused CODE: why`` is refused. ``-- open: why`` may be refused, and is equal if it is not. ``-- last digit: why``
may differ from Spark in the last digits of floats.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "queries"
SHARE = 3
"""In `make test` there runs one query of so many."""


@dataclass(frozen=True)
class Query:
    """A query.

    Attributes:
        kind: name of its file.
        number: its place in the file, from 1.
        text: the SQL text.
        refused: the code with which it is refused; empty if it is not.
        is_open: whether it may be refused.
        is_rounded: whether floats may differ in the last digits.
    """

    kind: str
    number: int
    text: str
    refused: str
    is_open: bool
    is_rounded: bool

    def __str__(self) -> str:
        return f"{self.kind} {self.number}: {self.text}"


def queries(kind: str = "*") -> list[Query]:
    """Give all queries in the order of the files."""
    return [query for file in sorted(FOLDER.glob(f"{kind}.sql")) for query in _read(file)]


def _read(file: Path) -> list[Query]:
    parts = re.split(r";\s*\n", file.read_text("utf-8"))
    return [_query(file.stem, i, part) for i, part in enumerate(filter(str.strip, parts), 1)]


def _query(kind: str, number: int, part: str) -> Query:
    lines = part.strip().splitlines()
    notes = "\n".join(line for line in lines if line.startswith("--"))
    text = "\n".join(line for line in lines if not line.startswith("--"))
    refused = re.search(r"^-- refused (\w+)", notes, re.MULTILINE)
    return Query(
        kind,
        number,
        text,
        refused=refused[1] if refused else "",
        is_open="-- open" in notes,
        is_rounded="-- last digit" in notes,
    )
