"""Summarize problems per producer: one line instead of one per place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from substrait_agg.problem_kinds import LEVELS, Level
from substrait_agg.problems import Problem

CODE = "PLAN_DEVIATES"


def summarize(problems: Iterable[Problem], help: str) -> tuple[Problem, ...]:
    """Return one summary per producer whose profile explains problems, and one for all others.

    Args:
        problems: problems of one plan.
        help: help text of the summaries; it says how to list the problems.

    Returns:
        Summaries in the order of their first problems. The level of each is the worst level of its
        problems.
    """
    groups: dict[str, list[Problem]] = {}
    for problem in problems:
        groups.setdefault(problem.producer, []).append(problem)
    return tuple(
        Problem(CODE, _worst(group), "", _message(producer, group), help, producer)
        for producer, group in groups.items()
    )


def _worst(group: Sequence[Problem]) -> Level:
    return min((problem.level for problem in group), key=LEVELS.index)


def _message(producer: str, group: Sequence[Problem]) -> str:
    plural = "s" if len(group) > 1 else ""
    if producer:
        read = f"are read as {producer} intends" if plural else f"is read as {producer} intends"
        what = f"deviation{plural} from the specification {read}"
    elif _worst(group) == "info":
        what = f"remark{plural}"
    else:
        what = f"deviation{plural} from the specification"
    codes = Counter(problem.code for problem in group)
    return f"{len(group)} {what}: {', '.join(f'{n} {code}' for code, n in codes.items())}"
