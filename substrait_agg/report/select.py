"""Select problems of a report by code and by level, and summarize them per producer."""

from __future__ import annotations

import difflib
import fnmatch
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from substrait_agg.errors import UsageError
from substrait_agg.problem_kinds import KINDS, LEVELS, Level
from substrait_agg.problems import Problem
from substrait_agg.report.report import Report


@dataclass(frozen=True, slots=True)
class Selection:
    """The codes of the problems that are shown and count; None for all, also unknown ones."""

    codes: frozenset[str] | None = None

    @classmethod
    def of(cls, selected: Sequence[str], ignored: Sequence[str]) -> Selection:
        """Return the selection for the options: all codes if none is selected, minus those ignored.

        Args:
            selected: codes or patterns such as ``PHASE_*``, one or several per text, separated by
                commas.
            ignored: as `selected`.

        Raises:
            UsageError: a code is unknown, a pattern matches none, or an option names no code.
        """
        if not selected and not ignored:
            return cls()
        codes = _codes("--select", selected) if selected else frozenset(KINDS)
        return cls(codes - _codes("--ignore", ignored))

    def of_report(self, report: Report) -> Report:
        """Return the report with the selected problems; the others become `Report.hidden`."""
        if self.codes is None:
            return report
        shown = tuple(p for p in report.problems if p.code in self.codes)
        hidden = tuple(p for p in report.problems if p.code not in self.codes)
        return replace(report, problems=shown, hidden=(*report.hidden, *hidden))


def fails(report: Report, level: Level = "error") -> bool:
    """Return whether a problem that is shown is of `level` or worse."""
    counted = LEVELS[: LEVELS.index(level) + 1]
    return any(p.level in counted for p in report.problems)


def _codes(option: str, texts: Iterable[str]) -> frozenset[str]:
    words = [word.strip().upper() for text in texts for word in text.split(",")]
    if words and not any(words):
        help = "give a code, or remove the option"
        raise UsageError("CODE_UNKNOWN", "it has no code", help=help, path=option)
    return frozenset(code for word in words if word for code in _match(option, word))


def _match(option: str, word: str) -> list[str]:
    codes = fnmatch.filter(KINDS, word)
    if not codes:
        near = difflib.get_close_matches(word, KINDS, n=3, cutoff=0.5)
        help = f"did you mean {' or '.join(near)}?" if near else "docs/problems.md lists all codes"
        message = f"no problem has the code {word!r}"
        raise UsageError("CODE_UNKNOWN", message, help=help, path=option)
    return codes


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
