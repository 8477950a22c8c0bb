"""The kept corpus of the coverage-guided fuzzer, and inputs that once broke something."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.fuzz.properties import check

FOLDER = Path(__file__).parent
CORPUS = FOLDER / "corpus.zip"
"""Small inputs that together reach all code that fuzzing has reached."""

ONCE_BROKEN = sorted((FOLDER / "once_broken").glob("*.bin"))


def test_the_corpus_is_replayed() -> None:
    outcomes = []
    with zipfile.ZipFile(CORPUS) as corpus:
        for name in corpus.namelist():
            try:
                outcomes.append(check(corpus.read(name)))
            except AssertionError as broken:
                broken.add_note(f"input {name} of {CORPUS.name}")
                raise
    assert len(outcomes) > 100
    assert {True, False} == set(outcomes)


@pytest.mark.parametrize("path", ONCE_BROKEN, ids=[path.stem for path in ONCE_BROKEN])
def test_what_once_broke_something(path: Path) -> None:
    check(path.read_bytes())
