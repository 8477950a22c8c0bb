"""The input of a peer on disk: CSV files per batch and table, and a description of them.

A folder has a file ``input.json`` and, for every batch, a folder ``BATCH/TABLE`` with CSV files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

DESCRIPTION = "input.json"
OP_COLUMN = "op"
"""Column of the operation of a row in CSV files for Flink: ``insert`` or ``delete``."""
NEVER = "never"
"""Name of the file of the rows that no later batch deletes, in the layout for Pathway."""


@dataclass(frozen=True)
class TableBatch:
    """What a batch does to a table.

    Attributes:
        lines: rows of its CSV files.
        alive: rows of the table after the batch.
        checksum: sum of the first column over these rows.
    """

    lines: int
    alive: int
    checksum: int


@dataclass(frozen=True)
class InputTable:
    """A table.

    Attributes:
        columns: name -> Arrow type as text.
        changes: whether rows are also deleted.
        batches: batch -> what it does; batches that do not change the table are left out.
    """

    columns: dict[str, str]
    changes: bool
    batches: dict[str, TableBatch]


@dataclass(frozen=True)
class PeerInput:
    """The input of a peer.

    Attributes:
        folder: of its files.
        tables: by name.
    """

    folder: Path
    tables: dict[str, InputTable]

    def save(self) -> None:
        """Write the description."""
        body = {name: asdict(table) for name, table in self.tables.items()}
        (self.folder / DESCRIPTION).write_text(json.dumps(body, indent=1))

    @classmethod
    def read(cls, folder: Path) -> PeerInput:
        """Read a description."""
        body = json.loads((folder / DESCRIPTION).read_text())
        return cls(
            folder,
            {
                name: InputTable(
                    table["columns"],
                    table["changes"],
                    {batch: TableBatch(**found) for batch, found in table["batches"].items()},
                )
                for name, table in body.items()
            },
        )

    def files(self, batch: str, table: str) -> list[Path]:
        """Return the CSV files of a table in a batch."""
        return sorted((self.folder / batch / table).glob("*.csv"))

    def changed(self, batch: str, tables: Sequence[str]) -> Iterator[tuple[str, TableBatch]]:
        """Yield the tables, of some, that a batch changes."""
        for table in tables:
            if batch in self.tables[table].batches:
                yield table, self.tables[table].batches[batch]
