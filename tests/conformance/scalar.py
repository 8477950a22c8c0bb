"""Runs scalar cases through validation and Spark.

A case runs with its arguments in columns and as constants. In `make test` Spark compiles the columns of some cases of every
function and interprets the others, which run in one of the forms, by turns; `make soak` compiles all cases in both forms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from substrait_agg.bind.bound import Constant
from tests.conformance.cases import Case, Literal
from tests.conformance.evaluating import Answer, Comparison, Failed, evaluate, interpreted
from tests.conformance.outcomes import Outcome, same
from tests.conformance.scalar_plans import Bound, bind_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMPILED = 16
"""In `make test` Spark compiles one of so many cases of a function, and the first of them always."""

FORMS = {True: "arguments in columns", False: "arguments as constants"}


def run_scalar(
    spark: SparkSession, cases: Sequence[Case], compiled: int = COMPILED
) -> list[Outcome]:
    """The outcome of every case, in their order.

    Args:
        spark: the session.
        cases: what runs.
        compiled: Spark compiles one of so many cases of a function, which runs with its arguments in columns and as
            constants; it interprets the others, in one form, by turns.
    """
    bound = [bind_case(case) for case in cases]
    outcomes = {
        b.case: Outcome(b.case, "refused", ", ".join(b.codes))
        for b in bound
        if b.expression is None
    }
    valued = [b for b in bound if b.expression is not None and b.case.expected.kind == "value"]
    failing = [b for b in bound if b.expression is not None and b.case.expected.kind != "value"]
    first, others = _every_nth(valued, compiled)
    first_failing, other_failing = _every_nth(failing, compiled)
    turns = zip(_every_nth(others, 2), _every_nth(other_failing, 2), strict=True)
    for (in_columns, form), (rest, more_failing) in zip(FORMS.items(), turns, strict=True):
        alone = [*first_failing, *more_failing]
        # Spark interprets what it folds.
        with nullcontext() if in_columns else interpreted(spark):
            answers = evaluate(spark, [_comparison_of(b) for b in first], in_columns=in_columns)
        with interpreted(spark):
            answers += evaluate(spark, [_comparison_of(b) for b in rest], in_columns=in_columns)
            for one in alone:
                answers += evaluate(spark, [_comparison_of(one)], in_columns=in_columns)
        for item, answer in zip([*first, *rest, *alone], answers, strict=True):
            _keep(outcomes, _judge(item.case, answer, form))
    return [outcomes[case] for case in cases]


def _every_nth(bound: Sequence[Bound], count: int) -> tuple[list[Bound], list[Bound]]:
    """The first of every `count` cases of a function, and the other cases."""
    seen: Counter[str] = Counter()
    chosen: tuple[list[Bound], list[Bound]] = ([], [])
    for one in bound:
        chosen[seen[one.case.call.function] % count != 0].append(one)
        seen[one.case.call.function] += 1
    return chosen


def _keep(outcomes: dict[Case, Outcome], new: Outcome) -> None:
    """The worse of two outcomes stays."""
    known = outcomes.get(new.case)
    if known is None or known.verdict == "passes":
        outcomes[new.case] = new


def _comparison_of(bound: Bound) -> Comparison:
    if bound.expression is None:
        message = f"{bound.case.text} was refused"
        raise ValueError(message)
    value = bound.case.expected.value
    wanted = Constant(value.type, value.value) if isinstance(value, Literal) else None
    return Comparison(bound.expression, wanted)


def _judge(case: Case, answer: Answer, form: str) -> Outcome:
    expected = case.expected
    if isinstance(answer, Failed):
        right = expected.kind == "error"
        return Outcome(case, "passes" if right else "wrong", f"{form}: {answer.message}")
    found, wanted = answer
    if expected.kind == "undefined":
        return Outcome(case, "passes")
    if not isinstance(expected.value, Literal):
        return Outcome(case, "wrong", f"{form}: an error was expected, got {found!r}")
    if same(found, wanted, expected.value.type):
        return Outcome(case, "passes")
    return Outcome(case, "wrong", f"{form}: expected {wanted!r}, got {found!r}")
