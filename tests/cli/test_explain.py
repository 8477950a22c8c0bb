"""The explain command: formats, output files, and the effect of the policy for early retractions."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import substrait_agg
from substrait_agg.api import EXPLAIN_FORMATS
from substrait_agg_cli.main import main

BEGINNINGS = {"text": "view from", "json": "{\n", "mermaid": "%%{init", "html": "<!doctype html>"}
SUFFIXES = {"text": ".txt", "json": ".json", "mermaid": ".mmd", "html": ".html"}


def call(*arguments: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["explain", *map(str, arguments)], input=stdin)


@pytest.mark.parametrize("form", EXPLAIN_FORMATS)
def test_every_form_goes_to_stdout_or_to_a_file(form: str, good_plan: Path, tmp_path: Path) -> None:
    result = call(good_plan, "--format", form)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == substrait_agg.explain(str(good_plan), form)
    assert result.stdout.startswith(BEGINNINGS[form])
    assert result.stdout.endswith("\n")
    target = tmp_path / "out"
    target.write_text("what was there before " * 10_000)
    written = call(good_plan, "--format", form, "--to", target)
    assert (written.exit_code, written.output) == (0, "")
    assert target.read_text(encoding="utf-8") == result.stdout


@pytest.mark.parametrize("form", EXPLAIN_FORMATS)
def test_the_suffix_of_the_file_tells_the_form(form: str, good_plan: Path, tmp_path: Path) -> None:
    target = tmp_path / f"plan{SUFFIXES[form]}"
    assert call(good_plan, "--to", target).exit_code == 0
    assert target.read_text().startswith(BEGINNINGS[form])
    assert call(good_plan, "--to", target, "--format", "json").exit_code == 0
    assert target.read_text().startswith(BEGINNINGS["json"])


def test_warnings_stay_on_stderr_and_out_of_the_document(good_plan: Path, tmp_path: Path) -> None:
    plan = json.loads(good_plan.read_text())
    aggregate = plan["relations"][0]["root"]["input"]["aggregate"]
    del aggregate["measures"][0]["measure"]["phase"]
    good_plan.write_text(json.dumps(plan))
    result = call(good_plan, "--format", "json")
    assert json.loads(result.stdout)["operators"]
    assert "PHASE_UNSPECIFIED" in result.stderr
    to_file = call(good_plan, "--to", tmp_path / "plan.json")
    assert (to_file.stdout, to_file.stderr) == ("", result.stderr)


def test_a_plan_from_stdin_has_a_page_too(good_plan: Path) -> None:
    result = call("-", "--format", "html", stdin=good_plan.read_bytes())
    assert "<h1>How the plan runs</h1>" in result.stdout
    assert f"<h1>How {good_plan.name} runs</h1>" in call(good_plan, "--format", "html").stdout


@pytest.mark.parametrize("policy", ["refuse", "quarantine"])
def test_the_policy_for_early_retractions_shows_the_tree_it_needs(
    policy: str, good_plan: Path
) -> None:
    result = call(good_plan, "--early-retraction", policy, "--format", "json")
    (operator,) = json.loads(result.stdout)["operators"]
    assert operator["early_retraction"] == policy
    assert [tree["use"] for tree in operator["state"]["trees"]] == ["to detect early retractions"]
    (usual,) = json.loads(call(good_plan, "--format", "json").stdout)["operators"]
    assert (usual["early_retraction"], usual["state"]["trees"]) == ("carry", [])


def test_static_tables_are_marked(good_plan: Path) -> None:
    """Static tables are marked in the explanation, and an unknown table is refused."""
    (operator,) = json.loads(call(good_plan, "--format", "json").stdout)["operators"]
    (branch,) = operator["inputs"]
    marked = call(good_plan, "--static", branch["table"], "--format", "json")
    (operator,) = json.loads(marked.stdout)["operators"]
    assert [branch["static"], operator["inputs"][0]["static"]] == [False, True]
    wrong = call(good_plan, "--static", "nothing")
    assert wrong.exit_code == 2
    assert "OPTION_INVALID" in wrong.stderr
    assert branch["table"] in wrong.stderr


def test_text_is_folded_in_a_terminal_and_nowhere_else(good_plan: Path) -> None:
    whole = call(good_plan).stdout
    assert max(map(len, whole.splitlines())) > 60
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "substrait_agg_cli.main", "explain", str(good_plan)]
    with subprocess.Popen(command, stdout=theirs, env={**os.environ, "COLUMNS": "60"}):
        os.close(theirs)
        shown = _all_of(ours)
    assert shown.split() == whole.split()
    assert max(map(len, shown.splitlines())) <= 60


def _all_of(terminal: int) -> str:
    read = b""
    try:
        while part := os.read(terminal, 65536):
            read += part
    except OSError:
        pass  # Linux says so at the end
    os.close(terminal)
    return read.decode()


def test_no_form_needs_spark_or_arrow(good_plan: Path) -> None:
    code = (
        "import sys, substrait_agg as sa\n"
        "from substrait_agg.api import EXPLAIN_FORMATS\n"
        "for form in EXPLAIN_FORMATS: sa.explain(sys.argv[1], form)\n"
        "loaded = {'pyspark', 'pyarrow', 'numpy', 'pandas'} & set(sys.modules); assert not loaded, loaded"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(good_plan)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
