"""Write the generated part of docs/problems.md: ``python tests/tools/write_problems_page.py``."""

from __future__ import annotations

import re
from pathlib import Path

import substrait_agg
from substrait_agg.error_codes import ERROR_CODES
from substrait_agg.problem_kinds import KINDS
from substrait_agg.report.problem_pages import markdown

PAGE = Path(__file__).parents[2] / "docs" / "problems.md"
MADE = re.compile(r"(<!-- problems: [^\n]* -->\n).*(<!-- end of problems -->)", re.DOTALL)


def written(page: str) -> str:
    """The page with the tables and entries as they are now."""
    made = markdown(
        tuple(KINDS.values()),
        tuple(ERROR_CODES.values()),
        lambda plan: substrait_agg.validate(plan.encode()).problems,
    )
    return MADE.sub(lambda marks: f"{marks[1]}\n{made}\n\n{marks[2]}", page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
