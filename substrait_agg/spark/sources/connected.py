"""Sources that a connector reads (`connect`): what a SPEC becomes, and its rows as the engine takes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.connect.protocol import WEIGHT, Connector, TableSource
from substrait_agg.connect.registry import connect, groups
from substrait_agg.evaluation.steps import whole
from substrait_agg.flow.graph.graph import TableOrigin
from substrait_agg.flow.passes.upserts import UpsertDeclaration
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.spark.sources.specs import SourceSpec, Table, as_spec
from substrait_agg.spark.types.schema import column_name

S = TypeVar("S")


def grouped_tables(sources: Mapping[Table, object]) -> dict[str, dict[str, TableSource]]:
    """Return the tables of each connector, by its group."""
    specs = ((t, as_spec(s)) for t, s in sources.items() if isinstance(s, str | SourceSpec))
    return groups((spec.format, _table_source(t, spec)) for t, spec in specs if spec.is_connected)


def _table_source(table: Table, spec: SourceSpec) -> TableSource:
    return TableSource(".".join(table), spec.location, dict(spec.options))


@contextmanager
def open_connectors(sources: Mapping[Table, object]) -> Iterator[dict[str, Connector]]:
    """Open the connector of each group for a block."""
    opened: dict[str, Connector] = {}
    try:
        for group, tables in grouped_tables(sources).items():
            opened[group] = connect(group, tables)
        yield opened
    finally:
        for connector in opened.values():
            connector.close()


def with_connected(sources: Mapping[Table, S]) -> Mapping[Table, S | SourceSpec]:
    """Return the sources; those of connectors with their columns, and with keys if rows have no old row.

    Raises:
        InputRefused, UsageError: a source cannot be read.
    """
    specs: dict[Table, S | SourceSpec] = dict(sources)
    tables = {".".join(table): table for table in sources}
    with open_connectors(sources) as opened:
        for group, named in grouped_tables(sources).items():
            for name in named:
                table = opened[group].table(name)
                spec = as_spec(sources[tables[name]])  # type: ignore[arg-type]
                upsert = UpsertDeclaration(table.keys) if table.keys else None
                specs[tables[name]] = replace(
                    spec, change="weight", change_column=WEIGHT, upsert=upsert, schema=table.schema,
                    changes=table.changes,
                )  # fmt: skip
    return specs


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
                columns[column_name(i)] = _converted(values, to_arrow(type_))
        except (KeyError, pa.ArrowException):
            return None
        weights = whole(self.rows.column(WEIGHT))
        return pa.table({**columns, WEIGHT: weights.cast(pa.int64())})


def _converted(values: pa.Array, target: pa.DataType) -> pa.Array:
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
