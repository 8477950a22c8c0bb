"""Fetches, window functions, joins, set operations and runs of two views are struck at any file: the next run ends like an undisturbed one."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.crash.cases import Undisturbed, cases, quick_sample, run_all, undisturbed
from tests.crash.faulty_disk import READS
from tests.crash.scenario import quick_batches
from tests.crash.settings import (
    looking_up,
    matching,
    ranked,
    subtracting,
    two_views,
    windowed,
)
from tests.crash.test_matrix import OPERATIONS, check_codes

WRITES = [operation for operation in OPERATIONS if operation not in READS]

OF_OPERATORS = re.compile("a run of .*|a change file|a snapshot|the draft of a snapshot")
"""Kinds of files whose content depends on the operators. `test_matrix` strikes all others, which do not."""


@pytest.fixture(
    scope="module",
    params=[ranked, matching, looking_up, subtracting, two_views, windowed],
    ids=lambda f: f.__name__,
)
def whole(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Undisturbed]:
    with quick_batches():
        made = undisturbed(tmp_path_factory.mktemp("operator"), request.param())
        assert made.ending.view, "the view is empty"
        yield made


@pytest.mark.parametrize("operation", ["create", "link"])
def test_a_kill_leaves_no_trace(whole: Undisturbed, operation: str) -> None:
    """At every file of the operators, at some moment of the operation: runs of all trees, changes between two operators, snapshots."""
    every = [
        case
        for case in cases(whole, operation, every_caller=False)
        if OF_OPERATORS.fullmatch(case.strike.point.what)
    ]
    run_all(quick_sample((whole, case) for case in every if not case.is_error))


@pytest.mark.soak
@pytest.mark.parametrize("operation", WRITES)
def test_a_write_that_goes_wrong_leaves_no_trace(whole: Undisturbed, operation: str) -> None:
    """The same for every operation that changes a file, with errors too."""
    chosen = cases(whole, operation, every_caller=True)
    run_all(((whole, case) for case in chosen), check_codes)
