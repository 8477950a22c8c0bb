"""Provide the public functions that make plans of queries: SQL, pipelines and Spark DataFrames.

`sql` and `sql_views` open the sources of a query in the same way. Only their columns are read.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from substrait_agg.arguments import check_objects, check_types
from substrait_agg.checked_plan import Plan
from substrait_agg.errors import UsageError
from substrait_agg.optional_packages import require
from substrait_agg.refresh.policies import parse_refresh

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from substrait_agg.refresh.policies import RefreshPolicies
    from substrait_agg.scripts.definitions import Definitions
    from substrait_agg.scripts.pipeline import PlanSet
    from substrait_agg.scripts.planner import SqlPlanner


@check_types
def sql(
    text: str | Path,
    sources: Mapping[str, Any] | None = None,
    *,
    refresh: str | None = None,
    spark: Any = None,
    conf: Mapping[str, str] | None = None,
    master: str | None = None,
    spark_log: IO[bytes] | None = None,
) -> Plan:
    """Plan SQL text: CREATE TABLE statements, and one query or CREATE VIEW.

    Spark parses and analyzes the text: its dialect, types and functions are those of Spark in ANSI
    mode and in UTC. A Spark is started where none runs. The columns of a table are those of CREATE
    TABLE, or those of its source: of Parquet footers, of the first rows of the oldest CSV or JSON
    file, or of a table of Spark. A process that uses Spark Connect plans in a child process; there,
    sources that Spark has to open are refused.

    Args:
        text: SQL text, or the `Path` of a file with it.
        sources: as in `run`; an Arrow schema is possible as well. Tables that the text creates need
            no source here.
        refresh: the refresh policy of the view: ``incremental``, ``incremental_strict``, ``full`` or
            ``auto``, as in `run`. It counts more than that of `run`. None: that of `run`.
        spark: session to plan with and to open sources with; None starts one.
        conf: as in `run`.
        master: as in `run`.
        spark_log: as in `run`.

    Returns:
        The plan, for `run`, `validate` and `explain`.

    Raises:
        SqlRefused: the text cannot be planned: SQL_SYNTAX, SQL_STATEMENTS, SQL_TABLE_UNKNOWN,
            SQL_COLUMN_UNKNOWN, SQL_FUNCTION_UNKNOWN, SQL_TYPES, SQL_NOT_DETERMINISTIC,
            SQL_NOT_MAINTAINED or SQL_NOT_PLANNED; `line`, `column` and `excerpt` say where.
        InputRefused: the columns of a source are not known, such as SOURCE_TYPES_UNKNOWN.
        UsageError: PYSPARK_MISSING; FILE_NOT_FOUND or FILE_NOT_READABLE for a path;
            OPTION_INVALID or VIEW_UNKNOWN for `refresh`; CONNECT_NOT_SUPPORTED.
        RunFailed: SPARK_NOT_STARTED or SPARK_LOST.

    Example:
        ``sql("CREATE TABLE sales (region STRING, amount INT); SELECT sum(amount) AS n FROM sales")``
    """
    policies = _policies(refresh)
    policies.check_views([""])
    check_sources(sources or {})
    from substrait_agg.scripts.clauses import check_script
    from substrait_agg.scripts.planner import plan_script
    from substrait_agg.scripts.script import script_text

    file = str(text) if isinstance(text, Path) else ""
    script = script_text(text) if isinstance(text, Path) else text
    check_script(script, file)
    options = (spark, conf, master, spark_log)
    session = _session(*options)
    columns_of = _columns_of(sources or {}, session)
    with _planner(session, *options) as planner:
        planned = plan_script(script, columns_of, planner, file)
    return replace(planned, refresh=policies.default)


@check_types
def sql_views(
    text: str | Path,
    sources: Mapping[str, Any] | None = None,
    *,
    refresh: str | Mapping[str, str] | None = None,
    spark: Any = None,
    conf: Mapping[str, str] | None = None,
    master: str | None = None,
    spark_log: IO[bytes] | None = None,
) -> PlanSet:
    """Plan the views of a pipeline: SQL text with several CREATE statements, or a folder of files.

    The statements are those of Spark Declarative Pipelines: CREATE MATERIALIZED VIEW, CREATE
    STREAMING TABLE, CREATE VIEW and CREATE TEMPORARY VIEW, each with AS and a query, in any order.

    Args:
        text: SQL text, or the `Path` of a file or of a folder, whose ``.sql`` files are read and whose
            ``.py`` files are run: their functions with the decorators of `pyspark.pipelines` are called,
            over tables without rows, and the DataFrames that they return are planned. If the path is that of a ``spark-pipeline.yml``, or of a folder with one, the files are those of its
            libraries.
        sources: as in `sql`, for the tables that no statement creates.
        refresh: refresh policies, as in `run`: a policy for all views, policies by name of view, or
            ``"auto,totals=full"``. The policy of a statement counts more than that for all views, and
            less than that for its view. All of them count more than the policy for all views of `run`.
        spark: as in `sql`.
        conf: as in `run`.
        master: as in `run`.
        spark_log: as in `run`.

    Returns:
        The plans by the names of their views, for `run` and `explain`.

    Raises:
        SqlRefused: as in `sql`; SQL_NOT_MAINTAINED for a statement or clause that cannot be
            maintained; SQL_VIEW_TWICE, SQL_VIEW_CYCLE; PIPELINE_PYTHON_FAILED.
        PlanRefused: the query of a view has errors.
        InputRefused: as in `sql`.
        UsageError: as in `sql`; SQL_FOLDER_EMPTY, PIPELINE_SPEC_INVALID.

    Example:
        ``sql_views(Path("transformations"), {"sales": "parquet:data"}, refresh="auto,best=full")``
    """
    policies = _policies(refresh)
    from substrait_agg.scripts.pipeline import (
        PlanSet,
        files_in,
        plan_pipeline,
        python_files,
        scripts_in,
        scripts_of,
    )
    from substrait_agg.scripts.project import find_spec, note_ignored, read_spec

    file = find_spec(text) if isinstance(text, Path) else None
    spec = None if file is None else read_spec(file)
    if isinstance(text, Path):
        scripts = scripts_in(text) if spec is None else scripts_of(spec.files, text)
        python = python_files(files_in(text) if spec is None else spec.files)
    else:
        scripts, python = {"": text}, []
    if spec is not None:
        note_ignored(spec)
    configuration = {} if spec is None else spec.configuration
    check_sources(sources or {})
    options = (spark, {**configuration, **(conf or {})}, master, spark_log)
    session = _session(*options)
    functions = _functions(python, Path() if spec is None else spec.file.parent, session)
    columns_of = _columns_of(sources or {}, session)
    with _planner(session, *options) as planner:
        plans = plan_pipeline(scripts, columns_of, planner, functions)
    stored = [name for name in plans if name not in plans.temporary]
    policies.check_views(stored)
    of_view = policies.declared_by(plans)
    policy_by_name = ((name, of_view.views.get(name, of_view.default)) for name in stored)
    refreshed = {name: policy for name, policy in policy_by_name if policy is not None}
    return PlanSet(plans, plans.temporary, configuration, refreshed, plans.places)


def from_dataframe(frame: Any) -> Plan:
    """Return the plan of a query that is written as a Spark DataFrame over named tables.

    The DataFrame is not computed. Its tables (``spark.table("t")``) and files (``spark.read.parquet``)
    are the tables of the plan. `run` takes their sources; without sources it reads what the DataFrame
    reads. docs/dataframes.md lists the supported operations and expressions.

    Args:
        frame: a `pyspark.sql.DataFrame` of a classic session in ANSI mode, which is the default.

    Returns:
        The plan, with the column names and types of the DataFrame.

    Raises:
        UsageError: PLAN_SOURCE for an object of another type; DATAFRAME_RELATION, DATAFRAME_EXPRESSION or DATAFRAME_TYPE for what a plan cannot
            express with Spark's values, DATAFRAME_SETTING, CONNECT_NOT_SUPPORTED.
    """
    if not hasattr(type(frame), "schema"):
        message = f"an object of type {type(frame).__name__} is not a DataFrame"
        raise UsageError("PLAN_SOURCE", message, help="give a pyspark.sql.DataFrame", path="frame")
    from substrait_agg.spark.catalyst.frames import plan_of_frame
    from substrait_agg.spark.session.session import require_classic

    require_classic((frame,))
    plan = plan_of_frame(frame)
    _ = plan.decoded
    return plan


def check_sources(sources: Mapping[str, Any]) -> None:
    """Check the types of the sources of tables.

    Raises:
        UsageError: OPTION_INVALID.
    """
    values = {f"the source of {name}": source for name, source in sources.items()}
    check_objects(values, "sources", "give a SPEC such as csv:sales/, or a DataFrame")


def _policies(refresh: str | Mapping[str, str] | None) -> RefreshPolicies:
    """Return the policies of an argument; None has no policies."""
    return parse_refresh({} if refresh is None else refresh)


def _session(
    spark: Any, conf: Any, master: str | None, spark_log: Any
) -> Callable[[], SparkSession]:
    """Return a function that returns the session in which queries are planned and sources opened."""

    @cache
    def session() -> SparkSession:
        """Start the session at the first call; later calls return the same one."""
        require("pyspark", "pandas")
        from substrait_agg.spark.session.session import get_session, require_classic

        require_classic((spark,))
        return get_session(master, conf, spark, spark_log)

    return session


def _columns_of(
    sources: Mapping[str, Any], session: Callable[[], SparkSession]
) -> Callable[[Container[str]], Mapping[str, Any]]:
    """Return a function that reads the columns of the sources whose names a query contains."""
    from substrait_agg.spark.sources.inferred_columns import columns_of_sources

    return partial(columns_of_sources, sources, session)


def _functions(
    files: Sequence[Path], folder: Path, session: Callable[[], SparkSession]
) -> Definitions | None:
    """Return what Python files define; None without files."""
    if not files:
        return None
    spark = session()
    from substrait_agg.spark.pipelines.functions import functions_in

    return functions_in(files, folder, spark)


def _planner(
    session: Callable[[], SparkSession],
    spark: Any,
    conf: Any,
    master: str | None,
    spark_log: IO[bytes] | None,
) -> AbstractContextManager[SqlPlanner]:
    """Return what plans the statements of a script: in a child process if this one uses Spark Connect."""
    require("pyspark", "pandas")
    from substrait_agg.spark.catalyst.child_process import planner_in_child
    from substrait_agg.spark.catalyst.sql import SparkSqlPlanner
    from substrait_agg.spark.session.session import connect_use

    if connect_use((spark,)):
        return planner_in_child(master, conf, spark_log)
    return nullcontext(SparkSqlPlanner(session()))
