"""Whatever goes wrong with a change file where changes are consolidated by row before the commit: the next run ends as if nothing had."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from substrait_agg.commit.runtime.consolidate import (
    Consolidated,
    Consolidation,
    consolidate_in_memory,
)
from tests.crash.cases import Undisturbed, cases, run_case, undisturbed
from tests.crash.scenario import without_spark
from tests.crash.settings import hidden

FILE = "a change file"
OPERATIONS = ("create", "map", "remove", "status")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    done: list[Consolidated | None] = []

    def noted(work: Consolidation) -> Consolidated | None:
        done.append(consolidate_in_memory(work))
        return done[-1]

    with without_spark():
        with patch("substrait_agg.spark.execution.consolidation.consolidate_in_memory", noted):
            made = undisturbed(tmp_path_factory.mktemp("hidden"), hidden())
        assert sum(result is not None for result in done) > 3, "no changes were consolidated"
        yield made


@pytest.mark.parametrize("operation", OPERATIONS)
def test_consolidation_that_is_cut_off_leaves_no_trace(whole: Undisturbed, operation: str) -> None:
    """Every function that does something to a change file, the ones that read and replace it among them."""
    wrong, count = [], 0
    for case in cases(whole, operation, every_caller=True, every_call=False):
        if case.strike.point.what == FILE:
            count += 1
            try:
                run_case(case, whole)
            except Exception as error:  # noqa: BLE001 - all cases are told at once
                wrong.append(f"{case}: {type(error).__name__}: {error}")
    assert count
    assert not wrong, "\n".join(wrong)
