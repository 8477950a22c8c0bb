"""Format reports for people: one line per problem, the part of the plan around it, and the help."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import click

from substrait_agg.escape import printable
from substrait_agg.problem_kinds import LEVELS, Level
from substrait_agg.problems import Problem
from substrait_agg.report.places.located_problems import WIDTH, Line, LocatedProblems
from substrait_agg.report.report import Report
from substrait_agg.report.select import summarize
from substrait_agg_cli.terminal import Color, problem_line

FULL = 2
"""Number of warnings with the same code and help that are listed in full.

Further ones get one line each. Errors are always listed in full.
"""

_MAX_WIDTH = 100
_LEVEL_COLORS = {"error": "red", "warning": "yellow", "info": "cyan"}


def uses_color(choice: Color) -> bool:
    """Return whether stderr is coloured. By default terminals are, unless NO_COLOR is set."""
    if choice != "auto":
        return choice == "always"
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stderr is not None and sys.stderr.isatty() and not plain


@dataclass(slots=True)
class ProblemWriter:
    """A writer of the problems of reports to stderr.

    Attributes:
        color: whether to use colours.
        excerpts: whether to show the part of the plan around each problem.
        several: whether there are several plans, so that paths begin with the name of their plan.
        verbose: whether to list every problem.
        threshold: problems of this level or worse are always listed.
        width: characters of a line on the terminal.
    """

    color: bool
    excerpts: bool = True
    several: bool = False
    verbose: bool = True
    threshold: Level = "error"
    width: int = field(
        default_factory=lambda: min(shutil.get_terminal_size((80, 24)).columns, _MAX_WIDTH)
    )
    _listed: Counter[tuple[str, str]] = field(default_factory=Counter)
    _summarized: int = 0

    def show(self, report: Report) -> None:
        """Write the problems of one report.

        Minor ones are summarized in one line per producer with known habits and one for all others.
        """
        listed = [p for p in report.problems if self._is_listed(p)]
        headlines = [(problem, self._in_full(problem)) for problem in listed]
        located = LocatedProblems(report, (problem for problem, full in headlines if full))
        for problem, full in headlines:
            self._echo(self._headline(problem, report.plan if self.several else ""))
            if full and self.excerpts and problem.excerpt:
                self._sql_excerpt(problem)
            elif full and self.excerpts and report.content:
                self._excerpt(located, problem)
            if full:
                self._echo(f"{self._style('help:', fg='green')} {printable(problem.help)}")
            if full and self.excerpts:
                self._echo("")
        others = [p for p in report.problems if not self._is_listed(p)]
        for summary in summarize(others, ""):
            self._echo(self._headline(summary, report.plan if self.several else ""))
        self._summarized += len(others)

    def _is_listed(self, problem: Problem) -> bool:
        """Return whether a problem gets its own lines.

        Remarks and known habits of producers do not.
        """
        if self.verbose or LEVELS.index(problem.level) <= LEVELS.index(self.threshold):
            return True
        return problem.level == "warning" and not problem.producer

    def _in_full(self, problem: Problem) -> bool:
        """Count a problem. Return whether it is an error or one of the first of its kind."""
        if problem.level == "error":
            return True
        kind = (problem.code, problem.help)
        self._listed[kind] += 1
        return self._listed[kind] <= FULL

    def finish(self) -> None:
        """Write the counts of problems that were not listed in full, and how to list them."""
        note = self._style("note:", bold=True)
        for (code, help), count in self._listed.items():
            if count > FULL:
                self._echo(f"{note} {code} {count} times: {printable(help)}")
        if self._summarized:
            self._echo(f"{note} --verbose lists each problem with its place and help")

    def _headline(self, problem: Problem, plan: str) -> str:
        line = problem_line(problem, plan)
        if not self.color:
            return line
        mark = f"{problem.level}[{problem.code}]"
        color = _LEVEL_COLORS[problem.level]
        return self._style(mark, fg=color, bold=True) + line.removeprefix(mark)

    def _excerpt(self, located: LocatedProblems, problem: Problem) -> None:
        lines = located.lines(problem, min(self.width - 4, WIDTH))
        region = located.region(problem)
        name = printable(located.report.plan or "plan")
        if region is not None:
            between = ":" if region.is_text else ", "
            self._echo(self._style(f"  --> {name}{between}{region}", dim=True))
        for line in lines:
            self._line(line, _LEVEL_COLORS[problem.level])

    def _sql_excerpt(self, problem: Problem) -> None:
        text, carets = problem.excerpt.split("\n", 1)
        self._echo(f"    {printable(text)}")
        self._echo(f"    {self._style(carets, fg=_LEVEL_COLORS[problem.level], bold=True)}")

    def _line(self, line: Line, color: str) -> None:
        if not line.marked:
            self._echo(f"    {line.text}")
            return
        arrows = " " * line.start + "^" * max(line.end - line.start, 1)
        self._echo(f"  {self._style('>', fg=color, bold=True)} {line.text}")
        self._echo(f"    {self._style(arrows, fg=color, bold=True)}")

    def _style(self, text: str, fg: str | None = None, **how: bool) -> str:
        return click.style(text, fg=fg, **how) if self.color else text

    def _echo(self, text: str) -> None:
        click.echo(text, err=True, color=self.color)


def verdict(report: Report) -> str:
    """Return a line about a plan: whether it is valid, and the number of problems per level."""
    totals = counts(report.problems)
    totals += [f"{text} not shown" for text in counts(report.hidden)]
    word = "valid" if report.ok else "refused"
    return f"{report.plan}: {word}" + (f" ({', '.join(totals)})" if totals else "")


def summary(reports: Sequence[Report], unread: int) -> str:
    """Return a summary line about many plans."""
    good = sum(report.ok for report in reports)
    parts = [f"{len(reports) + unread} plans", f"{good} valid", f"{len(reports) - good} refused"]
    parts += [f"{unread} not read"] if unread else []
    totals = counts(problem for report in reports for problem in report.problems)
    return ", ".join(parts) + (f"; {', '.join(totals)}" if totals else "")


def counts(problems: Iterable[Problem]) -> list[str]:
    """Return the number of problems of each level, worst first.

    Examples: ``2 errors``, ``1 warning``, ``3 info``.
    """
    by_level = Counter(problem.level for problem in problems)
    return [
        f"{by_level[level]} {level}{'s' if by_level[level] > 1 and level != 'info' else ''}"
        for level in LEVELS
        if by_level[level]
    ]
