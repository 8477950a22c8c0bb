"""Provide the public functions: load, validate, explain and run a plan; open a view or the state.

Functions import the stages that they need when they are called. So `import substrait_agg` is cheap
and does not load Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from substrait_agg.errors import PlanRefused, SqlRefused, UsageError, checked_choice
from substrait_agg.functions.aggregates.accumulators import EARLY_RETRACTIONS
from substrait_agg.problems import Mode
from substrait_agg.report.checked_plan import Checked, Plan, PlanSource, as_plan
from substrait_agg.report.report import Report
from substrait_agg.run_options import RunOptions

if TYPE_CHECKING:
    from substrait_agg.bind.bound import BoundPlan
    from substrait_agg.bind.plan.views import BoundViews
    from substrait_agg.commit import View
    from substrait_agg.explanation.explain import PastBatch
    from substrait_agg.spark.query.handle import Run
    from substrait_agg.sql_planner.pipelines.pipeline import PlanSet
    from substrait_agg.tools.state import State

__all__ = [
    "EXPLAIN_FORMATS",
    "Checked",
    "Plan",
    "PlanSource",
    "Plans",
    "explain",
    "from_dataframe",
    "load",
    "open_state",
    "open_view",
    "run",
    "sql",
    "sql_views",
    "validate",
]  # fmt: skip

Plans = PlanSource | Mapping[str, PlanSource]
"""One plan, or several plans by the names of their views. A plan may read the other views as tables."""

EXPLAIN_FORMATS = ("text", "json", "mermaid", "html")


def load(source: PlanSource) -> Plan:
    """Read a plan from a path, bytes, JSON text or a protobuf ``Plan`` message.

    A `str` that starts like JSON (a brace or a comment) and contains a brace is JSON text. Any
    other `str` is a path. A `Plan` is returned unchanged after it is decoded. Loading does not bind
    the plan: use `validate` to find all problems.

    Args:
        source: the plan, as a `Plan` or a `PlanSource`; or an ibis expression over tables without a
            backend, a DataFrame or logical plan of DataFusion, or a plan of substrait-python.

    Returns:
        The decoded plan.

    Raises:
        UsageError: FILE_NOT_FOUND or FILE_NOT_READABLE for a path, PLAN_SOURCE for an object of
            another type.
        PlanUnreadable: PLAN_UNREADABLE or PLAN_TOO_LARGE; the content is not a Substrait plan. For
            JSON, `problems` also lists UNKNOWN_FIELD.

    Example:
        >>> plan = load("plans/windows/tumble_end.bin")
        >>> plan.bound().names
        ('team', 'minute', 'goals', 'sum')
    """
    plan = _plan(source)
    _ = plan.decoded
    return plan


def _plan(source: PlanSource) -> Plan:
    """Return a plan given in any accepted form, without decoding it."""
    if type(source).__module__.partition(".")[0] in ("ibis", "datafusion"):
        from substrait_agg.sql_planner.library_plans import plan_of

        return plan_of(source)
    return as_plan(source)


def sql(
    text: str | Path,
    sources: Mapping[str, Any] | None = None,
    *,
    spark: Any = None,
    conf: Mapping[str, str] | None = None,
    master: str | None = None,
    spark_log: IO[bytes] | None = None,
) -> Plan:
    """Plan SQL text: CREATE TABLE statements, and one query or CREATE VIEW.

    The columns of a table are those of CREATE TABLE, or those of its source: of Parquet footers, of
    the first rows of the oldest CSV or JSON file, or of a table of Spark. It needs Spark only for
    sources that it cannot read without.

    Args:
        text: SQL text, or the `Path` of a file with it.
        sources: as in `run`; an Arrow schema is possible as well. Tables that the text creates need
            no source here.
        spark: session to open sources with; None starts one where it is needed.
        conf: as in `run`.
        master: as in `run`.
        spark_log: as in `run`.

    Returns:
        The plan, for `run`, `validate` and `explain`. Its producer is the release of DataFusion.

    Raises:
        SqlRefused: the text cannot be planned: SQL_SYNTAX, SQL_STATEMENTS, SQL_TABLE_UNKNOWN,
            SQL_COLUMN_UNKNOWN, SQL_FUNCTION_UNKNOWN, SQL_TYPES, SQL_NOT_DETERMINISTIC, SQL_NOT_IN,
            SQL_NOT_MAINTAINED or SQL_NOT_PLANNED; `line`, `column` and `excerpt` say where.
        InputRefused: the columns of a source are not known, such as SOURCE_TYPES_UNKNOWN.
        UsageError: DATAFUSION_MISSING; FILE_NOT_FOUND or FILE_NOT_READABLE for a path.

    Example:
        >>> plan = sql(
        ...     "CREATE TABLE sales (region varchar, amount int);"
        ...     "SELECT region, sum(amount) AS total FROM sales GROUP BY region"
        ... )
        >>> plan.bound().names
        ('region', 'total')
    """
    columns_of = _columns_of(sources or {}, spark, conf, master, spark_log)
    from substrait_agg.sql_planner.errors import with_sources
    from substrait_agg.sql_planner.pipelines.clauses import check_script
    from substrait_agg.sql_planner.planning import plan_script
    from substrait_agg.sql_planner.script import script_text

    file = str(text) if isinstance(text, Path) else ""
    script = script_text(text) if isinstance(text, Path) else text
    try:
        check_script(script, file)
        return plan_script(script, columns_of, file)
    except SqlRefused as error:
        raise with_sources(error, sources or ()) from error.__cause__


def sql_views(
    text: str | Path,
    sources: Mapping[str, Any] | None = None,
    *,
    spark: Any = None,
    conf: Mapping[str, str] | None = None,
    master: str | None = None,
    spark_log: IO[bytes] | None = None,
) -> PlanSet:
    """Plan the views of a pipeline: SQL text with several CREATE statements, or a folder of files.

    The statements are those of Spark Declarative Pipelines: CREATE MATERIALIZED VIEW, CREATE
    STREAMING TABLE, CREATE VIEW and CREATE TEMPORARY VIEW, each with AS and a query, in any order.

    Args:
        text: SQL text, or the `Path` of a file or of a folder, whose ``.sql`` files are read. If the
            path is that of a ``spark-pipeline.yml``, or of a folder with one, the files are those of its
            libraries.
        sources: as in `sql`, for the tables that no statement creates.
        spark: as in `sql`.
        conf: as in `run`.
        master: as in `run`.
        spark_log: as in `run`.

    Returns:
        The plans by the names of their views, for `run` and `explain`.

    Raises:
        SqlRefused: as in `sql`; SQL_NOT_MAINTAINED for a statement or clause that cannot be
            maintained; SQL_VIEW_TWICE, SQL_VIEW_CYCLE.
        PlanRefused: the query of a view has errors.
        InputRefused: as in `sql`.
        UsageError: as in `sql`; SQL_FOLDER_EMPTY, PIPELINE_SPEC_INVALID.

    Example:
        >>> plans = sql_views(
        ...     "CREATE TABLE sales (region varchar, amount int);"
        ...     "CREATE MATERIALIZED VIEW best AS SELECT max(total) AS total FROM totals;"
        ...     "CREATE MATERIALIZED VIEW totals AS"
        ...     " SELECT region, sum(amount) AS total FROM sales GROUP BY region"
        ... )
        >>> [*plans]
        ['totals', 'best']
    """
    from substrait_agg.sql_planner.errors import with_sources
    from substrait_agg.sql_planner.pipelines.pipeline import (
        PlanSet,
        plan_pipeline,
        scripts_in,
        scripts_of,
    )
    from substrait_agg.sql_planner.pipelines.project import find_spec, note_ignored, read_spec

    file = find_spec(text) if isinstance(text, Path) else None
    spec = None if file is None else read_spec(file)
    if isinstance(text, Path):
        scripts = scripts_in(text) if spec is None else scripts_of(spec.files, text)
    else:
        scripts = {"": text}
    if spec is not None:
        note_ignored(spec)
    configuration = {} if spec is None else spec.configuration
    columns_of = _columns_of(
        sources or {}, spark, {**configuration, **(conf or {})}, master, spark_log
    )
    try:
        plans = plan_pipeline(scripts, columns_of)
    except SqlRefused as error:
        raise with_sources(error, sources or ()) from error.__cause__
    return PlanSet(plans, plans.temporary, configuration, plans.refresh, plans.places)


def _columns_of(
    sources: Mapping[str, Any], spark: Any, conf: Any, master: str | None, spark_log: Any
) -> Callable[[Container[str]], Mapping[str, Any]]:
    """Return a function that reads the columns of the sources whose names a query contains."""
    from substrait_agg.optional_packages import require

    require("datafusion")
    from substrait_agg.spark.sources.inferred_columns import columns_of_sources

    def session() -> Any:
        require("pyspark", "pandas")
        from substrait_agg.spark.session.session import get_session

        return get_session(master, conf, spark, spark_log)

    return partial(columns_of_sources, sources, session)


def from_dataframe(frame: Any) -> Plan:
    """Return the plan of a query that is written as a Spark DataFrame over named tables.

    The DataFrame is not computed. Its tables (``spark.table("t")``) are the tables of the plan; `run`
    takes their sources. docs/dataframes.md lists the supported operations and expressions.

    Args:
        frame: a `pyspark.sql.DataFrame` of a classic session in ANSI mode, which is the default.

    Returns:
        The plan, with the column names and types of the DataFrame.

    Raises:
        UsageError: DATAFRAME_RELATION, DATAFRAME_EXPRESSION or DATAFRAME_TYPE for what a plan cannot
            express with Spark's values, DATAFRAME_SETTING, CONNECT_NOT_SUPPORTED.
    """
    from substrait_agg.spark.dataframe.analyzed import analyzed_plan
    from substrait_agg.spark.dataframe.relations import plan_json
    from substrait_agg.spark.session.session import require_classic

    require_classic((frame,))
    return load(plan_json(analyzed_plan(frame)))


def validate(plan: PlanSource, mode: Mode = "lenient") -> Report:
    """Check a plan without running it, and report all errors and warnings.

    A plan that cannot be decoded gives a report with PLAN_UNREADABLE. It does not raise an error.

    Args:
        plan: a `Plan` or anything that `load` takes.
        mode: ``lenient`` accepts known deviations of producers with a warning; ``strict`` makes
            every deviation from the specification an error.

    Returns:
        A report with `ok`, `problems` (code, level, path, message, help, producer) and `to_json`,
        `to_sarif` and `to_html`.

    Raises:
        UsageError: FILE_NOT_FOUND or FILE_NOT_READABLE for a path, PLAN_SOURCE for an object of
            another type, OPTION_INVALID for an unknown mode.

    Example:
        >>> validate("plans/windows/tumble_end.bin").ok
        True
        >>> [problem.code for problem in validate('{"relations": []}').problems]
        ['PLAN_UNREADABLE']
    """
    given = _plan(plan)
    problems = given.check(mode).problems
    return Report(given.name, problems, _content(given))


def _content(plan: Plan) -> bytes:
    """Return the bytes of the plan, or no bytes where the plan exceeds the size limit."""
    from substrait_agg.plan.messages.node import Unreadable
    from substrait_agg.plan.messages.source import plan_bytes

    try:
        return plan_bytes(plan.content)
    except Unreadable:
        return b""


def explain(
    plan: Plans,
    format: str = "text",
    mode: Mode = "lenient",
    early_retraction: str = "carry",
    static: Iterable[str] = (),
    refresh: str | Mapping[str, str] | None = None,
    checkpoint: str | Path | None = None,
) -> str:
    """Describe how a plan is executed: its operators, their state, and the Spark steps around them.

    Sizes of state are in bytes per group and per tree entry.

    Args:
        plan: a `Plan` or anything that `load` takes; or several of them by the names of their
            views, as in `run`.
        format: ``text``, ``json``, ``mermaid`` (a flowchart) or ``html`` (a complete page).
        mode: ``lenient`` or ``strict``, as in `validate`.
        early_retraction: as in `run`. With ``refuse`` and ``quarantine``, the explanation assumes
            that tables contain retractions.
        static: names of the tables that a run reads once (``static=true`` in a SPEC, or a DataFrame
            that does not stream).
        refresh: as in `run`; None leaves refresh policies out. Text and JSON have them.
        checkpoint: a checkpoint of the plan, whose retained versions are explained: whether they
            were incremental or computed again from all rows, and why.

    Returns:
        The explanation in the chosen format; it ends with a line break.

    Raises:
        PlanRefused: the plan has errors; `problems` lists them with their codes.
        UsageError: OPTION_INVALID for an unknown format, mode, policy or table; VIEW_UNKNOWN for a
            refresh policy of an unknown view; otherwise as `load`.
        StateRefused: as `open_state`, for a checkpoint.

    Example:
        >>> for line in explain("plans/windows/tumble_end.bin").splitlines()[1:5]:
        ...     print(line.strip())
        team: string?
        minute: precision_timestamp?<6>, from tumble_end(t, INTERVAL '1 MINUTE')
        goals: i64, from count(*)
        sum: i64?, from sum(n)
    """
    checked_choice(format, EXPLAIN_FORMATS, "format")
    policy = checked_choice(early_retraction, EARLY_RETRACTIONS, "early_retraction")
    plans = _named(plan)
    static = tuple(static)
    known = frozenset(name.lower() for name in static)
    bound = _views(
        {name: given.bound(mode, known) for name, given in plans.items()}, _temporary(plan)
    )
    from substrait_agg.report.explained import explained

    name = plans[""].name if "" in plans else ""
    policies = None
    if refresh is not None:
        from substrait_agg.refresh.policies import parse_refresh

        policies = parse_refresh(refresh).declared_by(plan)
    batches = () if checkpoint is None else _past_batches(checkpoint)
    return explained(bound, format, policy, name, _tables(bound, static), policies, batches)


def _past_batches(checkpoint: str | Path) -> list[PastBatch]:
    """Return how the retained versions of a checkpoint were computed, newest first."""
    from substrait_agg.explanation.explain import PastBatch

    state = open_state(checkpoint)
    snapshots = (state.at(listed.version) for listed in reversed(state.ls().versions))
    return [
        PastBatch(s.version, s.plan, s.refresh.operators, s.refresh.reason)
        for s in snapshots
        if s.refresh.reason
    ]


def _tables(views: BoundViews, names: Iterable[str]) -> frozenset[tuple[str, ...]]:
    """Return the tables of plans with these names.

    Raises:
        UsageError: OPTION_INVALID.
    """
    from substrait_agg.spark.sources.specs import find_table

    tables = list(dict.fromkeys(read.table for read in views.reads))
    found = {name: find_table(name, tables) for name in names}
    for name, table in found.items():
        if table is None:
            known = ", ".join(map(".".join, tables)) or "none"
            raise UsageError(
                "OPTION_INVALID", f"{name!r} is not the name of one table",
                help=f"the plan reads {known}", path="static",
            )  # fmt: skip
    return frozenset(table for table in found.values() if table is not None)


def run(
    plan: Plans,
    sources: Mapping[str, Any],
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
    refresh: str | Mapping[str, str] = "incremental",
    evolve: bool = False,
    latency: str | None = None,
) -> Run:
    """Start a run that maintains the plan over its sources, or continue the run of a checkpoint.

    Args:
        plan: a `Plan` or anything that `load` takes; or several of them by the names of their
            views. A plan reads another view as a table with its name. All views are maintained
            together: a version has the changes of all of them. Where a plan gives names but no types for the
            columns of a table (``SCHEMA_TYPES_MISSING``), lenient mode takes the types from the
            source of the table.
        sources: per table of the plan a SPEC (``parquet:data/li?batch-files=1``) or a DataFrame.
            With ``key=COLUMN`` in a SPEC, a row replaces the row with the same key, so that events
            need not contain the old row. With ``static=true``, and for a DataFrame that does not
            stream, the rows are read once, in the first version.
        checkpoint: folder of state, offsets and versions, or its URL in an object store
            (``s3://bucket/prefix``); it is also the view.
        spark: the session to use; None starts a local session.
        emit: when the changes of a group are emitted. ``batch``: after every micro-batch that
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
        progress: called with `Run.progress` after every batch, before the next one begins.
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

    Returns:
        A handle with ``wait()``, ``stop()`` and ``progress``. The first version is committed when
        this function returns.

    Raises:
        PlanRefused: the plan has errors; no data has been read.
        InputRefused: a source is missing or does not fit the plan, such as SOURCE_NOT_FOUND or
            KEY_COLUMN_UNKNOWN.
        StateRefused: the checkpoint belongs to another plan (PLAN_DIFFERS), is damaged
            (STATE_DAMAGED) or cannot evolve (EVOLVE_REFUSED).
        UsageError: OPTION_INVALID, OPTION_CONFLICT or LATENCY_NOT_SUPPORTED; PYSPARK_MISSING, PANDAS_MISSING or
            JAVA_MISSING.
        RunFailed: Spark could not start (SPARK_NOT_STARTED, RUN_NOT_STARTED), or the first version
            could not be computed (BATCH_FAILED).
        CommitConflict: COMMIT_CONFLICT; another run published a version of the checkpoint first.
    """
    # These are the parameters of this function, which are the fields of the options.
    given = locals().copy()
    given["conf"] = _configured(plan, conf)
    options = RunOptions(**{name: given[name] for name in given.keys() - {"plan", "sources"}})
    options = options.with_declared(plan)
    from substrait_agg.metrics.startup import StartTimer

    timer = StartTimer()
    plans = _named(plan)
    bound = _views(
        {name: _bound_to_run(given, sources, options) for name, given in plans.items()},
        _temporary(plan),
        sources,
    )
    from substrait_agg.optional_packages import require

    require("pyspark", "pandas")
    from substrait_agg.spark.query.start import run as run_on_spark

    timer.end("load")
    return run_on_spark(bound, sources, options, timer)


def _named(plan: Plans) -> dict[str, Plan]:
    """Return plans by the names of their views. The name of a single plan is empty."""
    if isinstance(plan, Mapping):
        return {name: _plan(given) for name, given in plan.items()}
    return {"": _plan(plan)}


def _configured(plan: Plans, conf: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Return Spark configuration after that of the project of a pipeline."""
    own = getattr(plan, "configuration", None)
    return {**own, **(conf or {})} if own else conf


def _temporary(plan: Plans) -> frozenset[str]:
    """Return the names of the views that are not stored; only a pipeline of SQL has some."""
    return getattr(plan, "temporary", frozenset())


def _views(
    plans: Mapping[str, BoundPlan], temporary: frozenset[str], sources: Iterable[str] = ()
) -> BoundViews:
    from substrait_agg.bind.plan.views import bound_views, one_view

    return one_view(plans[""]) if [*plans] == [""] else bound_views(plans, temporary, sources)


def _static_sources(sources: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the sources that are read once, in lower case."""
    from substrait_agg.optional_packages import require

    require("pyspark", "pandas")
    from substrait_agg.spark.sources.open import is_static

    return frozenset(name.lower() for name, source in sources.items() if is_static(source))


def _bound_to_run(plan: Plan, sources: Mapping[str, Any], options: RunOptions) -> BoundPlan:
    """Return the plan ready to run. In lenient mode, take missing column types from the sources."""
    checked = plan.check(options.mode)
    errors = {problem.code for problem in checked.problems if problem.level == "error"}
    if errors and errors <= {"JOIN_WITHOUT_KEY", "JOIN_MARK_NULLABLE"}:
        return plan.bound(options.mode, _static_sources(sources))
    untyped = errors == {"SCHEMA_TYPES_MISSING"} and options.mode == "lenient"
    if not untyped or checked.decoded is None:
        return plan.bound(options.mode)
    from substrait_agg.bind import untyped_tables
    from substrait_agg.optional_packages import require

    require("pyspark", "pandas")
    from substrait_agg.spark.query.start import schemas_of_sources

    typed = plan.check_with(schemas_of_sources(untyped_tables(checked.decoded), sources, options))
    if typed.bound is None:
        raise PlanRefused(typed.problems)
    return typed.bound


def open_view(checkpoint: str | Path, name: str | None = None) -> View:
    """Open a view of a checkpoint, to read it or its changes at any version. It needs no Spark.

    Args:
        checkpoint: folder of a checkpoint, or its URL in an object store.
        name: name of the view; None for the only one.

    Returns:
        The view; it reads versions as Arrow tables with the columns and types of the plan.

    Raises:
        StateRefused: NOT_A_CHECKPOINT, STATE_DAMAGED, or STATE_FORMAT_UNKNOWN for a checkpoint of
            another release.
        UsageError: VIEW_UNKNOWN, VIEW_NAME_MISSING.

    Example:
        >>> open_view("/absent")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        substrait_agg.errors.StateRefused: [NOT_A_CHECKPOINT] at /absent: this is not ...
    """
    from substrait_agg.commit import open_view as open_committed

    return open_committed(checkpoint, name)


def open_state(checkpoint: str | Path) -> State:
    """Open the state of a checkpoint, to list, show, verify, roll back or configure it.

    It needs no Spark.

    Args:
        checkpoint: folder of a checkpoint, or its URL in an object store.

    Raises:
        StateRefused: NOT_A_CHECKPOINT.

    Example:
        >>> open_state("/absent")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        substrait_agg.errors.StateRefused: [NOT_A_CHECKPOINT] at /absent: this is not ...
    """
    from substrait_agg.tools.state import open_state as open_kept

    return open_kept(checkpoint)
