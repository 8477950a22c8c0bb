"""Every case of the Substrait project's scalar test files: it passes, is refused at plan time, or is listed with a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.cases import all_cases, names_of
from tests.conformance.outcomes import Outcome
from tests.conformance.reasons import complaints
from tests.conformance.scalar import run_scalar
from tests.conformance.summary import compared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("file", names_of("scalar"))
def test_no_case_of_a_scalar_file_gives_a_wrong_answer(
    file: str, scalar_outcomes: dict[str, list[Outcome]]
) -> None:
    outcomes = scalar_outcomes[file]
    found = [*complaints(file, outcomes), *compared(file, outcomes)]
    assert not found, "\n".join([f"{file}:", *found])


@pytest.mark.soak
def test_no_scalar_case_gives_a_wrong_answer_where_spark_compiles_all(spark: SparkSession) -> None:
    """A larger sample of the test above, which compiles some cases of each expression."""
    outcomes: dict[str, list[Outcome]] = {}
    for outcome in run_scalar(spark, list(all_cases("scalar")), compiled=1):
        outcomes.setdefault(outcome.case.file, []).append(outcome)
    assert not [c for file, found in outcomes.items() for c in complaints(file, found)]
