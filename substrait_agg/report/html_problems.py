"""Problems in HTML: a line in the list, a box on the plan's tree, and the table of reasons."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from substrait_agg.problem_kinds import KINDS, LEVELS, Level
from substrait_agg.problems import Problem
from substrait_agg.report.page import escape, size
from substrait_agg.report.tree_constants import clipped

SIGNS = {"error": "✖", "warning": "▲", "info": "●"}
"""A sign for each level, so that its colour is not all that tells it."""

_CODE = re.compile("``?([^`]+)``?")

MAX_MESSAGE = 700
"""Characters of a message, a help line or a name that are shown."""

MAX_PATH = 360
"""Characters of a path that are shown; its middle is left out where it is longer."""


def badge(level: str, number: int = 0, after: str = "") -> str:
    """A level with its sign, and how many there are if that is said."""
    word = f"{number:,} {level}{'s' if number != 1 else ''}" if number else level
    return f'<span class="badge {level}">{SIGNS[level]} {word}{after}</span>'


def badges(counts: Mapping[Level, int], after: str = "") -> str:
    """The counts of all levels that occur, the worst first, each with what is said `after` it."""
    return " ".join(badge(level, counts[level], after) for level in LEVELS if counts.get(level))


def shown_path(path: str) -> str:
    """A path as escaped HTML that can break after each step."""
    if len(path) > MAX_PATH + 20:
        half = MAX_PATH // 2
        path = f"{path[:half]} … {len(path) - 2 * half:,} characters … {path[-half:]}"
    return escape(path).replace(".", ".<wbr>") if path else "the whole plan"


def shown_code(code: str) -> str:
    """A code as escaped HTML that can break between its words."""
    return escape(code).replace("_", "_<wbr>")


def line(problem: Problem, name: str) -> str:
    """A problem in the list: a link to its box, which is called `name`."""
    return (
        f'<li class="line {problem.level}" id="l{name}" data-level="{problem.level}" data-code="{escape(problem.code)}">'
        f'<a href="#p{name}">{badge(problem.level)} <b>{shown_code(problem.code)}</b> '
        f"<span>{escape(clipped(problem.message, MAX_MESSAGE))}</span></a>"
        f'<code class="path">{shown_path(problem.path)}</code></li>'
    )


def box(problem: Problem, name: str, *, why: Why, at: str = "") -> str:
    """A problem on the tree.

    Args:
        problem: any.
        name: what the box is called; unique in the page.
        why: how the reason is told.
        at: where below the node the problem is, where that is not the node itself.
    """
    advice = clipped(problem.help, MAX_MESSAGE)
    place = f'<p class="quiet">at <code>{shown_path(at)}</code></p>' if at else ""
    return (
        f'<div class="problem {problem.level}" id="p{name}" data-level="{problem.level}" data-code="{escape(problem.code)}">'
        f"<p>{badge(problem.level)} <b>{shown_code(problem.code)}</b></p>"
        f"<p>{escape(clipped(problem.message, MAX_MESSAGE))}</p>{place}"
        f"{f'<p><b>Help:</b> {escape(advice)}</p>' if advice else ''}{why.html(problem.code)}"
        f'<p class="path"><code>{shown_path(problem.path)}</code></p>'
        f'<p><a class="back" href="#l{name}">back to the list</a></p></div>'
    )


@dataclass(frozen=True, slots=True)
class Why:
    """How boxes tell why something is a problem.

    Attributes:
        told: codes in the table of reasons.
        inside: whether there is room for the reason in each box; else boxes link to the table.
    """

    told: frozenset[str]
    inside: bool

    def html(self, code: str) -> str:
        """The reason of a code, or a link to it; empty where there is none."""
        kind = KINDS.get(code)
        if kind is None or not kind.why:
            return ""
        words = "Why this is a problem"
        if self.inside:
            return f"<details><summary>{words}</summary><p>{told(kind.why)}</p></details>"
        return f'<p><a href="#why-{escape(code)}">{words}</a></p>' if code in self.told else ""


def told(why: str) -> str:
    """The reason of a code as HTML; its words in backticks are code."""
    return _CODE.sub(r"<code>\1</code>", escape(why))


def reasons(problems: Iterable[Problem], room: int) -> tuple[str, frozenset[str]]:
    """Why each code that occurs is a problem, the most frequent of the worst level first.

    Args:
        problems: of all plans.
        room: bytes that it may take.

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
    why = told(kind.why) if kind is not None and kind.why else "No more is known of this code."
    return (
        f'<article class="{level}" id="why-{escape(code)}"><h3>{shown_code(code)}</h3>'
        f'<p class="quiet">{badge(level)} {times}; {levels}</p><p>{why}</p></article>'
    )
