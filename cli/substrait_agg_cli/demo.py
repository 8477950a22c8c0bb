"""Run the demo: maintain TPC-H query 1 over a stream of changes, kill it, resume it and check it.

`make demo` calls this module. The run is the real command in a process of its own. This module only
reads the checkpoint.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from substrait_agg import open_view
from substrait_agg.errors import RunFailed, StateRefused, UsageError
from substrait_agg.optional_packages import require
from substrait_agg_cli.demo_check import changes_add_up, compare, expected
from substrait_agg_cli.demo_data import ChangeStream, generate, write_stream
from substrait_agg_cli.terminal import FAILURE, Program, debug_option

PLAN = Path(__file__).parents[2] / "plans" / "tpch" / "q01.bin"
SHOWN = ("l_returnflag", "l_linestatus", "sum_qty", "sum_charge", "avg_disc", "count_order")
POLL_SECONDS = 0.1
PATIENCE_SECONDS = 300


@click.command(cls=Program)
@click.option(
    "--scale",
    type=click.FloatRange(min=0.0005),
    default=0.1,
    show_default=True,
    help="TPC-H scale factor.",
)
@click.option(
    "--files",
    type=click.IntRange(min=4),
    default=12,
    show_default=True,
    help="Number of change files to stream.",
)
@debug_option
def main(scale: float, files: int) -> None:
    """Run the demo. Exit status: 0 if the view equals the result of DuckDB, else 1."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="substrait-agg-demo-") as folder:
        passed = demo(Path(folder), scale, files)
    seconds = time.monotonic() - started
    say(f"\n{'PASS' if passed else 'FAIL'} in {seconds:.0f} seconds")
    if not passed:
        click.get_current_context().exit(FAILURE)


def demo(folder: Path, scale: float, files: int) -> bool:
    """Run the whole demo in a folder. Return whether every check passed."""
    require("duckdb")
    import duckdb

    title(f"TPC-H lineitem at scale {scale:g} as a stream of {files} change files")
    with duckdb.connect() as connection:
        stream = write_stream(connection, generate(folder, scale), folder / "lineitem", files)
        for number, step in enumerate(stream.steps, 1):
            say(f"  file {number:>2}: {step}")
        checkpoint = folder / "checkpoint"
        command = run_command(checkpoint, stream)
        run_and_kill(command, checkpoint, stream.inserts)
        resume(command, checkpoint, files)
        return check(connection, checkpoint)


# --- the run -------------------------------------------------------------------------------------


def run_command(checkpoint: Path, stream: ChangeStream) -> list[str]:
    """Return the command line of the run.

    It calls the installed script, or the module if the package is not installed.
    """
    if not PLAN.exists():
        raise UsageError(
            "FILE_NOT_FOUND",
            "the demo's plan is missing",
            help="run the demo in a clone of the repository",
            path=str(PLAN),
        )
    script = Path(sys.executable).with_name("substrait-agg")
    program = [str(script)] if script.exists() else [sys.executable, "-m", "substrait_agg_cli.main"]
    source = f"lineitem=parquet:{stream.folder}?op=op&batch-files=1"
    options = ["--source", source, "--checkpoint", str(checkpoint), "--output", "none"]
    return [*program, "run", str(PLAN), *options, "--no-progress"]


def run_and_kill(command: Sequence[str], checkpoint: Path, version: int) -> None:
    """Run, show the view as it changes, and kill the process group after `version` is committed."""
    title("Run the plan that DataFusion wrote, one file per batch")
    say(f"$ {as_shown(command, checkpoint.parent)}")
    with running(command, checkpoint.parent) as process:
        await_version(process, checkpoint, 1)
        show_view(checkpoint, 1)
        await_version(process, checkpoint, version)
        show_view(checkpoint, version)
        if process.poll() is not None:
            raise RunFailed(
                "DEMO_TOO_SHORT",
                "the run ended before it could be killed",
                help="give more --files",
            )
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    last = open_view(checkpoint).version
    title(f"Killed with SIGKILL after version {last}; run the same command again")


def resume(command: Sequence[str], checkpoint: Path, last: int) -> None:
    """Run to the end. Show the changes of the last version and the final view."""
    with running(command, checkpoint.parent) as process:
        await_version(process, checkpoint, last)
        if process.wait(PATIENCE_SECONDS):
            raise run_failed(checkpoint.parent)
    view = open_view(checkpoint)
    show_changes(checkpoint, last)
    show_view(checkpoint, view.version)


@contextmanager
def running(command: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command in its own process group, and kill the group at the end of the block."""
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    # A killed Spark leaves files behind. They are deleted with the demo's folder.
    environment = {
        **os.environ,
        "TMPDIR": str(scratch),
        "SPARK_LOCAL_DIRS": str(scratch),
        "SPARK_SUBMIT_OPTS": f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} -Djava.io.tmpdir={scratch}",
    }
    with log_file(folder).open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def await_version(process: subprocess.Popen[bytes], checkpoint: Path, version: int) -> None:
    """Wait until a version is committed.

    Raises:
        RunFailed: the run ended without it, or takes too long.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while committed(checkpoint) < version:
        # Check again: the run may have committed between the check above and its end.
        if process.poll() is not None and committed(checkpoint) < version:
            raise run_failed(checkpoint.parent)
        if time.monotonic() > deadline:
            message = f"version {version} was not committed within {PATIENCE_SECONDS} seconds"
            raise RunFailed("DEMO_TOO_SLOW", message, help="give a smaller --scale")
        time.sleep(POLL_SECONDS)


def committed(checkpoint: Path) -> int:
    """Return the newest version, or -1 if there is none."""
    try:
        return open_view(checkpoint).version
    except StateRefused:
        return -1


def log_file(folder: Path) -> Path:
    """Return the log file of the run. Its content is shown if the run fails."""
    return folder / "run.log"


def run_failed(folder: Path) -> RunFailed:
    """Return the error for a failed run, with the output of the run."""
    printed = log_file(folder).read_text(errors="replace").strip()
    return RunFailed("DEMO_RUN_FAILED", f"the run failed; it printed:\n{printed}")


# --- output --------------------------------------------------------------------------------------


def check(connection: Any, checkpoint: Path) -> bool:
    """Compare the view with DuckDB, and the sum of all changes with the view."""
    view = open_view(checkpoint)
    table = view.to_arrow()
    (rows,) = connection.execute("SELECT count(*) FROM lineitem").fetchone()
    title(f"Compare with DuckDB over the {rows:,} remaining rows")
    columns = compare(table.to_pydict(), expected(connection, table.schema))
    for column in columns:
        say(f"  {column.name:<14} {'PASS' if column.ok else 'FAIL'}")
        for row, found, wanted in column.different:
            say(f"    row {row}: {found} in the view, {wanted} by DuckDB")
    shown = list(zip(*(c.to_pylist() for c in table.columns), strict=True))
    sums = changes_add_up(view.changes(), shown)
    say(f"  changes of all versions add up to the view: {'PASS' if sums else 'FAIL'}")
    return bool(columns) and all(c.ok for c in columns) and sums and table.num_rows > 0


def show_view(checkpoint: Path, version: int) -> None:
    """Print some columns of the view at a version."""
    say(f"\nversion {version}:")
    show_table(open_view(checkpoint).to_arrow(version).select(SHOWN))


def show_changes(checkpoint: Path, version: int) -> None:
    """Print the changes of a version. Retractions have weight -1."""
    say(f"changes of version {version}:")
    changes = open_view(checkpoint).changes(since=version - 1, until=version)
    show_table(changes.select([*SHOWN, "__weight"]))


def show_table(table: Any) -> None:
    """Print a table as text."""
    from substrait_agg.changes import table_lines

    for lines in table_lines(table):
        for line in lines.splitlines():
            say(f"  {line}")


def as_shown(command: Sequence[str], folder: Path) -> str:
    """Return the command as a user would type it."""
    words = ["substrait-agg", *command[command.index("run") :]]
    text = shlex.join(words).replace(f"{folder}{os.sep}", "")
    return text.replace(f"{PLAN.parents[2]}{os.sep}", "")


def title(text: str) -> None:
    """Print the title of a part of the demo."""
    say(f"\n== {text}")


def say(text: str) -> None:
    """Print a line immediately, also into a pipe."""
    click.echo(text)


if __name__ == "__main__":
    main(prog_name="substrait_agg_cli.demo")
