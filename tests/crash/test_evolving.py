"""Any fault during a change of plan: the checkpoint has one of the two plans, and the repeated run succeeds.

The operations of a run that does so are those of the matrix (`test_matrix`), but for its documents; here they are struck at that moment.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.cases import Case, Undisturbed, evolving_cases, quick_sample, run_all, undisturbed
from tests.crash.faulty_disk import READS
from tests.crash.scenario import FIRST, quick_batches
from tests.crash.settings import evolving
from tests.crash.test_matrix import DOCUMENTED, check_codes


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    with quick_batches():
        yield undisturbed(tmp_path_factory.mktemp("crash"), evolving())


def is_sleeping_reader(case: Case) -> bool:
    return case.strike.point.operation in READS and case.strike.mode.startswith("sleeps")


def is_sleeping_commit(case: Case) -> bool:
    return case.strike.point.operation == "link" and case.strike.mode.startswith("sleeps")


def check_all(whole: Undisturbed, *, every_call: bool, every_caller: bool) -> None:
    chosen = [
        (whole, case)
        for case in evolving_cases(whole, every_call=every_call, every_caller=every_caller)
        if every_call or not is_sleeping_reader(case)
    ]
    if not every_call:
        # A run that sleeps around a commit finds the plan of another run when it wakes up.
        commits = [c for c in chosen if is_sleeping_commit(c[1])]
        others = (c for c in chosen if c not in commits)
        # `test_matrix` has an error and an end of every kind of file.
        chosen = [*commits, *quick_sample(others, kinds="one")]
    assert run_all(chosen, check_codes) > 25


def test_the_scenario_goes_on_with_another_plan(whole: Undisturbed) -> None:
    """The change of plan is a separate version that retracts the old view; all its operations are in the table."""
    assert list(whole.ending.retractions) == [FIRST + 1]
    assert whole.ending.retractions[FIRST + 1]
    before, after = whole.evolving
    assert {(p.operation, p.what) for p in after - before} <= set(DOCUMENTED)


def test_an_operation_that_goes_wrong_leaves_no_trace(whole: Undisturbed) -> None:
    """View, changes per version and outputs are those of a run in which nothing went wrong; runs sleep where they change something."""
    check_all(whole, every_call=False, every_caller=False)


@pytest.mark.soak
def test_every_call_that_goes_wrong_leaves_no_trace(whole: Undisturbed) -> None:
    """The same for each single call."""
    check_all(whole, every_call=True, every_caller=True)
