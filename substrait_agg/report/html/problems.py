"""Write problems as HTML: a line in the list, a box in the tree, and the table of reasons."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from substrait_agg.problem_kinds import KINDS, LEVELS, Level
from substrait_agg.problems import Problem
from substrait_agg.report.html.page import escape, size
from substrait_agg.report.tree.constants import clip

SIGNS = {"error": "✖", "warning": "▲", "info": "●"}
"""A sign for each level, so that the level does not depend on colour alone."""

_CODE = re.compile("``?([^`]+)``?")

MAX_MESSAGE = 700
"""Longest message, help text or name that is shown, in characters."""

MAX_PATH = 360
"""Longest path that is shown, in characters; longer ones are cut in the middle."""


def badge(level: str, number: int = 0, after: str = "") -> str:
    """Return a level with its sign, and the number of problems if it is not 0."""
    word = f"{number:,} {level}{'s' if number != 1 else ''}" if number else level
    return f'<span class="badge {level}">{SIGNS[level]} {word}{after}</span>'


def badges(counts: Mapping[Level, int], after: str = "") -> str:
    """Return the counts of all levels that occur, worst first, each followed by `after`."""
    return " ".join(badge(level, counts[level], after) for level in LEVELS if counts.get(level))


def shown_path(path: str) -> str:
    """Return a path as escaped HTML with a line break opportunity after each step."""
    if len(path) > MAX_PATH + 20:
        half = MAX_PATH // 2
        path = f"{path[:half]} … {len(path) - 2 * half:,} characters … {path[-half:]}"
    return escape(path).replace(".", ".<wbr>") if path else "the whole plan"


def shown_code(code: str) -> str:
    """Return a code as escaped HTML with line break opportunities between its words."""
    return escape(code).replace("_", "_<wbr>")


def line(problem: Problem, name: str) -> str:
    """Return a problem as a line of the list, with a link to the box called `name`."""
    return (
        f'<li class="line {problem.level}" id="l{name}" data-level="{problem.level}" data-code="{escape(problem.code)}">'
        f'<a href="#p{name}">{badge(problem.level)} <b>{shown_code(problem.code)}</b> '
        f"<span>{escape(clip(problem.message, MAX_MESSAGE))}</span></a>"
        f'<code class="path">{shown_path(problem.path)}</code></li>'
    )


def box(problem: Problem, name: str, *, why: ReasonPlacement, at: str = "") -> str:
    """Return a problem as a box in the tree.

    Args:
        problem: the problem.
        name: id of the box, unique in the page.
        why: how the reason is shown.
        at: path below the node, if the problem is not about the node itself.
    """
    advice = clip(problem.help, MAX_MESSAGE)
    place = f'<p class="quiet">at <code>{shown_path(at)}</code></p>' if at else ""
    return (
        f'<div class="problem {problem.level}" id="p{name}" data-level="{problem.level}" data-code="{escape(problem.code)}">'
        f"<p>{badge(problem.level)} <b>{shown_code(problem.code)}</b></p>"
        f"<p>{escape(clip(problem.message, MAX_MESSAGE))}</p>{place}"
        f"{f'<p><b>Help:</b> {escape(advice)}</p>' if advice else ''}{why.html(problem.code)}"
        f'<p class="path"><code>{shown_path(problem.path)}</code></p>'
        f'<p><a class="back" href="#l{name}">back to the list</a></p></div>'
    )


@dataclass(frozen=True, slots=True)
class ReasonPlacement:
    """Determines how boxes show the reason of a problem.

    Attributes:
        listed: codes in the table of reasons.
        inside: whether each box contains the reason; otherwise boxes link to the table.
    """

    listed: frozenset[str]
    inside: bool

    def html(self, code: str) -> str:
        """Return the reason of a code, or a link to it; empty if there is none."""
        kind = KINDS.get(code)
        if kind is None or not kind.why:
            return ""
        words = "Why this is a problem"
        if self.inside:
            return f"<details><summary>{words}</summary><p>{reason_html(kind.why)}</p></details>"
        return f'<p><a href="#why-{escape(code)}">{words}</a></p>' if code in self.listed else ""


def reason_html(why: str) -> str:
    """Return the reason of a code as HTML; text in backticks becomes code."""
    return _CODE.sub(r"<code>\1</code>", escape(why))


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
    worst: dict[str, str] = {}
    for problem in problems:
        counts[problem.code] += 1
        worst[problem.code] = min(worst.get(problem.code, problem.level), problem.level, key=_rank)
    order = sorted(counts, key=lambda code: (_rank(worst[code]), -counts[code], code))
    parts, codes = [], set()
    for code in order:
        part = _reason(code, worst[code], counts[code])
        room -= size(part)
        if room < 0:
            break
        parts.append(part)
        codes.add(code)
    if not parts:
        return "", frozenset()
    left = len(order) - len(parts)
    more = f'<p class="quiet">… {left:,} more codes, see the documents</p>' if left else ""
    section = (
        '<section class="card reasons" aria-labelledby="reasons"><h2 id="reasons">What the codes mean</h2>'
        f"{''.join(parts)}{more}</section>"
    )
    return section, frozenset(codes)


def _rank(level: str) -> int:
    return [*LEVELS].index(level)  # type: ignore[arg-type]


def _reason(code: str, level: str, number: int) -> str:
    kind = KINDS.get(code)
    times = f"{number:,} time{'s' if number != 1 else ''}"
    levels = (
        f"{kind.lenient} in lenient mode, {kind.strict} in strict mode"
        if kind is not None
        else level
    )
    why = reason_html(kind.why) if kind is not None and kind.why else "This code is not documented."
    return (
        f'<article class="{level}" id="why-{escape(code)}"><h3>{shown_code(code)}</h3>'
        f'<p class="quiet">{badge(level)} {times}; {levels}</p><p>{why}</p></article>'
    )
