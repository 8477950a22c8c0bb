"""Execute the commands of a page as its reader would, in one terminal after another.

- ``export NAME=VALUE`` holds for the rest of the page. A test can give another value, such as the address of its server.
- ``pip install`` is not executed: its extras are looked up in `pyproject.toml`.
- A command whose output ends with ``^C`` runs for ever. The rest of the page is executed while it runs; then it gets Ctrl-C.
  Lines ``export NAME=VALUE`` that it prints are executed, as its page tells the reader. A query is repeated meanwhile
  until it has the answer that the page shows.
"""

from __future__ import annotations

import contextlib
import doctest
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from click.testing import CliRunner

from substrait_agg_cli.main import main

ROOT = Path(__file__).parents[2]
COMMAND = "substrait-agg"
COLUMNS = "110"
EXPORT = re.compile(r"^export (.*)$", re.M)
EXTRAS = re.compile(rf"{COMMAND}\[([\w,-]+)\]")
INTERRUPT = "^C\n"
PATIENCE = 180
SAME = doctest.OutputChecker()
SHELL = re.compile(r"[|;&<>]|\$[({]")
"""What only a shell reads. In quotes it is a part of an argument."""


def agrees(expected: str, actual: str) -> bool:
    """Return whether an output is the one that a page shows."""
    return SAME.check_output(expected, actual, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)


def unknown_extras(text: str) -> list[str]:
    """Return the extras of this package that a text installs and that do not exist."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [extra for extras in EXTRAS.findall(text) for extra in extras.split(",")]
    return sorted(set(named) - set(project["optional-dependencies"]))


@dataclass
class Beside:
    """A program that runs until it is interrupted.

    Attributes:
        line: where the page starts it.
        command: what the page executes.
        expected: what it prints in all.
        process: runs in a session of its own, like a terminal.
        log: what it prints.
    """

    line: int
    command: str
    expected: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def printed(self) -> str:
        """What it has printed so far."""
        return self.log.read_text()

    def interrupt(self) -> None:
        """Press Ctrl-C and wait for its end; kill it if it stays."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGINT)
        try:
            self.process.wait(PATIENCE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Terminal:
    """Executes the commands of a page in its folder.

    Args:
        folder: the working folder.
        given: values of variables, which replace those of the page.
    """

    def __init__(self, folder: Path, given: Mapping[str, str]) -> None:
        self._folder = folder
        self._given = given
        self._beside: list[Beside] = []

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        """Hold the variables of the page during the block, and end its programs after it."""
        with patch.dict(os.environ, self._given):
            try:
                yield
            finally:
                for program in self._beside:
                    program.interrupt()

    def ended(self) -> Iterator[Beside]:
        """Yield the programs that the page has started and that Ctrl-C has ended."""
        yield from self._beside

    def execute(self, command: str, expected: str, line: int) -> str:
        """Execute a command and return what it prints.

        The program's own command runs in this process, so that all blocks share one Spark session. With another
        master it starts a Spark of its own.
        """
        if command.startswith("pip install "):
            return "".join(f"no extra {name}\n" for name in unknown_extras(command))
        if command.startswith("export "):
            self._export(command)
            return ""
        if INTERRUPT in expected:
            return self._start(command, expected, line)
        bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", command)
        if (
            shlex.split(command)[0] == COMMAND
            and "--master" not in command
            and not SHELL.search(bare)
        ):
            return self._own(command)
        if self._beside and "SELECT" in command:
            return _repeat(lambda: self._shell(command), lambda text: agrees(expected, text))
        return self._shell(command)

    def _export(self, command: str) -> None:
        for word in self._words(command)[1:]:
            name, _, value = word.partition("=")
            os.environ[name] = self._given.get(name, value)

    def _words(self, command: str) -> list[str]:
        """Let the shell divide a command into words."""
        if "$" not in command:
            return shlex.split(command)
        return self._shell(f"printf '%s\\0' {command}").split("\0")[:-1]

    def _own(self, command: str) -> str:
        words = self._words(command)
        with contextlib.chdir(self._folder):
            runner = CliRunner(env={"COLUMNS": COLUMNS})
            return runner.invoke(main, words[1:], prog_name=COMMAND).output

    def _shell(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command], cwd=self._folder, env=_environment(), capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        return done.stdout + done.stderr

    def _start(self, command: str, expected: str, line: int) -> str:
        """Start a command and wait until it has printed what the page shows before Ctrl-C."""
        first, _, rest = expected.partition(INTERRUPT)
        log = self._folder / f".printed{line}"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                ["bash", "-c", command], cwd=self._folder, env=_environment(), stdin=subprocess.DEVNULL,
                stdout=stream, stderr=stream, start_new_session=True,
            )  # fmt: skip
        program = Beside(line, command, first + rest, process, log)
        self._beside.append(program)
        _repeat(
            lambda: program.printed,
            lambda text: agrees(first, text) or process.poll() is not None,
        )
        for match in EXPORT.finditer(program.printed):
            self._export(match[0])
        # The rest is compared when the program has ended.
        return expected


def _environment() -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "COLUMNS": COLUMNS}


def _repeat(look: Callable[[], str], reached: Callable[[str], bool]) -> str:
    """Look until a text is as it should be, and return it; the last one if that does not happen."""
    deadline = time.monotonic() + PATIENCE
    while not reached(text := look()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return text
