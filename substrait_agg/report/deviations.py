"""Summaries of what is read as a producer's profile says: one line instead of one per place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from substrait_agg.problem_kinds import LEVELS, Level
from substrait_agg.problems import Problem

CODE = "PLAN_DEVIATES"


def summarize(problems: Iterable[Problem], help: str) -> tuple[Problem, ...]:
    """Sum problems up: one problem per producer whose profile explains them, one for those that no profile explains.

    Args:
        problems: of one plan.
        help: of the summaries: what lists the problems.

    Returns:
        In the order of the first problem of each; the level is the worst of those in it.
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
        read = f"are read as {producer} means them" if plural else f"is read as {producer} means it"
        what = f"deviation{plural} from the specification {read}"
    elif _worst(group) == "info":
        what = f"remark{plural}"
    else:
        what = f"deviation{plural} from the specification"
    codes = Counter(problem.code for problem in group)
    return f"{len(group)} {what}: {', '.join(f'{n} {code}' for code, n in codes.items())}"
