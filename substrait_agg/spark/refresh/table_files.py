"""Read the rows again that tables have given to a checkpoint, with Arrow and without a Spark session.

`state verify --deep` compares operators over tables with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql import types as st

from substrait_agg.bind.plan.table_sources import find_table
from substrait_agg.commit.documents.positions import Positions
from substrait_agg.commit.documents.snapshot import InputPlace
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.read_files import read_files
from substrait_agg.errors import InputRefused
from substrait_agg.flow.graph.graph import TableOrigin
from substrait_agg.plan.types import SIGNED, Type
from substrait_agg.recompute.whole_input import local_path
from substrait_agg.spark.inputs.source_identity import input_locations
from substrait_agg.spark.inputs.static_content import files_content
from substrait_agg.spark.refresh.files_so_far import changed_file
from substrait_agg.spark.sources.files import local_files
from substrait_agg.spark.sources.parquet_reader import UNREADABLE, ParquetReader, parquet_reader
from substrait_agg.spark.sources.specs import SourceSpec, Table, as_spec
from substrait_agg.spark.types.schema import to_spark
from substrait_agg.tools.deep.inputs import NotComputable

_CHANGES = {"weight": Type("i64"), "op": Type("string")}
"""How rows are marked as changes -> the type of the column."""


class TableFiles:
    """The files of tables up to the newest version of a checkpoint; a `TableReader`.

    Raises:
        UsageError: a SPEC is not valid.
        InputRefused: SOURCE_UNKNOWN: the checkpoint has no such table.
    """

    def __init__(self, store: Checkpoint, sources: Mapping[str, str]) -> None:
        self._store = store
        last = store.newest_snapshot()
        document = store.document() if last is None else store.document_of(last.plan)
        self._last = last
        self._tables = [*dict.fromkeys(schema.table for schema in document.inputs)]
        self._specs = {self._table(name): as_spec(spec) for name, spec in sources.items()}

    def _table(self, name: str) -> Table:
        table = find_table(name, (tuple(table.split(".")) for table in self._tables))
        if table is None:
            message = f"the checkpoint has no table for the source {name}; it reads {', '.join(self._tables)}"
            raise InputRefused(
                "SOURCE_UNKNOWN", message, help="use the name of one of these tables"
            )
        return table

    def rows(self, origin: TableOrigin) -> Iterator[pa.Table]:
        """Yield the rows of a table: ``c0``, ``c1``, ..., and the weight.

        Raises:
            NotComputable: they cannot be read, or may not be those that the checkpoint has read.
        """
        name = ".".join(origin.table)
        spec = self._specs.get(origin.table)
        if spec is None:
            raise NotComputable(
                f"rows of the table {name} are not stored; --source {name}=... reads them again"
            )
        files, reader = self._files(origin.table, spec), _reader(spec, origin)
        if reader is None:
            raise NotComputable(
                f"only Spark can read the rows of the table {name}; this check reads local Parquet files"
            )
        for path in files:
            try:
                yield reader.rows_of(path)
            except UNREADABLE as error:
                message = f"the file {path} of the table {name} cannot be read ({error})"
                raise NotComputable(message) from error

    def _files(self, table: Table, spec: SourceSpec) -> list[str]:
        """Return the paths of the files that the checkpoint has read."""
        name = ".".join(table)
        last = self._last
        places = {} if last is None else {place.table: place for place in last.inputs}
        if name not in places or input_locations({table: spec})[0].place != places[name].place:
            raise NotComputable(f"the table {name} was read from another location")
        if spec.static and _is_static(places[name]):
            return _static_files(name, spec, places[name])
        if spec.static or _is_static(places[name]):
            raise NotComputable(f"the table {name} was read with another static= than is given")
        positions = Positions() if last is None else last.positions
        files = tuple(read_files(self._store.state, positions.of(table)))
        obstacle = changed_file(files, spec)
        if obstacle:
            raise NotComputable(f"the table {name} cannot be read again: {obstacle}")
        return [local_path(file.uri) for file in files]


def _is_static(place: InputPlace) -> bool:
    return bool(place.listing or place.content)


def _static_files(name: str, spec: SourceSpec, place: InputPlace) -> list[str]:
    """Return the paths of the files of a static table."""
    files = local_files(spec.location.removeprefix("file://"), spec.file_rules)
    if files is None:
        raise NotComputable(f"the table {name} has no local files")
    try:
        now = files_content(spec, place, place, None)
    except InputRefused as error:
        raise NotComputable(f"the table {name} cannot be read again: {error.message}") from error
    if not place.same_content(now):
        raise NotComputable(f"the static table {name} has changed since it was read")
    return [str(file.path) for file in files]


def _reader(spec: SourceSpec, origin: TableOrigin) -> ParquetReader | None:
    """Return a reader of the files of a source; None if only Spark can read them."""
    typed = dict(zip(origin.names, origin.types, strict=True))
    if spec.change in _CHANGES:
        typed[spec.change_column] = _CHANGES[spec.change]
    fields = [
        # A reader takes integers of all widths as long ones, if Spark found long ones.
        st.StructField(name, st.LongType() if type_.kind in SIGNED else to_spark(type_))
        for name, type_ in typed.items()
    ]
    return parquet_reader(spec, st.StructType(fields), origin)
