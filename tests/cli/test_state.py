"""The state commands: their output and their exit codes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from substrait_agg.commit.log.locking import lock_for_run
from substrait_agg_cli.main import main
from tests.checkpoint.local_checkpoint import filled


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undamaged checkpoint, which no test changes."""
    return filled(tmp_path_factory.mktemp("whole") / "ckpt", 5).folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of the checkpoint."""
    return Path(shutil.copytree(whole, tmp_path / "ckpt"))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["state", *map(str, arguments)])


def test_ls(whole: Path) -> None:
    """ls prints a table of versions and one of trees, and the same as JSON."""
    text = run("ls", whole, "--limit", 2)
    assert text.exit_code == 0
    lines = text.stdout.splitlines()
    assert "not in use" in lines[0]
    assert any(line.startswith("5 ") for line in lines)
    assert "(6 versions; --limit shows more)" in lines
    assert any("| tree3 |" in line for line in lines)
    assert "| files read |" in text.stdout
    body = json.loads(run("ls", whole, "--format", "json", "--limit", 0).stdout)
    assert [v["version"] for v in body["versions"]] == list(range(6))
    assert [v["files"] for v in body["versions"]] == list(range(6))
    assert [t["tree"] for t in body["trees"]] == ["group", *(f"tree{i}" for i in range(4))]


def test_show(whole: Path) -> None:
    """show prints some groups in a table, one group with its trees, or a tree, and the same as
    JSON.
    """
    assert "rows)" in run("show", whole, "--limit", 3).stdout
    (first, *_) = json.loads(run("show", whole, "--format", "json").stdout)["group"]
    key = json.dumps({"#0": first["#0"]})
    one = run("show", whole, "--key", key).stdout
    assert "(1 group)" in one
    assert "\ntree0:\n" in one
    body = json.loads(run("show", whole, "--key", key, "--format", "json").stdout)
    assert body["group"] == [first]
    assert body["tree0"]
    assert run("show", whole, "--tree", "pending").stdout == "(0 rows)\n"
    unquoted = run("show", whole, "--key", "north").stderr
    assert unquoted.splitlines()[1] == """help: write text in quotes: --key '"north"'"""
    tree = run("show", whole, "--tree", "tree1", "--operator", 0, "--version", 3, "--limit", 4)
    assert "(4 rows)" in tree.stdout


def test_verify(folder: Path) -> None:
    """verify exits with 0 without faults, else with 1 and every fault on stderr and in JSON."""
    good = run("verify", folder)
    assert good.exit_code == 0
    assert good.stdout.startswith("no faults: checked 6 versions")
    files = sorted((folder / "changes").iterdir())
    files[0].write_bytes(b"x")
    files[1].unlink()
    bad = run("verify", folder)
    assert bad.exit_code == 1
    assert f"error[FILE_DAMAGED] at changes/{files[0].name}: " in bad.stderr
    assert f"error[FILE_MISSING] at changes/{files[1].name}: " in bad.stderr
    assert bad.stderr.count("help: ") == 2
    assert bad.stdout.startswith("2 faults: ")
    body = json.loads(run("verify", folder, "--format", "json").stdout)
    assert not body["ok"]
    assert {f["code"] for f in body["findings"]} == {"FILE_DAMAGED", "FILE_MISSING"}


def test_rollback(folder: Path) -> None:
    """A rollback first shows what it will do, then does it."""
    dry = run("rollback", folder, "--to", 3, "--dry-run")
    assert dry.stdout == (
        "would roll back from version 5 to 3; the next run reads the input after it\n"
    )
    done = run("rollback", folder, "--to", 3, "--format", "json")
    assert json.loads(done.stdout)["to"] == 3
    unknown = run("rollback", folder, "--to", 5)
    assert unknown.exit_code == 2
    assert "error[VERSION_UNKNOWN]" in unknown.stderr


def test_rescale_and_vacuum(folder: Path) -> None:
    """The output names the new setting and the deleted files."""
    assert run("rescale", folder, "--partitions", 8).stdout == (
        "partitions of the next runs: 8 (before: one per core)\n"
    )
    assert "error[PARTITIONS_INVALID]" in run("rescale", folder, "--partitions", 6).stderr
    assert "from version 5" in run("vacuum", folder, "--keep", 1, "--dry-run").stdout
    body = json.loads(run("vacuum", folder, "--keep", 1, "--format", "json").stdout)
    assert body["state_from"] == 5
    assert body["files"]["state"] > 0
    assert "error[OPTION_INVALID]" in run("vacuum", folder, "--older-than", "soon").stderr
    assert json.loads(run("rescale", folder, "--partitions", 0, "--format", "json").stdout) == {
        "partitions": None,
        "before": 8,
    }


def test_what_changes_a_checkpoint_is_refused_beside_a_run(folder: Path) -> None:
    """Commands that change a checkpoint are refused during a run, in one line with advice and exit
    status 1.
    """
    with lock_for_run(folder):
        for arguments in (("rollback", folder, "--to", 3), ("vacuum", folder)):
            refused = run(*arguments)
            assert refused.exit_code == 1
            assert "error[CHECKPOINT_BUSY]" in refused.stderr
            assert "help: " in refused.stderr
        assert "(in use;" in run("ls", folder).stdout


@pytest.mark.parametrize("command", ["ls", "show", "verify", "rollback", "rescale", "vacuum"])
def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path, command: str) -> None:
    """Every command refuses a folder that is no checkpoint, and writes nothing to it."""
    more = {"rollback": ("--to", 1), "rescale": ("--partitions", 2)}.get(command, ())
    refused = run(command, tmp_path, *more)
    assert refused.exit_code == 2
    assert "error[NOT_A_CHECKPOINT]" in refused.stderr
    assert not list(tmp_path.iterdir())


def test_no_command_starts_spark(whole: Path) -> None:
    """No state command starts or imports Spark."""
    code = (
        "import sys; from click.testing import CliRunner; from substrait_agg_cli.main import main\n"
        "for command in (['ls'], ['show'], ['verify'], ['rollback', '--to', '5'], ['vacuum'], ['rescale', '--partitions', '2']):\n"
        "    done = CliRunner().invoke(main, ['state', command[0], sys.argv[1], *command[1:]])\n"
        "    assert not done.exit_code, done.stderr\n"
        "assert 'pyspark' not in sys.modules and 'py4j' not in sys.modules"
    )
    folder = shutil.copytree(whole, whole.with_name("copy"))
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True, timeout=120)
