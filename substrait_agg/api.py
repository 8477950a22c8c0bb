"""The public functions: load, validate, explain, run a plan; open a view.

Stages are imported when they are first needed, so that `import substrait_agg` is cheap and free of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from substrait_agg.durations import microseconds
from substrait_agg.errors import PlanRefused, PlanUnreadable, UsageError
from substrait_agg.problems import MODES, Mode, Problem, Problems
from substrait_agg.report.report import Report

if TYPE_CHECKING:
    from substrait_agg.bind.bound import BoundPlan
    from substrait_agg.bind.context import SourceSchemas
    from substrait_agg.commit import View
    from substrait_agg.functions.aggregates.accumulators import EarlyRetraction
    from substrait_agg.plan.model import DecodedPlan
    from substrait_agg.spark.query.handle import Run
    from substrait_agg.tools.state import State

PlanSource = Any
"""A path (`str` or `Path`), the plan as `bytes`, as JSON text (`str`), or a protobuf ``Plan`` message."""

EXPLAIN_FORMATS = ("text", "json", "mermaid", "html")


_WITH_SOURCES = "with the column types of its sources"


@dataclass(frozen=True)
class Checked:
    """A plan after decoding and binding in one mode; `bound` is None where it has errors."""

    decoded: DecodedPlan | None
    bound: BoundPlan | None
    problems: tuple[Problem, ...]


@dataclass(frozen=True)
class Plan:
    """A plan as it was given; it is decoded and bound when that is first asked for.

    Attributes:
        name: the file it came from, or empty.
        content: protobuf or protobuf-JSON as bytes, JSON text, or a protobuf message.
    """

    name: str
    content: Any
    _checked: dict[tuple[Mode, object], Checked] = field(
        default_factory=dict, repr=False, compare=False
    )

    @classmethod
    def from_file(cls, path: str | Path) -> Plan:
        """The plan in a file, not decoded yet.

        Raises:
            UsageError: the file is not there or cannot be read.
        """
        from substrait_agg.plan.messages.source import file_bytes

        return cls(str(path), file_bytes(Path(path)))

    def check(self, mode: Mode = "lenient") -> Checked:
        """Decode and bind; all problems of both stages are in the answer, none is raised."""
        from substrait_agg.functions.aggregates.registry import registered

        known = (mode, registered())
        if known not in self._checked:
            self._checked[known] = _check(self.content, mode)
        return self._checked[known]

    def check_with(self, source_schemas: SourceSchemas) -> Checked:
        """As `check` in lenient mode, with the columns of the tables whose types the plan leaves out.

        The answer is kept: `check_to_run` gives it.
        """
        checked = _check(self.content, "lenient", source_schemas)
        self._checked["lenient", _WITH_SOURCES] = checked
        return checked

    def check_to_run(self, mode: Mode = "lenient") -> Checked:
        """What a run goes by: as `check`, or with the column types of its sources where the last run took them."""
        typed = self._checked.get(("lenient", _WITH_SOURCES))
        return typed if mode == "lenient" and typed is not None else self.check(mode)

    def bound(self, mode: Mode = "lenient") -> BoundPlan:
        """The plan ready to run.

        Raises:
            PlanRefused: it has errors.
        """
        checked = self.check(mode)
        if checked.bound is None:
            raise PlanRefused(checked.problems)
        return checked.bound

    @cached_property
    def decoded(self) -> DecodedPlan:
        """The plan as written, free of protobuf.

        Raises:
            PlanUnreadable: it cannot be decoded at all.
        """
        checked = self.check()
        if checked.decoded is None:
            raise PlanUnreadable(checked.problems)
        return checked.decoded


def _check(content: Any, mode: Mode, source_schemas: SourceSchemas | None = None) -> Checked:
    from substrait_agg.bind import bind
    from substrait_agg.plan import decode
    from substrait_agg.report.places.order import in_plan_order

    problems = Problems(_known_mode(mode))
    try:
        decoded = decode(content, problems)
    except PlanRefused as refusal:
        found = tuple(dict.fromkeys((*problems.found, *refusal.problems)))
        return Checked(None, None, in_plan_order(_of_no_plan(content, found)))
    bound = bind(decoded, problems, source_schemas)
    return Checked(decoded, None if problems.errors else bound, in_plan_order(problems.found))


def _of_no_plan(content: Any, found: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """What is said of content that could not be decoded.

    Of bytes that are no plan, only that: what they seemed to hold before reading had to stop means nothing. JSON has
    keys, and one that is misspelt is told.
    """
    from substrait_agg.plan.messages.source import json_text, plan_bytes

    unreadable = tuple(problem for problem in found if problem.code == "PLAN_UNREADABLE")
    if len(unreadable) in (0, len(found)) or json_text(plan_bytes(content)) is not None:
        return found
    return unreadable


def _known_mode(mode: str) -> Mode:
    for known in MODES:
        if mode == known:
            return known
    message = f"mode {mode!r} is not one of {', '.join(MODES)}"
    raise UsageError("OPTION_INVALID", message, help="choose one of them", path="mode")


def load(source: PlanSource) -> Plan:
    """Read a plan: a path, bytes, JSON text, or a protobuf ``Plan``; a `Plan` is handed back as it is.

    A `str` that starts like JSON (a brace or a comment) is text, any other is a path.

    Raises:
        UsageError: the file is not there or cannot be read.
        PlanUnreadable: what was given is not a Substrait plan.
    """
    plan = _plan(source)
    _ = plan.decoded
    return plan


def _plan(source: PlanSource) -> Plan:
    if isinstance(source, Plan):
        return source
    if isinstance(source, str) and _is_json(source):
        return Plan("", source)
    if isinstance(source, str | Path):
        return Plan.from_file(source)
    return Plan("", bytes(source) if isinstance(source, bytearray | memoryview) else source)


def _is_json(text: str) -> bool:
    # A path may start with // too; a plan has a brace somewhere.
    start = text.lstrip("\ufeff \t\r\n")
    return start.startswith(("{", "//", "/*")) and "{" in text


def validate(plan: PlanSource, mode: Mode = "lenient") -> Report:
    """Check a plan without running it; everything that is wrong is in the report.

    Args:
        plan: a `Plan` or anything that `load` takes.
        mode: ``lenient`` accepts what producers are known to write and warns; ``strict`` makes every
            deviation from the specification an error.

    Raises:
        UsageError: the file is not there, or the mode is unknown. A broken plan is a report, not an error.
    """
    given = _plan(plan)
    problems = given.check(mode).problems
    return Report(given.name, problems, _content(given))


def _content(plan: Plan) -> bytes:
    """The plan's bytes; none where they are too many to be read."""
    from substrait_agg.plan.messages.node import Unreadable
    from substrait_agg.plan.messages.source import plan_bytes

    try:
        return plan_bytes(plan.content)
    except Unreadable:
        return b""


def explain(
    plan: PlanSource,
    format: str = "text",
    mode: Mode = "lenient",
    early_retraction: str = "carry",
) -> str:
    """Describe how the plan is run: operators, what each keeps per group, what runs on Spark before and after.

    Args:
        plan: a `Plan` or anything that `load` takes.
        format: ``text``, ``json``, ``mermaid`` (a flowchart) or ``html`` (a page of its own).
        mode: ``lenient`` or ``strict``, as in `validate`.
        early_retraction: as in `run`. With ``refuse`` and ``quarantine``, tables are taken to bring retractions.

    Raises:
        PlanRefused: the plan has errors.
        UsageError: an unknown format, mode or policy.
    """
    if format not in EXPLAIN_FORMATS:
        message = f"format {format!r} is not one of {', '.join(EXPLAIN_FORMATS)}"
        raise UsageError("OPTION_INVALID", message, help="choose one of them", path="format")
    policy = _policy(early_retraction)
    given = _plan(plan)
    bound = given.bound(mode)
    from substrait_agg.report.explained import explained

    return explained(bound, format, policy, given.name)


def run(
    plan: PlanSource,
    sources: Mapping[str, Any],
    *,
    checkpoint: str | Path,
    spark: Any = None,
    emit: str = "batch",
    on_changes: Callable[[Any, int], None] | None = None,
    until: str = "done",
    partitions: int | None = None,
    mode: Mode = "lenient",
    outputs: Iterable[Any] = (),
    conf: Mapping[str, str] | None = None,
    master: str | None = None,
    early_retraction: str = "carry",
    watermark: Mapping[str, str] | None = None,
    ttl: str | None = None,
    progress: Callable[[Any], None] | None = None,
    metrics: str | Path | None = None,
    listener: Any = None,
    spark_log: IO[bytes] | None = None,
    keep_versions: int | None = None,
    keep_for: str | None = None,
    accept_source_change: bool = False,
    evolve: bool = False,
) -> Run:
    """Start maintaining the plan over its sources, or continue where the checkpoint is.

    Args:
        plan: a `Plan` or anything that `load` takes. Where it gives names and no types for the columns of a table
            (``SCHEMA_TYPES_MISSING``), they are taken from the source of the table, in lenient mode.
        sources: per table of the plan a SPEC (``parquet:data/li?batch-files=1``) or a DataFrame. With ``key=COLUMN`` in a
            SPEC a row replaces the one with its key, so that events need not say what a row was.
        checkpoint: folder of state, offsets and versions, or its URL in an object store (``s3://bucket/prefix``); it is also
            the view.
        spark: the session to use; without one, a local session is made.
        emit: when the changes of a group are emitted: ``batch``, after every micro-batch that touches it; ``watermark``, when
            the watermark passes its event time; ``count:N``, after N rows of it; ``delay:5s``, so long after its last row, by the
            clock; ``end``, at the end of the input; several joined by commas: whichever comes first. At the end of a
            bounded input everything is emitted.
        on_changes: called with (changes as `pyarrow.Table`, version) for every version that changed anything; the
            table has the view's columns, then ``__version`` and ``__weight``. It is called from a thread of its own, never twice
            at a time, in order of versions. A version counts as delivered when the function returns: if it raises, or the
            run is killed, that version comes once more; none is left out.
        until: ``done`` stops after what is there now; an interval such as ``5s`` goes on, one batch each.
        partitions: of the state, a power of two; may be another one in every run. None: one per core.
        mode: ``lenient`` or ``strict``, as in `validate`.
        outputs: KIND[=LOCATION] texts, `SparkSink` or other `substrait_agg.changes.Sink` objects, delivered from committed
            versions beside the batches: one that is slow or fails holds up neither them nor the others.
        conf: Spark configuration for a session made here.
        master: Spark master for a session made here.
        early_retraction: what a retraction does that comes before its insertion. ``carry``: it counts at once, and a
            weight below zero is not shown; ``refuse``: the batch fails with EARLY_RETRACTION; ``quarantine``: it is kept aside
            until the insertion comes (`View.quarantined`). A checkpoint keeps its policy.
        watermark: ``TABLE.COLUMN`` -> ``max-diff:5s`` (so far behind the greatest event time) or
            ``percentile:P:EVENTS:FREQUENCY`` (P percent of the last EVENTS event times may be above it); behind either
            ``,idle:1m`` (a source without rows for so long does not hold it) and, of max-diff, ``,by:COLUMN`` (one per
            value of a column, the least counts). Rows of groups that it has passed are late and are dropped.
        ttl: forget groups without rows for so long, in event time, in processing time without a watermark; ``1h``
            retracts their rows, ``1h:keep`` leaves them in the view.
        progress: called with `Run.progress` after every batch, before the next one begins.
        metrics: file for the metrics after every version: replaced as Prometheus text where its name ends in ``.prom``, else a
            line of JSON is appended. A file that cannot be written later on does not end the run.
        listener: a `RunListener`, or any object with some of its methods: told of the start, of every version, of
            idleness and of the end, from a thread of its own. What it raises is logged, and the run goes on.
        spark_log: binary file, with a file number, for what a Spark started here prints. None: stderr.
        keep_versions: how many of the newest versions keep their state, so that they can be read and gone back to; 10 where None.
        keep_for: versions younger than this (``12h``, ``7d``) keep it as well. Changes are kept for all versions.
        accept_source_change: go on although a table is read from another place, or in another format, than before; what Spark
            has not read there counts as new rows. Spark itself refuses another folder of files.
        evolve: where the checkpoint was made for a plan with other measures or other names, go on with this one: measures that
            are in both keep their state, new ones are computed from what is kept, or the run is refused with EVOLVE_REFUSED.

    Returns:
        A handle with ``wait()``, ``stop()`` and ``progress``.

    Raises:
        PlanRefused: the plan has errors; no data has been read.
        InputRefused: a source is missing or does not fit.
        StateRefused: the checkpoint belongs to another plan or is damaged.
        UsageError: an option is wrong, or pyspark, pandas or Java is missing.
        RunFailed: Spark could not start, or the first version could not be computed.
    """
    trigger = _trigger(until)
    from substrait_agg.metrics.startup import StartTimer

    timer = StartTimer()
    from substrait_agg.commit.log.retention import parse_retention
    from substrait_agg.operator.common.policy import parse_emit
    from substrait_agg.operator.common.watermarks import parse_ttl

    retention = parse_retention(keep_versions, keep_for)
    emission = parse_emit(emit)
    remembered = None if ttl is None else parse_ttl(ttl)
    policy = _policy(early_retraction)
    session = {"spark": spark, "conf": conf, "master": master, "spark_log": spark_log}
    bound = _bound_to_run(_plan(plan), mode, sources, session)
    from substrait_agg.optional_packages import require

    require("pyspark", "pandas")
    from substrait_agg.spark.query.start import run as run_on_spark

    timer.end("load")

    return run_on_spark(
        bound,
        sources,
        checkpoint=checkpoint,
        spark=spark,
        on_changes=on_changes,
        until=trigger,
        partitions=partitions,
        outputs=outputs,
        conf=conf,
        master=master,
        early_retraction=policy,
        emit=emission,
        watermark=watermark,
        ttl=remembered,
        progress=progress,
        metrics=metrics,
        listener=listener,
        spark_log=spark_log,
        retention=retention,
        accept_source_change=accept_source_change,
        evolve=evolve,
        timer=timer,
    )


def _bound_to_run(
    plan: Plan, mode: Mode, sources: Mapping[str, Any], session: Mapping[str, Any]
) -> BoundPlan:
    """The plan ready to run, with column types from the sources where it has none; strict mode takes none."""
    checked = plan.check(mode)
    errors = {problem.code for problem in checked.problems if problem.level == "error"}
    if errors != {"SCHEMA_TYPES_MISSING"} or checked.decoded is None or mode == "strict":
        return plan.bound(mode)
    from substrait_agg.bind import untyped_tables
    from substrait_agg.optional_packages import require

    require("pyspark", "pandas")
    from substrait_agg.spark.query.start import schemas_of_sources

    schemas = schemas_of_sources(untyped_tables(checked.decoded), sources, **session)
    typed = plan.check_with(schemas)
    if typed.bound is None:
        raise PlanRefused(typed.problems)
    return typed.bound


def _policy(word: str) -> EarlyRetraction:
    from substrait_agg.functions.aggregates.accumulators import EARLY_RETRACTIONS

    for known in EARLY_RETRACTIONS:
        if word == known:
            return known
    message = f"{word!r} is not one of {', '.join(EARLY_RETRACTIONS)}"
    raise UsageError("OPTION_INVALID", message, help="choose one of them", path="early_retraction")


def _trigger(until: str) -> str:
    """``done``, or an interval as Spark reads it (``5000 milliseconds``)."""
    if until == "done":
        return until
    interval = microseconds(until)
    if not interval:
        message = f"{until!r} is neither done nor an interval"
        help = "write an interval as 500ms, 5s, 1m or 1h"
        raise UsageError("OPTION_INVALID", message, help=help, path="until")
    return f"{interval // 1000} milliseconds"


def open_view(checkpoint: str | Path) -> View:
    """The view kept in a checkpoint (a folder or a URL), at any version; needs no Spark.

    Raises:
        StateRefused: the folder is no checkpoint, or it is damaged.
    """
    from substrait_agg.commit import open_view as open_committed

    return open_committed(checkpoint)


def open_state(checkpoint: str | Path) -> State:
    """The state kept in a checkpoint (a folder or a URL): list it, show groups, verify it, go back, set what is kept; needs no Spark.

    Raises:
        StateRefused: the folder is no checkpoint.
    """
    from substrait_agg.tools.state import open_state as open_kept

    return open_kept(checkpoint)
