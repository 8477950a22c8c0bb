"""Missing optional packages of the wheel are reported in one line with the install command."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.handmade import counting
from tests.packaging.environments import Environment, build_wheel

RUN_PACKAGES = ("pyspark", "pandas")
STORE = "s3://a-bucket/x"

# One of the tests starts a JVM. A file with one mark is one part of `make test`, which makes one environment.
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel and its requirements, without any extra."""
    folder = tmp_path_factory.mktemp("fresh")
    return Environment.create(folder, build_wheel(folder / "wheels"))


@pytest.fixture
def run_arguments(tmp_path: Path) -> list[str]:
    """A run that would succeed."""
    plan = tmp_path / "counting.json"
    plan.write_text(json.dumps(counting()))
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.csv").write_text("k\n1\n")
    checkpoint = tmp_path / "checkpoint"
    return [
        "run", str(plan), "--source", f"t=csv:{source}?header=true", "--checkpoint", str(checkpoint)
    ]  # fmt: skip


def refusal(result: subprocess.CompletedProcess[str], install: str) -> tuple[str, str]:
    """Code and message of a call that was refused in one line, with what to install."""
    error, help = result.stderr.splitlines()
    mark, _, message = error.partition(": ")
    code = mark.partition("[")[2].partition("]")[0]
    assert (result.returncode, result.stdout) == (2, "")
    assert error.startswith(f"error[{code}]")
    assert help.startswith("help: ")
    assert install in help
    return code, message


def java_home(folder: Path, release: str | None = None, printed: str = "") -> dict[str, str]:
    """An artificial Java that reports this version."""
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho '{printed}' >&2\n")
    binary.chmod(0o755)
    if release is not None:
        (folder / "release").write_text(release)
    return {"JAVA_HOME": str(folder)}


def test_what_needs_no_spark_works_without_it(
    fresh: Environment, run_arguments: list[str], tmp_path: Path
) -> None:
    plan = run_arguments[1]
    for arguments in (("validate", plan), ("explain", plan), ("functions",), ("problems",)):
        result = fresh.call(*arguments)
        assert (result.returncode, result.stderr) == (0, ""), arguments
    html = tmp_path / "explain.html"
    assert fresh.call("explain", plan, "--to", html).returncode == 0
    assert fresh.call("view", tmp_path).stderr.startswith("error[NOT_A_CHECKPOINT]")


def test_only_the_folder_for_spark_needs_pyspark(fresh: Environment) -> None:
    """Every other module of both packages is imported, but those of an extra."""
    program = """
import importlib, pkgutil, substrait_agg, substrait_agg_cli
extras = {"confluent_kafka", "deltalake", "psycopg2", "pyiceberg"}
for package in (substrait_agg, substrait_agg_cli):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.", lambda name: None):
        if not module.name.startswith("substrait_agg.spark"):
            try:
                importlib.import_module(module.name)
            except ImportError as error:
                assert error.name in extras, error
            except substrait_agg.UsageError as error:
                assert error.code == "SOURCE_PACKAGE_MISSING", error
for name in substrait_agg.__all__:
    getattr(substrait_agg, name)
"""
    result = fresh.call("-c", program, program="python")
    assert (result.returncode, result.stderr) == (0, "")


def test_spark_finds_the_data_source(fresh: Environment) -> None:
    """Spark imports packages whose names begin with ``pyspark_``; the package is in the wheel, once."""
    program = """
import pkgutil, sys
from importlib.metadata import files
names = [m.name for m in pkgutil.iter_modules() if m.name.startswith("pyspark_")]
import pyspark_substrait_agg
print(names, pyspark_substrait_agg.DefaultSource.name(), [str(f) for f in files("substrait-agg") if f.name == "py.typed"])
"""
    result = fresh.call("-c", program, packages=RUN_PACKAGES, program="python")
    assert result.stderr == ""
    typed = ["substrait_agg/py.typed", "substrait_agg_cli/py.typed"]
    assert result.stdout.strip() == f"{['pyspark_substrait_agg']} substrait_agg {typed}"


def test_a_run_from_the_wheel_is_read_by_spark(fresh: Environment, tmp_path: Path) -> None:
    """The script, the run, Python workers and the data source work with only the wheel and its
    requirements.
    """
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.csv").write_text("team,goals\na,2\nb,1\na,3\n")
    checkpoint = tmp_path / "checkpoint"
    command = [
        "run", "--query", "SELECT team, sum(goals) AS goals FROM matches GROUP BY team", "--source",
        f"matches=csv:{source}", "--checkpoint", str(checkpoint), "--output", "batch-csv", "--no-progress",
    ]  # fmt: skip
    program = f"""
import os, runpy, sys
sys.argv = ["substrait-agg", *{command!r}]
try:
    runpy.run_path({str(fresh.folder / "bin" / "substrait-agg")!r}, run_name="__main__")
except SystemExit as ended:
    assert not ended.code, ended.code
import substrait_agg
assert {str(fresh.folder)!r} in substrait_agg.__file__, substrait_agg.__file__
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
rows = SparkSession.builder.master("local[1]").getOrCreate().read.format("substrait_agg").load({str(checkpoint)!r})
print(sorted(map(tuple, rows.collect())))
"""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    # With the class path of the other tests, Java starts from their archive of classes.
    home = {"SPARK_HOME": str(Path(found.origin).parent)}
    result = fresh.call("-c", program, packages=RUN_PACKAGES, program="python", environment=home)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert sorted(lines[:-1]) == ["a,5", "b,1", "team,goals"], result.stdout
    assert lines[-1] == "[('a', 5), ('b', 1)]"
    shown = fresh.call("view", checkpoint, "--format", "csv")
    assert sorted(shown.stdout.splitlines()) == ["a,5", "b,1", "team,goals"]
    assert fresh.call("state", "verify", checkpoint).returncode == 0


def test_a_run_says_which_package_of_spark_is_missing(
    fresh: Environment, run_arguments: list[str]
) -> None:
    install = "pip install 'substrait-agg[spark]'"
    code, message = refusal(fresh.call(*run_arguments), install)
    assert (code, "pyspark is not installed" in message) == ("PYSPARK_MISSING", True)
    code, message = refusal(fresh.call(*run_arguments, packages=["pyspark"]), install)
    assert (code, "pandas is not installed" in message) == ("PANDAS_MISSING", True)


def test_a_release_of_pyspark_that_is_too_old_is_named(
    fresh: Environment, run_arguments: list[str], tmp_path: Path
) -> None:
    old = tmp_path / "old"
    (old / "pyspark").mkdir(parents=True)
    (old / "pyspark" / "__init__.py").touch()
    described = old / "pyspark-3.5.1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: pyspark\nVersion: 3.5.1\n")
    result = fresh.call(*run_arguments, folders=[old])
    code, message = refusal(result, "pip install 'substrait-agg[spark]'")
    assert code == "PYSPARK_MISSING"
    assert message.startswith("pyspark 3.5.1 is too old")


def test_a_program_gets_the_same_error(fresh: Environment, run_arguments: list[str]) -> None:
    program = f"""
import substrait_agg as sa
try:
    sa.run({run_arguments[1]!r}, {{"t": "csv:x?header=true"}}, checkpoint="ckpt")
except sa.UsageError as error:
    print(error.code, error.help)
"""
    result = fresh.call("-c", program, program="python")
    assert result.stdout == "PYSPARK_MISSING pip install 'substrait-agg[spark]'\n", result.stderr


def test_a_java_that_is_missing_old_or_incomplete_is_said(
    fresh: Environment, run_arguments: list[str], tmp_path: Path
) -> None:
    install = "apt-get install -y openjdk-17-jre-headless"
    modules = 'JAVA_VERSION="21.0.2"\nMODULES="java.base java.logging"\n'
    cases = (
        ({"PATH": str(tmp_path / "nowhere")}, "JAVA_MISSING", "no Java was found on PATH"),
        ({"JAVA_HOME": str(tmp_path)}, "JAVA_MISSING", "JAVA_HOME"),
        (java_home(tmp_path / "8", printed='version "1.8.0_1"'), "JAVA_TOO_OLD", "Java 8"),
        (java_home(tmp_path / "11", 'JAVA_VERSION="11.0.2"\n'), "JAVA_TOO_OLD", "Java 11"),
        (java_home(tmp_path / "21", modules), "JAVA_INCOMPLETE", "java.sql"),
    )
    for environment, expected, said in cases:
        result = fresh.call(*run_arguments, packages=RUN_PACKAGES, environment=environment)
        code, message = refusal(result, install)
        assert (code, said in message) == (expected, True), message


@pytest.mark.parametrize(
    ("location", "install"),
    [
        (STORE, "pip install 'substrait-agg[stores]'"),
        ("memory://x", "pip install 'substrait-agg[stores]'"),
        ("gs://a-bucket/x", "pip install 'gcsfs'"),
        ("abfs://a-container/x", "pip install 'adlfs'"),
    ],
)
def test_a_store_says_which_package_it_needs(
    fresh: Environment, location: str, install: str
) -> None:
    commands = (("view", location), ("changes", location), ("state", "ls", location))
    # All commands open a location alike, and each call starts a Python.
    for command in commands if location == STORE else commands[:1]:
        assert refusal(fresh.call(*command), install)[0] == "STORE_PACKAGE_MISSING"
    if not location.startswith("memory"):
        code, message = refusal(fresh.call("view", location, packages=["fsspec"]), install)
        assert code == "STORE_PACKAGE_MISSING"
        assert location.partition("://")[0] in message


def test_the_demo_says_what_it_needs(fresh: Environment) -> None:
    arguments = ("-m", "substrait_agg_cli.demo")
    install = "pip install 'substrait-agg[demo]'"
    assert refusal(fresh.call(*arguments, program="python"), install)[0] == "DUCKDB_MISSING"
    result = fresh.call(*arguments, packages=["duckdb"], program="python")
    error, help = result.stderr.splitlines()
    assert error.startswith("error[TOOL_MISSING]")
    assert install in help


def test_the_live_demo_says_what_it_needs(fresh: Environment) -> None:
    arguments = ("-m", "substrait_agg_cli.demo_live")
    install = "pip install 'substrait-agg[demo-live]'"
    result = fresh.call(*arguments, program="python")
    assert refusal(result, install)[0] == "SOURCE_PACKAGE_MISSING"


def test_with_everything_installed_a_run_gets_as_far_as_java(
    fresh: Environment, run_arguments: list[str], tmp_path: Path
) -> None:
    """A whole Java of a new release passes; this one prints an error instead of starting Spark."""
    from substrait_agg.spark.session.java import MODULES

    release = f'JAVA_VERSION="21.0.2"\nMODULES="java.base {" ".join(MODULES)}"\n'
    failing = "java.lang.module.FindException: Module java.made.up not found"
    environment = java_home(tmp_path / "java", release, failing)
    result = fresh.call(*run_arguments, packages=RUN_PACKAGES, environment=environment)
    code, message = refusal(result, "openjdk-17-jre-headless")
    assert (code, "java.made.up" in message) == ("JAVA_INCOMPLETE", True)
    assert shutil.which("java") is None or "PATH" not in message
