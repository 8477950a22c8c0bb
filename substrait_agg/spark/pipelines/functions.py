"""Plan the functions of a pipeline that return DataFrames."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.output import Output, Table, TemporaryView
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from substrait_agg.checked_plan import Plan
from substrait_agg.errors import SqlRefused
from substrait_agg.refresh.policies import REFRESH_POLICIES
from substrait_agg.scripts.clauses import PROPERTY
from substrait_agg.scripts.definitions import Definitions, TableNotPlanned
from substrait_agg.scripts.pipeline import note_clause
from substrait_agg.scripts.project import CHANGES_ROWS
from substrait_agg.spark.catalyst.change_flow import ChangeFlow
from substrait_agg.spark.catalyst.jvm import new_helper
from substrait_agg.spark.catalyst.plan import NotMaintained, plan_of_tree
from substrait_agg.spark.catalyst.sql import HELP, PLANNING_CONF, code_of, message_of, type_text
from substrait_agg.spark.pipelines.registry import Registry, current_session, run_files
from substrait_agg.spark.types.schema import spark_columns

_NOT_KEPT = "SQL_NOT_MAINTAINED"
_UNKNOWN = "TABLE_OR_VIEW_NOT_FOUND"
_STREAM_ERRORS = ("writeStream", "STREAMING")
"""Parts of the errors of Spark for an action on a stream."""

_IGNORED = ("partition_cols", "cluster_by", "format")
"""Arguments of decorators that say how Spark stores a table."""


def functions_in(files: Sequence[Path], folder: Path, spark: SparkSession) -> Definitions:
    """Return what Python files define. The files are run.

    Raises:
        SqlRefused: as `run_files`; SQL_NOT_MAINTAINED for what cannot be maintained.
    """
    defined = Definitions()
    if not files:
        return defined
    session = FunctionSession(spark.newSession(), folder)
    registry = run_files(files, folder, session.spark)
    flows = {flow.source_code_location: flow for flow in registry.flows}
    for output in registry.outputs:
        flow = flows.get(output.source_code_location)
        if flow is not None:
            defined.views.append(FunctionView(output, flow, registry, session))
        elif isinstance(output, Table):
            defined.targets.append(FunctionTarget(output, registry, session))
    for changes in registry.change_flows:
        defined.flows.append(
            FunctionView(changes, _flow_of(changes, registry, session), registry, session)
        )
    for view in (*defined.views, *defined.flows):
        cast("FunctionView", view).check()
    return defined


def _flow_of(changes: AutoCdcFlow, registry: Registry, session: FunctionSession) -> Flow:
    """Return a flow with a function of the rows of its table.

    Raises:
        SqlRefused: SQL_NOT_MAINTAINED for SCD type 2.
    """
    if str(changes.stored_as_scd_type or 1) != "1":
        message = "SCD type 2 is not supported: the table would keep the former rows of a key"
        help = "write stored_as_scd_type=1; the changes of the table have the former rows"
        raise registry.refuse(changes, _NOT_KEPT, message, help)
    flow = ChangeFlow(
        changes.keys,
        changes.sequence_by,
        changes.apply_as_deletes,
        changes.column_list or (),
        changes.except_column_list or (),
    )

    def rows() -> DataFrame:
        return flow.newest(session.spark.table(changes.source))

    conf, location = changes.spark_conf, changes.source_code_location
    return Flow(changes.name or changes.target, changes.target, conf, location, rows)


@dataclass
class FunctionSession:
    """The session in which functions of a pipeline are called: its tables are views without rows.

    Attributes:
        spark: the session.
        folder: the working folder of the functions.
    """

    spark: SparkSession
    folder: Path
    _placed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for name, value in PLANNING_CONF.items():
            self.spark.conf.set(name, value)

    def place(self, tables: Mapping[str, pa.Schema]) -> None:
        """Make tables temporary views, unless they are."""
        helper = new_helper(self.spark)
        for name in tables.keys() - self._placed:
            helper.placeView(self.spark._jsparkSession, name, type_text(tables[name]))
            self._placed.add(name)

    def stop_streams(self) -> bool:
        """Stop the streams that a function has started; return whether there was one."""
        active = self.spark.streams.active
        for stream in active:
            stream.stop()
        return bool(active)

    def changed_settings(self) -> list[str]:
        """Return the settings that a function changed and that affect values."""
        return [n for n, v in PLANNING_CONF.items() if self.spark.conf.get(n, v) != v]


@dataclass(frozen=True)
class FunctionView:
    """A function that returns the rows of a view, or a flow that fills a table.

    Attributes:
        output: the table or view, or the flow as it is written.
        flow: its function.
        definitions: what the files define, for places.
        session: where the function is called.
    """

    output: Output | AutoCdcFlow
    flow: Flow
    definitions: Registry
    session: FunctionSession
    reads: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Return the name of the view."""
        return self.flow.target

    @property
    def place(self) -> str:
        """Return the file and the line of the decorator."""
        return self.definitions.place(self.output.source_code_location)

    @property
    def temporary(self) -> bool:
        """Return whether only other views read it."""
        return isinstance(self.output, TemporaryView)

    @property
    def policy(self) -> str | None:
        """Return the refresh policy among its table properties."""
        return _policy(self.output, self.definitions)

    def refuse(self, code: str, message: str, help: str) -> SqlRefused:
        """Return an error at the line of the decorator."""
        return self.definitions.refuse(self.output, code, message, help)

    def check(self) -> None:
        """Refuse settings that change rows; note arguments that have no effect.

        Raises:
            SqlRefused: SQL_NOT_MAINTAINED.
        """
        for name, value in self.flow.spark_conf.items():
            followed = CHANGES_ROWS.get(name)
            if followed is not None and str(value).lower() != followed.lower():
                message = f"{name} is {value}, which changes the rows of the view"
                raise self.refuse(_NOT_KEPT, message, f"set it to {followed}, or remove it")
        _note_ignored(self.output, self.place)
        if self.flow.spark_conf:
            note_clause("spark_conf", self.place)

    def plan(self, tables: Mapping[str, pa.Schema]) -> Plan:
        """Return the plan of the DataFrame that the function returns.

        Raises:
            SqlRefused: SQL_NOT_MAINTAINED, SQL_NOT_DETERMINISTIC, PIPELINE_PYTHON_FAILED.
            TableNotPlanned: the function reads another table.
        """
        spark = self.session.spark
        self.session.place(tables)
        try:
            frame = self._call()
            if isinstance(self.output, Table):
                _check_schema(self.output, frame.schema, self.definitions, spark)
            with current_session(spark):
                planned = plan_of_tree(spark, frame._jdf.queryExecution().analyzed())
        except NotMaintained as error:
            first, *others = error.refusals
            also = "".join(f"; also: {refusal.message}" for refusal in others)
            code = "SQL_NOT_DETERMINISTIC" if first.what == "changing" else _NOT_KEPT
            raise self.refuse(code, f"{first.message}{also}", first.help) from error
        names = {name.lower() for name in tables}
        for name in sorted(set(_tables_in(planned.message)) - names):
            raise TableNotPlanned(name, self._refuse_unknown(name))
        return Plan(self.place, json.dumps(planned.message), collations=planned.collations)

    def _call(self) -> DataFrame:
        """Return the DataFrame of the function."""
        spark, group = self.session.spark, str(uuid.uuid4())
        what = f"the function {getattr(self.flow.func, '__name__', self.name)}"
        if isinstance(self.output, AutoCdcFlow):
            what = f"the flow into {self.name}"
        spark.sparkContext.setJobGroup(group, what)
        try:
            with chdir(self.session.folder), current_session(spark):
                frame: Any = self.flow.func()
        except NotMaintained:
            raise
        except Exception as error:
            raise self._failure(error, what) from error
        finally:
            ran = spark.sparkContext.statusTracker().getJobIdsForGroup(group)
            spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        if ran or self.session.stop_streams():
            raise self._action(what)
        if not isinstance(frame, DataFrame):
            message = f"{what} returns a {type(frame).__name__} and no DataFrame"
            raise self.refuse(_NOT_KEPT, message, "return a DataFrame of the rows of the view")
        changed = self.session.changed_settings()
        if changed:
            message = f"{what} changes {changed[0]}, which changes the rows of views"
            raise self.refuse(_NOT_KEPT, message, "remove the change")
        return frame

    def _failure(self, error: Exception, what: str) -> Exception:
        """Return the error for an exception that the function raised."""
        if isinstance(error, PySparkException):
            condition = error.getCondition() or ""
            if condition.startswith(_UNKNOWN):
                parameters = error.getMessageParameters() or {}
                name = parameters.get("relationName", "").replace("`", "").lower()
                return TableNotPlanned(name, self._refuse_unknown(name))
            if any(part in f"{condition} {error}" for part in _STREAM_ERRORS):
                refused = self._action(what)
                refused.message += f": {message_of(error)}"
                return refused
            if isinstance(self.output, AutoCdcFlow):
                code = code_of(error)
                return self.refuse(code, f"{what}: {message_of(error)}", HELP[code])
        return self.definitions.failure(error, what)

    def _action(self, what: str) -> SqlRefused:
        message = f"{what} computes rows"
        help = (
            "return a DataFrame without an action: no collect, count, write or pivot without values"
        )
        return self.refuse(_NOT_KEPT, message, help)

    def _refuse_unknown(self, table: str) -> SqlRefused:
        message = f"{self.name} reads the table {table}, which is no view and no source"
        return self.refuse("SQL_TABLE_UNKNOWN", message, "--source NAME=SPEC adds a table")


@dataclass(frozen=True)
class FunctionTarget:
    """A table that `create_streaming_table` creates: a flow fills it.

    Attributes:
        output: the table.
        definitions: what the files define, for places.
        session: reads its schema.
    """

    output: Table
    definitions: Registry
    session: FunctionSession

    @property
    def name(self) -> str:
        """Return the name of the table."""
        return self.output.name

    @property
    def policy(self) -> str | None:
        """Return the refresh policy among its table properties."""
        return _policy(self.output, self.definitions)

    def refuse(self, code: str, message: str, help: str) -> SqlRefused:
        """Return an error at the line of the call."""
        return self.definitions.refuse(self.output, code, message, help)

    def check_columns(self, schema: pa.Schema) -> None:
        """Check that a flow has the columns that the table declares; note ignored arguments."""
        _note_ignored(self.output, self.definitions.place(self.output.source_code_location))
        rows = spark_columns(schema)
        _check_schema(self.output, rows, self.definitions, self.session.spark)


def _policy(output: Output | AutoCdcFlow, definitions: Registry) -> str | None:
    """Return the refresh policy among the properties of a table."""
    policy: str | None = getattr(output, "table_properties", {}).get(PROPERTY)
    if policy is None or policy in REFRESH_POLICIES:
        return policy
    message = f"{policy} is not a refresh policy"
    help = f"write one of {', '.join(REFRESH_POLICIES)}"
    raise definitions.refuse(output, _NOT_KEPT, message, help)


def _note_ignored(output: Output | AutoCdcFlow, place: str) -> None:
    """Note the arguments of a definition that have no effect."""
    ignored = [name for name in _IGNORED if getattr(output, name, None)]
    if getattr(output, "table_properties", {}).keys() - {PROPERTY}:
        ignored.append("table_properties")
    for name in ignored:
        note_clause(name, place)


def _check_schema(
    output: Table, schema: StructType, definitions: Registry, spark: SparkSession
) -> None:
    """Refuse a declared schema with other columns than those of the rows."""
    declared = output.schema
    if declared is None:
        return
    with current_session(spark):
        of_table: Any = StructType.fromDDL(declared) if isinstance(declared, str) else declared
    columns = [[(f.name.lower(), f.dataType) for f in s.fields] for s in (of_table, schema)]
    if columns[0] != columns[1]:
        message = f"the schema of {output.name} is declared as {of_table.simpleString()}, and the DataFrame has {schema.simpleString()}"
        help = "select and cast the columns in the function, or correct the schema"
        raise definitions.refuse(output, _NOT_KEPT, message, help)


def _tables_in(message: Any) -> Iterator[str]:
    """Yield the names of the tables that a plan reads, in lower case."""
    waiting = [message]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if "namedTable" in part:
                yield ".".join(part["namedTable"]["names"]).lower()
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
