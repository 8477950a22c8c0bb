"""Write metrics in Prometheus' text format, without timestamps.

The textfile collector of the node exporter requires that samples have no timestamps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from substrait_agg.metrics.declared import METRICS, Histogram, Metric, Number, Sample
from substrait_agg.metrics.progress import Progress

_IN_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})
_IN_LABEL = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def prometheus_text(progress: Progress) -> str:
    """Return all metrics as Prometheus text.

    Every sample has the path of the checkpoint as a label, so that runs on one machine do not
    collide.
    """
    return "".join(line for metric in METRICS for line in _family(metric, progress))


def _family(metric: Metric, progress: Progress) -> Iterator[str]:
    samples = tuple(metric.read(progress))
    if not samples:
        return
    yield f"# HELP {metric.full_name} {metric.help.translate(_IN_HELP)}\n"
    yield f"# TYPE {metric.full_name} {metric.kind}\n"
    for sample in samples:
        labels = {
            "checkpoint": progress.checkpoint,
            **dict(zip(metric.labels, sample.labels, strict=True)),
        }
        yield from _lines(metric.full_name, labels, sample)


def _lines(name: str, labels: Mapping[str, str], sample: Sample) -> Iterator[str]:
    value = sample.value
    if not isinstance(value, Histogram):
        yield _line(name, labels, value)
        return
    for bound, count in value.buckets:
        yield _line(f"{name}_bucket", {**labels, "le": _number(bound)}, count)
    yield _line(f"{name}_sum", labels, value.sum)
    yield _line(f"{name}_count", labels, value.count)


def _line(name: str, labels: Mapping[str, str], value: Number) -> str:
    pairs = ",".join(f'{key}="{text.translate(_IN_LABEL)}"' for key, text in labels.items())
    return f"{name}{{{pairs}}} {_number(value)}\n"


def _number(value: Number) -> str:
    if value == float("inf"):
        return "+Inf"
    return repr(value)
