"""Any file operation fails or is interrupted while fetches are maintained: the next run ends like an undisturbed one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.cases import Undisturbed, cases, undisturbed
from tests.crash.faulty_disk import READS
from tests.crash.scenario import quick_batches
from tests.crash.settings import ranked
from tests.crash.test_matrix import OPERATIONS, check_all
from tests.sampling import sample


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    with quick_batches():
        yield undisturbed(tmp_path_factory.mktemp("ranked"), ranked())


@pytest.mark.parametrize(
    "operation", sample((o for o in OPERATIONS if o not in READS), "create", "link")
)
def test_a_write_that_goes_wrong_leaves_no_trace(whole: Undisturbed, operation: str) -> None:
    check_all((whole, case) for case in cases(whole, operation, every_caller=False))
