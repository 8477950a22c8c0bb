"""Take the columns of CSV files without a header from the plan, by position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame

from substrait_agg.bind.bound import BoundPlan
from substrait_agg.bind.rewrite import table_reads
from substrait_agg.errors import InputRefused
from substrait_agg.notices import notice
from substrait_agg.spark.inputs.inputs import Source
from substrait_agg.spark.sources.specs import Table, as_spec


def with_positions(sources: Mapping[Table, Source], plan: BoundPlan) -> dict[Table, Source]:
    """Return the sources, with the plan's column names added to those without a header.

    A warning lists the columns of each such source.

    Raises:
        InputRefused: TABLE_READS_DIFFER: the plan declares the columns of such a table in several
            ways.
    """
    declared: dict[Table, set[tuple[str, ...]]] = {}
    for read in table_reads(plan.root):
        declared.setdefault(read.table, set()).add(read.names)
    return {
        table: _with_positions(source, table, declared[table]) for table, source in sources.items()
    }


def _with_positions(source: Source, table: Table, declared: set[tuple[str, ...]]) -> Source:
    if isinstance(source, DataFrame):
        return source
    spec, name = as_spec(source), ".".join(table)
    if not spec.by_position:
        return spec
    if len(declared) > 1:
        raise InputRefused(
            "TABLE_READS_DIFFER",
            f"the source of {name} has no header, and the plan declares the table with different columns",
            help="give files with a header, or declare the table in the same way in every read",
        )
    (names,) = declared
    columns = ", ".join(f"{place}: {column}" for place, column in enumerate(names, 1))
    notice(
        "CSV_BY_POSITION",
        f"the source of {name} has no header, so its columns are matched by position ({columns})",
        help="to match columns by name, write a header into every file and remove header=false",
    )
    return replace(spec, columns=names)
