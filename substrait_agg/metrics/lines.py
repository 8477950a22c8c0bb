"""Write metrics as JSON lines: one line per committed version."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from substrait_agg.metrics.declared import METRICS, Histogram, Metric, Number, Sample
from substrait_agg.metrics.progress import Progress

Json = dict[str, Any]


def metrics_line(progress: Progress, before: Progress | None = None) -> str:
    """Return one line of JSON, with the newline.

    Args:
        progress: progress after the committed version.
        before: progress after the previous version of the same run; None for the first.

    Returns:
        An object with ``time``, ``checkpoint``, ``metrics`` (name to value) and ``batch`` (the
        counters of this version alone). The value of a metric with labels is a list of objects with
        the labels and ``value``. A histogram has ``buckets`` (pairs of upper bound and count),
        ``sum`` and ``count``. Unknown metrics are left out.
    """
    line: Json = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "checkpoint": progress.checkpoint,
        "metrics": _values(progress),
        "batch": _counted(progress, before or Progress()),
    }
    return json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n"


def _values(progress: Progress) -> Json:
    read = ((metric, tuple(metric.read(progress))) for metric in METRICS)
    return {metric.name: _shown(metric, samples) for metric, samples in read if samples}


def _counted(progress: Progress, before: Progress) -> Json:
    counters = (metric for metric in METRICS if metric.kind == "counter")
    samples = {metric: (metric.read(progress), metric.read(before)) for metric in counters}
    return {
        metric.name.removesuffix("_total"): _shown(metric, _less(tuple(now), tuple(then)))
        for metric, (now, then) in samples.items()
    }


def _less(now: tuple[Sample, ...], then: tuple[Sample, ...]) -> tuple[Sample, ...]:
    known = {sample.labels: _count(sample) for sample in then}
    return tuple(Sample(s.labels, _rounded(_count(s) - known.get(s.labels, 0))) for s in now)


def _count(sample: Sample) -> Number:
    return sample.value.sum if isinstance(sample.value, Histogram) else sample.value


def _rounded(value: Number) -> Number:
    # Differences of sums of seconds: digits beyond microseconds are rounding errors.
    return round(value, 6) if isinstance(value, float) else value


def _shown(metric: Metric, samples: tuple[Sample, ...]) -> Any:
    if not metric.labels:
        return _json(samples[0].value)
    return [
        {**dict(zip(metric.labels, sample.labels, strict=True)), "value": _json(sample.value)}
        for sample in samples
    ]


def _json(value: Number | Histogram) -> Any:
    if isinstance(value, Histogram):
        buckets = [[_json(bound), count] for bound, count in value.buckets]
        return {"buckets": buckets, "sum": value.sum, "count": value.count}
    return "Infinity" if value == float("inf") else value
