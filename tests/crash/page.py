"""The table of crash points in docs/crashes.md: read it, and write it from the results of the
matrix.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "crashes.md"
MADE = re.compile(r"(<!-- crash points: [^\n]* -->\n).*(<!-- end of crash points -->)", re.DOTALL)

NOTHING = "continues"

Table = Mapping[tuple[str, str], frozenset[str]]
"""Operation and what it is done to -> the codes that a run ends with after an error there; `NOTHING`: it continues."""

KILLED: tuple[tuple[str, str], ...] = (
    ("plan.json", "the next run creates the checkpoint, or finds it complete"),
    ("the draft of plan.json", "the next run creates the checkpoint; the draft is swept"),
    ("the document of another plan", "the next run changes the plan, or finds it changed"),
    ("kept.json", "the next run writes it again; until then, old files stay"),
    ("settings.json", "the state command is run again"),
    ("a run of", "the next run computes the batch again; the file is swept"),
    ("a list of files", "the next run computes the batch again; the file is swept"),
    ("a change file", "the next run computes the batch again; the file is swept"),
    ("the draft of a snapshot", "the next run computes the batch again; the draft is swept"),
    ("a snapshot", "the next run finds the version committed, or computes the batch again"),
    ("snapshots/", "the next run finds the version committed, or computes the batch again"),
    ("state/", "the next run computes the batch again"),
    ("changes/", "the next run computes the batch again"),
    ("the draft of a claim", "the next run claims the checkpoint"),
    ("a claim", "the next run claims the checkpoint"),
    ("the lock", "the system releases it; the next run continues"),
    ("owners/", "the next run claims the checkpoint"),
    ("the draft of a record", "the next run delivers the version again, to the same place"),
    ("the record of an output", "the next run delivers the version again, to the same place"),
    ("outputs/", "the next run delivers the version again, to the same place"),
    ("the file of stream-json", "the next run truncates the incomplete part and writes it again"),
    ("the draft of changes-parquet", "the next run writes the file again; the draft is removed"),
    ("a file of changes-parquet", "the next run finds it, or writes it"),
    ("the draft of view-parquet", "the old file stays until the next run replaces it"),
    ("the file of view-parquet", "readers see the old file or the new one"),
    ("the folder", "the next run creates it if it is missing"),
    ("the checkpoint", "the next run creates it if it is missing"),
)
"""Beginning of what it is done to -> what becomes of it after a kill."""


def after_a_kill(what: str) -> str:
    """Return the effect of the next run after a kill at this point."""
    return next(text for start, text in KILLED if what.startswith(start))


def table_of(page: str) -> Table:
    """Return the table of the page."""
    found: dict[tuple[str, str], frozenset[str]] = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[1].startswith("`"):
            for operation in re.findall(r"`(\w+)`", cells[1]):
                codes = re.findall(rf"`(\w+)`|({NOTHING})", cells[2])
                found[operation, cells[0]] = frozenset(a or b for a, b in codes)
    return found


def markdown(table: Table) -> str:
    """The table as text; operations with the same codes share a line."""
    rows: dict[tuple[str, frozenset[str]], list[str]] = defaultdict(list)
    for (operation, what), codes in table.items():
        rows[what, codes].append(operation)
    lines = ["| at | operation | an error there: the run | a kill there |", "|---|---|---|---|"]
    for (what, codes), operations in sorted(rows.items(), key=lambda row: (row[0][0], row[1])):
        named = ", ".join(f"`{o}`" for o in sorted(operations))
        ends = [f"`{code}`" for code in sorted(codes - {NOTHING})]
        told = ", ".join([*ends, *([NOTHING] if NOTHING in codes else [])])
        lines.append(f"| {what} | {named} | {told} | {after_a_kill(what)} |")
    return "\n".join(lines)


def written(page: str, table: Table) -> str:
    """The page with another table."""
    return MADE.sub(lambda marks: f"{marks[1]}\n{markdown(table)}\n\n{marks[2]}", page)
