"""Write a plan as an HTML tree of limited size.

The nodes that lead to problems come first, then relations, then the rest.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from substrait_agg.plan.messages.node import MessageNode, nearest
from substrait_agg.problems import Problem
from substrait_agg.report.html.page import size, write
from substrait_agg.report.html.problems import ReasonPlacement
from substrait_agg.report.tree.expressions import Speech
from substrait_agg.report.tree.tree import Slot, TreeBranch, branch, branches_to, row_text

ROUNDS = (25, 250, 2_500, 1 << 40)
"""Limits for the members of one list, one per round; later rounds use the room that is left."""

MAX_RELATIONS = 300
"""Number of relations added before anything else of the plan."""

FLAT_DEPTH = 10
"""Levels that are indented; more indentation would leave no width for the text."""

BLOCK_DEPTH = 60
"""Levels per block. Browsers flatten elements nested 512 deep, and a level takes three elements."""

_FRAME = 74
"""Bytes of the markup of a node; the numbers below are those of its parts and of lines about it."""

_CLASSES = 16
_MARK = 220
_MORE = 74
_ROW = 120
_BLOCK = 400
_MAX_FAILURES = 30


_Event = tuple[str, Any]
"""A part of the tree for the template: its kind and what it says."""


@dataclass(slots=True, eq=False)
class _Item:
    """A branch that is shown."""

    branch: TreeBranch
    head: str
    parent: _Item | None
    inside: dict[int, _Item] = field(default_factory=dict)
    rows: dict[int, str] = field(default_factory=dict)
    boxes: list[str] = field(default_factory=list)
    row_boxes: dict[str, list[str]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    cut: str = ""

    @property
    def leaf(self) -> bool:
        """Return whether nothing is inside."""
        return not self.branch.count and not self.row_boxes


class TreePage:
    """Builds the tree of one plan; `left` is the remaining size in bytes."""

    def __init__(self, root: MessageNode, name: str, room: int) -> None:
        self.left = room
        self._message = root
        self._name = name
        self._speech = Speech(root)
        whole = branch(root)
        self._root = _Item(whole, self._head(whole), None)
        self._spend(self._cost(self._root))

    def put(self, problem: Problem, name: str, why: ReasonPlacement) -> None:
        """Show a problem at its node, or at the nearest ancestor that fits.

        The caller has reserved the room for the box itself.
        """
        node = nearest(self._message, problem.path)
        way = branches_to(self._root.branch, node)
        item = self._reach(way)
        self._mark(item, problem.level)
        rest = problem.path.split(".")[node.depth :] if problem.path else []
        on_last = rest and rest[0].partition("[")[0] in node.shape.by_json_name
        if item.branch is way[-1] and item.branch.last is node and on_last:
            self.left -= _ROW
            boxes = item.row_boxes.setdefault(rest[0].partition("[")[0], [])
            boxes.append(write("problems.box", problem, name, why))
            return
        steps = problem.path.split(".")[item.branch.last.depth :] if problem.path else []
        item.boxes.append(write("problems.box", problem, name, why, ".".join(steps)))

    def fill(self) -> None:
        """Add as much of the rest of the plan as fits."""
        self._add_relations()
        for limit in ROUNDS:
            self._add_all(limit)

    def html(self) -> str:
        """Return the tree as HTML."""
        return write("tree.tree", self._events())

    # --- choosing ----------------------------------------------------------------------------

    def _spend(self, cost: int) -> bool:
        """Subtract `cost` from the remaining room; return False if there is not enough."""
        if cost > self.left:
            return False
        self.left -= cost
        return True

    def _head(self, shown: TreeBranch) -> str:
        return write("tree.head", shown.step[:400], shown.title(self._speech))

    def _cost(self, item: _Item) -> int:
        block = _BLOCK if item.branch.depth and item.branch.depth % BLOCK_DEPTH == 0 else 0
        more = (_MORE if item.branch.count else 0) + (_CLASSES if item.branch.relation else 0)
        return _FRAME + size(item.head) + more + block

    def _add(self, item: _Item, place: int, *, alone: bool = False) -> _Item | None:
        """Add the branch at a place; return None if it does not fit.

        A branch added without its neighbours (`alone`) also needs room for a line about those left
        out.
        """
        branch = item.inside.get(place)
        if branch is not None:
            return branch
        below = item.branch.below(place)
        child = _Item(below, self._head(below), item)
        if not self._spend(self._cost(child) + (_MORE if alone else 0)):
            return None
        item.inside[place] = child
        self._whole(item)
        return child

    def _whole(self, item: _Item) -> None:
        """Release the room of the line about left-out members if none is left out."""
        if len(item.inside) + len(item.rows) == item.branch.count:
            self.left += _MORE

    def _reach(self, way: list[TreeBranch]) -> _Item:
        item = self._root
        for step in way[1:]:
            below = self._add(item, step.place, alone=True)
            if below is None:
                break
            item = below
        return item

    def _mark(self, item: _Item, level: str) -> None:
        at: _Item | None = item
        while at is not None:
            if not at.counts:
                self.left -= _MARK
            at.counts[level] += 1
            at = at.parent

    def _add_relations(self) -> None:
        waiting = deque([self._root])
        shown = 0
        while waiting and shown < MAX_RELATIONS:
            item = waiting.popleft()
            for slot in item.branch.slots:
                if slot.field.type not in ("Rel", "PlanRel"):
                    continue
                for place in range(slot.start, slot.start + min(slot.count, ROUNDS[0])):
                    below = self._add(item, place)
                    if below is None:
                        return
                    shown += 1
                    waiting.append(below)

    def _add_all(self, limit: int) -> None:
        """Add at most `limit` members of every list, breadth first."""
        waiting = deque([self._root])
        failures = 0
        while waiting and failures < _MAX_FAILURES:
            item = waiting.popleft()
            for slot in item.branch.slots:
                for place in range(slot.start, slot.start + min(slot.count, limit)):
                    failures += not (
                        self._add_row(item, slot) if slot.row else self._add(item, place)
                    )
                    if failures >= _MAX_FAILURES:
                        return
            waiting.extend(item.inside.values())

    def _add_row(self, item: _Item, slot: Slot) -> bool:
        if slot.start in item.rows:
            return True
        text = row_text(item.branch.last, slot.field, self._speech)
        if not self._spend(size(write("tree.row", slot.field.name, text))):
            return False
        item.rows[slot.start] = text
        self._whole(item)
        return True

    # --- writing -----------------------------------------------------------------------------

    def _events(self) -> Iterator[_Event]:
        """Yield what the template writes, in order: one block after the other."""
        blocks = deque([self._root])
        number = 0
        while blocks:
            top = blocks.popleft()
            yield "block", top
            for event in self._block(top):
                if event[0] == "later":
                    number += 1
                    event[1].cut = f"{self._name}-{number}"
                    blocks.append(event[1])
                yield event
            yield "end", top

    def _block(self, top: _Item) -> Iterator[_Event]:
        """Yield an item and its content; an item that starts a block of its own is ``later``."""
        stack: list[_Event] = [("item", top)]
        while stack:
            kind, said = stack.pop()
            if kind != "item":
                yield kind, said
                continue
            depth = said.branch.depth - top.branch.depth
            if said is not top and depth >= BLOCK_DEPTH:
                yield "later", said
                continue
            yield "open", (said, depth >= FLAT_DEPTH)
            if not said.leaf:
                stack.append(("close", None))
                stack.extend(reversed(list(self._inside(said))))

    def _inside(self, item: _Item) -> Iterator[_Event]:
        """Yield rows, missing fields, branches, and notes about left-out members, in order."""
        rows = [slot for slot in item.branch.slots if slot.row]
        left = 0
        for slot in rows:
            boxes = item.row_boxes.get(slot.field.name, [])
            text = item.rows.get(slot.start)
            if text is not None or boxes:
                yield "row", (slot.field.name, text, boxes)
            else:
                left += 1
        names = {slot.field.name for slot in rows}
        for name, boxes in item.row_boxes.items():
            if name not in names:  # a missing field, or a list of messages
                word = "" if name in item.branch.last.values else "not written"
                yield "row", (name, word, boxes, True)
        yield from _gap(left)
        gap = 0
        for slot in item.branch.slots[len(rows) :]:
            end = slot.start + slot.count
            at = slot.start
            for place in sorted(p for p in item.inside if slot.start <= p < end):
                yield from _gap(gap + place - at)
                gap, at = 0, place + 1
                yield "item", item.inside[place]
            gap += end - at
        yield from _gap(gap)


def _gap(count: int) -> Iterator[_Event]:
    if count:
        yield "gap", count
