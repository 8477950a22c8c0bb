"""Sources that a connector reads (`connect`): what a SPEC becomes, and its rows as the engine takes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from substrait_agg.connect.protocol import WEIGHT, Connector, TableSource
from substrait_agg.connect.registry import connect, groups
from substrait_agg.evaluation.steps import whole
from substrait_agg.flow.graph.graph import TableOrigin
from substrait_agg.flow.passes.upserts import UpsertDeclaration
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.spark.sources.specs import SourceSpec, Table, as_spec
from substrait_agg.spark.types.schema import column_name

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class ConnectedGroup:
    """The tables of one connector.

    Attributes:
        specs: the SPEC of each table.
        connector: knows each table by its `name_of`.
    """

    specs: Mapping[Table, SourceSpec]
    connector: Connector


def name_of(table: Table) -> str:
    """Return the name by which a connector knows a table."""
    return ".".join(table)


@contextmanager
def open_connectors(sources: Mapping[Table, object]) -> Iterator[dict[str, ConnectedGroup]]:
    """Open the connector of each group for a block."""
    specs = ((t, as_spec(s)) for t, s in sources.items() if isinstance(s, str | SourceSpec))
    connected = {name_of(table): (table, spec) for table, spec in specs if spec.is_connected}
    tables = (
        (spec.format, TableSource(name, spec.location, dict(spec.options)))
        for name, (_, spec) in connected.items()
    )
    opened: dict[str, ConnectedGroup] = {}
    try:
        for group, named in groups(tables).items():
            specs_of = dict(connected[name] for name in named)
            opened[group] = ConnectedGroup(specs_of, connect(group, named))
        yield opened
    finally:
        for one in opened.values():
            one.connector.close()


def with_connected(sources: Mapping[Table, S]) -> Mapping[Table, S | SourceSpec]:
    """Return the sources; those of connectors with their columns, and with keys if rows have no old row.

    Raises:
        InputRefused, UsageError: a source cannot be read.
    """
    described: dict[Table, S | SourceSpec] = dict(sources)
    with open_connectors(sources) as opened:
        for group in opened.values():
            for table, spec in group.specs.items():
                schema = group.connector.table(name_of(table))
                upsert = UpsertDeclaration(schema.keys) if schema.keys else None
                described[table] = replace(
                    spec, change="weight", change_column=WEIGHT, upsert=upsert, schema=schema.schema,
                    changes=schema.changes,
                )  # fmt: skip
    return described


def given_schema(columns: pa.Schema) -> StructType:
    """Return the columns of rows of a connector as types of Spark.

    All are nullable: a deleted row may come as its key alone.
    """
    nullable = pa.schema([field.with_nullable(True) for field in columns])
    return from_arrow_schema(nullable, prefer_timestamp_ntz=True)


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Rows of a connector in a batch, for the driver.

    Attributes:
        rows: as `Connector.read` gives them.
        origin: the columns that the engine takes.
    """

    rows: pa.Table
    origin: TableOrigin

    @property
    def bytes(self) -> int:
        """Return the bytes of the rows."""
        return int(self.rows.nbytes)

    def read(self) -> pa.Table | None:
        """Return the columns ``c0``, ``c1``, ... in the plan's types, and the weight (int64).

        Returns:
            None if Spark has to convert them, or to say what is wrong with them.
        """
        columns = {}
        try:
            for i, (name, type_) in enumerate(
                zip(self.origin.names, self.origin.types, strict=True)
            ):
                values = whole(self.rows.column(name))
                if values.null_count and not type_.nullable:
                    return None
                columns[column_name(i)] = _convert(values, to_arrow(type_))
        except (KeyError, pa.ArrowException):
            return None
        weights = whole(self.rows.column(WEIGHT))
        return pa.table({**columns, WEIGHT: weights.cast(pa.int64())})


def _convert(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Return values in the type of the plan.

    Raises:
        ArrowInvalid: Spark might convert them in another way.
    """
    is_same = values.type == target
    if is_same or (pa.types.is_integer(values.type) and pa.types.is_integer(target)):
        return values.cast(target)
    if pa.types.is_large_string(values.type) and pa.types.is_string(target):
        return values.cast(target)
    if pa.types.is_timestamp(values.type) and pa.types.is_timestamp(target):
        same_zone = (values.type.tz is None) == (target.tz is None)
        if same_zone and values.type.unit == target.unit:
            return pc.cast(values, pa.int64()).view(target)
    raise pa.ArrowInvalid(f"{values.type} is not {target}")
