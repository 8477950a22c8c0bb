"""What a version of a Delta table says of its columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from substrait_agg.errors import InputRefused

FEATURES = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantType",
    }
)
"""Reader features with which the files of a table are read. Columns of type variant are left out."""

MAPPING = "delta.columnMapping"
SCHEMA_CHANGED = "SOURCE_SCHEMA_CHANGED"


@dataclass(frozen=True, slots=True)
class DeltaColumn:
    """A column of a table.

    Attributes:
        kind: its type as JSON.
        nullable: whether it may be null.
        stored: its name in the files.
    """

    kind: str
    nullable: bool
    stored: str


@dataclass(frozen=True, slots=True)
class DeltaLayout:
    """The metadata of a table from one version on.

    Attributes:
        table: id of the table.
        columns: by name.
        partitions: names of the columns whose values are not in the files.
        settings: the properties of the table.
        text: the schema as Delta writes it.
    """

    table: str
    columns: Mapping[str, DeltaColumn]
    partitions: tuple[str, ...]
    settings: Mapping[str, str]
    text: str

    @classmethod
    def of(
        cls, table: str, text: str, partitions: Iterable[str], settings: Mapping[str, str | None]
    ) -> DeltaLayout:
        """Return the layout that a schema of Delta as JSON describes."""
        columns = {
            field["name"]: DeltaColumn(
                json.dumps(field["type"], sort_keys=True),
                bool(field["nullable"]),
                field.get("metadata", {}).get(f"{MAPPING}.physicalName", field["name"]),
            )
            for field in json.loads(text)["fields"]
        }
        properties = {key: value for key, value in settings.items() if value is not None}
        return cls(table, columns, tuple(partitions), properties, text)

    @classmethod
    def parse(cls, action: Mapping[str, Any]) -> DeltaLayout:
        """Return the layout of an action ``metaData``."""
        settings = action.get("configuration") or {}
        return cls.of(action["id"], action["schemaString"], action["partitionColumns"], settings)

    @property
    def has_feed(self) -> bool:
        """Return whether the table writes a change data feed."""
        return self.settings.get("delta.enableChangeDataFeed", "").lower() == "true"

    @property
    def schema(self) -> pa.Schema:
        """Return the columns in plain Arrow types; without those that have none, such as variant."""
        from deltalake import Schema

        arrow = pa.schema(Schema.from_json(self.text).to_arrow())
        return pa.schema(
            [
                pa.field(field.name, field.type, field.nullable)
                for field in arrow
                if "variant" not in self.columns[field.name].kind
            ]
        )

    def check_same(self, other: DeltaLayout, names: Iterable[str], place: str) -> None:
        """Check that `other`, a later layout, has the same columns of some names.

        Raises:
            InputRefused: SOURCE_SCHEMA_CHANGED.
        """
        for name in names:
            old, new = self.columns.get(name), other.columns.get(name)
            if old is None or new is None:
                reason = f"the column {name} is missing"
            elif (old.kind, old.stored) != (new.kind, new.stored):
                reason = f"the column {name} is another one: {old.kind} is now {new.kind}"
            elif new.nullable and not old.nullable:
                reason = f"the column {name} may be null now"
            else:
                continue
            raise InputRefused(
                SCHEMA_CHANGED,
                f"a column that the plan reads has changed: {reason}",
                help="start a new checkpoint; columns that the plan does not read may change",
                path=place,
            )

    def check_stored(self, names: Iterable[str], place: str) -> None:
        """Check that the values of some columns can be found in the files.

        Raises:
            InputRefused: SOURCE_UNREADABLE.
        """
        nested = [name for name in names if MAPPING in self.columns[name].kind]
        if self.settings.get(f"{MAPPING}.mode") == "id":
            reason = "its columns are mapped by id"
        elif nested:
            reason = f"the fields inside of {nested[0]} are mapped"
        else:
            return
        help = "map columns by name, and read columns without fields"
        message = f"the changes of the Delta table cannot be read: {reason}"
        raise InputRefused("SOURCE_UNREADABLE", message, help=help, path=place)


def check_features(features: Iterable[str], place: str) -> None:
    """Check that a table can be read.

    Raises:
        InputRefused: SOURCE_UNREADABLE.
    """
    unknown = sorted(set(features) - FEATURES)
    if unknown:
        message = f"the Delta table needs reader features that are not known: {', '.join(unknown)}"
        help = "drop these features, or read a copy of the table without them"
        raise InputRefused("SOURCE_UNREADABLE", message, help=help, path=place)
