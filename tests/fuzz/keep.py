"""Select the corpus of the fuzzer: ``python -m tests.fuzz.keep FOLDER...`` writes `corpus.zip` again.

Inputs are taken from small to large, each that shows something that none before it did: a problem at a kind of place, or
a line of the explanation. What is kept already is looked at first, so that the corpus grows and never forgets.
"""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

import substrait_agg
from substrait_agg.errors import PlanRefused

CORPUS = Path(__file__).parent / "corpus.zip"
MOST_BYTES, MOST_FILES = 6_000, 300
WRITTEN = (2026, 1, 1, 0, 0, 0)
"""Time of all entries, so that the same inputs make the same file."""


def features(content: bytes) -> set[str]:
    """The features of an input: codes with the last field of their paths, and lines of the
    explanation without numbers.
    """
    plan = substrait_agg.Plan("", content)
    found = set()
    for mode in ("lenient", "strict"):
        for problem in substrait_agg.validate(plan, mode).problems:
            found.add(
                f"{mode} {problem.code} {re.split(r'[.]', problem.path)[-1].partition('[')[0]}"
            )
    try:
        shown = substrait_agg.explain(plan)
    except PlanRefused:
        return found
    return found | {re.sub(r"\d+", "0", line)[:60] for line in shown.splitlines()}


def chosen(contents: Iterable[bytes]) -> list[bytes]:
    """The inputs to keep."""
    seen: set[str] = set()
    kept: list[bytes] = []
    for content in contents:
        new = features(content) - seen
        if new and len(kept) < MOST_FILES:
            kept.append(content)
            seen |= new
    return kept


def main(folders: list[str]) -> None:
    """Write the corpus from the stored one and the files in folders."""
    contents: dict[bytes, None] = {}
    if CORPUS.exists():
        with zipfile.ZipFile(CORPUS) as before:
            contents = dict.fromkeys(before.read(name) for name in before.namelist())
    found = (path.read_bytes() for folder in folders for path in Path(folder).iterdir())
    more = sorted((c for c in set(found) if len(c) <= MOST_BYTES), key=lambda c: (len(c), c))
    kept = chosen(dict.fromkeys((*contents, *more)))
    with zipfile.ZipFile(CORPUS, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, content in enumerate(kept):
            entry = zipfile.ZipInfo(f"{number:03}", WRITTEN)
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    sys.stdout.write(f"{len(kept)} inputs, {CORPUS.stat().st_size} bytes\n")


if __name__ == "__main__":
    main(sys.argv[1:])
