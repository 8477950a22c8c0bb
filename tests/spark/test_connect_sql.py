"""SQL text is planned in a process that uses Spark Connect as in one that does not; no server is started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import substrait_agg as sa
from tests.handmade import counting

ROOT = Path(__file__).parents[2]
PATIENCE = 200
NOWHERE = "sc://127.0.0.1:1"

QUERY = """CREATE TABLE items (item int, kind string);
SELECT kind, levenshtein(kind, 'x') AS distance, sum(amount) AS `total ä` FROM items JOIN sales USING (item)
GROUP BY kind"""
WRONG = "CREATE TABLE items (item int);\nSELECT 'ä' AS a,\n  price FROM items"
CHANGING = "SELECT item + rand() AS r, uuid() AS u FROM sales"
UNSUPPORTED = "SELECT item FROM sales\nORDER BY item + unix_seconds(now()) LIMIT 1"
PIPELINE = """CREATE TABLE items (item int, price decimal(10, 2));
CREATE MATERIALIZED VIEW totals AS SELECT sum(p) AS total FROM prices;
CREATE TEMPORARY VIEW prices AS SELECT price * 2 AS p FROM items;"""


def error_of(use: Callable[[], object]) -> dict[str, Any]:
    with pytest.raises(sa.SubstraitAggError) as raised:
        use()
    return {"class": type(raised.value).__name__, **vars(raised.value)}


def planned(folder: Path, spark: SparkSession | None = None) -> dict[str, Any]:
    """Return the plans of some texts and the errors of others."""
    sources = {"sales": f"parquet:{folder / 'sales'}"}
    views = sa.sql_views(PIPELINE, refresh="totals=full", spark=spark)
    return {
        "query": sa.sql(QUERY, sources, spark=spark).content,
        "views": {name: plan.content for name, plan in views.items()},
        "about views": [sorted(views.temporary), views.refresh, views.places],
        "wrong": error_of(lambda: sa.sql(WRONG, spark=spark)),
        "changing": error_of(lambda: sa.sql(CHANGING, sources, spark=spark)),
        "problems": [
            str(problem)
            for problem in sa.validate(sa.sql(UNSUPPORTED, sources, spark=spark)).problems
        ],
    }


def refused(folder: Path) -> dict[str, str]:
    """Return the codes of what needs Spark in the process."""
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.plan import Read
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    frame = DataFrame(Read("sales"), object.__new__(ConnectSession))
    run = {"t": "csv:absent?header=true"}, folder / "checkpoint"
    uses: dict[str, Callable[[], object]] = {
        "run": lambda: sa.run(json.dumps(counting()), run[0], checkpoint=run[1]),
        "table": lambda: sa.sql("SELECT item FROM sales", {"sales": "table:sales"}),
        "frame": lambda: sa.sql("SELECT item FROM sales", {"sales": frame}),
        "query": lambda: sa.from_dataframe(frame),
        "functions": lambda: sa.sql_views(folder / "functions"),
    }
    return {name: error_of(use)["code"] for name, use in uses.items()}


def in_connect(folder: Path, name: str, **variables: str) -> Any:
    """Return what a function of this module returns in a process with variables of Spark Connect."""
    code = (
        "import json, pathlib, tests.spark.test_connect_sql as t\n"
        f"print(json.dumps(t.{name}(pathlib.Path({str(folder)!r}))))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True, text=True, check=False, timeout=PATIENCE, env=environment(variables),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}", **variables}


def test_plans_and_errors_are_those_of_a_process_without_connect(
    spark: SparkSession, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"item": [1], "amount": [2.5]}), _folder(tmp_path / "sales") / "1")
    expected = json.loads(json.dumps(planned(tmp_path, spark)))
    assert (expected["wrong"]["line"], expected["wrong"]["column"]) == (3, 3)
    assert "SQL:2:" in expected["problems"][0]
    assert "also at SQL:1:" in expected["changing"]["excerpt"]
    assert in_connect(tmp_path, "planned", SPARK_REMOTE=NOWHERE) == expected


@pytest.mark.parametrize("variable", ["SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"])
def test_what_needs_spark_in_the_process_is_refused(tmp_path: Path, variable: str) -> None:
    (_folder(tmp_path / "functions") / "views.py").write_text("")
    codes = in_connect(tmp_path, "refused", **{variable: NOWHERE})
    assert codes == dict.fromkeys(codes, "CONNECT_NOT_SUPPORTED")
    assert not (tmp_path / "checkpoint").exists()


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_the_command_line_validates_a_query_and_leaves_no_file(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "substrait_agg_cli", "validate", "--query", WRONG],
        capture_output=True, text=True, check=False, timeout=PATIENCE,
        env=environment({"SPARK_REMOTE": NOWHERE, "TMPDIR": str(tmp_path)}),
    )  # fmt: skip
    assert done.stderr.startswith("error[SQL_COLUMN_UNKNOWN] at SQL:3:3: A column"), done
    assert done.stdout == "the query: refused (1 error)\n"
    assert not list(tmp_path.glob("substrait-agg-*/runs/*"))


@pytest.mark.parametrize("by", ["variable", "session"])
def test_an_error_of_the_start_is_that_of_the_child(
    monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    if by == "variable":
        monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    client = object.__new__(ConnectSession) if by == "session" else None
    monkeypatch.setenv("JAVA_HOME", "/absent")
    error = error_of(lambda: sa.sql(WRONG, spark=client))
    assert (error["class"], error["code"]) == ("UsageError", "JAVA_MISSING")


def test_a_child_that_fails_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    monkeypatch.setenv("PYTHONHASHSEED", "wrong")
    error = error_of(lambda: sa.sql(WRONG))
    assert error["code"] == "SPARK_LOST"
    assert "has ended without an answer" in error["message"]
    assert "PYTHONHASHSEED" in capfd.readouterr().err


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="child processes as Linux shows")
def test_ctrl_c_ends_the_child_too(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "substrait_agg_cli", "plan", "--query", WRONG],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=environment({"SPARK_REMOTE": NOWHERE, "TMPDIR": str(tmp_path)}),
    )  # fmt: skip
    with process:
        deadline = time.monotonic() + PATIENCE
        while not (children := _children(process.pid)):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (130, "", "error[INTERRUPTED]: stopped by the user\n")
    deadline = time.monotonic() + PATIENCE
    # A child that had just been forked is not known to its parent yet: it ends when its stdin does.
    while any(_is_running(child) for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not list(tmp_path.glob("substrait-agg-*/runs/*"))


def _is_running(process: int) -> bool:
    """Say whether a process runs; one that has ended may stay as a zombie where nothing reaps it."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def _children(process: int) -> list[int]:
    try:
        text = Path(f"/proc/{process}/task/{process}/children").read_text()
    except FileNotFoundError:
        return []
    return [int(child) for child in text.split()]
