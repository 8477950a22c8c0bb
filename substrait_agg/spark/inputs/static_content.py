"""Compute checksums over the content of static tables, to find out later whether they changed.

A folder of files has two: a checksum over the names, sizes and times of its files, and one over
their bytes. If the first is unchanged, no file is read. If it differs, the second decides, so that
files may be copied, touched and renamed. Files that Python cannot read, such as those of an object
store, have the first one alone.

Other sources have a checksum over their rows: the sum of two hashes of each row, times its weight.
It does not depend on the order of the rows, and a row and its retraction cancel out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from pathlib import Path, PurePosixPath

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from substrait_agg.commit.documents.snapshot import InputPlace
from substrait_agg.errors import InputRefused
from substrait_agg.flow.graph.graph import TableOrigin
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.plan.types import Type
from substrait_agg.spark.sources.files import local_files, look_up
from substrait_agg.spark.sources.open import open_source
from substrait_agg.spark.sources.specs import SourceSpec
from substrait_agg.spark.types.schema import column_name

_TOTAL = "decimal(38,0)"
_LOCAL = "file:"


def files_content(
    spec: SourceSpec, place: InputPlace, before: InputPlace | None, spark: SparkSession | None
) -> InputPlace:
    """Return the place of a static table of files with its checksums.

    Args:
        spec: its source.
        place: its place.
        before: its place with the checksums of the newest version; None if there is none. If the
            files have the same names, sizes and times, their content is taken from there.
        spark: the session that lists files which Python cannot; None only for local folders.

    Raises:
        InputRefused: SOURCE_UNREADABLE, SOURCE_NOT_FOUND.
    """
    location = spec.location.removeprefix("file://")
    local = local_files(location, spec.file_rules)
    if local is not None:
        rows = [(file.name, file.size, file.modified) for file in local]
        paths = [(file.name, file.path) for file in local]
    else:
        rows = _list_files(spec, place.table, spark)
        here = all(name.startswith(_LOCAL) for name, *_ in rows)
        paths = [(n, Path(n.removeprefix(_LOCAL))) for n, *_ in rows] if here else []
    listing = _digest(f"{name}\0{size}\0{modified}" for name, size, modified in rows)
    if before is not None and before.listing == listing:
        return InputPlace(place.table, place.place, listing, before.content)
    content = _digest(_file_digests(paths)) if len(paths) == len(rows) else ""
    return InputPlace(place.table, place.place, listing, content)


def _list_files(
    spec: SourceSpec, table: str, spark: SparkSession | None
) -> list[tuple[str, int, int]]:
    files = None if spark is None else look_up(spark, spec.location, spec.file_rules)
    if files is None:
        raise InputRefused(
            "SOURCE_NOT_FOUND",
            f"the source of {table} ({spec.redact()}) does not exist",
            help="check the path",
        )
    return list(zip(files.files, files.sizes, files.modified, strict=True))


def _file_digests(paths: Iterable[tuple[str, Path]]) -> list[str]:
    """Return the checksum of each file with its folder, which may have values of columns."""
    digests = []
    for name, path in paths:
        try:
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise InputRefused(
                "SOURCE_UNREADABLE", f"a file of a static table cannot be read: {error}",
                help="check the permissions of the file",
            ) from error  # fmt: skip
        digests.append(f"{PurePosixPath(name).parent}\0{content}")
    return sorted(digests)


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def rows_contents(
    spark: SparkSession,
    tables: Mapping[InputPlace, tuple[SourceSpec | DataFrame, TableOrigin]],
) -> list[InputPlace]:
    """Return the places of static tables with the checksums of their rows, from one Spark job."""
    if not tables:
        return []
    frames = [_sums(spark, source, origin) for source, origin in tables.values()]
    tagged = [frame.withColumn("table", F.lit(i)) for i, frame in enumerate(frames)]
    row_by_table = {row["table"]: row for row in reduce(DataFrame.unionAll, tagged).collect()}
    return [
        InputPlace(place.table, place.place, content=_digest(_texts(origin, row_by_table[i])))
        for i, (place, (_, origin)) in enumerate(tables.items())
    ]


def _texts(origin: TableOrigin, sums: Sequence[object]) -> list[str]:
    columns = [f"{name} {type_}" for name, type_ in zip(origin.names, origin.types, strict=True)]
    return [*columns, *(str(value) for value in list(sums)[:-1])]


def _sums(spark: SparkSession, source: SourceSpec | DataFrame, origin: TableOrigin) -> DataFrame:
    """Return one row: the sum of the weights, and the sums of the weighted hashes."""
    opened = open_source(spark, source, origin)
    values = [_hashable(F.col(column_name(i)), type_) for i, type_ in enumerate(origin.types)]
    # The hash of a row skips nulls, so it also has a flag per column.
    both = [*values, *(value.isNull() for value in values)]
    weight = F.col(WEIGHT).cast("decimal(20,0)")
    sums = [F.sum(weight).cast(_TOTAL)]
    for seed in range(2):
        number = F.xxhash64(F.lit(seed), *both).cast("decimal(20,0)")
        sums.append(F.sum((weight * number).cast(_TOTAL)).cast(_TOTAL))
    return opened.frame.agg(*(s.alias(f"sum{i}") for i, s in enumerate(sums)))


def _hashable(column: Column, type_: Type) -> Column:
    """Return a value that Spark can hash; it hashes no maps."""
    return F.to_json(F.struct(column)) if type_.has_map() else column
