"""Metrics of a run: the table of metrics, the progress of a run, and the output formats.

`progress` defines the numbers, `batch_stats` adds up each batch, and `declared` lists the metrics.
`files`, `summary` and `listener` write them for programs and people.
"""

from __future__ import annotations

from substrait_agg.metrics.declared import METRICS, Metric, Sample
from substrait_agg.metrics.progress import OperatorProgress, Progress, SinkProgress, TreeSize

__all__ = [
    "METRICS",
    "Metric",
    "OperatorProgress",
    "Progress",
    "Sample",
    "SinkProgress",
    "TreeSize",
]
