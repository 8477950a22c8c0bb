"""How far a run is, in numbers: one declared table of metrics, and every form that it is told in."""

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
