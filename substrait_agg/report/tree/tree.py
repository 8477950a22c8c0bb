"""Arrange a plan's message as a tree for people.

A message that only wraps another is merged with it, and relations come last. Branches are created
on demand, so a plan with a million fields costs nothing until they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from substrait_agg.bind.show import hexadecimal, quote
from substrait_agg.escape import clip
from substrait_agg.plan.messages.node import MessageNode
from substrait_agg.plan.messages.schema import ENUM, MESSAGE, Field
from substrait_agg.report.tree.columns import body_of, enum_name, inputs_of
from substrait_agg.report.tree.constants import type_text
from substrait_agg.report.tree.expressions import MAX_NAME, Speech, enum_text

_SHOWN = 6


def title(node: MessageNode, speech: Speech) -> str:
    """Return the line of a message; empty if its name in the plan is sufficient."""
    maker = _TITLES.get(node.shape.name)
    if maker is not None:
        return maker(node, speech)
    if node.parent is not None and node.parent.shape.name == "Rel":
        return node.step.replace("_", " ")
    return ""


def count_noun(number: int, word: str) -> str:
    """Return a number with its noun in the right form.

    >>> count_noun(2, "key"), count_noun(1, "key")
    ('2 keys', '1 key')
    """
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def names_text(names: list[str]) -> str:
    """Return names separated by commas, and how many are left out."""
    shown = ", ".join(clip(name, MAX_NAME) for name in names[:_SHOWN])
    more = len(names) - _SHOWN
    return f"{shown}, … {more:,} more" if more > 0 else shown


def _plan(node: MessageNode, speech: Speech) -> str:
    version = node.values.get("version")
    return "plan" if version is None else f"plan, {_version(version, speech)}"


def _version(node: MessageNode, speech: Speech) -> str:
    numbers = ".".join(
        str(node.values.get(f"{part}_number", 0)) for part in ("major", "minor", "patch")
    )
    producer = clip(node.values.get("producer", ""), MAX_NAME)
    return f"Substrait {numbers}" + (f" by {producer}" if producer else "")


def _root(node: MessageNode, speech: Speech) -> str:
    names = node.values.get("names", [])
    return f"result: {names_text(names)}" if names else "result without column names"


def _read(node: MessageNode, speech: Speech) -> str:
    filtered = ", filtered" if "filter" in node.values else ""
    table = node.values.get("named_table")
    if table is not None:
        return f"read {'.'.join(clip(n, MAX_NAME) for n in table.values.get('names', ())[:_SHOWN])}{filtered}"
    rows = node.values.get("virtual_table")
    if rows is not None:
        number = len(rows.values.get("expressions") or rows.values.get("values", ()))
        return f"read {count_noun(number, 'constant row')}{filtered}"
    files = node.values.get("local_files")
    if files is not None:
        return f"read {count_noun(len(files.values.get('items', ())), 'file')}{filtered}"
    return f"read{filtered}"


def _filter(node: MessageNode, speech: Speech) -> str:
    condition = node.values.get("condition")
    return "filter" if condition is None else f"filter: {speech.say(condition)}"


def _project(node: MessageNode, speech: Speech) -> str:
    return f"project: {count_noun(len(node.values.get('expressions', ())), 'expression')}"


def _aggregate(node: MessageNode, speech: Speech) -> str:
    groupings = node.values.get("groupings", ())
    keys = len(node.values.get("grouping_expressions", ()))
    if not keys and groupings:
        keys = max(len(g.values.get("grouping_expressions", ())) for g in groupings)
    parts = [count_noun(keys, "key")] if keys else ["no keys"]
    parts.append(count_noun(len(node.values.get("measures", ())), "measure"))
    if len(groupings) > 1:
        parts.append(count_noun(len(groupings), "grouping set"))
    return f"aggregate: {', '.join(parts)}"


def _describe_grouping(node: MessageNode, speech: Speech) -> str:
    own = node.values.get("grouping_expressions", [])
    shared = node.parent.values.get("grouping_expressions", []) if node.parent is not None else []
    referred = node.values.get("expression_references", [])
    keys = [shared[at] if at < len(shared) else None for at in referred[:_SHOWN]] or own[:_SHOWN]
    texts = [f"expression {at}" for at in referred[:_SHOWN]] if shared == [] else []
    texts = texts or ["out of range" if key is None else speech.say(key) for key in keys]
    more = max(len(referred), len(own)) - _SHOWN
    texts += [f"… {more:,} more"] if more > 0 else []
    return f"grouping set ({', '.join(texts)})" if texts else "grouping set () of all rows"


def _sort(node: MessageNode, speech: Speech) -> str:
    sorts = node.values.get("sorts", [])
    return f"sort: {', '.join(speech.say(s) for s in sorts[:2])}" + (
        ", …" if len(sorts) > 2 else ""
    )


def _fetch(node: MessageNode, speech: Speech) -> str:
    amounts = {name: _amount(node, name, speech) for name in ("count", "offset")}
    rows = "all rows" if amounts["count"] is None else f"{amounts['count']} rows"
    return f"fetch {rows}" + (f" after {amounts['offset']}" if amounts["offset"] else "")


def _amount(node: MessageNode, name: str, speech: Speech) -> str | None:
    value = node.values.get(f"{name}_expr", node.values.get(name))
    return (
        speech.say(value)
        if isinstance(value, MessageNode)
        else None
        if value is None
        else str(value)
    )


def _join(node: MessageNode, speech: Speech) -> str:
    kind = _words(node, "type", "JOIN_TYPE_")
    kind = "join of no type" if kind == "unspecified" else f"{kind} join"
    condition = node.values.get("expression")
    return kind if condition is None else f"{kind} on {speech.say(condition)}"


def _words(node: MessageNode, field: str, prefix: str) -> str:
    """Return an enum value in plain words."""
    return enum_name(node, field).removeprefix(prefix).replace("_", " ").lower() or "unknown"


def _set(node: MessageNode, speech: Speech) -> str:
    return f"{_words(node, 'op', 'SET_OP_')} of {count_noun(len(inputs_of(node)), 'input')}"


def _relation(node: MessageNode, speech: Speech) -> str:
    body = body_of(node)
    return "relation of no kind" if body is None else title(body, speech)


def _option(node: MessageNode, speech: Speech) -> str:
    preferences = " or ".join(clip(p, MAX_NAME) for p in node.values.get("preference", ())[:_SHOWN])
    return f"{clip(node.values.get('name', ''), MAX_NAME)}: {preferences or 'no preference'}"


def _function(node: MessageNode, speech: Speech) -> str:
    name = clip(node.values.get("name", ""), MAX_NAME)
    return f"function {node.values.get('function_anchor', 0)} is {name or 'nameless'}"


def _type_declaration(node: MessageNode, speech: Speech) -> str:
    name = clip(node.values.get("name", ""), MAX_NAME)
    return f"type {node.values.get('type_anchor', 0)} is {name or 'nameless'}"


def _urn(node: MessageNode, speech: Speech) -> str:
    return clip(node.values.get("urn", node.values.get("uri", "")), 2 * MAX_NAME)


def _emit(node: MessageNode, speech: Speech) -> str:
    return f"gives {count_noun(len(node.values.get('output_mapping', ())), 'column')}"


def _table(node: MessageNode, speech: Speech) -> str:
    return "table " + ".".join(quote(n, MAX_NAME) for n in node.values.get("names", ())[:_SHOWN])


def _say(node: MessageNode, speech: Speech) -> str:
    return speech.say(node)


_Title = Callable[[MessageNode, Speech], str]
_TITLES: Mapping[str, _Title] = {
    "Plan": _plan,
    "Version": _version,
    "RelRoot": _root,
    "Rel": _relation,
    "ReadRel": _read,
    "FilterRel": _filter,
    "ProjectRel": _project,
    "AggregateRel": _aggregate,
    "AggregateRel.Grouping": _describe_grouping,
    "SortRel": _sort,
    "FetchRel": _fetch,
    "SetRel": _set,
    **dict.fromkeys(("JoinRel", "HashJoinRel", "MergeJoinRel", "NestedLoopJoinRel"), _join),
    **dict.fromkeys(
        (
            "Expression", "Expression.Literal", "Expression.FieldReference", "FunctionArgument", "AggregateFunction",
            "AggregateRel.Measure", "SortField", "ConsistentPartitionWindowRel.WindowRelFunction",
        ),
        _say,
    ),
    "Type": lambda node, _: type_text(node),
    "NamedStruct": lambda node, speech: count_noun(len(node.values.get("names", ())), "column name"),
    "Type.Struct": lambda node, speech: count_noun(len(node.values.get("types", ())), "field type"),
    "FunctionOption": _option,
    "extensions.SimpleExtensionDeclaration.ExtensionFunction": _function,
    "extensions.SimpleExtensionDeclaration.ExtensionType": _type_declaration,
    "extensions.SimpleExtensionURN": _urn,
    "extensions.SimpleExtensionURI": _urn,
    "RelCommon.Emit": _emit,
    "ReadRel.NamedTable": _table,
}  # fmt: skip


MAX_WRAPPERS = 5
"""Levels of wrapper messages that are merged with the message they wrap."""

MAX_VALUE = 400
"""Characters shown of one value."""

MAX_MEMBERS = 200
"""Values shown of one repeated field."""

_HEADS = {"Rel", "Expression", "Type", "Expression.Literal"}


@dataclass(frozen=True, slots=True)
class Slot:
    """A field of a message in the tree, with `count` places from `start` on.

    A row is a single place without a subtree.
    """

    field: Field
    start: int
    count: int
    row: bool


@dataclass(slots=True, eq=False)
class TreeBranch:
    """A message of the tree, merged with the messages that only wrap it.

    Attributes:
        first: the outermost message.
        last: the innermost message, whose fields are the places below.
        parent: the enclosing branch.
        place: the place in the parent.
        depth: number of enclosing branches.
        slots: the fields of `last`, in the order to show.
    """

    first: MessageNode
    last: MessageNode
    parent: TreeBranch | None
    place: int
    depth: int
    slots: tuple[Slot, ...]
    _below: dict[int, TreeBranch] = field(default_factory=dict, repr=False)

    @property
    def step(self) -> str:
        """Return the path from the enclosing branch, such as ``arguments[0].value``."""
        steps, at = [], self.last
        while at is not self.first and at.parent is not None:
            steps.append(at.step)
            at = at.parent
        return ".".join([self.first.step, *reversed(steps)])

    @property
    def relation(self) -> bool:
        """Return whether the branch is a relation."""
        return any(node.shape.name in ("Rel", "RelRoot") for node in self.chain())

    @property
    def count(self) -> int:
        """Return the number of places below the branch."""
        return self.slots[-1].start + self.slots[-1].count if self.slots else 0

    def chain(self) -> list[MessageNode]:
        """Return the merged messages, from the outermost to the innermost."""
        nodes = [self.last]
        while nodes[-1] is not self.first and nodes[-1].parent is not None:
            nodes.append(nodes[-1].parent)
        return nodes[::-1]

    def title(self, speech: Speech) -> str:
        """Return a line that describes the message; may be empty."""
        return next(filter(None, (title(node, speech) for node in self.chain())), "")

    def slot_at(self, place: int) -> Slot:
        """Return the field that a place belongs to."""
        return next(s for s in self.slots if s.start <= place < s.start + s.count)

    def below(self, place: int) -> TreeBranch:
        """Return the branch at a place that is not a row."""
        if place not in self._below:
            slot = self.slot_at(place)
            value = self.last.values[slot.field.name]
            message = value[place - slot.start] if slot.field.repeated else value
            self._below[place] = branch(message, self, place)
        return self._below[place]

    def place_of(self, message: MessageNode) -> int | None:
        """Return the place of a message directly inside; None if it is shown as a row."""
        name, _, index = message.step.partition("[")
        slot = next(s for s in self.slots if s.field.name == name)
        return None if slot.row else slot.start + (int(index.rstrip("]")) if index else 0)


def branch(message: MessageNode, parent: TreeBranch | None = None, place: int = 0) -> TreeBranch:
    """Return the branch that starts with a message."""
    last = _innermost(message)
    depth = 0 if parent is None else parent.depth + 1
    return TreeBranch(message, last, parent, place, depth, tuple(_slots(last)))


def branches_to(root: TreeBranch, message: MessageNode) -> list[TreeBranch]:
    """Return the branches from the root to the one that shows a message.

    If the message is shown in a row, the last branch is the one with the row.
    """
    way: list[MessageNode] = []
    at: MessageNode | None = message
    while at is not None:
        way.append(at)
        at = at.parent
    branches = [root]
    for node in reversed(way):
        here = branches[-1]
        if node.parent is here.last:
            place = here.place_of(node)
            if place is None:
                break
            branches.append(here.below(place))
    return branches


def row_text(node: MessageNode, item: Field, speech: Speech) -> str:
    """Return the value of a field as one line."""
    value = node.values[item.name]
    if item.kind == MESSAGE:
        return "present, with nothing in it"
    if not item.repeated:
        return _scalar(item, value) + _describe_meaning(item, value, speech)
    shown = ", ".join(_scalar(item, each) for each in value[:MAX_MEMBERS])
    more = len(value) - MAX_MEMBERS
    return clip(f"[{shown}{f', … {more:,} more' if more > 0 else ''}]", 10 * MAX_VALUE)


def _describe_meaning(item: Field, value: Any, speech: Speech) -> str:
    if item.name.endswith("function_reference") and value in speech.functions:
        return f" ({clip(speech.functions[value], MAX_VALUE)})"
    return ""


def _scalar(item: Field, value: Any) -> str:
    if item.kind == ENUM:
        return enum_text(item.type, value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return hexadecimal(value, MAX_VALUE // 2)
    return quote(value, MAX_VALUE) if isinstance(value, str) else str(value)


def _innermost(message: MessageNode) -> MessageNode:
    """Return the message that this one only wraps, up to `MAX_WRAPPERS` levels down.

    A message with more than one value is returned itself.
    """
    at, headed = message, message.shape.name in _HEADS
    for _ in range(MAX_WRAPPERS):
        value = next(iter(at.values.values())) if len(at.values) == 1 else None
        if not isinstance(value, MessageNode) or not value.values:
            break
        if value.shape.name in _HEADS:
            if headed and value.shape.name != "Expression.Literal":
                break
            headed = True
        at = value
    return at


def _slots(node: MessageNode) -> Iterator[Slot]:
    """Yield the fields of a message: rows first, relations last, else in the order of declaration."""
    ranked: list[tuple[int, Field, int]] = []
    for item in node.shape.by_number.values():
        value = node.values.get(item.name)
        if value is None:
            continue
        empty = isinstance(value, MessageNode) and not value.values
        if item.kind != MESSAGE or empty:
            ranked.append((0, item, 1))
        elif item.repeated or value is not None:
            count = len(value) if item.repeated else 1
            ranked.append((_rank(node, item), item, count))
    start = 0
    for rank, item, count in sorted(ranked, key=lambda entry: entry[0]):
        yield Slot(item, start, count, rank == 0)
        start += count


def _rank(node: MessageNode, item: Field) -> int:
    if item.type in ("Rel", "PlanRel"):
        return 2 if node.shape.name != "Plan" else 1
    return 3 if node.shape.name == "Plan" else 1
