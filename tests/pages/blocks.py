"""Read the code blocks of a page and run them in order, as a reader would.

- A block with ``title="NAME"`` is a file: it is written under that name.
- A ``console`` block has commands after ``$ `` and their output after them. ``...`` stands for any text.
  `tests.pages.terminal` executes them.
- A ``python`` block is executed; the blocks of a page share their names. A ``text`` block after it has what it prints.
- A comment ``<!-- not run -->`` on the line before excludes a block that cannot run here, such as a part of a program.
  ``<!-- run by make soak: REASON -->`` excludes one from `make test`.

Blocks without a language are forms of a command, not examples, and are not run.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.pages.terminal import Terminal, agrees

FENCE = re.compile(
    r"^(?P<left_out> *<!-- (?:not run|run by make soak: [^\n]*) -->\n)?(?P<indent> *)```(?P<language>\w+)(?P<options>[^\n`]*)\n"
    r"(?P<text>.*?)^(?P=indent)```$",
    re.M | re.S,
)
SOAK = "run by make soak"
TITLE = re.compile(r'title="([^"]+)"')


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


def run_python(text: str, names: dict[str, Any], folder: Path) -> str:
    """Execute a Python block with the names of the page and return what it prints."""
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        exec(compile(text, f"<{names['__name__']}>", "exec"), names)
    return printed.getvalue()


def differences(
    page: Path,
    folder: Path,
    soak: bool = False,
    variables: Mapping[str, str] = MappingProxyType({}),
    **given: Any,
) -> list[str]:
    """Run all blocks of a page in `folder` and return what they print otherwise than the page says.

    Args:
        page: the page.
        folder: the working folder of the blocks.
        soak: whether blocks for `make soak` run, too.
        variables: values of environment variables, which replace those that the page exports.
        given: names that Python blocks can use without defining them.
    """
    found: list[str] = []
    # As in a program, so that Spark's workers receive the classes of the page.
    names: dict[str, Any] = {"__name__": "__main__", **given}
    printed: str | None = None
    begun = time.time() - 1

    def compare(line: int, what: str, expected: str, actual: str) -> None:
        if not agrees(expected, actual):
            found.append(f"{page.name}:{line}: {what}\nexpected:\n{expected}\nprinted:\n{actual}")

    terminal = Terminal(folder, variables)
    with terminal.session():
        for block in blocks(page.read_text(), soak):
            if block.file is not None:
                target = folder / block.file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(block.text)
                # Spark reads the older file first; files that are written at once may have one time.
                os.utime(target, (begun + block.line / 1000,) * 2)
            elif block.language == "console":
                for command, output in sessions(block.text):
                    actual = terminal.execute(command, output, block.line)
                    compare(block.line, command, output, actual)
            elif block.language == "python":
                printed = run_python(block.text, names, folder)
            elif block.language == "text" and printed is not None:
                compare(block.line, "python", block.text, printed)
                printed = None
    for program in terminal.ended():
        compare(program.line, program.command, program.expected, program.printed)
    return found
