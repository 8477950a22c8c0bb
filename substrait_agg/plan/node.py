"""A message of a plan after parsing, whichever encoding it came in: fields by name, read at most once.

What the decoder reads it takes; whatever is left when it is done is reported. So no field can be lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from substrait_agg.plan.schema import MESSAGE, Field, Shape, schema

MAX_DEPTH = 2_000
"""Levels of messages inside messages that are read; a call inside a call takes three, a relation two."""

MAX_NESTING = 100
"""Levels of types inside types, and of constants inside constants; no real table has as many."""

MAX_VALUES = 1_000_000
"""Fields with a value that are read from one plan."""

MAX_PATH_TEXT = 128 * 1024 * 1024
"""Characters of all paths of one plan together: few deep places are fine, millions of them are not."""

_DEFAULTS: dict[str, Any] = {
    "bool": False, "string": "", "bytes": b"", "float": 0.0, "double": 0.0,
    "int32": 0, "int64": 0, "uint32": 0, "uint64": 0, "enum": 0,
}  # fmt: skip


class Unreadable(Exception):
    """The plan cannot be decoded at all; `code` and `params` are those of the problem to report.

    `offset` is where reading had to stop, in characters of JSON or bytes of anything else, if that is known.
    """

    def __init__(
        self, code: str, path: str = "", *, offset: int | None = None, **params: object
    ) -> None:
        super().__init__(code)
        self.code = code
        self.path = path
        self.offset = offset
        self.params = params


class Node:
    """One message: `values` by field name hold a scalar, a `Node`, or a list of either."""

    __slots__ = (
        "depth",
        "known_path",
        "opened",
        "parent",
        "place",
        "result",
        "shape",
        "step",
        "taken",
        "values",
    )

    def __init__(self, shape: Shape, parent: Node | None = None, step: str = "") -> None:
        self.shape = shape
        self.parent = parent
        self.step = step
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.values: dict[str, Any] = {}
        self.taken: set[str] = set()
        self.opened = parent is None
        self.place = 0
        self.result: Any = None
        self.known_path: str | None = None

    @property
    def path(self) -> str:
        """The place in the plan message, such as ``relations[0].root.input.filter``."""
        missing = []
        node: Node | None = self
        while node is not None and node.known_path is None:
            missing.append(node)
            node = node.parent
        for node in reversed(missing):
            prefix = node.parent.known_path if node.parent is not None else ""
            node.known_path = f"{prefix}.{node.step}" if prefix else node.step
        return self.known_path or ""

    def at(self, name: str) -> str:
        """The path of field `name`."""
        return f"{self.path}.{name}" if self.path else name

    # --- reading -----------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Whether the field has a value; does not take it."""
        return name in self.values

    def which(self, oneof: str) -> str | None:
        """The member of `oneof` that has a value; does not take it."""
        for name in self.values:
            if self.shape.by_json_name[name].oneof == oneof:
                return name
        return None

    def take(self, name: str) -> Any:
        """The value of a scalar field, or its default."""
        self.taken.add(name)
        if name in self.values:
            return self.values[name]
        return _DEFAULTS[self.shape.by_json_name[name].kind]

    def number(self, name: str) -> int:
        """The value of an integer or enum field, or 0."""
        return int(self.take(name))

    def text(self, name: str) -> str:
        """The value of a string field, or the empty string."""
        return str(self.take(name))

    def scalars(self, name: str) -> list[Any]:
        """The values of a repeated scalar field."""
        self.taken.add(name)
        return list(self.values.get(name, ()))

    def message(self, name: str) -> Node | None:
        """The message in a field, or None; what is left in it later will be reported."""
        self.taken.add(name)
        found: Node | None = self.values.get(name)
        if found is not None:
            found.opened = True
        return found

    def messages(self, name: str) -> list[Node]:
        """The messages in a repeated field."""
        self.taken.add(name)
        found: list[Node] = self.values.get(name, [])
        for item in found:
            item.opened = True
        return list(found)

    def nesting(self) -> int:
        """How many messages of this kind are around this one; beyond `MAX_NESTING` only that it is more.

        Between two types, or two constants, there are at most two other messages.
        """
        around: Node | None = self
        levels = 0
        for _ in range(3 * (MAX_NESTING + 1)):
            around = around.parent if around is not None else None
            levels += around is not None and around.shape is self.shape
        return levels

    def refuse(self) -> None:
        """Leave the whole message: its problem has been reported, so its fields are not."""
        self.taken.update(self.values)
        self.opened = True

    def left(self) -> Iterator[str]:
        """Names of the fields with a value that nobody took, in the order they were written."""
        return (name for name in self.values if name not in self.taken)

    # --- building ----------------------------------------------------------------------------

    def child(self, item: Field) -> Node:
        """The message of field `item` that comes next: a new one, or the one that is merged into."""
        if not item.repeated and item.name in self.values:
            merged: Node = self.values[item.name]
            return merged
        if self.depth + 1 > MAX_DEPTH:
            raise Unreadable("PLAN_TOO_DEEP", self.path[:200], limit=MAX_DEPTH)
        step = item.name
        if item.repeated:
            step = f"{item.name}[{len(self.values.get(item.name, ()))}]"
        made = Node(schema().messages[item.type], self, step)
        self.put(item, made)
        return made

    def put(self, item: Field, value: Any) -> None:
        """Set a field, or append to a repeated one; a default value without presence is no value."""
        if item.repeated:
            self.values.setdefault(item.name, []).append(value)
        elif item.presence or item.kind == MESSAGE or value != _DEFAULTS[item.kind]:
            self.values[item.name] = value
        else:
            self.values.pop(item.name, None)

    def other_member(self, item: Field) -> str | None:
        """The other member of the oneof of `item` that has a value already."""
        if not item.oneof or item.name in self.values:
            return None
        return self.which(item.oneof)


def children(node: Node) -> Iterator[Node]:
    """The messages directly inside a message, in the order of the message's fields."""
    for item in node.shape.by_number.values():
        if item.kind == MESSAGE and item.name in node.values:
            found = node.values[item.name]
            yield from found if item.repeated else (found,)


def preorder(root: Node) -> list[Node]:
    """A message and all messages inside it, each before its children."""
    order, pending = [], [root]
    while pending:
        node = pending.pop()
        order.append(node)
        pending.extend(reversed(list(children(node))))
    return order


def nearest(root: Node, path: str) -> Node:
    """The innermost message on the way along `path` from `root`."""
    node = root
    for step in path.split("."):
        name, _, index = step.partition("[")
        held = node.values.get(name)
        if isinstance(held, list) and index.rstrip("]").isdecimal():
            at = int(index.rstrip("]"))
            held = held[at] if at < len(held) else None
        if not isinstance(held, Node):
            break
        node = held
    return node


def check_path_text(order: list[Node]) -> None:
    """Refuse plans whose paths would not fit in memory.

    Raises:
        Unreadable: more than `MAX_PATH_TEXT` characters.
    """
    lengths: dict[int, int] = {}
    total = 0
    for node in order:
        above = lengths.get(id(node.parent), 0)
        lengths[id(node)] = above + len(node.step) + 1
        total += above
        if total > MAX_PATH_TEXT:
            raise Unreadable("PLAN_TOO_DEEP", "", limit=MAX_DEPTH)


def structure(root: Node, known: dict[Any, int]) -> int:
    """A number that is equal for equal messages, whatever their place; `known` is shared by those compared."""
    numbers: dict[int, int] = {}
    for node in reversed(preorder(root)):
        parts: list[tuple[str, tuple[Any, ...]]] = []
        for name in sorted(node.values):
            item = node.shape.by_json_name[name]
            held = node.values[name] if item.repeated else [node.values[name]]
            if item.kind == MESSAGE:
                parts.append((name, tuple(numbers[id(child)] for child in held)))
            else:
                parts.append((name, tuple(repr(value) for value in held)))
        numbers[id(node)] = known.setdefault((node.shape.name, tuple(parts)), len(known))
    return numbers[id(root)]
