"""Who writes a table of PostgreSQL: a file beside the record of the output, and its changes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from substrait_agg.changes.records import Record
from substrait_agg.errors import StateRefused
from substrait_agg.files.atomic_files import write_atomically
from substrait_agg.files.filesystem import filesystem
from substrait_agg.files.locations import Location


@dataclass(frozen=True, slots=True)
class PostgresOwner:
    """Who writes a table: a file beside the record of the output.

    Attributes:
        id: unique to this output of this checkpoint, also among later ones in the same folder.
        history: number of rollbacks to versions before the one that the table has.
        created: whether the output created the table.
    """

    id: str
    history: int = 0
    created: bool = True

    @staticmethod
    def path(record: Record) -> Location:
        """Return the place of the file."""
        return record.path.with_suffix(".id")

    @classmethod
    def read(cls, record: Record) -> PostgresOwner | None:
        """Return the content of the file, None if there is none.

        Raises:
            StateRefused: OUTPUT_RECORD_DAMAGED.
        """
        path = cls.path(record)
        if not filesystem().exists(path):
            return None
        try:
            body = json.loads(filesystem().read(path))
            return cls(str(body["id"]), int(body["history"]), bool(body["created"]))
        except (ValueError, KeyError, TypeError) as error:
            message = f"the id of the output {record.output} cannot be read ({error})"
            help = "restore the file; or remove the record, the table and its row in substrait_agg_versions"
            raise StateRefused(
                "OUTPUT_RECORD_DAMAGED", message, help=help, path=str(path)
            ) from error

    def write(self, record: Record) -> None:
        """Write the file."""
        with write_atomically(self.path(record), private=True) as file:
            file.write(json.dumps(asdict(self)).encode())


def empty_again(record: Record) -> None:
    """Make the next run empty the table and write it from the first version on."""
    owner = PostgresOwner.read(record)
    if owner is not None:
        replace(owner, history=owner.history + 1).write(record)
