"""Outputs of a run: encode changes and views as text and files, and deliver them to sinks.

`encode`, `event_lines` and `text` turn tables into text. The modules of `outputs` named `*sink*`
write them to what `targets` parses. `outputs` lists the output kinds. `delivery`, `output_cursor`
and `output_worker` bring each output up to date with the committed versions.
"""

from __future__ import annotations

from substrait_agg.changes.delivery.output_worker import Delivery
from substrait_agg.changes.formats.encode import change_lines, csv_lines, row_lines, table_lines
from substrait_agg.changes.formats.event_lines import debezium_lines, spark_cdc_lines
from substrait_agg.changes.outputs.outputs import (
    OUTPUTS,
    OutputSpec,
    check_outputs,
    keeps_late,
    parse_output,
)
from substrait_agg.changes.outputs.parquet_sinks import write_parquet, write_parquet_to
from substrait_agg.changes.outputs.sinks import Sink

__all__ = [
    "OUTPUTS",
    "Delivery",
    "OutputSpec",
    "Sink",
    "change_lines",
    "check_outputs",
    "csv_lines",
    "debezium_lines",
    "keeps_late",
    "parse_output",
    "row_lines",
    "spark_cdc_lines",
    "table_lines",
    "write_parquet",
    "write_parquet_to",
]
