"""Define what all commands share: error output and exit status."""

from __future__ import annotations

import errno
import io
import os
import shutil
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn, TextIO

import click

from substrait_agg.errors import (
    InputRefused,
    PlanRefused,
    SqlRefused,
    SubstraitAggError,
    UsageError,
)
from substrait_agg.escape import printable
from substrait_agg.problems import Problem

SUCCESS, FAILURE, WRONG_CALL = 0, 1, 2
INTERRUPTED, BROKEN_PIPE, TERMINATED = 130, 141, 143
"""The exit status that a shell reports for a command ended by SIGINT, SIGPIPE or SIGTERM."""

WRONG_CALL_CODES = frozenset(
    "NOT_A_CHECKPOINT PLAN_DIFFERS EVOLVE_REFUSED CHANGES_OF_TWO_PLANS VERSION_UNKNOWN VERSION_EXPIRED".split()
)
"""Refusals of a checkpoint that are due to the call, not to the content of the checkpoint."""

STDIO = "-"

Color = Literal["auto", "always", "never"]
COLORS: tuple[Color, ...] = ("auto", "always", "never")


def show(level: str, code: str, path: str, message: str, help: str = "", excerpt: str = "") -> None:
    """Write ``level[CODE] at PATH: message``, an excerpt and a ``help:`` line to stderr."""
    click.echo(_error_line(level, code, path, message), err=True)
    for line in excerpt.splitlines():
        click.echo(f"    {printable(line)}", err=True)
    if help:
        click.echo(f"help: {printable(help)}", err=True)


def _error_line(level: str, code: str, path: str, message: str) -> str:
    where = f" at {path}" if path else ""
    return printable(f"{level}[{code}]{where}: {message}")


def problem_line(problem: Problem, plan: str = "") -> str:
    """Format a problem as ``level[CODE] at PATH: message``.

    With `plan`, the path begins with that name. The path of an error in SQL already does.
    """
    named = f"{problem.path}:".startswith(f"{plan}:")
    path = problem.path if named else ":".join(part for part in (plan, problem.path) if part)
    return _error_line(problem.level, problem.code, path, problem.message)


def show_problems(problems: Iterable[Problem]) -> None:
    """Write problems to stderr."""
    for problem in problems:
        show(
            problem.level,
            problem.code,
            problem.path,
            problem.message,
            problem.help,
            problem.excerpt,
        )


def show_warnings(problems: Iterable[Problem], plan: str) -> None:
    """Write the warning of a plan to stderr. Summarize several warnings."""
    from substrait_agg.report.select import summarize

    warnings = [p for p in problems if p.level == "warning"]
    if len(warnings) < 2:
        show_problems(warnings)
        return
    help = f"substrait-agg validate --verbose {plan} lists them"
    show_problems(summarize(warnings, help))


def show_error(error: SubstraitAggError) -> int:
    """Write an error to stderr, a refused plan with all its problems. Return the exit status."""
    if isinstance(error, PlanRefused):
        show_problems(error.problems)
    else:
        excerpt = error.excerpt if isinstance(error, SqlRefused) else ""
        show("error", error.code, error.path, error.message, error.help, excerpt)
    wrong_call = isinstance(error, UsageError | InputRefused) or error.code in WRONG_CALL_CODES
    return WRONG_CALL if wrong_call else FAILURE


class _Guarded(click.Command):
    """A command that turns every exception into an error line and an exit status.

    0 success; 1 the plan has errors, or the run failed; 2 the call itself is wrong; 130
    interrupted.
    """

    def main(self, args: Sequence[str] | None = None, *rest: Any, **more: Any) -> NoReturn:
        """Run the command line `args` (None: that of the process) and exit."""
        arguments = list(sys.argv[1:] if args is None else args)
        debug = "--debug" in arguments
        more["standalone_mode"] = False
        more["obj"] = debug
        _set_up_streams()
        try:
            status = super().main(arguments, *rest, **more)
            flush_stdout()
        except Exception as error:  # noqa: BLE001 - the boundary: no traceback unless asked for
            if debug:
                traceback.print_exc()
            if isinstance(error, UsageError):
                error.path = dict(_options(self)).get(error.path, error.path)
            status = _status_of(error)
            for note in getattr(error, "__notes__", ()):
                click.echo(f"note: {note}", err=True)
        except KeyboardInterrupt as interrupt:
            status = _interrupt(interrupt)
        sys.exit(status if isinstance(status, int) else SUCCESS)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command.

        A closed stdout ends it with its own exit status, not click's status of a failure. Ctrl-C is
        reported here, because click writes an empty line for it.
        """
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            # An error about an option without a value does not say which command it belongs to.
            if error.ctx is None and ctx.invoked_subcommand and isinstance(self, click.Group):
                error.ctx = click.Context(
                    self.commands[ctx.invoked_subcommand], ctx, ctx.invoked_subcommand
                )
            raise
        except KeyboardInterrupt as interrupt:
            ctx.exit(_interrupt(interrupt))
        except BrokenPipeError:
            _leave_stdout()
            ctx.exit(BROKEN_PIPE)


def _options(command: click.Command) -> Iterator[tuple[str, str]]:
    """Yield the parameters of commands that the Python API has too, and their options."""
    for option in command.params:
        if isinstance(option, click.Option) and option.name:
            yield option.name, option.opts[0]
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        yield from _options(below)


def _set_up_streams() -> None:
    """Write UTF-8 whatever the locale is, as to files. Let writing to a closed stdout fail."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=stream.errors)


class Program(_Guarded):
    """A program of one command."""


class Command(_Guarded, click.Group):
    """The group of all commands."""


def _status_of(error: Exception) -> int:
    if isinstance(error, SubstraitAggError):
        return show_error(error)
    if isinstance(error, click.Abort):
        return _interrupt(error.__cause__)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return WRONG_CALL
    if isinstance(error, click.ClickException):
        return _wrong_call(error)
    if isinstance(error, BrokenPipeError):
        _leave_stdout()
        return BROKEN_PIPE
    if isinstance(error, OSError) and error.errno == errno.EBADF and error.filename is None:
        _leave_stdout()
        show("error", "FILE_NOT_USABLE", "", "stdout is closed", "open it, or write to a file")
        return FAILURE
    if isinstance(error, OSError):
        help = "check the path, its permissions and the space left"
        reason = (error.strerror or str(error)).lower()
        show("error", "FILE_NOT_USABLE", str(error.filename or ""), reason, help)
        return FAILURE
    message = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
    show("error", "INTERNAL", "", message, "this is a bug; run with --debug and report the output")
    return FAILURE


def discard_closed_stdout() -> None:
    """Discard what goes to stdout if the process has been started without it."""
    if sys.stdout is not None and not _is_writable(sys.stdout):
        _leave_stdout()


def _is_writable(stream: TextIO) -> bool:
    try:
        return os.write(stream.fileno(), b"") == 0
    except OSError as error:
        return error.errno != errno.EBADF


def flush_stdout() -> None:
    """Flush stdout, if the process has one."""
    if sys.stdout is not None:
        sys.stdout.flush()


def _leave_stdout() -> None:
    # Python would report another error when it flushes stdout at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _wrong_call(error: click.ClickException) -> int:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "substrait-agg"
    message = error.format_message().rstrip(".")
    show("error", "USAGE", "", message[:1].lower() + message[1:], f"see {command} --help")
    return WRONG_CALL


class SigtermReceived(KeyboardInterrupt):
    """SIGTERM, which service managers send instead of Ctrl-C."""


def stopped_by(interrupt: BaseException | None) -> int:
    """Return the exit status of a command that Ctrl-C or SIGTERM has stopped."""
    return TERMINATED if isinstance(interrupt, SigtermReceived) else INTERRUPTED


def _interrupt(interrupt: BaseException | None) -> int:
    show("error", "INTERRUPTED", "", "stopped by the user")
    return stopped_by(interrupt)


def terminal_width() -> int:
    """Return the columns of the terminal (or COLUMNS); 100 if the output goes elsewhere."""
    return max(40, shutil.get_terminal_size((100, 24)).columns)


def debug_option(command: Any) -> Any:
    """Add the option ``--debug``. `debug_wanted` returns whether any command received it."""
    return click.option(
        "--debug", is_flag=True, expose_value=False, help="Show tracebacks and the output of Spark."
    )(command)


def debug_wanted() -> bool:
    """Return whether ``--debug`` was given."""
    return bool(click.get_current_context().find_root().obj)


def not_a_folder(_context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Return the value of a parameter that names a file, or several.

    Raises:
        UsageError: OPTION_INVALID: there is a folder of this name.
    """
    for name in (value,) if isinstance(value, str) else value or ():
        if name != STDIO and Path(name).is_dir():
            shown = f"{parameter.opts[0]} {name}" if isinstance(parameter, click.Option) else name
            message = f"{shown} is a folder"
            raise UsageError("OPTION_INVALID", message, help="give the name of a file", path=name)
    return value


def existing_folder(path: str) -> Path | str:
    """Return the folder at `path`.

    A URL is returned unchanged, because opening it checks the store.

    Raises:
        UsageError: the folder does not exist.
    """
    folder = Path(path)
    if "://" in path and not folder.exists():
        return path
    if folder.is_dir():
        return folder
    message = "this is a file" if folder.exists() else "the folder does not exist"
    code = "NOT_A_FOLDER" if folder.exists() else "FILE_NOT_FOUND"
    help = "give the folder that was given to run as --checkpoint"
    raise UsageError(code, message, help=help, path=path)
