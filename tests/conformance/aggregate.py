"""Runs aggregate cases, many in one streaming run, in each of the three ways."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import substrait_agg as sa
from substrait_agg.errors import SubstraitAggError
from substrait_agg.plan.arrow import to_arrow
from tests.conformance.aggregate_feeds import WAYS, WEIGHT, tables
from tests.conformance.aggregate_plans import (
    AggregatePlan,
    SharedCall,
    measure_of,
    refusal,
    table_of,
)
from tests.conformance.arrow_values import view_value
from tests.conformance.cases import Case, Literal
from tests.conformance.evaluating import interpreted
from tests.conformance.outcomes import Outcome, same
from tests.e2e.files import write_in_order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEASURES = 24
"""Measures per plan: what Spark compiles for one grows faster than their number."""

Details = dict[int, str]
"""Position of a case -> what is wrong with it."""


def run_aggregate(spark: SparkSession, cases: Sequence[Case], folder: Path) -> list[Outcome]:
    """The outcome of every case, in their order; `folder` takes files and checkpoints."""
    refused = {i: codes for i, case in enumerate(cases) if (codes := refusal(case)) is not None}
    valid = [i for i in range(len(cases)) if i not in refused]
    wrong: Details = {}
    with interpreted(spark):
        for number, part in enumerate(_parts(cases, valid)):
            for way in WAYS:
                where = folder / f"part-{number}" / way.replace(" ", "-")
                for i, detail in _run(spark, [(i, cases[i]) for i in part], way, where).items():
                    wrong.setdefault(i, f"{way}: {detail}")
    outcomes = []
    for i, case in enumerate(cases):
        if i in refused:
            outcomes.append(Outcome(case, "refused", ", ".join(refused[i])))
        else:
            outcomes.append(Outcome(case, "wrong" if i in wrong else "passes", wrong.get(i, "")))
    return outcomes


def _parts(cases: Sequence[Case], valid: Sequence[int]) -> list[list[int]]:
    """Cases that can share a plan: few measures, all with rows or all without, and each that must fail on its own."""
    values = [i for i in valid if cases[i].expected.kind != "error"]
    parts = [[i] for i in valid if cases[i].expected.kind == "error"]
    for with_rows in (True, False):
        by_measure: dict[SharedCall, list[int]] = {}
        for i in values:
            if bool(table_of(cases[i]).rows) == with_rows:
                by_measure.setdefault(measure_of(cases[i]), []).append(i)
        groups = list(by_measure.values())
        parts += [
            [i for group in groups[start : start + MEASURES] for i in group]
            for start in range(0, len(groups), MEASURES)
        ]
    return parts


def _run(spark: SparkSession, cases: list[tuple[int, Case]], way: str, folder: Path) -> Details:
    """What is wrong after a run of all cases. If the run fails, each half of the cases is run
    again.
    """
    plan = AggregatePlan(tuple(case for _, case in cases))
    must_fail = cases[0][1].expected.kind == "error"
    try:
        rows = _maintain(spark, plan, way, folder)
    except SubstraitAggError as error:
        if must_fail:
            return {}
        if len(cases) == 1:
            return {cases[0][0]: f"the run failed: {error}"}
    else:
        if must_fail:
            return {cases[0][0]: f"an error was expected, got {rows.get(0)}"}
        found = ((i, _difference(plan, n, case, rows)) for n, (i, case) in enumerate(cases))
        return {i: detail for i, detail in found if detail}
    half = len(cases) // 2
    first = _run(spark, cases[:half], way, folder / "first")
    return first | _run(spark, cases[half:], way, folder / "second")


def _maintain(
    spark: SparkSession, plan: AggregatePlan, way: str, folder: Path
) -> dict[int, tuple[Any, ...]]:
    """Number of a case -> its row of the view when all batches have come."""
    write_in_order(folder / "t", tables(plan, WAYS[way](plan)))
    source = f"parquet:{folder / 't'}?batch-files=1&weight={WEIGHT}"
    checkpoint = folder / "checkpoint"
    run = sa.run(plan.text(), {"t": source}, checkpoint=checkpoint, spark=spark, partitions=1)
    run.wait()
    view = sa.open_view(checkpoint).to_arrow()
    columns = [c.to_pylist() for c in view.columns]
    return {row[0]: row[1:] for row in zip(*columns, strict=True)}


def _difference(
    plan: AggregatePlan, number: int, case: Case, rows: dict[int, tuple[Any, ...]]
) -> str:
    """Return the error in the row of a case, or an empty text."""
    expected = case.expected.value
    if not isinstance(expected, Literal):
        return ""
    if number not in rows:
        return "its group is missing"
    found = rows[number][plan.measures.index(measure_of(case))]
    wanted = view_value(expected.value, expected.type)
    if same(found, wanted, expected.type):
        return ""
    return f"expected {wanted!r} ({to_arrow(expected.type)}), got {found!r}"
