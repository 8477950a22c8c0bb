"""Write the table of crash points in docs/crashes.md: ``python -m tests.tools.write_crashes_page``; takes some minutes."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path

from tests.crash.cases import cases, evolving_cases, run_case, undisturbed
from tests.crash.page import NOTHING, PAGE, after_a_kill, written
from tests.crash.scenario import quick_batches
from tests.crash.settings import chained, evolving, matching, timed
from tests.crash.test_matrix import OPERATIONS


def found() -> dict[tuple[str, str], frozenset[str]]:
    """Return the codes of runs after an error, by operation and file."""
    table: dict[tuple[str, str], set[str]] = defaultdict(set)
    for setting in (chained(), timed(), matching()):
        done = set(table)
        with quick_batches(), tempfile.TemporaryDirectory() as folder:
            whole = undisturbed(Path(folder), setting)
            for _, what in whole.points:
                after_a_kill(what)  # what has no text fails at once
            for operation in OPERATIONS:
                for case in cases(whole, operation, every_caller=True, but=done):
                    if case.is_error:
                        codes = run_case(case, whole) or (NOTHING,)
                        table[operation, case.strike.point.what] |= set(codes)
    with quick_batches(), tempfile.TemporaryDirectory() as folder:
        whole = undisturbed(Path(folder), evolving())
        for case in evolving_cases(whole, every_caller=True):
            after_a_kill(case.strike.point.what)
            if case.is_error:
                codes = run_case(case, whole) or (NOTHING,)
                table[case.strike.point.operation, case.strike.point.what] |= set(codes)
    return {point: frozenset(codes) for point, codes in table.items()}


if __name__ == "__main__":
    made = found()  # takes long: the text may be edited meanwhile
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), made), encoding="utf-8")
