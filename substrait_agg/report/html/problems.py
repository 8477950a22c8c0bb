"""Prepare problems for the templates: how their reasons are shown, and the table of reasons."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from substrait_agg.problem_kinds import KINDS, LEVELS, Level
from substrait_agg.problems import Problem
from substrait_agg.report.html.page import size, write

_CODE = re.compile("``?([^`]+)``?")


@dataclass(frozen=True, slots=True)
class ReasonPlacement:
    """Determines how boxes show the reason of a problem.

    Attributes:
        listed: codes in the table of reasons.
        inside: whether each box contains the reason; otherwise boxes link to the table.
    """

    listed: frozenset[str]
    inside: bool

    def reason(self, code: str) -> list[str]:
        """Return the reason of a code; every second part is code. It is empty if there is none."""
        kind = KINDS.get(code)
        return _CODE.split(kind.why) if kind is not None and kind.why else []


def reasons(problems: Iterable[Problem], room: int) -> tuple[str, frozenset[str]]:
    """Return a section with the reason of each code that occurs.

    Codes are sorted by their worst level, then by frequency.

    Args:
        problems: problems of all plans.
        room: size limit in bytes.

    Returns:
        The section, and the codes in it.
    """
    counts: Counter[str] = Counter()
    worst: dict[str, Level] = {}
    for problem in problems:
        counts[problem.code] += 1
        worst[problem.code] = min(
            worst.get(problem.code, problem.level), problem.level, key=LEVELS.index
        )
    order = sorted(counts, key=lambda code: (LEVELS.index(worst[code]), -counts[code], code))
    articles: dict[str, str] = {}
    for code in order:
        article = _reason(code, worst[code], counts[code])
        room -= size(article)
        if room < 0:
            break
        articles[code] = article
    section = write("problems.reasons", [*articles.values()], len(order) - len(articles))
    return section, frozenset(articles)


def _reason(code: str, level: Level, number: int) -> str:
    kind = KINDS.get(code)
    levels: str = level
    if kind is not None:
        levels = f"{kind.lenient} in lenient mode, {kind.strict} in strict mode"
    why = ReasonPlacement(frozenset(), inside=True).reason(code) or ["This code is not documented."]
    return write("problems.reason", code, level, number, levels, why)
