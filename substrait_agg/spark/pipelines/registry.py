"""Run the Python files of a pipeline, and collect what they define."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from unittest.mock import patch

from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import (
    GraphElementRegistry,
    graph_element_registration_context,
)
from pyspark.pipelines.output import Output, Sink
from pyspark.pipelines.source_code_location import SourceCodeLocation
from pyspark.sql import SparkSession, functions

from substrait_agg.errors import SqlRefused
from substrait_agg.spark.session.session import active_session

_FAILED = "PIPELINE_PYTHON_FAILED"
_NOT_KEPT = "SQL_NOT_MAINTAINED"
_CLASSIC_COLUMNS = {"pyspark.sql.connect.functions.builtin": functions}
"""What makes columns of the session from the texts that `create_auto_cdc_flow` takes."""


@dataclass
class Registry(GraphElementRegistry):
    """What the files of a pipeline define.

    Attributes:
        files: absolute path of a file -> the name to show.
        outputs: the tables and views.
        flows: the functions that return the rows of each.
        change_flows: the AUTO CDC flows.
    """

    files: Mapping[str, str]
    outputs: list[Output] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    change_flows: list[AutoCdcFlow] = field(default_factory=list)

    def register_output(self, output: Output) -> None:
        """Keep a table or a view."""
        if isinstance(output, Sink):
            message = f"the sink {output.name} is not supported: a run writes the changes of views"
            raise self.refuse(output, _NOT_KEPT, message, "remove it, and give --output")
        self.outputs.append(output)

    def register_flow(self, flow: Flow) -> None:
        """Keep the function of a view."""
        if not any(o.source_code_location == flow.source_code_location for o in self.outputs):
            message = f"an append flow into {flow.target} is not supported: a table has one query"
            help = "write one function with @dp.table that returns the union of the DataFrames"
            raise self.refuse(flow, _NOT_KEPT, message, help)
        self.flows.append(flow)

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        """Keep an AUTO CDC flow."""
        self.change_flows.append(flow)

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        """Refuse SQL text: files of SQL are read as such."""
        message = "a Python file registers SQL text"
        help = "put the text into a file that ends in .sql"
        raise SqlRefused(_NOT_KEPT, message, help=help, path=str(file_path))

    def place(self, location: SourceCodeLocation) -> str:
        """Return the file and the line of a place in a file."""
        name = self.files.get(location.filename, location.filename)
        return f"{name}:{location.line_number}"

    def refuse(
        self, element: Output | Flow | AutoCdcFlow, code: str, message: str, help: str
    ) -> SqlRefused:
        """Return an error at the place of a definition."""
        location = element.source_code_location
        path, line = self.place(location), location.line_number or 0
        return SqlRefused(code, message, help=help, path=path, line=line)

    def failure(self, error: BaseException, what: str) -> SqlRefused:
        """Return an error at the line of a file in which an exception was raised."""
        frames = traceback.extract_tb(error.__traceback__)
        place = next((f for f in reversed(frames) if f.filename in self.files), None)
        line = (place.lineno if place else None) or 0
        if isinstance(error, SyntaxError) and error.filename in self.files:
            line = error.lineno or 0
        name = self.files[place.filename] if place else getattr(error, "filename", None) or ""
        message = f"{what} raised {type(error).__name__}: {' '.join(str(error).split())}"
        help = "correct the file; it must run with spark-pipelines as well"
        if isinstance(error, AttributeError) and "expect" in str(error):
            help = "expectations are not supported: write the condition into the query"
        path = f"{self.files.get(name, name)}:{line}".removesuffix(":0").lstrip(":")
        return SqlRefused(_FAILED, message, help=help, path=path, line=line)


def run_files(files: Sequence[Path], folder: Path, spark: SparkSession) -> Registry:
    """Run Python files as `spark-pipelines` does, and return what they define.

    Args:
        files: the files.
        folder: the working folder of the files.
        spark: the session of the files; `spark` in them names it.

    Raises:
        SqlRefused: PIPELINE_PYTHON_FAILED: a file raises an exception; SQL_NOT_MAINTAINED.
    """
    registry = Registry({str(file.resolve()): str(file) for file in files})
    for path in registry.files:
        spec = spec_from_file_location(Path(path).stem, path)
        if spec is None or spec.loader is None:
            raise AssertionError(path)
        module = module_from_spec(spec)
        vars(module)["spark"] = spark
        try:
            with (
                chdir(folder),
                current_session(spark),
                graph_element_registration_context(registry),
                patch.dict(sys.modules, _CLASSIC_COLUMNS),
            ):
                spec.loader.exec_module(module)
        except SqlRefused:
            raise
        except Exception as error:
            raise registry.failure(error, "the file") from error
    return registry


@contextmanager
def current_session(spark: SparkSession) -> Iterator[None]:
    """Make a session the one that `SparkSession.active` and `getOrCreate` return."""
    before = (SparkSession._instantiatedSession, SparkSession._activeSession)
    SparkSession._instantiatedSession = SparkSession._activeSession = spark
    try:
        with active_session(spark):
            yield
    finally:
        SparkSession._instantiatedSession, SparkSession._activeSession = before
