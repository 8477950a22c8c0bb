"""The table of docs/producers.md; ``python -m tests.producers.page`` writes it again."""

from __future__ import annotations

import re
from itertools import groupby

from substrait_agg.problem_kinds import KINDS
from tests.producers.case import Case
from tests.producers.cases import CASES
from tests.producers.plans import ROOT

PAGE = ROOT / "docs" / "producers.md"
MADE = re.compile(r"(<!-- cases: [^\n]* -->\n).*(<!-- end of cases -->)", re.DOTALL)


def written(page: str) -> str:
    """The page with the table as it is now."""
    return MADE.sub(lambda marks: f"{marks[1]}\n{_tables()}\n{marks[2]}", page)


def _tables() -> str:
    parts = []
    for heading, cases in groupby(CASES, _heading):
        rows = "\n".join(map(_row, cases))
        parts.append(
            f"## {heading}\n\n| producer | what is written | how it is read | reported |\n|---|---|---|---|\n{rows}\n"
        )
    return "\n".join(parts)


def _heading(case: Case) -> str:
    known = ("DataFusion", "DuckDB", "ibis-substrait", "Isthmus")
    return next((name for name in known if case.producer.startswith(name)), "Others")


def _row(case: Case) -> str:
    reported = ", ".join(map(_reported, case.codes)) or "nothing"
    return f"| {case.producer} | {case.written} | {case.read_as} | {reported} |"


def _reported(code: str) -> str:
    return f"[`{code}`](problems.md#{code.lower()}) {KINDS[code].lenient}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
