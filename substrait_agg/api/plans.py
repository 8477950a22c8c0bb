"""Provide the public functions that read, check and explain plans: load, validate and explain."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from substrait_agg.api.checkpoints import open_state
from substrait_agg.arguments import check_types
from substrait_agg.checked_plan import Checked, Plan, PlanSource, as_plan
from substrait_agg.errors import PlanRefused, UsageError, checked_choice
from substrait_agg.functions.aggregates.accumulators import EARLY_RETRACTIONS, WeightKind
from substrait_agg.optional_packages import require
from substrait_agg.problem_kinds import Mode
from substrait_agg.problems import Problem
from substrait_agg.report.report import Report

if TYPE_CHECKING:
    from substrait_agg.bind.bound import BoundPlan
    from substrait_agg.bind.plan.views import BoundViews
    from substrait_agg.explanation.explain import KnownSources, PastBatch
    from substrait_agg.spark.sources.specs import SourceSpec

Plans = PlanSource | Mapping[str, PlanSource]
"""One plan, or several plans by the names of their views. A plan may read the other views as tables."""

EXPLAIN_FORMATS = ("text", "json", "mermaid", "html")


def load(source: PlanSource) -> Plan:
    """Read a plan from a path, bytes, JSON text or a protobuf ``Plan`` message.

    A `str` that starts like JSON (a brace or a comment) and contains a brace is JSON text. Any
    other `str` is a path. A `Plan` is returned unchanged after it is decoded. Loading does not bind
    the plan: use `validate` to find all problems.

    Args:
        source: the plan, as a `Plan` or a `PlanSource`; or a DataFrame of Spark (as `from_dataframe`),
            an ibis expression over tables without a backend, a DataFrame or logical plan of
            DataFusion, or a plan of substrait-python.

    Returns:
        The decoded plan.

    Raises:
        UsageError: FILE_NOT_FOUND or FILE_NOT_READABLE for a path, PLAN_SOURCE for an object of
            another type.
        PlanUnreadable: PLAN_UNREADABLE or PLAN_TOO_LARGE; the content is not a Substrait plan. For
            JSON, `problems` also lists UNKNOWN_FIELD.

    Example:
        >>> plan = load("plans/windows/tumble_end.bin")
        >>> plan.bind().names
        ('team', 'minute', 'goals', 'sum')
    """
    plan = _plan(source)
    _ = plan.decoded
    return plan


def _plan(source: PlanSource) -> Plan:
    """Return a plan given in any accepted form, without decoding it."""
    if is_frame(source):
        from substrait_agg.api.queries import from_dataframe

        return from_dataframe(source)
    if type(source).__module__.partition(".")[0] in ("ibis", "datafusion"):
        return _plan_of(source)
    return as_plan(source)


def is_frame(source: object) -> bool:
    """Return whether an object is a DataFrame of Spark."""
    kind = type(source)
    return kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")


def without_frames(plan: Plans) -> Plans:
    """Return plans in which each DataFrame of Spark is a plan."""
    if isinstance(plan, Mapping) and any(map(is_frame, plan.values())):
        return {name: _plan(one) for name, one in plan.items()}
    return _plan(plan) if is_frame(plan) else plan


@check_types
def validate(
    plan: PlanSource,
    mode: Mode = "lenient",
    sources: Mapping[str, Any] | None = None,
) -> Report:
    """Check a plan without running it, and report all errors and warnings.

    A plan that cannot be decoded gives a report with PLAN_UNREADABLE. It does not raise an error.

    Args:
        plan: a `Plan` or anything that `load` takes.
        mode: ``lenient`` accepts known deviations of producers with a warning; ``strict`` makes
            every deviation from the specification an error.
        sources: sources of tables, as in `run`. Where the plan gives names but no types for the
            columns of a table (``SCHEMA_TYPES_MISSING``), lenient mode takes the types from its
            source: from the footer of a local Parquet file, or with Spark. Names of tables that
            the plan does not read are ignored.

    Returns:
        A report with `ok`, `problems` (code, level, path, message, help, producer) and `to_json`,
        `to_sarif` and `to_html`.

    Raises:
        UsageError: FILE_NOT_FOUND or FILE_NOT_READABLE for a path, PLAN_SOURCE for an object of
            another type, OPTION_INVALID for an unknown mode; a SPEC is not valid.
        InputRefused: a source of a table without types has none or cannot be opened, such as
            SOURCE_NOT_FOUND or SOURCE_TYPES_UNKNOWN.

    Example:
        >>> validate("plans/windows/tumble_end.bin").ok
        True
        >>> [problem.code for problem in validate('{"relations": []}').problems]
        ['PLAN_UNREADABLE']
    """
    loaded = _plan(plan)
    problems = checked_problems(loaded, mode, sources or {})
    return Report(loaded.name, problems, _content(loaded))


def checked_problems(
    plan: Plan,
    mode: Mode,
    sources: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Problem, ...]:
    """Return the problems of all roots of a plan, each once, in plan order.

    Args:
        plan: the plan.
        mode: ``lenient`` or ``strict``.
        sources: sources by the names of their tables, for the types of columns.
    """
    checked = [_check_with_sources(view, mode, sources) for view in plan.views(mode).values()]
    if len(checked) == 1:
        return checked[0].problems
    from substrait_agg.report.places.order import in_plan_order

    return in_plan_order(dict.fromkeys(p for view in checked for p in view.problems))


def _content(plan: Plan) -> bytes:
    """Return the bytes of the plan, or no bytes where the plan exceeds the size limit."""
    from substrait_agg.plan.messages.node import Unreadable
    from substrait_agg.plan.messages.source import plan_bytes

    try:
        return plan_bytes(plan.content)
    except Unreadable:
        return b""


@check_types
def explain(
    plan: Plans,
    format: str = "text",
    mode: Mode = "lenient",
    early_retraction: str = "carry",
    static: Iterable[str] = (),
    refresh: str | Mapping[str, str] | None = None,
    checkpoint: str | Path | None = None,
    sources: Mapping[str, str] | None = None,
) -> str:
    """Describe how a plan is executed: its operators, their state, and the Spark steps around them.

    Sizes of state are in bytes per group and per tree entry.

    Args:
        plan: a `Plan` or anything that `load` takes, or several of them by the names of their
            views, as in `run`.
        format: ``text``, ``json``, ``mermaid`` (a flowchart) or ``html`` (a complete page).
        mode: ``lenient`` or ``strict``, as in `validate`.
        early_retraction: as in `run`. With ``refuse`` and ``quarantine``, the explanation assumes
            that tables without a source contain retractions.
        static: names of the tables that a run reads once (``static=true`` in a SPEC, or a DataFrame
            that does not stream).
        refresh: as in `run`; None leaves refresh policies out. Text and JSON have them.
        checkpoint: a checkpoint of the plan, whose retained versions are explained: whether they
            were incremental or computed again from all rows, and why.
        sources: SPECs of tables, as in `run`. They say how rows are weighted, whether a row replaces
            that of its key, and whether a table is read once. Without one, a table is assumed to have
            inserts only. Missing column types are those of the source, as in `validate`. Names of
            tables that the plan does not read are ignored.

    Returns:
        The explanation in the chosen format; it ends with a line break.

    Raises:
        PlanRefused: the plan has errors; `problems` lists them with their codes.
        UsageError: OPTION_INVALID for an unknown format, mode, policy or table; VIEW_UNKNOWN for a
            refresh policy of an unknown view; a SPEC is not valid; otherwise as `load`.
        InputRefused: KEY_COLUMN_UNKNOWN: ``key=`` names a column that the plan does not declare;
            as `validate` for sources.
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
    plan = without_frames(plan)
    plans = named_plans(plan, mode)
    specs = _specs(plans, sources or {}, mode)
    static = (*static, *(name for name, spec in specs.items() if spec.static))
    bound = combined_views(_bind_all(plan, plans, mode, specs), temporary_views(plan))
    from substrait_agg.report.explained import write_explanation

    name = "" if isinstance(plan, Mapping) else next(iter(plans.values())).name
    policies = None
    if refresh is not None:
        from substrait_agg.refresh.policies import parse_refresh

        policies = parse_refresh(refresh).declared_by(plan)
    batches = () if checkpoint is None else _past_batches(checkpoint)
    of_sources = _known_sources(bound, specs)
    static_tables = _tables(bound, static, ignored=specs)
    return write_explanation(
        bound, format, policy, name, static_tables, policies, batches, of_sources
    )


def _bind_all(
    plan: Plans, views: Mapping[str, Plan], mode: Mode, specs: Mapping[str, SourceSpec]
) -> dict[str, BoundPlan]:
    """Return the bound plans of views; the roots of one plan are refused with the problems of all."""
    try:
        return {name: _bind(view, mode, specs) for name, view in views.items()}
    except PlanRefused:
        if isinstance(plan, Mapping):
            raise
        raise PlanRefused(checked_problems(_plan(plan), mode, specs)) from None


def _bind(plan: Plan, mode: Mode, specs: Mapping[str, SourceSpec]) -> BoundPlan:
    checked = _check_with_sources(plan, mode, specs)
    if checked.bound is None:
        raise PlanRefused(checked.problems)
    return checked.bound


def _specs(
    plans: Mapping[str, Plan], sources: Mapping[str, str], mode: Mode
) -> dict[str, SourceSpec]:
    """Return the parsed SPECs of sources by the names of their tables."""
    if not sources:
        return {}
    from substrait_agg.bind.readings import reads_of
    from substrait_agg.spark.inputs.plan_files import with_plan_files
    from substrait_agg.spark.sources.specs import as_spec

    decoded = (plan.check(mode).decoded for plan in plans.values())
    reads = [read for one in decoded if one is not None for read in reads_of(one)]
    specs = with_plan_files({name: as_spec(source) for name, source in sources.items()}, reads)
    connected: dict[tuple[str, ...], SourceSpec] = {
        (name,): spec for name, spec in specs.items() if spec.is_connected
    }
    if connected:
        from substrait_agg.spark.sources.connected import with_connected

        specs |= {table[0]: spec for table, spec in with_connected(connected).items()}
    return specs


def _known_sources(views: BoundViews, specs: Mapping[str, SourceSpec]) -> KnownSources:
    """Return what SPECs say about the tables of plans."""
    from substrait_agg.bind.plan.table_sources import find_table
    from substrait_agg.connect.protocol import CLOCK_TABLE
    from substrait_agg.explanation.explain import KnownSources
    from substrait_agg.spark.sources.specs import weight_kind

    tables = list(dict.fromkeys(read.table for read in views.reads))
    places = ((find_table(name, tables), spec) for name, spec in specs.items())
    by_table = {table: spec for table, spec in places if table is not None}
    # A run adds the clock by itself.
    weights: dict[tuple[str, ...], WeightKind] = {t: "weighted" for t in tables if t == CLOCK_TABLE}
    return KnownSources(
        weights | {table: weight_kind(spec) for table, spec in by_table.items()},
        {table: spec.upsert for table, spec in by_table.items() if spec.upsert is not None},
        {table: spec.changes for table, spec in by_table.items() if spec.changes},
    )


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


def _tables(
    views: BoundViews, names: Iterable[str], ignored: Container[str]
) -> frozenset[tuple[str, ...]]:
    """Return the tables of plans with these names; `ignored` ones may be unknown."""
    from substrait_agg.bind.plan.table_sources import find_table

    tables = list(dict.fromkeys(read.table for read in views.reads))
    table_by_name = {name: find_table(name, tables) for name in names}
    for name, table in table_by_name.items():
        if table is None and name not in ignored:
            table_names = ", ".join(map(".".join, tables)) or "none"
            raise UsageError(
                "OPTION_INVALID", f"{name!r} is not the name of one table",
                help=f"the plan reads {table_names}", path="static",
            )  # fmt: skip
    return frozenset(table for table in table_by_name.values() if table is not None)


def named_plans(plan: Plans, mode: Mode) -> dict[str, Plan]:
    """Return plans by the names of their views. The name of a single plan with one root is empty."""
    if isinstance(plan, Mapping):
        return {name: _plan(given) for name, given in plan.items()}
    return _plan(plan).views(mode)


def temporary_views(plan: Plans) -> frozenset[str]:
    """Return the names of the views that are not stored; only a pipeline of SQL has some."""
    return getattr(plan, "temporary", frozenset())


def combined_views(
    plans: Mapping[str, BoundPlan], temporary: frozenset[str], sources: Iterable[str] = ()
) -> BoundViews:
    """Return the views of bound plans in the order in which they read each other."""
    from substrait_agg.bind.plan.views import bound_views, one_view

    return one_view(plans[""]) if [*plans] == [""] else bound_views(plans, temporary, sources)


def _check_with_sources(plan: Plan, mode: Mode, sources: Mapping[str, Any]) -> Checked:
    """Check a plan. In lenient mode, take missing column types from the sources.

    Args:
        plan: the plan.
        mode: ``lenient`` or ``strict``.
        sources: sources by the names of their tables. Those of other tables are ignored, and tables
            without a source keep their problem.

    Raises:
        InputRefused: a source has no types or cannot be opened.
    """
    checked = plan.check(mode)
    untyped = any(problem.code == "SCHEMA_TYPES_MISSING" for problem in checked.problems)
    if not (untyped and sources and mode == "lenient") or checked.decoded is None:
        return checked
    from substrait_agg.optional_packages import require

    require("pyspark", "pandas")
    from substrait_agg.bind import untyped_tables
    from substrait_agg.bind.plan.table_sources import has_source
    from substrait_agg.bind.readings import reads_of
    from substrait_agg.spark.inputs.plan_files import with_plan_files
    from substrait_agg.spark.session.session import get_session
    from substrait_agg.spark.sources.source_types import source_schemas

    named = with_plan_files(sources, reads_of(checked.decoded))
    tables = [table for table in untyped_tables(checked.decoded) if has_source(table[0], named)]
    session = partial(get_session, None, None, None, None)
    return plan.check_with(source_schemas(tables, named, session, footers=True))


def _plan_of(source: Any) -> Plan:
    """Return the plan of any accepted object, without decoding it.

    Args:
        source: as in `as_plan`; or an ibis expression, or a DataFrame or logical plan of
            DataFusion.

    Raises:
        UsageError: PLAN_SOURCE for an expression over a connected backend, IBIS_MISSING,
            DATAFUSION_MISSING; otherwise as `as_plan`.
        SqlRefused: the SQL text of an ibis expression cannot be planned.
    """
    package = type(source).__module__.partition(".")[0]
    if package == "ibis":
        return _plan_of_ibis(source)
    if package == "datafusion":
        return _plan_of_datafusion(source)
    return as_plan(source)


def _plan_of_ibis(expression: Any) -> Plan:
    """Plan the SQL text that ibis writes for an expression."""
    require("ibis", "pyspark", "pandas")
    import ibis
    import ibis.expr.operations as ops

    if not isinstance(expression, ibis.Expr):
        message = f"a plan cannot be of type {type(expression).__name__}"
        raise UsageError("PLAN_SOURCE", message, help="give an ibis expression")
    table = expression.as_table()
    schemas = {}
    for source in table.op().find(ops.PhysicalTable):
        if not isinstance(source, ops.UnboundTable):
            raise UsageError(
                "PLAN_SOURCE",
                f"the expression reads {getattr(source, 'name', 'a table')} of a connected backend or in memory",
                help="use ibis.table(schema, name=...): the rows come from the sources of the run",
            )
        parts = (source.namespace.catalog, source.namespace.database, source.name)
        schemas[".".join(part for part in parts if part)] = source.schema.to_pyarrow()
    from substrait_agg.api.queries import sql

    _ = ibis.pyspark  # loads the options that the text depends on
    return sql(str(ibis.to_sql(table, dialect="pyspark")), schemas)


def _plan_of_datafusion(source: Any) -> Plan:
    """Serialize a DataFrame or a logical plan. A DataFrame is optimized first."""
    require("datafusion")
    from datafusion import DataFrame, SessionContext
    from datafusion.plan import LogicalPlan
    from datafusion.substrait import Producer

    plan = source.optimized_logical_plan() if isinstance(source, DataFrame) else source
    if not isinstance(plan, LogicalPlan):
        message = f"a plan cannot be of type {type(source).__name__}"
        raise UsageError("PLAN_SOURCE", message, help="give a DataFrame or a LogicalPlan")
    try:
        content = Producer.to_substrait_plan(plan, SessionContext()).encode()
    except Exception as error:
        raise UsageError(
            "PLAN_SOURCE",
            f"DataFusion cannot write the plan as Substrait: {str(error).splitlines()[0]}",
            help="give the DataFrame, whose plan is optimized first, or its SQL text",
        ) from error
    return Plan("", content)
