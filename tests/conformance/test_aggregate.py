"""Every case of the Substrait project's aggregate test files, in one batch, row by row, and with noise retracted."""

from __future__ import annotations

import pytest

from tests.conformance.cases import names_of
from tests.conformance.outcomes import Outcome
from tests.conformance.reasons import aggregate_complaints
from tests.conformance.summary import compared

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("file", names_of("aggregate"))
def test_every_case_of_an_aggregate_file_passes_or_is_listed(
    file: str, aggregate_outcomes: dict[str, list[Outcome]]
) -> None:
    outcomes = aggregate_outcomes[file]
    found = [*aggregate_complaints(file, outcomes), *compared(file, outcomes)]
    assert not found, "\n".join([f"{file}:", *found])
