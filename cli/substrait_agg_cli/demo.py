"""Run the demo: maintain TPC-H queries 1 and 3 over a stream of changes, kill, resume and check them.

`make demo` calls this module. The run of each query is the real command in a process of its own.
This module only reads the checkpoints.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from substrait_agg import open_view
from substrait_agg.errors import RunFailed, UsageError
from substrait_agg.optional_packages import require
from substrait_agg_cli.demo_check import QUERIES, Columns, DemoQuery, changes_add_up, compare
from substrait_agg_cli.demo_data import create_tables, generate, insert_steps, write_stream
from substrait_agg_cli.demo_frame import (
    PATIENCE_SECONDS,
    ROOT,
    DemoCommand,
    Process,
    await_condition,
    kill,
    number_option,
    play,
    say,
    title,
    word,
)
from substrait_agg_cli.terminal import Program, debug_option

PLANS = ROOT / "plans" / "tpch"


@click.command(cls=Program)
@number_option("scale", 0.1, click.FloatRange(min=0.0005), "TPC-H scale factor.")
@number_option("files", 8, click.IntRange(min=4), "Number of change files of each table.")
@debug_option
def main(scale: float, files: int) -> None:
    """Run the demo. Exit status: 0 if all views equal the results of DuckDB, else 1."""
    play(lambda folder: demo(folder, scale, files))


@dataclass(frozen=True, kw_only=True)
class DemoRun(DemoCommand):
    """The run of a query of the demo.

    Attributes:
        query: the query.
        by_duckdb: what DuckDB computes for each version. Version 0 is that of empty tables.
    """

    query: DemoQuery
    by_duckdb: list[Columns]


def demo(folder: Path, scale: float, files: int) -> bool:
    """Run the whole demo in a folder. Return whether every check passed."""
    require("duckdb")
    import duckdb

    title(f"Three TPC-H tables at scale {scale:g} as a stream of {files} change files each")
    tables = generate(folder, scale)
    runs = [demo_run(folder, query, files + 1) for query in QUERIES]
    with duckdb.connect() as connection:
        create_tables(connection, tables)
        compute_expected(runs, connection)
        for version, step in enumerate(write_stream(connection, folder / "in", files), 1):
            say(f"  version {version:>2}: {step}")
            compute_expected(runs, connection)
    run_and_kill(runs, insert_steps(files))
    resume(runs, files)
    return check(runs)


def compute_expected(runs: Sequence[DemoRun], connection: Any) -> None:
    """Let DuckDB compute all queries over its current tables, for the next version."""
    for run in runs:
        run.by_duckdb.append(run.query.by_duckdb(connection))


# --- the run -------------------------------------------------------------------------------------


def demo_run(folder: Path, query: DemoQuery, versions: int) -> DemoRun:
    """Return the run of a query. It keeps the state of all versions, so that they can be compared."""
    plan = PLANS / f"{query.name}.bin"
    if not plan.exists():
        raise UsageError(
            "FILE_NOT_FOUND",
            "the demo's plan is missing",
            help="run the demo in a clone of the repository",
            path=str(plan),
        )
    sources = [f"{t}=parquet:{folder / 'in' / t}?op=op&batch-files=1" for t in query.tables]
    options = [word for source in sources for word in ("--source", source)]
    arguments = [str(plan), *options, "--keep-versions", str(versions), "--output", "none"]
    return DemoRun(query=query, checkpoint=folder / query.name, arguments=arguments, by_duckdb=[])


def run_and_kill(runs: Sequence[DemoRun], version: int) -> None:
    """Run all queries, and kill the process group of each as soon as `version` is committed.

    Then show the views of version 1 and of `version`. To show one earlier would take longer than a
    batch, so a run could end before it is killed.
    """
    title("Run the plans that DataFusion wrote, side by side, one file of each table per batch")
    for run in runs:
        say(f"$ {run}")
    with running_all(runs) as processes:
        await_version(processes, version, kill_after=version)
        if any(process.returncode != -signal.SIGKILL for _, process in processes):
            raise RunFailed(
                "DEMO_TOO_SHORT",
                "a run ended before it could be killed",
                help="give more --files",
            )
    killed = ", ".join(f"{r.query.name} {r.newest}" for r in runs)
    show_views(runs, 1)
    show_views(runs, version)
    title(
        f"Killed with SIGKILL after version {version} (newest: {killed}); run the same commands again"
    )


def resume(runs: Sequence[DemoRun], last: int) -> None:
    """Run to the end. Show the changes of the last version and the final views."""
    with running_all(runs) as processes:
        await_version(processes, last)
        for run, process in processes:
            if process.wait(PATIENCE_SECONDS):
                raise run.failure()
    for run in runs:
        show_changes(run, last)
    show_views(runs, last)


Processes = list[tuple[DemoRun, Process]]


@contextmanager
def running_all(runs: Sequence[DemoRun]) -> Iterator[Processes]:
    """Run all commands during the block."""
    with ExitStack() as stack:
        yield [(run, stack.enter_context(run.run_in_group())) for run in runs]


def await_version(processes: Processes, version: int, kill_after: int | None = None) -> None:
    """Wait until all runs have committed a version.

    Kill each run as soon as it has committed the version `kill_after`.

    Raises:
        RunFailed: a run ended without the version, or takes too long.
    """
    waiting = list(processes)

    def have_all_committed() -> bool:
        """Return whether no run is still behind; kill the one that is to be killed."""
        for run, process in processes:
            ended = process.poll() is not None
            newest = run.newest
            if not ended and kill_after is not None and newest >= kill_after:
                kill(process)
            if newest >= version and (run, process) in waiting:
                waiting.remove((run, process))
            elif ended and newest < version:
                raise run.failure()
        return not waiting

    await_condition(have_all_committed, f"version {version} was not committed", "--scale")


# --- output --------------------------------------------------------------------------------------


def check(runs: Sequence[DemoRun]) -> bool:
    """Compare all versions of the views with DuckDB, and the sums of all changes with the views."""
    title("Compare every value of every version with DuckDB")
    results = [check_run(run) for run in runs]
    return all(results)


def check_run(run: DemoRun) -> bool:
    """Compare all versions of a view with DuckDB, and the sum of its changes with the last one."""
    view = open_view(run.checkpoint)
    last = view.to_arrow()
    versions = [check_version(run, version) for version in range(len(run.by_duckdb))]
    passed = sum(versions)
    say(f"  {run.query.name}: {passed} of {len(versions)} versions equal: {word(all(versions))}")
    shown = list(zip(*(c.to_pylist() for c in last.columns), strict=True))
    sums = changes_add_up(view.changes(), shown)
    say(f"  {run.query.name}: changes of all versions add up to the view: {word(sums)}")
    return all(versions) and sums and last.num_rows > 0 and view.version == len(versions) - 1


def check_version(run: DemoRun, version: int) -> bool:
    """Compare a version of a view with DuckDB. Print the differences."""
    table = open_view(run.checkpoint).to_arrow(version)
    expected = run.query.expected(run.by_duckdb[version], table.schema)
    columns = compare(table.to_pydict(), expected)
    for column in columns:
        for row, shown, value in column.different:
            place = f"version {version}, {column.name}, row {row}"
            say(f"    {run.query.name}: {place}: {shown} in the view, {value} by DuckDB")
    return bool(columns) and all(column.ok for column in columns)


def show_views(runs: Sequence[DemoRun], version: int) -> None:
    """Print some columns of the views at a version."""
    for run in runs:
        say(f"\nversion {version}, {run.query.title}:")
        show_table(open_view(run.checkpoint).to_arrow(version).select(run.query.shown))


def show_changes(run: DemoRun, version: int) -> None:
    """Print the changes of a version. Retractions have weight -1."""
    say(f"\nchanges of version {version}, {run.query.name}:")
    changes = open_view(run.checkpoint).changes(since=version - 1, until=version)
    show_table(changes.select([*run.query.shown, "__weight"]))


def show_table(table: Any) -> None:
    """Print a table as text."""
    from substrait_agg.changes import table_lines

    for lines in table_lines(table):
        for line in lines.splitlines():
            say(f"  {line}")


if __name__ == "__main__":
    main(prog_name="substrait_agg_cli.demo")
