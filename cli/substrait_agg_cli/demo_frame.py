"""What the demos share: options, a folder of their own, the process of a run, and what is printed."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import TypeVar

import click

from substrait_agg import open_view
from substrait_agg.errors import RunFailed, StateRefused
from substrait_agg_cli.terminal import FAILURE

ROOT = Path(__file__).parents[2]
POLL_SECONDS = 0.1
PATIENCE_SECONDS = 300

Process = subprocess.Popen[bytes]
F = TypeVar("F", bound=Callable[..., object])


def number_option(
    name: str, default: float, type_: click.IntRange | click.FloatRange, help: str
) -> Callable[[F], F]:
    """Return a decorator that adds an option with a number."""
    return click.option(f"--{name}", type=type_, default=default, show_default=True, help=help)


def play(demo: Callable[[Path], bool]) -> None:
    """Play a demo in a temporary folder. Exit status: 0 if it returns that all checks passed, else 1."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="substrait-agg-demo-") as folder:
        passed = demo(Path(folder))
    say(f"\n{word(passed)} in {time.monotonic() - started:.0f} seconds")
    if not passed:
        click.get_current_context().exit(FAILURE)


@dataclass(frozen=True, kw_only=True)
class DemoCommand:
    """The command ``run`` with its checkpoint, in a process of its own.

    Attributes:
        checkpoint: its folder. Its log and temporary files are beside it.
        arguments: those before the checkpoint and after it.
        variables: further variables of the environment.
        view: the view that tells the newest version; None for the only one.
    """

    checkpoint: Path
    arguments: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    view: str | None = None

    @property
    def newest(self) -> int:
        """Return the newest version, or -1 if there is none."""
        try:
            return open_view(self.checkpoint, self.view).version
        except StateRefused:
            return -1

    @property
    def printed(self) -> str:
        """Return what the last process has printed."""
        return self._log.read_text(errors="replace").strip()

    def failure(self) -> RunFailed:
        """Return the error for a failed run."""
        return RunFailed("DEMO_RUN_FAILED", f"the run failed; it printed:\n{self.printed}")

    def __str__(self) -> str:
        """Return the command as a user would type it."""
        text = shlex.join(["substrait-agg", *self._words])
        folders = (self.checkpoint.parent, ROOT)
        return reduce(lambda shown, folder: shown.replace(f"{folder}{os.sep}", ""), folders, text)

    @property
    def _log(self) -> Path:
        return self.checkpoint.with_suffix(".log")

    @property
    def _words(self) -> list[str]:
        return ["run", *self.arguments, "--checkpoint", str(self.checkpoint), "--no-progress"]

    @contextmanager
    def run_in_group(self) -> Iterator[Process]:
        """Run the command in its own process group, which is killed at the end of the block.

        A killed Spark leaves files behind. They are deleted with the demo's folder.
        """
        script = Path(sys.executable).with_name("substrait-agg")
        program = [script] if script.exists() else [sys.executable, "-m", "substrait_agg_cli"]
        scratch = self.checkpoint.with_name("scratch")
        scratch.mkdir(exist_ok=True)
        options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} -Djava.io.tmpdir={scratch}"
        folders = {"TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                [*program, *self._words], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **folders, "SPARK_SUBMIT_OPTS": options, **self.variables},
                start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            kill(process)


def kill(process: Process) -> None:
    """Kill a process group that still runs."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def await_condition(reached: Callable[[], bool], awaited: str, option: str) -> None:
    """Wait until a condition holds.

    Args:
        reached: whether it holds.
        awaited: what does not happen until then, for the message.
        option: of the demo, which makes it faster if it is smaller.

    Raises:
        RunFailed: DEMO_TOO_SLOW, or what `reached` raises.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not reached():
        if time.monotonic() > deadline:
            message = f"{awaited} within {PATIENCE_SECONDS} seconds"
            raise RunFailed("DEMO_TOO_SLOW", message, help=f"give a smaller {option}")
        time.sleep(POLL_SECONDS)


def word(passed: bool) -> str:
    """Return the word for the result of a check."""
    return "PASS" if passed else "FAIL"


def title(text: str) -> None:
    """Print the title of a part of the demo."""
    say(f"\n== {text}")


def say(text: str) -> None:
    """Print a line immediately, also into a pipe."""
    click.echo(text)
