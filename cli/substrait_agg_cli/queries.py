"""Options of commands that take SQL text in place of a plan file, and the command plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import click

import substrait_agg
from substrait_agg.errors import UsageError
from substrait_agg.files.atomic_files import write_atomically
from substrait_agg.problem_kinds import Mode
from substrait_agg_cli.notices import notices_shown
from substrait_agg_cli.plan_files import is_folder, read_plan, stdin_bytes
from substrait_agg_cli.sparklog import spark_log
from substrait_agg_cli.terminal import STDIO, debug_option, debug_wanted, not_a_folder

Command = Callable[..., None]

SQL_SUFFIX = ".sql"
SPEC_SUFFIXES = (".yml", ".yaml")

QUERY = "the query"
"""What messages call SQL text without a file."""

_SOURCE_HELP = (
    "A table of the query or plan; once per table. The columns of a query, and types that a plan leaves out, are read "
    "from the source (run --help describes SPEC)."
)


def sql_options(command: Command) -> Command:
    """Add the options that give SQL text in place of a plan."""
    options = (
        click.option(
            "--sql",
            metavar="FILE",
            help="A file of SQL in place of PLAN: CREATE TABLE statements, and one query or CREATE VIEW; - is stdin. "
            "A PLAN that ends in .sql means the same. run, explain and validate also take a file with several "
            "views, a folder of such files and of Python files, which are run, or the spark-pipeline.yml of a project or its folder (docs/pipelines.md).",
        ),
        click.option(
            "--query",
            metavar="TEXT",
            help="The same as text: --query 'SELECT region, sum(amount) FROM sales GROUP BY region'.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


source_option = click.option(
    "--source", "sources", multiple=True, metavar="NAME=SPEC", help=_SOURCE_HELP
)


def pairs(texts: Iterable[str], option: str, form: str) -> dict[str, str]:
    """Return the values of a repeated option ``NAME=VALUE`` by name.

    Raises:
        UsageError: a text has another form, or a name is repeated.
    """
    by_name: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            message = f"{text!r} does not have the form {form}"
            raise UsageError("OPTION_INVALID", message, help=f"write {option} {form}", path=option)
        if name in by_name:
            message = f"{name} is given twice"
            raise UsageError("OPTION_INVALID", message, help="give it once", path=option)
        by_name[name] = value
    return by_name


def tables_of(sources: Iterable[str]) -> dict[str, str]:
    """Return the sources of ``--source`` by the names of their tables."""
    return pairs(sources, "--source", "NAME=SPEC")


static_option = click.option(
    "--static",
    multiple=True,
    metavar="TABLE",
    help="A table that run reads once, with static=true in its source; repeatable.",
)


def static_tables(names: Iterable[str], sources: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tables of ``--static``, and those whose ``--source`` has static=true.

    Raises:
        UsageError: a SPEC is not valid.
    """
    from substrait_agg.spark.sources.specs import as_spec

    return tuple(dict.fromkeys((*names, *(n for n, s in sources.items() if as_spec(s).static))))


def check_one_given(plan: str | None, sql: str | None, query: str | None) -> None:
    """Check that exactly one of PLAN, ``--sql`` and ``--query`` is given.

    Raises:
        UsageError: none is given, or several are.
    """
    sources = [name for name, value in (("PLAN", plan), ("--sql", sql), ("--query", query)) if value is not None]  # fmt: skip
    if len(sources) != 1:
        message = f"{' and '.join(sources)} are given together" if sources else "no plan is given"
        help = "give a plan file, --sql FILE or --query TEXT"
        raise UsageError("OPTION_INVALID", message, help=help, path="PLAN")


def read_query_or_plan(
    plan: str | None,
    sql: str | None,
    query: str | None,
    sources: dict[str, str],
    **session: Any,
) -> substrait_agg.Plan:
    """Read the plan of a command line: a plan file, a file of SQL, or SQL text.

    Args:
        plan: the argument PLAN.
        sql: the option ``--sql``.
        query: the option ``--query``.
        sources: the sources by the names of their tables.
        session: `conf` and `master` of the session that opens sources, as `substrait_agg.sql` takes them.

    Raises:
        UsageError: not exactly one of the three is given, or a file cannot be read.
        SqlRefused: the SQL text cannot be planned.
    """
    check_one_given(plan, sql, query)
    if plan is not None and not is_sql(plan):
        return read_plan(plan)
    with spark_log(debug=debug_wanted()) as log, notices_shown():
        if query is not None:
            return substrait_agg.sql(query, sources, spark_log=log, **session)
        return plan_sql_file(sql or plan or "", sources, spark_log=log, **session)


def read_plans(
    plan: str | None,
    sql: str | None,
    query: str | None,
    sources: dict[str, str],
    **session: Any,
) -> substrait_agg.Plan | dict[str, substrait_agg.Plan]:
    """Read the plan of a command line, or the plans of a pipeline by the names of their views.

    Arguments and errors are those of `read_query_or_plan`.
    """
    name = sql or plan or ""
    if None not in (sql, plan) or query is not None or not _is_pipeline(name, sql):
        return read_query_or_plan(plan, sql, query, sources, **session)
    with spark_log(debug=debug_wanted()) as log, notices_shown():
        return substrait_agg.sql_views(Path(name), sources, spark_log=log, **session)


def _is_pipeline(name: str, sql: str | None) -> bool:
    """Return whether a path is a folder, a `spark-pipeline.yml`, or a file of SQL with several views."""
    if name == STDIO or not name:
        return False
    if is_folder(name) or is_spec_file(name):
        return True
    if sql is None and not is_sql(name):
        return False
    from substrait_agg.scripts.pipeline import is_pipeline
    from substrait_agg.scripts.script import script_text

    return is_pipeline(script_text(Path(name)), name)


def is_spec_file(name: str) -> bool:
    """Return whether a file of the command line is the specification of a pipeline, by its suffix."""
    return name.lower().endswith(SPEC_SUFFIXES)


def checkpoint_of(name: str) -> str:
    """Return the checkpoint of a pipeline project, below its storage.

    Raises:
        UsageError: OPTION_INVALID: a plan or SQL without a specification has no such folder.
    """
    spec = None
    if name not in ("", STDIO):
        from substrait_agg.scripts.project import find_spec, read_spec

        spec = find_spec(Path(name))
    if spec is None:
        help = "add --checkpoint DIR: the folder for state, offsets and versions"
        message = "no checkpoint is given"
        raise UsageError("OPTION_INVALID", message, help=help, path="--checkpoint")
    return read_spec(spec).checkpoint


def each_plan_of(
    loaded: substrait_agg.Plan | dict[str, substrait_agg.Plan], mode: Mode
) -> list[substrait_agg.Plan]:
    """Return the plans of a pipeline, or those of the roots of a plan."""
    return [*(loaded if isinstance(loaded, dict) else loaded.views(mode)).values()]


def is_sql(name: str) -> bool:
    """Return whether a file of the command line is SQL text, by its suffix."""
    return name.lower().endswith(SQL_SUFFIX)


def plan_sql_file(name: str, sources: dict[str, str], **session: Any) -> substrait_agg.Plan:
    """Plan the SQL text in a file or on stdin."""
    if name != STDIO:
        return substrait_agg.sql(Path(name), sources, **session)
    try:
        text = stdin_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message, help = f"byte {error.start} of stdin is not UTF-8", "give UTF-8"
        raise UsageError("FILE_NOT_READABLE", message, help=help, path=STDIO) from error
    return substrait_agg.sql(text, sources, **session)


@click.command(
    epilog="Example: substrait-agg plan --sql query.sql --source sales=parquet:sales/ -o plan.json"
)
@click.argument("plan", metavar="[FILE.sql]", required=False)
@sql_options
@source_option
@click.option(
    "--output",
    "-o",
    "to",
    metavar="FILE",
    default=STDIO,
    callback=not_a_folder,
    help="Write the plan to this file: as JSON if it ends in .json, else as protobuf. Default: JSON on stdout.",
)
@debug_option
def plan(
    plan: str | None, sql: str | None, query: str | None, sources: tuple[str, ...], to: str
) -> None:
    """Write the Substrait plan of a SQL query.

    The columns of its tables come from CREATE TABLE statements in the text, or from --source.
    """
    planned = read_query_or_plan(plan, sql, query, tables_of(sources))
    write_plan(planned, to)


@click.command(epilog="Example: substrait-agg convert old.json new.bin")
@click.argument("source", metavar="IN")
@click.argument("to", metavar="OUT", callback=not_a_folder)
@debug_option
def convert(source: str, to: str) -> None:
    """Convert a plan between protobuf and JSON, and upgrade it to the newest release of Substrait.

    IN is a plan of any release, or - for stdin. OUT is JSON if it ends in .json, or - for JSON on stdout; any
    other name is protobuf. A plan that would lose a part or its meaning is refused. Hints for optimizers in
    JSON are left out.
    """
    try:
        loaded = read_plan(source)
    except UsageError as error:
        error.help = error.help.replace("give it with", "write its plan with substrait-agg plan")
        raise
    _ = loaded.decoded
    write_plan(loaded, to)


def write_plan(plan: substrait_agg.Plan, to: str) -> None:
    """Write a plan to a file, or as JSON to stdout."""
    from substrait_agg.plan.messages.convert import bytes_of, json_of

    message = _newest(plan)
    if to == STDIO:
        click.echo(json_of(message))
        return
    is_json = Path(to).suffix.lower() == ".json"
    content = f"{json_of(message)}\n".encode() if is_json else bytes_of(message)
    with write_atomically(Path(to)) as file:
        file.write(content)


def _newest(plan: substrait_agg.Plan) -> Any:
    """Return the message of a plan in the newest release.

    It states that release, unless the plan of its producer would then mean something else.

    Raises:
        UsageError: PLAN_NOT_CONVERTED, if every form of the plan would mean something else.
    """
    from substrait_agg.plan.messages.convert import as_message, bytes_of

    meaning = _to_meaning(plan)
    for repeated, release in product((False, True), (True, False)):
        message = as_message(plan.content, state_release=release, repeated_keys=repeated)
        if _to_meaning(substrait_agg.Plan("", bytes_of(message))) == meaning:
            return message
    raise UsageError(
        "PLAN_NOT_CONVERTED",
        "the plan would mean something else in the newest release",
        help="use the plan as it is; for a plan with errors, correct what substrait-agg validate lists",
    )


def _to_meaning(plan: substrait_agg.Plan) -> object:
    bound = plan.check().bound
    if bound is None:
        return sorted(p.code for p in plan.check().problems if p.level == "error")
    return bound.fingerprint
