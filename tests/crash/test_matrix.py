"""Whatever operation on a file fails, is cut off or comes late: the next run ends as if nothing had happened.

The cases are enumerated from what an undisturbed run does, so an operation that is added to the code is in the matrix.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

from substrait_agg.disk import Disk
from tests.crash.cases import Undisturbed, cases, run_case, undisturbed
from tests.crash.double import READS
from tests.crash.page import NOTHING, PAGE, markdown, table_of
from tests.crash.scenario import without_spark

DOCUMENTED = table_of(PAGE.read_text())
OPERATIONS = sorted(n for n, f in inspect.getmembers(Disk, inspect.isfunction) if n[0] != "_")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    with without_spark():
        yield undisturbed(tmp_path_factory.mktemp("crash"))


def check_all(whole: Undisturbed, operation: str, *, every_caller: bool, every_call: bool) -> None:
    wrong, count = [], 0
    for case in cases(whole, operation, every_caller=every_caller, every_call=every_call):
        count += 1
        point = case.strike.point
        try:
            codes = run_case(case, whole) or (NOTHING,)
            if case.is_error:
                assert set(codes) <= DOCUMENTED[operation, point.what], f"{codes} is not documented"
        except Exception as error:  # noqa: BLE001 - all cases are told at once
            wrong.append(f"{case}: {type(error).__name__}: {error}")
    assert count, "the scenario never does this"
    assert not wrong, "\n".join(wrong)


def test_every_crash_point_is_documented(whole: Undisturbed) -> None:
    """docs/crashes.md has each operation on each kind of file, and no others."""
    seen = {(point.operation, point.what) for point in whole.first + whole.second}
    others = {what for _, what in set(DOCUMENTED) - seen}
    assert seen <= set(DOCUMENTED)
    assert others == {"the document of another plan"}, "`test_evolving` has these"
    assert markdown(DOCUMENTED) in PAGE.read_text()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_that_goes_wrong_leaves_no_trace(whole: Undisturbed, operation: str) -> None:
    """View, changes per version and outputs are those of a run in which nothing went wrong."""
    check_all(whole, operation, every_caller=False, every_call=False)


@pytest.mark.soak
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_function_whose_operation_goes_wrong_leaves_no_trace(
    whole: Undisturbed, operation: str
) -> None:
    """The same for every function that asks for the operation."""
    check_all(whole, operation, every_caller=True, every_call=False)


@pytest.mark.soak
@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o not in READS])
def test_every_call_that_goes_wrong_leaves_no_trace(whole: Undisturbed, operation: str) -> None:
    """The same for each single call of what changes anything."""
    check_all(whole, operation, every_caller=True, every_call=True)
