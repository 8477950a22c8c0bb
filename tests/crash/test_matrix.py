"""Any file operation fails, is interrupted or is late: the next run ends like an undisturbed one.

The cases are enumerated from what an undisturbed run does, so an operation that is added to the code is in the matrix.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

from substrait_agg.files.filesystem import FileSystem
from tests.crash.cases import Case, Undisturbed, cases, quick_sample, run_all, undisturbed
from tests.crash.faulty_disk import READS
from tests.crash.page import NOTHING, PAGE, markdown, table_of
from tests.crash.scenario import quick_batches
from tests.crash.settings import chained, timed

DOCUMENTED = table_of(PAGE.read_text())
IN_STORES = {"publish", "put", "forget"}
"""Operations on object stores alone (`test_stores`)."""

SEVERAL = {"sync_all"}
"""Operations that consist of others."""

OPERATIONS = sorted(
    n
    for n, f in inspect.getmembers(FileSystem, inspect.isfunction)
    if n[0] != "_" and n not in IN_STORES | SEVERAL
)


Both = tuple[Undisturbed, Undisturbed]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with quick_batches():
        first = undisturbed(tmp_path_factory.mktemp("chained"), chained())
        yield first, undisturbed(tmp_path_factory.mktemp("timed"), timed())


def check_codes(case: Case, codes: tuple[str, ...]) -> None:
    """After an error, the run ends with a code that docs/crashes.md has, or continues."""
    if case.is_error:
        documented = DOCUMENTED[case.strike.point.operation, case.strike.point.what]
        assert set(codes or (NOTHING,)) <= documented, f"{codes} is not documented"


def one_of_each(both: Both, operation: str) -> Iterator[tuple[Undisturbed, Case]]:
    """The cases of every kind of file, in one setting or the other by turns; runs that sleep do so where they change something."""
    turns: list[set[tuple[str, str]]] = [set(), set()]
    kinds = sorted(p for p in both[0].points | both[1].points if p[0] == operation)
    for number, kind in enumerate(kinds):
        there = [i for i in (0, 1) if kind in both[i].points]
        turns[there[number % len(there)]].add(kind)
    for i, whole in enumerate(both):
        for case in cases(whole, operation, every_caller=False, but=turns[1 - i]):
            if operation not in READS or not case.strike.mode.startswith("sleeps"):
                yield whole, case


def every_caller(both: Both, operation: str) -> Iterator[tuple[Undisturbed, Case]]:
    """The cases of every function. The second setting adds the cases that the first one does not
    have.
    """
    for whole, but in zip(both, ((), both[0].points), strict=True):
        for case in cases(whole, operation, every_caller=True, but=but):
            yield whole, case


def every_call(both: Both, operation: str) -> Iterator[tuple[Undisturbed, Case]]:
    """The cases of every single call, in both settings."""
    for whole in both:
        for case in cases(whole, operation, every_caller=True, every_call=True):
            yield whole, case


def test_every_crash_point_is_documented(both: Both) -> None:
    """docs/crashes.md has each operation on each kind of file, and no others."""
    seen = both[0].points | both[1].points
    others = {what for _, what in set(DOCUMENTED) - seen}
    assert seen <= set(DOCUMENTED)
    # `test_evolving` and `test_operators` have these.
    assert others == {"the document of another plan", "a run of an arrangement"}
    assert markdown(DOCUMENTED) in PAGE.read_text()


def test_every_crash_point_is_struck_in_one_setting(both: Both) -> None:
    """The two settings together cover all operations."""
    struck = {
        (case.strike.point.operation, case.strike.point.what)
        for operation in OPERATIONS
        for _, case in quick_sample(one_of_each(both, operation))
    }
    assert struck == both[0].points | both[1].points


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_that_goes_wrong_leaves_no_trace(both: Both, operation: str) -> None:
    """View, changes per version and outputs are those of a run in which nothing went wrong."""
    run_all(quick_sample(one_of_each(both, operation)), check_codes)


@pytest.mark.soak
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_function_whose_operation_goes_wrong_leaves_no_trace(
    both: Both, operation: str
) -> None:
    """The same for every function that asks for the operation."""
    run_all(every_caller(both, operation), check_codes)


@pytest.mark.soak
@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o not in READS])
def test_every_call_that_goes_wrong_leaves_no_trace(both: Both, operation: str) -> None:
    """A failure of any single call that changes a file leaves no trace."""
    run_all(every_call(both, operation), check_codes)
