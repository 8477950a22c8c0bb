"""What a version of a Delta table says of its columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from substrait_agg.connect.snapshots import LakeColumn, LakeTable

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
    columns: Mapping[str, LakeColumn]
    partitions: tuple[str, ...]
    settings: Mapping[str, str]
    text: str

    @classmethod
    def of(
        cls, table: str, text: str, partitions: Iterable[str], settings: Mapping[str, str | None]
    ) -> DeltaLayout:
        """Return the layout that a schema of Delta as JSON describes."""
        columns = {
            field["name"]: LakeColumn(
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
                if "variant" not in str(self.columns[field.name].kind)
            ]
        )

    def check_stored(self, names: Iterable[str], table: LakeTable) -> None:
        """Check that the values of some columns can be found in the files.

        Raises:
            InputRefused: SOURCE_UNREADABLE.
        """
        nested = [name for name in names if MAPPING in str(self.columns[name].kind)]
        if self.settings.get(f"{MAPPING}.mode") == "id":
            reason = "its columns are mapped by id"
        elif nested:
            reason = f"the fields inside of {nested[0]} are mapped"
        else:
            return
        raise table.unreadable(reason, "map columns by name, and read columns without fields")


def check_features(features: Iterable[str], table: LakeTable) -> None:
    """Check that a table can be read.

    Raises:
        InputRefused: SOURCE_UNREADABLE.
    """
    unknown = sorted(set(features) - FEATURES)
    if unknown:
        reason = f"it needs reader features that are not known: {', '.join(unknown)}"
        help = "drop these features, or read a copy of the table without them"
        raise table.unreadable(reason, help)
