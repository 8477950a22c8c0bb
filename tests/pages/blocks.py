"""Read the code blocks of a page and run them in order, as a reader would.

- A block with ``title="NAME"`` is a file: it is written under that name.
- A ``console`` block has commands after ``$ `` and their output after them. ``...`` stands for any text.
- A ``python`` block is executed; the blocks of a page share their names. A ``text`` block after it has what it prints.
- A comment ``<!-- not run -->`` on the line before excludes a block that cannot run here, such as a part of a program.
  ``<!-- run by make soak: REASON -->`` excludes one from `make test`.

Blocks without a language are forms of a command, not examples, and are not run.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from substrait_agg_cli.main import main

FENCE = re.compile(
    r"^(?P<left_out> *<!-- (?:not run|run by make soak: [^\n]*) -->\n)?(?P<indent> *)```(?P<language>\w+)(?P<options>[^\n`]*)\n"
    r"(?P<text>.*?)^(?P=indent)```$",
    re.M | re.S,
)
SOAK = "run by make soak"
SHELL = re.compile(r"[|;&<>]|\$[({]")
"""What only a shell reads. In quotes it is a part of an argument."""
TITLE = re.compile(r'title="([^"]+)"')
COMMAND = "substrait-agg"
SAME = doctest.OutputChecker()


@dataclass(frozen=True)
class Block:
    """A code block of a page.

    Attributes:
        language: the word after the fence.
        options: the rest of that line.
        text: the content.
        line: the line of the page where the content begins.
    """

    language: str
    options: str
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """Return the name of the file that the block is; None if it is none."""
        title = TITLE.search(self.options)
        return title[1] if title else None


def blocks(page: str, soak: bool = False) -> Iterator[Block]:
    """Yield the code blocks of a page that have a language and are to be run, by `make soak` or not."""
    for fence in FENCE.finditer(page):
        if not fence["left_out"] or (soak and SOAK in fence["left_out"]):
            line = page.count("\n", 0, fence.start("text")) + 1
            text = re.sub(rf"^{fence['indent']}", "", fence["text"], flags=re.M)
            yield Block(fence["language"], fence["options"].strip(), text, line)


def sessions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of a console block with their expected output."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        while command.endswith("\\"):
            more, _, output = output.partition("\n")
            command = f"{command[:-1].rstrip()} {more.removeprefix('>').strip()}"
        yield command, output


def run_command(command: str, folder: Path) -> str:
    """Run a command of a console block in `folder` and return what it prints.

    The program's own command runs in this process, so that all blocks share one Spark session. With another
    master it starts a Spark of its own.
    """
    words = shlex.split(command)
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", command)
    if words[0] != COMMAND or "--master" in words or SHELL.search(bare):
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env={**os.environ, "PATH": path, "COLUMNS": "110"},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr
    with contextlib.chdir(folder):
        return CliRunner(env={"COLUMNS": "110"}).invoke(main, words[1:], prog_name=COMMAND).output


def run_python(text: str, names: dict[str, Any], folder: Path) -> str:
    """Execute a Python block with the names of the page and return what it prints."""
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        exec(compile(text, f"<{names['__name__']}>", "exec"), names)
    return printed.getvalue()


def differences(page: Path, folder: Path, soak: bool = False, **given: Any) -> list[str]:
    """Run all blocks of a page in `folder` and return what they print otherwise than the page says.

    Args:
        page: the page.
        folder: the working folder of the blocks.
        soak: whether blocks for `make soak` run, too.
        given: names that Python blocks can use without defining them.
    """
    found: list[str] = []
    # As in a program, so that Spark's workers receive the classes of the page.
    names: dict[str, Any] = {"__name__": "__main__", **given}
    printed: str | None = None
    begun = time.time() - 1

    def compare(line: int, what: str, expected: str, actual: str) -> None:
        if not SAME.check_output(expected, actual, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE):
            found.append(f"{page.name}:{line}: {what}\nexpected:\n{expected}\nprinted:\n{actual}")

    for block in blocks(page.read_text(), soak):
        if block.file is not None:
            target = folder / block.file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text)
            # Spark reads the older file first; files that are written at once may have one time.
            os.utime(target, (begun + block.line / 1000,) * 2)
        elif block.language == "console":
            for command, output in sessions(block.text):
                compare(block.line, command, output, run_command(command, folder))
        elif block.language == "python":
            printed = run_python(block.text, names, folder)
        elif block.language == "text" and printed is not None:
            compare(block.line, "python", block.text, printed)
            printed = None
    return found
