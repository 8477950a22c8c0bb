"""Select problems of a report by code, and decide from which level on they count as failures."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from substrait_agg.errors import UsageError
from substrait_agg.problem_kinds import KINDS, LEVELS, Level
from substrait_agg.report.report import Report


@dataclass(frozen=True, slots=True)
class Selection:
    """The codes of the problems that are shown and count.

    Attributes:
        codes: the selected codes; None for all codes, including unknown ones.
    """

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
    return frozenset(code for word in words if word for code in _matching(option, word))


def _matching(option: str, word: str) -> list[str]:
    codes = fnmatch.filter(KINDS, word)
    if not codes:
        near = difflib.get_close_matches(word, KINDS, n=3, cutoff=0.5)
        help = f"did you mean {' or '.join(near)}?" if near else "docs/problems.md lists all codes"
        message = f"no problem has the code {word!r}"
        raise UsageError("CODE_UNKNOWN", message, help=help, path=option)
    return codes
