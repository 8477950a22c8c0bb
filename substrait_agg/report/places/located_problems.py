"""Relate the problems of a report to places in the file and to the surrounding lines.

An excerpt is the part of a plan around a problem as text, with a mark at the field concerned. It is
the same for protobuf and JSON plans: one line per field, constants and calls in a few words,
functions with their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from substrait_agg.escape import ELIDED, cut, printable
from substrait_agg.plan.messages.message import read_message, unreadable_at
from substrait_agg.plan.messages.node import MessageNode, Unreadable
from substrait_agg.plan.messages.schema import MESSAGE, Field
from substrait_agg.plan.messages.source import json_text
from substrait_agg.problems import Problem
from substrait_agg.report.places.order import Step, steps
from substrait_agg.report.places.places import Region, locate, text_region
from substrait_agg.report.places.plan_problems import PlanProblems
from substrait_agg.report.tree.expressions import function_names
from substrait_agg.report.tree.summary import scalar, short_text

WIDTH = 76
"""Characters per line, including the mark."""

_AROUND = 3
"""Lines shown before and after the marked line."""

_FIELDS = 8
"""Lines shown of a message that is marked as a whole."""

_HEADER_STEPS = 2


@dataclass(frozen=True, slots=True)
class Line:
    """A line of an excerpt.

    Attributes:
        text: the line, without the mark.
        marked: whether the problem is about this line.
        start: start of the marked part in `text`.
        end: end of the marked part in `text`.
    """

    text: str
    marked: bool = False
    start: int = 0
    end: int = 0


def excerpt(
    root: MessageNode, names: Mapping[int, str], path: str, width: int = WIDTH
) -> list[Line]:
    """Return the lines around `path` in a plan message.

    None if the problem is about the whole plan.

    Args:
        root: the ``Plan`` message.
        names: names of functions by anchor.
        path: the path of the problem; it may not exist in the plan.
        width: characters per line.
    """
    node, rest = _follow(root, list(steps(path)))
    if node is root and not rest:
        return []
    header = printable(_tail(node))
    if not rest:
        start = len(header) - len(header.rpartition(".")[2])
        top = Line(cut(f"{header}:", width), True, start, min(len(header), width))
        return [top, *_body(node, names, width)]
    lines = list(_lines(node, names, width, rest[0]))
    at = next((at for at, line in enumerate(lines) if line.marked), 0)
    above = [Line(cut(f"{header}:", width))] if header else []
    return [*above, *_window(lines, at - _AROUND, at + _AROUND + 1)]


def _follow(root: MessageNode, way: list[Step]) -> tuple[MessageNode, list[Step]]:
    """Return the innermost existing message on the way, and the remaining steps."""
    node = root
    for at, (name, index) in enumerate(way):
        value = node.values.get(name)
        if isinstance(value, list):
            value = value[index] if 0 <= index < len(value) else None
        if not isinstance(value, MessageNode):
            return node, way[at:]
        node = value
    return node, []


def _tail(node: MessageNode) -> str:
    """Return the last steps of the path of a message."""
    parts: list[str] = []
    at: MessageNode | None = node
    while at is not None and at.step and len(parts) < _HEADER_STEPS:
        parts.append(at.step)
        at = at.parent
    before = f"{ELIDED} " if at is not None and at.step else ""
    return before + ".".join(reversed(parts))


def _body(node: MessageNode, names: Mapping[int, str], width: int) -> list[Line]:
    lines = list(_lines(node, names, width, ("", -1)))
    return _window(lines, 0, _FIELDS)


def _window(lines: list[Line], start: int, end: int) -> list[Line]:
    """Return the lines from `start` to `end`, and the number of lines left out on each side."""
    start, end = max(start, 0), min(end, len(lines))
    # A line "1 more" takes as much room as the line that it replaces.
    start, end = 0 if start == 1 else start, len(lines) if end == len(lines) - 1 else end
    before = [Line(f"  {ELIDED} {start} more")] if start else []
    after = [Line(f"  {ELIDED} {len(lines) - end} more")] if end < len(lines) else []
    return [*before, *lines[start:end], *after]


def _lines(node: MessageNode, names: Mapping[int, str], width: int, focus: Step) -> Iterator[Line]:
    """Yield a line for every written field, and for the marked field even if it is not written."""
    focus_is_written = False
    for item in node.shape.by_number.values():
        name, index = focus if focus[0] == item.name else ("", -1)
        focus_is_written = focus_is_written or bool(name)
        value = node.values.get(item.name)
        if value is None and name:
            yield _mark(_step(name, index), "(not written)")
        elif item.repeated and value is not None:
            yield from _items(item, value, names, width, index if name else None)
        elif value is not None:
            text = _value(node, item, value, names, width - len(item.name) - 4)
            yield _mark(item.name, text) if name else Line(f"  {item.name}: {text}")
    if focus[0] and not focus_is_written:
        yield _mark(cut(printable(focus[0]), width // 2), "(no field of this message)")


def _items(
    item: Field, values: list[Any], names: Mapping[int, str], width: int, focus: int | None
) -> Iterator[Line]:
    """Yield the lines of a list: scalars in one line, messages in one line each.

    Args:
        item: the field.
        values: its values.
        names: names of functions by anchor.
        width: characters per line.
        focus: index of the marked item; -1 to mark the list; None if the problem is about another
            field.
    """
    if item.kind != MESSAGE:
        text = short_text(item, values[0], names, width) if len(values) == 1 else ""
        text = text or ", ".join(scalar(item, value, full=True) for value in values[:width])
        text = cut(f"[{text}]", width - len(item.name) - 4)
        yield Line(f"  {item.name}: {text}") if focus is None else _mark(item.name, text)
        return
    middle = min(max(focus or 0, 0), len(values))
    start, end = max(0, middle - _AROUND), min(len(values), middle + _AROUND + 1)
    if start:
        yield Line(f"  {item.name}[0]{ELIDED}[{start - 1}]")
    for at in range(start, end):
        step = _step(item.name, at)
        text = short_text(item, values[at], names, width - len(step) - 4)
        if focus is not None and at == middle:
            # A problem about the list is marked at its first item.
            yield _mark(step, text, len(item.name) if focus < 0 else len(step))
        else:
            yield Line(f"  {step}: {text}")
    if end < len(values):
        yield Line(f"  {item.name}[{end}]{ELIDED}[{len(values) - 1}]")
    if focus is not None and focus >= len(values):
        yield _mark(_step(item.name, focus), "(not written)")


def _value(node: MessageNode, item: Field, value: Any, names: Mapping[int, str], room: int) -> str:
    if item.kind == MESSAGE:
        return short_text(item, value, names, room)
    text = scalar(item, value, full=True)
    if item.name == "function_reference" and value in names:
        text = f"{text}  # {printable(names[value])}"
    return cut(text, room)


def _mark(step: str, text: str, length: int = 0) -> Line:
    return Line(f"  {step}: {text}", True, 2, 2 + (length or len(step)))


def _step(name: str, index: int) -> str:
    return name if index < 0 else f"{name}[{index}]"


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
