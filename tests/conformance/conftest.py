"""The outcomes of all cases that the selected tests look at, computed together: few Spark jobs and runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.conformance.aggregate import run_aggregate
from tests.conformance.cases import Case, Kind, names_of, read_file
from tests.conformance.outcomes import Outcome
from tests.conformance.scalar import run_scalar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def scalar_outcomes(
    spark: SparkSession, request: pytest.FixtureRequest
) -> dict[str, list[Outcome]]:
    """File -> outcomes of its cases."""
    return _outcomes("scalar", request, lambda cases: run_scalar(spark, cases))


@pytest.fixture(scope="session")
def aggregate_outcomes(
    spark: SparkSession, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[Outcome]]:
    """File -> outcomes of its cases."""
    folder = tmp_path_factory.mktemp("aggregate")
    return _outcomes("aggregate", request, lambda cases: run_aggregate(spark, cases, folder))


def _outcomes(
    kind: Kind, request: pytest.FixtureRequest, run: Callable[[list[Case]], list[Outcome]]
) -> dict[str, list[Outcome]]:
    names = _selected(kind, request)
    outcomes: dict[str, list[Outcome]] = {name: [] for name in names}
    for outcome in run([case for name in names for case in read_file(name).cases]):
        outcomes[outcome.case.file].append(outcome)
    return outcomes


def _selected(kind: Kind, request: pytest.FixtureRequest) -> list[str]:
    """The files that some selected test is about."""
    wanted = {
        item.callspec.params.get("file")
        for item in request.session.items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
    }
    return [name for name in names_of(kind) if name in wanted]
