"""Every case of the Substrait project's scalar test files: it passes, is refused at plan time, or is listed with a reason."""

from __future__ import annotations

import pytest

from tests.conformance.cases import names_of
from tests.conformance.outcomes import Outcome
from tests.conformance.reasons import complaints
from tests.conformance.summary import compared

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("file", names_of("scalar"))
def test_no_case_of_a_scalar_file_gives_a_wrong_answer(
    file: str, scalar_outcomes: dict[str, list[Outcome]]
) -> None:
    outcomes = scalar_outcomes[file]
    found = [*complaints(file, outcomes), *compared(file, outcomes)]
    assert not found, "\n".join([f"{file}:", *found])
