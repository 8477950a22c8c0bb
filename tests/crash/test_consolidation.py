"""Any fault of a change file while changes are consolidated before the commit: the next run ends like an undisturbed one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from substrait_agg.commit.tasks.consolidate import Consolidated, Consolidation
from tests.crash.cases import Undisturbed, cases, run_all, undisturbed
from tests.crash.scenario import PlainSteps, WorkerErrors, quick_batches
from tests.crash.settings import hidden

FILE = "a change file"
OPERATIONS = ("create", "map", "remove", "status")


class NotingExecutor(WorkerErrors):
    """An executor that notes every consolidation."""

    def __init__(self, done: list[Consolidated | None]) -> None:
        super().__init__(PlainSteps())
        self._done = done

    def consolidate(self, work: Consolidation, partitions: int) -> Consolidated | None:
        """Consolidate changes, and note the result."""
        result = super().consolidate(work, partitions)
        self._done.append(result)
        return result


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    done: list[Consolidated | None] = []
    with quick_batches():
        folder = tmp_path_factory.mktemp("hidden")
        made = undisturbed(folder, hidden(), executor=lambda: NotingExecutor(done))
        assert sum(result is not None for result in done) > 3, "no changes were consolidated"
        yield made


@pytest.mark.parametrize("operation", OPERATIONS)
def test_consolidation_that_is_cut_off_leaves_no_trace(whole: Undisturbed, operation: str) -> None:
    """Every function that does something to a change file, the ones that read and replace it among them."""
    every = cases(whole, operation, every_caller=True)
    run_all((whole, case) for case in every if case.strike.point.what == FILE)
