"""Relate the problems of a report to places in the file and to the surrounding lines."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from substrait_agg.escape import cut, printable
from substrait_agg.plan.messages.message import read_message, unreadable_at
from substrait_agg.plan.messages.node import MessageNode, Unreadable
from substrait_agg.plan.messages.source import json_text
from substrait_agg.problems import Problem
from substrait_agg.report.places.excerpt import WIDTH, Line, excerpt
from substrait_agg.report.places.places import Region, locate, text_region
from substrait_agg.report.places.plan_problems import PlanProblems
from substrait_agg.report.tree.declared_names import function_names

UNREADABLE = "PLAN_UNREADABLE"
_MARGIN = 24
"""Characters of a long line that are shown before the position of an error."""


class LocatedProblems:
    """The problems of one report and their places in the plan's content, computed on first use.

    Args:
        report: the report.
        problems: the problems to locate; None for all. Locating many problems takes time.
    """

    def __init__(self, report: PlanProblems, problems: Iterable[Problem] | None = None) -> None:
        self.report = report
        self.problems = report.problems if problems is None else tuple(problems)

    def region(self, problem: Problem) -> Region | None:
        """Return the part of the content that a problem is about; None for the whole content."""
        if problem.code == UNREADABLE and self._broken is not None:
            return self._broken
        return self._regions.get(problem.path)

    def lines(self, problem: Problem, width: int = WIDTH) -> list[Line]:
        """Return the lines around a problem; empty if there are none.

        For JSON that cannot be parsed, this is the line of the file.
        """
        if problem.code == UNREADABLE:
            return self._source(width)
        if not problem.path or self._message is None:  # reading huge plans takes seconds
            return []
        return excerpt(self._message, self._names, problem.path, width)

    @property
    def is_text(self) -> bool:
        """Return whether the plan is JSON."""
        return self._text is not None

    @cached_property
    def _text(self) -> str | None:
        try:
            return json_text(self.report.content)
        except Unreadable:
            return None

    @cached_property
    def _broken(self) -> Region | None:
        """Return the position at which reading fails; byte offsets if the text is not Unicode."""
        at = unreadable_at(self.report.content)
        if at is None:
            return None
        if self._text is not None:
            return text_region(self._text, min(at, max(len(self._text) - 1, 0)))
        return Region(at, min(at + 1, len(self.report.content)))

    @cached_property
    def _regions(self) -> dict[str, Region]:
        return locate(self.report.content, (p.path for p in self.problems))

    @cached_property
    def _message(self) -> MessageNode | None:
        return read_message(self.report.content)

    @cached_property
    def _names(self) -> dict[int, str]:
        return {} if self._message is None else function_names(self._message)

    def _source(self, width: int) -> list[Line]:
        """Return the line at which a JSON file cannot be parsed, with its number, cut around the error."""
        if self._text is None or self._broken is None or not self._text:
            return []
        at = self._broken.start
        start = self._text.rfind("\n", 0, at) + 1
        shown = max(start, at - _MARGIN) if at - start > width // 2 else start
        end = self._text.find("\n", at)
        end = min(shown + width - 12, len(self._text) if end < 0 else end)
        number = f"{self._broken.line} | "
        before = printable(self._text[shown:at].replace("\t", " "))
        rest = printable(self._text[at : max(end, at)].replace("\t", " "))
        mark = len(number) + len(before)
        return [Line(cut(f"{number}{before}{rest}", width), True, mark, mark + 1)]
