"""Write a report as one HTML page: the problems, their places in the plan, and the reasons.

The page has at most `MAX_PAGE` bytes for any number of plans. First parts without problems are left
out, then the least severe problems. Each place says how many are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from substrait_agg.errors import SubstraitAggError
from substrait_agg.plan.messages.message import read_message
from substrait_agg.plan.messages.node import MessageNode
from substrait_agg.problem_kinds import LEVELS
from substrait_agg.problems import Problem
from substrait_agg.report.html.page import asset, escape, page, size
from substrait_agg.report.html.problems import ReasonPlacement, badges, box, line, reasons
from substrait_agg.report.html.tree import TreePage
from substrait_agg.report.places.plan_problems import PlanProblems
from substrait_agg.report.tree.constants import clip

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
    more = (
        f'<p class="card">… {left:,} more plans, left out to keep this page small</p>'
        if left
        else ""
    )
    body = f'{head}<main id="main" tabindex="-1">{unread}{table}{"".join(sections)}{more}{meaning}</main>{_PATH_BAR}'
    return page(title, body, script)


def _title(reports: Sequence[PlanProblems], unread: int) -> str:
    refused = sum(not report.ok for report in reports)
    if unread:
        refusals = f"{refused:,} of {len(reports):,} plans refused, " if refused else ""
        return f"{refusals}{_files(unread)} could not be read"
    if len(reports) == 1:
        return "The plan is refused" if refused else "The plan is valid"
    return (
        f"{refused:,} of {len(reports):,} plans refused"
        if refused
        else f"{len(reports):,} plans valid"
    )


def _files(number: int) -> str:
    return "1 file" if number == 1 else f"{number:,} files"


def _failures(failures: Sequence[SubstraitAggError]) -> str:
    """Return a section about the files that could not be read."""
    if not failures:
        return ""
    lines = "".join(
        f"<li>{escape(clip(failure.path, _MAX_NAME))}: {escape(clip(failure.message, _MAX_NAME))}</li>"
        for failure in failures[:_MAX_FAILURES]
    )
    left = len(failures) - _MAX_FAILURES
    more = f"<li>… {left:,} more</li>" if left > 0 else ""
    return (
        '<section class="card" aria-labelledby="unread"><h2 id="unread">'
        f"{_files(len(failures))} could not be read</h2><ul>{lines}{more}</ul></section>"
    )


def _name(report: PlanProblems) -> str:
    return clip(report.plan, _MAX_NAME) or "plan"


def _verdict(ok: bool) -> str:
    return (
        '<span class="badge good">✔ valid</span>'
        if ok
        else '<span class="badge error">✖ refused</span>'
    )


def _counts(*reports: PlanProblems) -> str:
    """Return the number of problems per level, shown and hidden."""
    shown = Counter(problem.level for report in reports for problem in report.problems)
    hidden = Counter(problem.level for report in reports for problem in report.hidden)
    return f"{badges(shown)} {badges(hidden, ' not shown')}".strip() or "no problems"


def _header(reports: Sequence[PlanProblems], title: str, *, ok: bool) -> str:
    """Return the title and the totals."""
    ok = ok and all(report.ok for report in reports)
    counts = f"<p>{_verdict(ok)} {_counts(*reports)}</p>" if len(reports) > 1 else ""
    return f'<header><p class="quiet">Substrait plan validation</p><h1>{escape(title)}</h1>{counts}</header>'


_PATH_BAR = (
    '<footer class="where" data-script hidden aria-label="Place in the plan">'
    '<code id="where" aria-live="polite"></code>'
    '<button type="button" id="copy">Copy path</button></footer>'
)


def _filters(every: Sequence[Problem]) -> str:
    """Return the filter buttons; they need the script, and are hidden without it."""
    if len({(problem.level, problem.code) for problem in every}) < 2:
        return ""
    levels = Counter(problem.level for problem in every)
    buttons = "".join(
        f'<button type="button" data-show="{level}" aria-pressed="true">{level}s</button>'
        for level in LEVELS
        if levels[level] and len(levels) > 1
    )
    codes = sorted({problem.code for problem in every})
    options = "".join(f"<option>{escape(code)}</option>" for code in codes)
    return (
        '<div class="filters tools" role="group" aria-label="Filter of problems" data-script hidden>'
        f'{buttons}<label>Code <select id="code"><option value="">all codes</option>{options}</select></label>'
        '<span id="shown" role="status"></span></div>'
    )


def _table(reports: Sequence[PlanProblems], linked: frozenset[int]) -> str:
    """Return a table of all plans, if there are several."""
    if len(reports) < 2:
        return ""
    rows = []
    selected = _worst(reports, _MAX_ROWS)
    for at in selected:
        report = reports[at]
        name = escape(_name(report))
        name = f'<a href="#plan{at}">{name}</a>' if at in linked else name
        rows.append(
            f"<tr><td>{name}</td><td>{_verdict(report.ok)}</td><td>{_counts(report)}</td></tr>"
        )
    left = len(reports) - len(selected)
    more = f'<p class="quiet">… {left:,} more plans</p>' if left else ""
    return (
        '<section class="card" aria-labelledby="plans"><h2 id="plans">Plans</h2><div class="scroll"><table class="plans">'
        '<thead><tr><th scope="col">Plan</th><th scope="col">Verdict</th><th scope="col">Problems</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{more}</section>"
    )


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
    room -= _FRAME + 2 * size(escape(_name(report)))
    selected = _choose(report.problems, at, why, int(room * _PROBLEMS_SHARE))
    lines = "".join(line(report.problems[i], f"{at}-{i}") for i in selected)
    if root is None:
        tree = _unread(report, selected, at, why)
        room -= size(tree)
    else:
        tree = _tree(report, root, selected, at, why, room - size(lines))
    left = len(report.problems) - len(selected)
    more = (
        f'<p class="quiet">… {left:,} more problems, left out to keep this page small</p>'
        if left
        else ""
    )
    none = "No problem is shown." if report.hidden else "No problems."
    listed = f'<ol class="list">{lines}</ol>{more}' if report.problems else f"<p>{none}</p>"
    return (
        f'<section class="card" aria-labelledby="plan{at}"><h2 id="plan{at}">{escape(_name(report))}</h2>'
        f"<p>{_verdict(report.ok)} {_counts(report)}</p>"
        f'<div class="sides"><details class="found" open><summary><h3>Problems</h3></summary>{listed}</details>'
        f'<div class="shape"><h3>Plan</h3>{tree}</div></div></section>'
    )


def _choose(problems: Sequence[Problem], at: int, why: ReasonPlacement, room: int) -> list[int]:
    """Return the indexes of the worst problems that fit into `room` bytes, ascending."""
    order = sorted(range(len(problems)), key=lambda i: LEVELS.index(problems[i].level))
    shown = []
    for i in order:
        problem, name = problems[i], f"{at}-{i}"
        room -= size(line(problem, name)) + size(box(problem, name, why=why, at=problem.path))
        if room < 0:
            break
        shown.append(i)
    return sorted(shown)


_TREE_TOOLS = (
    '<div class="tools" data-script hidden><button type="button" data-open="problems">Open problems</button>'
    '<button type="button" data-open="all">Open all</button>'
    '<button type="button" data-open="none">Close all</button></div>'
)


def _tree(
    report: PlanProblems,
    root: MessageNode,
    selected: Sequence[int],
    at: int,
    why: ReasonPlacement,
    room: int,
) -> str:
    boxes = sum(
        size(box(p, f"{at}-{i}", why=why, at=p.path))
        for i, p in ((i, report.problems[i]) for i in selected)
    )
    tree = TreePage(root, str(at), room - boxes - size(_TREE_TOOLS))
    for i in selected:
        problem = report.problems[i]
        tree.put(problem, f"{at}-{i}", why=why)
    tree.fill()
    return _TREE_TOOLS + tree.html()


def _unread(report: PlanProblems, selected: Sequence[int], at: int, why: ReasonPlacement) -> str:
    """Return the problems of a plan that cannot be shown as a tree."""
    boxes = "".join(box(report.problems[i], f"{at}-{i}", why=why) for i in selected)
    return f"<p>Nothing of this plan can be shown as a tree.</p>{boxes}"
