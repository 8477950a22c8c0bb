"""The command in a separate process: status, streams, pipes, and modules that it does not load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}"}
COMMAND = [sys.executable, "-m", "substrait_agg_cli"]


def call(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *(str(a) for a in arguments)],
        input=stdin,
        capture_output=True,
        env=ENVIRONMENT,
        timeout=60,
        check=False,
    )


def test_version_and_help_are_asked_for_and_so_on_stdout() -> None:
    for option, word in (("--version", b"0.1.0"), ("--help", b"Usage: substrait-agg ")):
        result = call(option)
        assert (result.returncode, result.stderr) == (0, b"")
        assert word in result.stdout


def test_a_wrong_flag_is_two_lines_on_stderr() -> None:
    result = call("validate", "--loud", "x")
    assert (result.returncode, result.stdout) == (2, b"")
    error, advice = result.stderr.decode().splitlines()
    assert error.startswith("error[USAGE]: no such option '--loud'")
    assert advice == "help: see substrait-agg validate --help"


def test_no_command_shows_the_help_as_an_error() -> None:
    result = call()
    assert (result.returncode, result.stdout) == (2, b"")
    assert b"Commands:" in result.stderr


def test_stdin_to_json(good_plan: Path) -> None:
    result = call("validate", "-", "--format", "json", stdin=good_plan.read_bytes())
    assert (result.returncode, result.stderr) == (0, b"")
    assert json.loads(result.stdout)["valid"] is True


def test_output_is_utf_8_in_every_locale(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("CREATE TABLE t (`größe` int); SELECT `größe` FROM t", "utf-8")
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    result = subprocess.run(
        [*COMMAND, "explain", str(tmp_path / "a.sql")],
        capture_output=True,
        env=ENVIRONMENT | locale,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, b"")
    assert "  größe: i32?\n" in result.stdout.decode()


def test_a_closed_pipe_ends_quietly(good_plan: Path) -> None:
    """`substrait-agg explain ... | head -0`: no traceback, and the status that a shell gives SIGPIPE."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        result = subprocess.run(
            [*COMMAND, "explain", str(good_plan)],
            stdout=closed,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            timeout=60,
            check=False,
        )
    assert (result.returncode, result.stderr) == (141, b"")


def test_validate_and_explain_load_neither_spark_nor_pandas(good_plan: Path) -> None:
    code = (
        "import sys; from substrait_agg_cli.main import main\n"
        "try: main([sys.argv[1], sys.argv[2]])\n"
        "except SystemExit as end: assert end.code == 0, end.code\n"
        "loaded = {'pyspark', 'py4j', 'pandas'} & set(sys.modules); assert not loaded, loaded"
    )
    for command in ("validate", "explain"):
        subprocess.run(
            [sys.executable, "-c", code, command, str(good_plan)],
            env=ENVIRONMENT,
            check=True,
            capture_output=True,
            timeout=60,
        )


def test_ctrl_c_while_the_command_loads_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    path = f"{tmp_path}{os.pathsep}{ENVIRONMENT['PYTHONPATH']}"
    result = subprocess.run(
        [*COMMAND, "--version"], capture_output=True, env={**ENVIRONMENT, "PYTHONPATH": path},
        timeout=60, check=False,
    )  # fmt: skip
    line = b"error[INTERRUPTED]: stopped by the user\n"
    assert (result.returncode, result.stdout, result.stderr) == (130, b"", line)


@pytest.mark.parametrize(("number", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_run_that_is_stopped_before_it_waits_ends_at_once(
    good_plan: Path, tmp_path: Path, number: str, status: int
) -> None:
    """A thread that computes a batch does not hold up the end."""
    program = (
        "import os, signal, sys, threading, time, substrait_agg\n"
        "def run(*_, **__):\n"
        "    threading.Thread(target=time.sleep, args=(600,)).start()\n"
        f"    os.kill(os.getpid(), signal.{number})\n"
        "    time.sleep(600)\n"
        "substrait_agg.run = run\n"
        "from substrait_agg_cli.__main__ import main\n"
        "main()\n"
    )
    options = ["run", str(good_plan), "--source", f"t=parquet:{tmp_path}", "--checkpoint", "ck"]
    result = subprocess.run(
        [sys.executable, "-c", program, *options], capture_output=True, env=ENVIRONMENT,
        timeout=60, check=False,
    )  # fmt: skip
    assert result.returncode == status
    assert result.stderr.split() == b"error[INTERRUPTED]: stopped by the user".split()
