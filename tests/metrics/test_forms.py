"""Metrics as text and as lines, with hostile names, an unknown watermark and an unwritable file."""

from __future__ import annotations

import json
import logging
import re
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from substrait_agg.errors import UsageError
from substrait_agg.metrics import METRICS, OperatorProgress, Progress, SinkProgress, TreeSize
from substrait_agg.metrics.files import MetricsFile, metrics_line, prometheus_text
from substrait_agg.metrics.progress import (
    BATCH_SECONDS,
    END_OF_INPUT,
    RefreshProgress,
    SourceProgress,
    ViewProgress,
)
from substrait_agg.metrics.summary import progress_line, status_line, watermark_text
from substrait_agg.notices import Notice
from tests.metrics.text_format import parse
from tests.tools.write_metrics_page import metrics_markdown

HOSTILE = 'a "quoted"\\path\nwith {braces}, commas=1'
FULL = Progress(
    version=3,
    batches=2,
    input_rows=30,
    changes=7,
    watermark=1_500_000,
    late_rows=2,
    busy_seconds=1.25,
    batch_times=(1, 0, 1, *(0,) * (len(BATCH_SECONDS) - 2)),
    operators=(OperatorProgress(0, input_rows=20), OperatorProgress(1, input_rows=10)),
    trees=(TreeSize(0, "group", 2, 40, 4096),),
    views=(ViewProgress("revenue", 5),),
    target_seconds=2.0,
    limit_bytes=4096,
    refresh=RefreshProgress(3, 1, "full: estimated 2.00 s incremental, 1.00 s full", 2.0, 1.0),
    sinks=(SinkProgress(HOSTILE, version=2, lag=1, delivered=3, failures=4, seconds=0.5),),
    sources=(SourceProgress(HOSTILE, {"bytes": 5.0}),),
    started=1.5e9,
    committed=1.6e9,
    plan="ab12",
    checkpoint=HOSTILE,
)


def test_every_declared_metric_is_in_the_text() -> None:
    families = parse(prometheus_text(FULL))
    assert [f"substrait_agg_{metric.name}" for metric in METRICS] == list(families)
    for metric in METRICS:
        family = families[metric.full_name]
        assert (family.kind, family.help) == (metric.kind, metric.help)
        labels = {"checkpoint", *metric.labels}
        assert all({n for n, _ in has} - {"le"} == labels for _, has in family.samples)


def test_any_text_survives_in_a_label() -> None:
    families = parse(prometheus_text(FULL))
    assert (
        families["substrait_agg_output_lag_versions"].value(sink=HOSTILE, checkpoint=HOSTILE) == 1
    )


def test_names_follow_the_rules_of_prometheus() -> None:
    """Counters end in _total, times are in seconds and sizes in bytes; a unit is part of the name."""
    for metric in METRICS:
        assert re.fullmatch(r"[a-z][a-z_]*", metric.name)
        assert (metric.kind == "counter") == metric.name.endswith("_total")
        if metric.unit in ("seconds", "bytes"):
            assert metric.unit in metric.name
        assert metric.help.endswith(".")
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_a_histogram_counts_all_batches() -> None:
    family = parse(prometheus_text(FULL))["substrait_agg_batch_seconds"]
    values = {(name, dict(labels).get("le")): v for (name, labels), v in family.samples.items()}
    name = "substrait_agg_batch_seconds"
    assert values[(f"{name}_bucket", "0.1")] == values[(f"{name}_bucket", "0.25")] == 1
    assert values[(f"{name}_bucket", "0.5")] == values[(f"{name}_count", None)] == 2
    assert values[(f"{name}_sum", None)] == 1.25


@pytest.mark.parametrize(
    ("watermark", "value", "shown"),
    [
        (None, None, ""),
        (1_500_000, 1.5, "1970-01-01T00:00:01.500000Z"),
        (-1_000_000, -1.0, "1969-12-31T23:59:59Z"),
        (END_OF_INPUT, float("inf"), "end of input"),
        (2**62, 2**62 / 1e6, f"{2**62} microseconds"),
    ],
)
def test_the_watermark_in_every_form(
    watermark: int | None, value: float | None, shown: str
) -> None:
    progress = replace(FULL, watermark=watermark)
    family = parse(prometheus_text(progress)).get("substrait_agg_watermark_seconds")
    assert (family.value() if family else None) == value
    line = json.loads(metrics_line(progress))["metrics"]
    assert line.get("watermark_seconds") == ("Infinity" if value == float("inf") else value)
    assert watermark_text(watermark) == shown
    for told in (progress_line(progress), status_line(3, progress)):
        assert ("watermark" in told) == (watermark is not None)
        assert shown in told


def test_a_line_has_totals_and_what_the_version_added() -> None:
    before = replace(FULL, batches=1, operators=(OperatorProgress(0, input_rows=15),), late_rows=2)
    line = json.loads(metrics_line(FULL, before))
    assert line["metrics"]["batches_total"] == 2
    assert line["batch"]["batches"] == 1
    assert line["batch"]["late_rows"] == 0
    assert line["batch"]["input_rows"] == [
        {"operator": "0", "value": 5},
        {"operator": "1", "value": 10},
    ]
    assert line["metrics"]["batch_seconds"]["buckets"][-1] == ["Infinity", 2]
    assert line["metrics"]["state_bytes"] == [{"operator": "0", "tree": "group", "value": 4096}]
    assert line["checkpoint"] == HOSTILE


def test_the_line_of_progress_tells_what_is_out_of_the_ordinary() -> None:
    told = progress_line(replace(FULL, groups_waiting=1_200, quarantined=5))
    for part in (
        "2 late rows",
        "1,200 groups waiting",
        "5 rows in quarantine",
        "failing, 1 versions behind",
    ):
        assert part in told
    assert progress_line(Progress()).endswith(" rows/s")


def test_lines_are_appended_and_a_torn_one_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"torn')
    for version in (4, 5):
        file = MetricsFile(path)
        file.committed(replace(FULL, version=version))
        assert path.read_text().endswith("}\n"), "a line is there as soon as it is written"
        file.close(FULL)
    assert MetricsFile(tmp_path / "new.jsonl")
    assert not (tmp_path / "new.jsonl").exists(), "a run that does not start leaves nothing behind"
    _, *lines = path.read_text().splitlines()
    assert [json.loads(line)["metrics"]["version"] for line in lines] == [4, 5]


def test_the_text_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """A reader that has the old file open reads it to its end; a collector may be another user."""
    path = tmp_path / "m.prom"
    file = MetricsFile(path)
    assert list(tmp_path.iterdir()) == []
    file.committed(FULL)
    with path.open() as old:
        file.committed(replace(FULL, version=4))
        assert parse(old.read())["substrait_agg_version"].value() == 3
    assert parse(path.read_text())["substrait_agg_version"].value() == 4
    assert [p.name for p in tmp_path.iterdir()] == ["m.prom"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o044 == 0o044


@pytest.mark.parametrize(
    "name", ["no/such/folder/m.jsonl", "no/such/folder/m.prom", "d.jsonl", "d.prom"]
)
def test_a_file_that_cannot_be_written_is_refused_at_the_start(name: str, tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").mkdir()
    (tmp_path / "d.prom").mkdir()
    with pytest.raises(UsageError) as refused:
        MetricsFile(tmp_path / name)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d.jsonl", "d.prom"]
    assert (refused.value.code, refused.value.path) == (
        "METRICS_NOT_WRITABLE",
        str(tmp_path / name),
    )


@pytest.mark.parametrize("name", ["m.jsonl", "m.prom"])
def test_a_file_that_fails_later_is_told_once_and_harms_nothing(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    target = Path("/dev/full") if name == "m.jsonl" else folder / name
    file = MetricsFile(target)
    folder.rmdir()
    with caplog.at_level(logging.WARNING, "substrait_agg"):
        file.committed(FULL)
        file.committed(FULL)
        file.close(FULL)
    (told,) = [record.msg for record in caplog.records]
    assert isinstance(told, Notice)
    assert (told.code, told.path) == ("METRICS_NOT_WRITTEN", str(target))


def test_the_page_has_every_metric() -> None:
    page = metrics_markdown()
    assert page.count("\n") == len(METRICS) + 2
    assert all(f"| `{metric.full_name}` |" in page for metric in METRICS)
