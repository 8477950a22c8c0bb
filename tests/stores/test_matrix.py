"""The matrix of crash points (`tests/crash`) with the checkpoint in a store: no fault affects the result.

The store is memory of this process, in which creating a name is one act. Every run begins with nothing of the ones before but
the store and the files of outputs.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from substrait_agg.files import download_cache
from substrait_agg.files.filesystem import FileSystem
from tests.crash.cases import Case, MemoryStore, Undisturbed, cases, run_case, undisturbed
from tests.crash.scenario import quick_batches
from tests.crash.settings import Setting, chained, matching

SOME = {"fails after", "dies after", "sleeps before"}
"""What goes wrong in each test run; `make soak` has all of it."""

OPERATIONS = sorted(n for n, f in inspect.getmembers(FileSystem, inspect.isfunction) if n[0] != "_")
OF_FILES = {
    "open", "write", "cut", "flush", "link", "make", "sync", "sync_all", "replace", "forget", "status",
}  # fmt: skip
"""Operations that no store has, and one that makes no difference."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    yield from _in_a_store(tmp_path_factory.mktemp("crash"), chained())


@pytest.fixture(scope="module")
def whole_join(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    yield from _in_a_store(tmp_path_factory.mktemp("crash"), matching())


def _in_a_store(folder: Path, setting: Setting) -> Iterator[Undisturbed]:
    with pytest.MonkeyPatch.context() as patched, quick_batches():
        patched.setenv(download_cache.FOLDER, str(folder / "cache"))
        yield undisturbed(folder, setting, MemoryStore.bucket)


def check(whole: Undisturbed, chosen: list[Case]) -> None:
    wrong = []
    for case in chosen:
        try:
            run_case(case, whole)
        except Exception as error:  # noqa: BLE001 - all cases are reported at once
            wrong.append(f"{case}: {type(error).__name__}: {error}")
    assert chosen, "the scenario never does this"
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("operation", ["publish", "put"])
def test_what_is_created_or_replaced(whole: Undisturbed, operation: str) -> None:
    """Each kind of file: success with an error response, a kill after the request, and a suspension before it until another run continued."""
    every = cases(whole, operation, every_caller=False)
    check(whole, [c for c in every if c.strike.mode in SOME and c.strike.point.what != "a probe"])


def test_uploads_that_are_cut_off(whole: Undisturbed) -> None:
    """A truncated upload creates no file."""
    every = cases(whole, "create", every_caller=False)
    check(whole, [case for case in every if case.strike.mode == "fails halfway"])


def test_a_run_that_sleeps_before_it_reads_the_files_of_a_source(whole: Undisturbed) -> None:
    """A suspended run whose lists of files another run deleted ends with a conflict, not with damage."""
    every = cases(whole, "map", every_caller=True)
    lists = (c for c in every if c.strike.point.what == "a list of files")
    check(whole, [c for c in lists if c.strike.mode.startswith("sleeps")])


@pytest.mark.soak
@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o not in OF_FILES])
def test_every_function_whose_operation_goes_wrong(whole: Undisturbed, operation: str) -> None:
    """All faults of each operation, for every function that uses it."""
    check(whole, list(cases(whole, operation, every_caller=True)))


@pytest.mark.soak
@pytest.mark.parametrize("operation", ["publish", "put", "create", "remove"])
def test_every_call_that_goes_wrong(whole: Undisturbed, operation: str) -> None:
    """A failure of any single call that changes something does not affect the result."""
    check(whole, list(cases(whole, operation, every_caller=True, every_call=True)))


@pytest.mark.soak
@pytest.mark.parametrize("operation", ["publish", "put", "create", "remove"])
def test_a_join_whose_operation_goes_wrong(whole_join: Undisturbed, operation: str) -> None:
    """Arrangements are files of the store like groups: a fault leaves no part of them."""
    check(whole_join, list(cases(whole_join, operation, every_caller=True)))
