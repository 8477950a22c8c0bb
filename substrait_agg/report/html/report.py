"""Write a report as one HTML page: the problems, their places in the plan, and the reasons.

The page has at most `MAX_PAGE` bytes for any number of plans. First parts without problems are left
out, then the least severe problems. Each place says how many are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from substrait_agg.errors import SubstraitAggError
from substrait_agg.escape import clip
from substrait_agg.plan.messages.message import read_message
from substrait_agg.plan.messages.node import MessageNode
from substrait_agg.problem_kinds import LEVELS
from substrait_agg.problems import Problem
from substrait_agg.report.html.page import asset, page, size, write
from substrait_agg.report.html.problems import ReasonPlacement, reasons
from substrait_agg.report.html.tree import TreePage
from substrait_agg.report.places.plan_problems import PlanProblems
from substrait_agg.report.tree.tree import count_noun

MAX_PAGE = 300_000
"""Upper bound of the size of a page, in bytes."""

_ROOM = 285_000
_SMALLER = 0.8
_MAX_ROWS = 250
_MAX_NAME = 200
_MAX_FAILURES = 50
_MAX_INSIDE = 60
"""Largest number of problems that are shown with their reasons.

With more problems, the reasons are in a table per code.
"""
_SECTION = 6_000
"""Smallest size of a plan's section, in bytes."""

_REASONS_SHARE = 0.2
_PROBLEMS_SHARE = 0.6
_FRAME = 1_500


def reports_html(
    reports: Sequence[PlanProblems], failures: Sequence[SubstraitAggError] = ()
) -> str:
    """Return reports of any number of plans as one self-contained HTML document.

    Args:
        reports: the reports, in the order to show.
        failures: errors for files that could not be read.
    """
    room = float(_ROOM)
    while True:
        document = _make(reports, failures, int(room))
        if size(document) < MAX_PAGE:
            return document
        room *= _SMALLER


def _make(reports: Sequence[PlanProblems], failures: Sequence[SubstraitAggError], room: int) -> str:
    script = asset("html.js")
    title = _title(reports, len(failures))
    room -= size(page(title, "", script))
    every = [problem for report in reports for problem in report.problems]
    head = _header(reports, title, ok=not failures) + _filters(every)
    unread = _failures(failures)
    table = _table(reports, frozenset(range(len(reports))))
    meaning, listed = reasons(every, int(room * _REASONS_SHARE))
    why = ReasonPlacement(listed, inside=len(every) <= _MAX_INSIDE)
    room -= size(head) + size(unread) + size(table) + size(meaning)
    selected = _worst(reports, max(1, room // _SECTION))
    table = _table(reports, frozenset(selected))
    sections = []
    for done, at in enumerate(selected):
        section = _section(at, reports[at], why, room // (len(selected) - done))
        room -= size(section)
        sections.append(section)
    left = len(reports) - len(selected)
    body = write("report.body", head, unread, table, sections, left, meaning)
    return page(title, body, script)


def _title(reports: Sequence[PlanProblems], unread: int) -> str:
    refused = sum(not report.ok for report in reports)
    if unread:
        refusals = f"{refused:,} of {len(reports):,} plans refused, " if refused else ""
        return f"{refusals}{count_noun(unread, 'file')} could not be read"
    if len(reports) == 1:
        return "The plan is refused" if refused else "The plan is valid"
    return (
        f"{refused:,} of {len(reports):,} plans refused"
        if refused
        else f"{len(reports):,} plans valid"
    )


def _failures(failures: Sequence[SubstraitAggError]) -> str:
    """Return a section about the files that could not be read."""
    if not failures:
        return ""
    shown = [
        (clip(failure.path, _MAX_NAME), clip(failure.message, _MAX_NAME))
        for failure in failures[:_MAX_FAILURES]
    ]
    return write("report.failures", len(failures), shown)


def _name(report: PlanProblems) -> str:
    return clip(report.plan, _MAX_NAME) or "plan"


def _counts(*reports: PlanProblems) -> tuple[Counter[str], Counter[str]]:
    """Return the number of problems per level, shown and hidden."""
    shown = Counter[str](problem.level for report in reports for problem in report.problems)
    hidden = Counter[str](problem.level for report in reports for problem in report.hidden)
    return shown, hidden


def _header(reports: Sequence[PlanProblems], title: str, *, ok: bool) -> str:
    """Return the title and the totals."""
    ok = ok and all(report.ok for report in reports)
    return write("report.header", title, ok, _counts(*reports) if len(reports) > 1 else ())


def _filters(every: Sequence[Problem]) -> str:
    """Return the filter buttons; they need the script, and are hidden without it."""
    if len({(problem.level, problem.code) for problem in every}) < 2:
        return ""
    present = {problem.level for problem in every}
    levels = [level for level in LEVELS if level in present and len(present) > 1]
    return write("report.filters", levels, sorted({problem.code for problem in every}))


def _table(reports: Sequence[PlanProblems], linked: frozenset[int]) -> str:
    """Return a table of all plans, if there are several."""
    if len(reports) < 2:
        return ""
    selected = _worst(reports, _MAX_ROWS)
    rows = [(at, _name(reports[at]), reports[at].ok, _counts(reports[at])) for at in selected]
    return write("report.table", rows, linked, len(reports) - len(selected))


def _worst(reports: Sequence[PlanProblems], number: int) -> list[int]:
    """Return the indexes of at most `number` reports with the worst problems, ascending."""
    if len(reports) <= number:
        return list(range(len(reports)))

    def badness(at: int) -> tuple[int, int]:
        """Return what sorts the worst report first, and equal ones by index."""
        levels = [LEVELS.index(problem.level) for problem in reports[at].problems]
        return (min(levels, default=len(LEVELS)), at)

    return sorted(sorted(range(len(reports)), key=badness)[:number])


def _section(at: int, report: PlanProblems, why: ReasonPlacement, room: int) -> str:
    root = read_message(report.content)
    room -= _FRAME + 2 * _MAX_NAME
    selected = _choose(report.problems, at, why, int(room * _PROBLEMS_SHARE))
    lines = [write("problems.line", report.problems[i], f"{at}-{i}") for i in selected]
    if root is None:
        tree = _unread(report, selected, at, why)
        room -= size(tree)
    else:
        tree = _tree(report, root, selected, at, why, room - sum(map(size, lines)))
    left = len(report.problems) - len(selected)
    return write("report.section", at, _name(report), report, _counts(report), lines, left, tree)


def _choose(problems: Sequence[Problem], at: int, why: ReasonPlacement, room: int) -> list[int]:
    """Return the indexes of the worst problems that fit into `room` bytes, ascending."""
    order = sorted(range(len(problems)), key=lambda i: LEVELS.index(problems[i].level))
    shown = []
    for i in order:
        problem, name = problems[i], f"{at}-{i}"
        room -= size(write("problems.line", problem, name)) + size(
            write("problems.box", problem, name, why, problem.path)
        )
        if room < 0:
            break
        shown.append(i)
    return sorted(shown)


def _tree(
    report: PlanProblems,
    root: MessageNode,
    selected: Sequence[int],
    at: int,
    why: ReasonPlacement,
    room: int,
) -> str:
    boxes = sum(
        size(write("problems.box", p, f"{at}-{i}", why, p.path))
        for i, p in ((i, report.problems[i]) for i in selected)
    )
    tools = write("report.tools")
    tree = TreePage(root, str(at), room - boxes - size(tools))
    for i in selected:
        problem = report.problems[i]
        tree.put(problem, f"{at}-{i}", why)
    tree.fill()
    return tools + tree.html()


def _unread(report: PlanProblems, selected: Sequence[int], at: int, why: ReasonPlacement) -> str:
    """Return the problems of a plan that cannot be shown as a tree."""
    boxes = [write("problems.box", report.problems[i], f"{at}-{i}", why) for i in selected]
    return write("report.unread", boxes)
