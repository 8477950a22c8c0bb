"""Any fault during a change of plan: the checkpoint has one of the two plans, and the repeated run succeeds.

The operations of a run that does so are those of the matrix (`test_matrix`), but for its documents; here they are struck at that moment.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.cases import Undisturbed, evolving_cases, run_case, undisturbed
from tests.crash.page import NOTHING
from tests.crash.scenario import FIRST, quick_batches
from tests.crash.settings import evolving
from tests.crash.test_matrix import DOCUMENTED


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    with quick_batches():
        yield undisturbed(tmp_path_factory.mktemp("crash"), evolving())


def check_all(whole: Undisturbed, *, every_call: bool, every_caller: bool) -> None:
    wrong, count = [], 0
    for case in evolving_cases(whole, every_call=every_call, every_caller=every_caller):
        count += 1
        point = case.strike.point
        try:
            codes = run_case(case, whole) or (NOTHING,)
            if case.is_error:
                told = DOCUMENTED[point.operation, point.what]
                assert set(codes) <= told, f"{codes} is not documented"
        except Exception as error:  # noqa: BLE001 - all cases are reported at once
            wrong.append(f"{case}: {type(error).__name__}: {error}")
    assert count > 40
    assert not wrong, "\n".join(wrong)


def test_the_scenario_goes_on_with_another_plan(whole: Undisturbed) -> None:
    """The change of plan is a separate version that retracts the old view; all its operations are in the table."""
    assert list(whole.ending.retractions) == [FIRST + 1]
    assert whole.ending.retractions[FIRST + 1]
    before, after = whole.evolving
    assert {(p.operation, p.what) for p in after - before} <= set(DOCUMENTED)


def test_an_operation_that_goes_wrong_leaves_no_trace(whole: Undisturbed) -> None:
    """View, changes per version and outputs are those of a run in which nothing went wrong."""
    check_all(whole, every_call=False, every_caller=False)


@pytest.mark.soak
def test_every_call_that_goes_wrong_leaves_no_trace(whole: Undisturbed) -> None:
    """The same for each single call."""
    check_all(whole, every_call=True, every_caller=True)
