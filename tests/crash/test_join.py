"""A join and the aggregate above it are killed at any file, also between the two: the next run ends like an undisturbed one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.cases import Undisturbed, cases, run_case, undisturbed
from tests.crash.scenario import quick_batches
from tests.crash.settings import matching


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    with quick_batches():
        made = undisturbed(tmp_path_factory.mktemp("join"), matching())
        assert made.ending.view, "the view is empty"
        yield made


@pytest.mark.parametrize("operation", ["create", "link"])
def test_a_kill_leaves_no_trace(whole: Undisturbed, operation: str) -> None:
    """At every file: the runs of both sides, the changes of the join, the runs of the aggregate, versions."""
    wrong, count = [], 0
    for case in cases(whole, operation, every_caller=False, every_call=False):
        if not case.is_error:
            count += 1
            try:
                run_case(case, whole)
            except Exception as error:  # noqa: BLE001 - all cases are reported at once
                wrong.append(f"{case}: {type(error).__name__}: {error}")
    assert count
    assert not wrong, "\n".join(wrong)
