"""Messages, help texts and pages are written in plain technical English."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
MODULES = sorted([*(ROOT / "substrait_agg").rglob("*.py"), *(ROOT / "cli").rglob("*.py")])

PLAIN: dict[str, str] = {
    r"anew": "again",
    r"(?:is|are|was|were) told": "state who reports what to whom",
    r"told (?:of|apart|by)": "distinguish, report",
    r"tells? apart": "distinguish",
    r"(?:goes|go|going) on(?! the)": "continue",
    r"of those that": "name the things",
    r"lets? go of": "release",
    r"takes? back|taken back|took back": "retract, undo, remove",
    r"whoever": "the user, the process",
    r"(?:kept|keeps?|set|sets?) aside": "quarantine, store",
    r"stands? for nothing": "has no meaning",
    r"by the letter": "literally",
    r"without a word": "without an error",
    r"see to (?:it|the)": "check",
    r"is no fault": "is ignored",
    r"has never been": "state what happens instead",
    r"for ever": "forever",
    r"hardly": "rarely, few",
    r"as it was before": "unchanged",
    r"what it (?:has|had) (?:had|been)": "name the thing",
}
"""Expressions that readers had to decode -> what to write instead."""

RIDDLE = re.compile(rf"\b(?:{'|'.join(PLAIN)})\b", re.IGNORECASE)


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of every string of a module that is not a docstring."""
    strings = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in strings:
            yield node.lineno, str(node.value)


def prose(page: str) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the run goes on", True),
        ("the file is written anew", True),
        ("the offset of Spark goes on the wire", False),
        ("the run continues and writes the file again", False),
    ],
)
def test_riddles_are_recognized(text: str, found: bool) -> None:
    assert bool(RIDDLE.search(text)) == found


def test_messages_are_plain() -> None:
    riddles = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]}"
        for path in MODULES
        for line, text in messages(ast.parse(path.read_text(encoding="utf-8")))
        if (match := RIDDLE.search(text))
    ]
    assert riddles == [], "PLAIN says what to write instead"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_pages_are_plain(page: Path) -> None:
    riddles = [match[0] for match in RIDDLE.finditer(prose(page.read_text(encoding="utf-8")))]
    assert riddles == [], "PLAIN says what to write instead"
