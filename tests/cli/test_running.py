"""run: refusals before Spark starts, passed arguments, progress and interruption. Spark itself is replaced."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from inspect import Parameter, signature
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

import substrait_agg
from substrait_agg.errors import InputRefused, RunFailed
from substrait_agg.metrics import Progress
from substrait_agg.metrics.startup import StartTimer
from substrait_agg.metrics.summary import progress_line
from substrait_agg.notices import LOGGER, notice
from substrait_agg.run_options import RunOptions
from substrait_agg_cli.main import main
from substrait_agg_cli.notices import notices_shown
from substrait_agg_cli.progress import CLEAR_LINE, ProgressMeter

PROGRESS = Progress(
    version=4, batches=5, input_rows=12_345, groups_touched=67, rows_per_second=8_901.2, changes=23
)


@dataclass
class FakeRun:
    """A run whose `wait` calls a function of the test."""

    waiting: Callable[[], None] = lambda: None
    stopped: bool = False
    busy_outputs: tuple[str, ...] = ()
    progress: Progress = PROGRESS
    page: str | None = None

    def wait(self) -> None:
        self.waiting()

    def stop(self) -> None:
        self.stopped = True


@dataclass
class Engine:
    """A replacement of `substrait_agg.spark` that records its calls."""

    run: FakeRun = field(default_factory=FakeRun)
    calls: list[dict[str, Any]] = field(default_factory=list)
    error: Exception | None = None

    def start(self, plan: Any, sources: Any, options: RunOptions, timer: StartTimer) -> FakeRun:
        self.calls.append({"plan": plan, "sources": sources, "options": options, "timer": timer})
        if self.error:
            raise self.error
        if options.progress:
            options.progress(self.run.progress)
        return self.run


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine()
    module = ModuleType("substrait_agg.spark.query.start")
    module.run = made.start  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "substrait_agg.spark.query.start", module)
    return made


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["run", *(str(a) for a in arguments)])


def test_options_reach_the_run(good_plan: Path, engine: Engine) -> None:
    result = call(
        good_plan, "--source", "t=csv:in/?a=b=c", "--checkpoint", "ck", "--every", "5s",
        "--partitions", 3, "--master", "local[2]", "--conf", "a.b=c=d", "--output", "stream-json",
        "--output", "view-parquet=v", "--emit", "watermark,count:2", "--ttl", "1h:keep",
        "--watermark", "t.k=max-diff:5s", "--watermark", "u.k=percentile:20:5:1,idle:1m", "--evolve",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    (found,) = engine.calls
    assert found["sources"] == {"t": "csv:in/?a=b=c"}
    options = found["options"]
    assert (options.checkpoint, options.interval_seconds) == ("ck", 5.0)
    assert (options.partitions, options.master) == (3, "local[2]")
    assert options.conf == {"a.b": "c=d"}
    assert [output.kind for output in options.sinks] == ["stream-json", "view-parquet"]
    assert (options.emit_policy.watermark, options.emit_policy.rows) == (True, 2)
    assert options.watermark == {"t.k": "max-diff:5s", "u.k": "percentile:20:5:1,idle:1m"}
    assert (options.state_ttl.after, options.state_ttl.keep) == (3_600_000_000, True)
    assert found["plan"].views[0].plan.names == ("k", "n")
    assert options.evolve is True


def test_an_interval_of_zero_means_a_batch_as_soon_as_there_are_rows(
    good_plan: Path, engine: Engine
) -> None:
    for given in ("0", "0s"):
        assert call(good_plan, "--checkpoint", "ck", "--every", given).exit_code == 0
    assert [found["options"].interval_seconds for found in engine.calls] == [0, 0]
    assert "0: a batch as soon as a source has something" in " ".join(call("--help").stdout.split())


def test_defaults_are_the_documented_ones(good_plan: Path, engine: Engine) -> None:
    call(good_plan, "--checkpoint", "ck")
    (found,) = engine.calls
    options = found["options"]
    assert (options.until, options.partitions, options.master) == ("done", None, None)
    assert options.interval_seconds is None
    assert (options.evolve, options.accept_source_change, options.emit) == (False, False, "batch")
    assert (options.conf, options.watermark, options.ttl) == ({}, {}, None)
    assert [output.kind for output in options.sinks] == ["batch-table"]


def test_the_python_api_has_every_option_with_its_default() -> None:
    parameters = signature(substrait_agg.run).parameters.values()
    given = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    options = {f.name: f.default for f in fields(RunOptions)}
    required = {name for name, default in options.items() if default is MISSING}
    assert required == {n for n, default in given.items() if default is Parameter.empty}
    assert options.keys() == given.keys()
    assert [n for n in options.keys() - required if options[n] != given[n]] == []


@pytest.mark.parametrize("policy", ["carry", "refuse", "quarantine"])
def test_the_policy_for_early_retractions_is_passed_on(
    policy: str, good_plan: Path, engine: Engine
) -> None:
    call(good_plan, "--checkpoint", "ck", "--early-retraction", policy)
    (found,) = engine.calls
    assert found["options"].early == policy


def test_the_progress_tells_of_rows_in_quarantine() -> None:
    assert progress_line(Progress(quarantined=1_200)).endswith(" rows/s, 1,200 rows in quarantine")
    assert "quarantine" not in progress_line(Progress())


@pytest.mark.parametrize(
    "wrong",
    [
        ["--every", "soon"],
        ["--emit", "watermarks"],
        ["--ttl", "for ever"],
        ["--watermark", "t.k"],
        ["--every", "5s", "--until", "done"],
        ["--source", "t"],
        ["--source", "t=a", "--source", "t=b"],
        ["--conf", "=x"],
        ["--output", "paper"],
        ["--partitions", "0"],
        ["--page", "70000"],
        ["--page", "-1"],
        ["--mode", "loose"],
        ["--colour"],
        ["another"],
    ],
)
def test_a_wrong_call_is_status_2_and_starts_nothing(
    wrong: list[str], good_plan: Path, engine: Engine
) -> None:
    result = call(good_plan, "--checkpoint", "ck", *wrong)
    assert (result.exit_code, result.stdout, engine.calls) == (2, "", [])
    assert result.stderr.startswith(("error[OPTION_INVALID] at ", "error[USAGE]: "))
    assert "\nhelp: " in result.stderr


def test_metrics_are_passed_on(good_plan: Path, engine: Engine) -> None:
    call(good_plan, "--checkpoint", "ck", "--metrics", "m.prom")
    (found,) = engine.calls
    assert found["options"].metrics == "m.prom"


def test_the_address_of_the_page_is_a_line_on_stderr(good_plan: Path, engine: Engine) -> None:
    engine.run.page = "http://127.0.0.1:8123/"
    result = call(good_plan, "--checkpoint", "ck", "--page", 0)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "page: http://127.0.0.1:8123/" in result.stderr.splitlines()
    (found,) = engine.calls
    assert found["options"].page_port == 0


def test_warnings_of_a_run_are_lines_on_stderr(good_plan: Path, engine: Engine) -> None:
    """Warnings of a run are lines on stderr in the form of errors, and do not fail the command."""

    def warned() -> None:
        notice("OUTPUT_FAILING", "output x failed", help="it is tried again", path="here")

    engine.run.waiting = warned
    result = call(good_plan, "--checkpoint", "ck")
    assert result.exit_code == 0
    assert result.stderr.splitlines()[-2:] == [
        "warning[OUTPUT_FAILING] at here: output x failed",
        "help: it is tried again",
    ]
    assert not LOGGER.handlers


def test_a_warning_waits_until_the_terminal_is_free(capsys: pytest.CaptureFixture[str]) -> None:
    with notices_shown(ProgressMeter(io.StringIO(), live=False), later=True):
        notice("OUTPUT_FAILING", "output x failed")
        assert capsys.readouterr().err == ""
    assert capsys.readouterr().err == "warning[OUTPUT_FAILING]: output x failed\n"


def test_a_line_of_progress_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of progress never wraps, because a wrapped line could not be overwritten."""
    monkeypatch.setenv("COLUMNS", "30")
    stream = io.StringIO()
    ProgressMeter(stream, live=True).show(Progress(input_rows=10**12))
    assert len(stream.getvalue().removeprefix("\r\x1b[K")) == 29


def test_the_checkpoint_is_needed(good_plan: Path) -> None:
    result = call(good_plan)
    assert result.exit_code == 2
    assert "--checkpoint" in result.stderr


def test_a_refused_plan_starts_nothing(bad_plan: Path, engine: Engine) -> None:
    result = call(bad_plan, "--checkpoint", "ck")
    assert (result.exit_code, engine.calls) == (1, [])
    assert result.stderr.startswith("error[AGGREGATE_FUNCTION_UNKNOWN]")


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (InputRefused("SOURCE_MISSING", "no source for t", path="t"), 2, "error[SOURCE_MISSING] at t: no source for t\n"),
        (RunFailed("BATCH_FAILED", "overflow", help="cast it"), 1, "error[BATCH_FAILED]: overflow\nhelp: cast it\n"),
        (ValueError("boom"), 1, ("error[INTERNAL]: ValueError: boom\nhelp: this is a bug; run with --debug and "
                                 "report the output\n")),
    ],
)  # fmt: skip
def test_errors_of_the_run_have_no_traceback(
    error: Exception, status: int, text: str, good_plan: Path, engine: Engine
) -> None:
    engine.error = error
    result = call(good_plan, "--checkpoint", "ck", "--no-progress")
    assert (result.exit_code, result.stderr) == (status, text)
    debug = call(good_plan, "--checkpoint", "ck", "--debug")
    assert "Traceback" in debug.stderr
    assert debug.exit_code == status


def test_ctrl_c_stops_the_run_and_says_where_it_is(good_plan: Path, engine: Engine) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    engine.run.waiting = interrupted
    result = call(good_plan, "--checkpoint", "ck", "--no-progress")
    assert (result.exit_code, engine.run.stopped) == (130, True)
    assert result.stderr.splitlines() == [
        "error[INTERRUPTED]: stopped by the user; version 4 is committed",
        "help: run the same command again to continue from there",
    ]


@pytest.mark.usefixtures("engine")
def test_progress_is_plain_lines_on_stderr_unless_switched_off(good_plan: Path) -> None:
    shown = call(good_plan, "--checkpoint", "ck")
    line = "version 4: 12,345 rows, 67 groups touched, 23 changes, 8,901 rows/s\n"
    assert (shown.stderr, shown.stdout) == (line, "")
    assert call(good_plan, "--checkpoint", "ck", "--no-progress").stderr == ""


PHASES = (
    ("load", 0.8),
    ("check", 0.1),
    ("spark", 3.14),
    ("sources", 0.5),
    ("query", 0.7),
    ("batch", 0.96),
)


@pytest.mark.parametrize("live", [True, False])
def test_the_time_to_the_first_batch_is_told_once_by_phase(live: bool) -> None:
    stream = io.StringIO()
    meter = ProgressMeter(stream, live=live, loading=0.25)
    meter.show(Progress(version=0))
    assert "first batch" not in stream.getvalue()
    for version in (1, 2):
        meter.show(Progress(version=version, start_phases=PHASES))
    meter.end()
    told = (
        "first batch committed after 6.5 s: "
        "program 0.2, load 0.8, check 0.1, spark 3.1, sources 0.5, query 0.7, batch 1.0"
    )
    lines = stream.getvalue().replace(CLEAR_LINE, "\n").strip("\n").splitlines()
    assert [line for line in lines if line.startswith("first batch")] == [told]
    assert lines[-1].startswith("version 2")


def test_phases_of_a_start_are_told_when_all_are_over() -> None:
    instants = iter((1.0, 1.5, 2.0, 4.0, 8.0))
    timer = StartTimer(lambda: next(instants))
    for phase in ("load", "check", "load", "spark"):
        timer.end(phase)
        assert timer.phases == ()
    for phase in ("batch", "batch", "query"):
        timer.end(phase)
    assert timer.phases == (("load", 0.5), ("check", 0.5), ("spark", 2.0), ("batch", 4.0))


def test_progress_on_a_terminal_rewrites_one_line_and_ends_it() -> None:
    stream = io.StringIO()
    meter = ProgressMeter(stream, live=True)
    meter.show(Progress())
    meter.show(Progress(version=5))
    meter.end()
    meter.end()
    assert stream.getvalue().count("\r\x1b[K") == 2
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().endswith("rows/s\n")
