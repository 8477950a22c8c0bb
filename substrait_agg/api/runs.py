"""Provide the public function `run`, which maintains plans over their sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from substrait_agg.api.plans import (
    Plans,
    combined_views,
    named_plans,
    temporary_views,
    without_frames,
)
from substrait_agg.api.queries import check_sources
from substrait_agg.arguments import check_objects, check_types
from substrait_agg.checked_plan import Plan
from substrait_agg.errors import InputRefused, PlanRefused
from substrait_agg.problem_kinds import Mode
from substrait_agg.run_options import RunOptions

if TYPE_CHECKING:
    from substrait_agg.bind.bound import BoundPlan, BoundRead
    from substrait_agg.spark.query.handle import Run


@check_types
def run(
    plan: Plans,
    sources: Mapping[str, Any] | None = None,
    *,
    checkpoint: str | Path,
    spark: Any = None,
    emit: str = "batch",
    on_changes: Callable[[Any, int], None] | Mapping[str, Any] | None = None,
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
    allow_files: str | Path | None = None,
    refresh: str | Mapping[str, str] = "incremental",
    evolve: bool = False,
    latency: str | None = None,
    max_join_rows: int = 100_000_000,
    checksum: bool = False,
    page: int | None = None,
) -> Run:
    """Start a run that maintains the plan over its sources, or continue the run of a checkpoint.

    Args:
        plan: a `Plan` or anything that `load` takes; or several of them by the names of their
            views. A plan reads another view as a table with its name. All views are maintained
            together: a version has the changes of all of them. The roots of a plan with several are
            the views ``root1``, ``root2`` and so on. Where a plan gives names but no types for the
            columns of a table (``SCHEMA_TYPES_MISSING``), lenient mode takes the types from the
            source of the table.
        sources: per table of the plan a SPEC (``parquet:data/li?batch-files=1``) or a DataFrame. None:
            for plans of DataFrames of Spark, the files and the tables that they read.
            With ``key=COLUMN`` in a SPEC, a row replaces the row with the same key, so that events
            need not contain the old row. With ``static=true``, and for a DataFrame that does not
            stream, the rows are read once, in the first version.
        checkpoint: folder of state, offsets and versions, or its URL in an object store
            (``s3://bucket/prefix``); it is also the view.
        spark: the session to use; None starts a local session.
        emit: when the changes of a group are emitted. ``batch``: after every batch that
            touches it. ``watermark``: when the watermark passes its event time. ``count:N``: after
            N of its rows. ``delay:5s``: this long after its last row, in processing time. ``end``:
            at the end of the input. Several, joined by commas: whichever comes first. At the end of
            a bounded input all groups are emitted.
        on_changes: called with (changes as `pyarrow.Table`, version) for every version with
            changes. The table has the columns of the view, then ``__version`` and ``__weight``,
            both int64. One thread calls it in order of versions, never concurrently. A version is
            delivered when the function returns. If the function raises, or the run is killed, that
            version is passed again. No version is skipped. With several views: such a function by
            name of view.
        until: ``done`` stops after the data that is available now; an interval such as ``5s`` runs
            a batch per interval.
        partitions: of the state, a power of two; each run may use another number. None: the
            recorded setting of the checkpoint, else the number of cores, rounded up to a power of
            two.
        mode: ``lenient`` or ``strict``, as in `validate`.
        outputs: [VIEW=]KIND[=LOCATION] texts, `SparkSink` or other `substrait_agg.changes.Sink`
            objects, or pairs of the name of a view and such an object.
            Each gets committed versions in a thread of its own: a slow or failing output delays
            neither the batches nor the other outputs.
        conf: Spark configuration for a session that is started here.
        master: Spark master for a session that is started here.
        early_retraction: what happens to a retraction that comes before its insertion. ``carry``:
            it counts at once, and a negative weight is not shown. ``refuse``: the batch fails with
            EARLY_RETRACTION. ``quarantine``: it is stored until the insertion comes
            (`View.quarantined`). A checkpoint keeps its policy.
        watermark: ``TABLE.COLUMN`` -> ``max-diff:5s`` (this far behind the greatest event time) or
            ``percentile:P:EVENTS:FREQUENCY`` (P percent of the last EVENTS event times may be above
            it). Both take ``,idle:1m`` (a source without rows for this long does not hold the
            watermark back). max-diff also takes ``,by:COLUMN`` (one watermark per value of a
            column; the least counts). Rows of groups that the watermark has passed are late and are
            dropped.
        ttl: evict groups without rows for this long, in event time, or in processing time where
            there is no watermark. ``1h`` retracts their rows; ``1h:keep`` leaves the rows in the
            view.
        progress: called with `Run.progress` after every batch, before the next one begins. While a
            join produces many rows, it is also called every few seconds in a thread, with
            `Progress.join`; never concurrently.
        metrics: file for the metrics of every version. A name that ends in ``.prom`` is replaced
            with Prometheus text; any other gets a line of JSON appended. A write error during the
            run does not end the run.
        listener: a `RunListener`, or any object with some of its methods. One thread calls it at
            the start, after every version, when the run is idle, and at the end. Its exceptions are
            logged, and the run continues.
        spark_log: binary file, with a file number, for the output of a Spark started here. None:
            stderr.
        keep_versions: how many of the newest versions keep their state, so that they can be read
            and restored; 10 where None.
        keep_for: versions younger than this (``12h``, ``7d``) keep their state as well. Changes are
            kept for all versions.
        accept_source_change: continue although a table is read from another location or in another
            format than before. Data that Spark has not read there counts as new rows. Spark itself
            refuses another folder of files. Of a static table whose content has changed, the
            difference counts, where every join with it stores the rows of both sides.
        allow_files: folder whose files a plan may read that names files itself (``local_files``),
            also behind links. Other files are refused with FILES_NOT_ALLOWED. A table of files that
            has a source is read from there; its name in `sources` is that of the file or folder, or
            the path in the plan.
        refresh: how views follow their input. ``incremental``: by its changes.
            ``incremental_strict``: the same, and refuse a plan in which a changed row makes the run
            read many stored rows again. ``full``: compute the view again from all rows in every
            batch, and emit the difference. ``auto``: full or incremental, whichever the costs of
            past batches say is cheaper. With several views: policies by name of view, or
            ``"auto,totals=full"``.
        evolve: continue a checkpoint with a plan that has other measures or other names. Measures
            of both plans keep their state. New measures are computed from stored state, or the run
            is refused with EVOLVE_REFUSED.
        latency: target duration of a batch, such as ``2s``. A batch takes as many bytes of files as
            stay below it, and at least one file per table. ``batch-files=`` in a SPEC stays an
            upper limit. All streams have to be files given as a SPEC.
        max_join_rows: the most rows that a join may produce in a batch, 0 for any number. A batch with
            more fails with JOIN_ROWS_TOO_MANY, and nothing of it is committed.
        checksum: store a checksum of all rows of each view in every version (`View.checksum`), which SQL
            engines can compute again (`View.checksum_query`).
        page: port of 127.0.0.1 for a web page that shows the run until it ends; 0 for a free port. `Run.page`
            has its address.

    Returns:
        A handle with ``wait()``, ``stop()`` and ``progress``. The first version is committed when
        this function returns.

    Raises:
        PlanRefused: the plan has errors; no data has been read.
        InputRefused: a source is missing or does not fit the plan, such as SOURCE_NOT_FOUND or
            KEY_COLUMN_UNKNOWN.
        StateRefused: the checkpoint belongs to another plan (PLAN_DIFFERS), is damaged
            (STATE_DAMAGED), cannot evolve (EVOLVE_REFUSED) or is used by another run
            (CHECKPOINT_BUSY).
        UsageError: OPTION_INVALID, OPTION_CONFLICT, LATENCY_NOT_SUPPORTED or PAGE_NOT_SERVED; PYSPARK_MISSING, PANDAS_MISSING or
            JAVA_MISSING.
        RunFailed: Spark could not start (SPARK_NOT_STARTED, RUN_NOT_STARTED), or the first version
            could not be computed (BATCH_FAILED).
        CommitConflict: COMMIT_CONFLICT; another run published a version of the checkpoint first.
    """
    plan = without_frames(plan)
    # These are the parameters of this function, which are the fields of the options.
    arguments = locals().copy()
    arguments["conf"] = _merge_configuration(plan, conf)
    options = RunOptions(
        **{name: arguments[name] for name in arguments.keys() - {"plan", "sources"}}
    )
    options = options.with_declared(plan)
    check_sources(sources or {})
    named_outputs = {f"output {number}": output for number, output in enumerate(options.sinks, 1)}
    check_objects(named_outputs, "outputs", "give a text such as stream-json=FILE")
    from substrait_agg.metrics.startup import StartTimer

    timer = StartTimer()
    plans = named_plans(plan, options.mode)
    if sources is None:
        sources = own_sources(plans.values())
    bound = combined_views(
        {name: bound_to_run(given, sources, options) for name, given in plans.items()},
        temporary_views(plan),
        sources,
    )
    from substrait_agg.optional_packages import require

    require("pyspark", "pandas")
    from substrait_agg.spark.query.start import run as run_on_spark

    timer.end("load")
    read = {
        n: s for n, s in sources.items() if not _is_planned_away(n, plans.values(), bound.reads)
    }
    return run_on_spark(bound, read, options, timer)


def own_sources(plans: Iterable[Plan]) -> dict[str, str]:
    """Return the SPECs of the tables of plans of DataFrames.

    Raises:
        InputRefused: SOURCE_MISSING for a table without one; SOURCE_AMBIGUOUS for a name of two tables.
    """
    specs: dict[str, str] = {}
    for name, source in (item for plan in plans for item in plan.sources.items()):
        if not source.spec:
            raise InputRefused(
                "SOURCE_MISSING",
                f"no source is given for {name}, and the DataFrame has none: {source.reason}",
                help=f"give sources={{{name!r}: SPEC}} with the source of every table",
            )
        if specs.setdefault(name, source.spec) != source.spec:
            raise InputRefused(
                "SOURCE_AMBIGUOUS",
                f"two views read other rows as the table {name}",
                help="name the tables with createOrReplaceTempView before the DataFrames are made",
            )
    return specs


def _is_planned_away(name: str, plans: Iterable[Plan], reads: Iterable[BoundRead]) -> bool:
    """Return whether SQL names the table of a source, and no plan reads it, as with LIMIT 0."""
    tables = {read.table for read in reads}
    if any(table[-1].lower() == name.rpartition(".")[2].lower() for table in tables):
        return False
    return any(plan.origin is not None and plan.origin.mentions(name) for plan in plans)


def _merge_configuration(plan: Plans, conf: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Return Spark configuration after that of the project of a pipeline."""
    own = getattr(plan, "configuration", None)
    return {**own, **(conf or {})} if own else conf


def bound_to_run(plan: Plan, sources: Mapping[str, Any], options: RunOptions) -> BoundPlan:
    """Return the plan ready to run. In lenient mode, take missing column types from the sources."""
    checked = plan.check(options.mode)
    errors = {problem.code for problem in checked.problems if problem.level == "error"}
    if checked.decoded is None:
        return plan.bind(options.mode)
    if errors != {"SCHEMA_TYPES_MISSING"} or options.mode != "lenient":
        return plan.bind(options.mode)
    from substrait_agg.optional_packages import require

    require("pyspark", "pandas")
    from substrait_agg.spark.query.start import schemas_of_sources

    typed = plan.check_with(schemas_of_sources(checked.decoded, sources, options))
    if typed.bound is None:
        raise PlanRefused(typed.problems)
    return typed.bound
