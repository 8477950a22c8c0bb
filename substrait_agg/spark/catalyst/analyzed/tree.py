"""Spark's logical plan as a tree of Python objects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of a relation: its id in Spark, its name, its type in JSON, whether it may be null."""

    id: int
    name: str
    type: Any
    nullable: bool


@dataclass(frozen=True, slots=True, eq=False)
class SparkTree:
    """A node of a plan or of an expression.

    Attributes:
        number: its number in the JVM, by which it can be printed.
        kind: name of its class in Spark, without packages.
        fields: its fields by name; nodes in them are trees.
        children: its children.
        type: type of an expression in Spark's JSON; None for a relation.
        nullable: whether an expression may be null.
        deterministic: whether an expression has the same value for the same row at all times.
        name: name of a function.
        id: id of a column that an expression names.
        same: equal for expressions that always have the same value.
        replacement: the expression that Spark computes in place of this one.
        zone: time zone in which an expression is computed.
        start: offset of its text in the query; -1 if it has none.
        stop: offset of the last character of its text.
        output: columns of a relation.
        metadata: metadata of a column that an expression names.
    """

    number: int
    kind: str
    fields: Mapping[str, Any]
    children: tuple[SparkTree, ...]
    type: Any = None
    nullable: bool = True
    deterministic: bool = True
    name: str = ""
    id: int = -1
    same: int = -1
    replacement: SparkTree | None = None
    zone: str = ""
    start: int = -1
    stop: int = -1
    output: tuple[OutputColumn, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def walk(self) -> Iterator[SparkTree]:
        """Yield this node and all nodes below it in its own expression or plan."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))


def type_names(written: Any) -> Iterator[str]:
    """Yield the names of a type of Spark's JSON and of all types inside of it."""
    if not isinstance(written, dict):
        yield str(written)
        return
    yield written["type"]
    parts = [field["type"] for field in written.get("fields", ())]
    parts += [written[part] for part in ("elementType", "keyType", "valueType") if part in written]
    for part in parts:
        yield from type_names(part)


def without_definitions(
    tree: SparkTree, definitions: Mapping[Any, SparkTree] | None = None
) -> SparkTree:
    """Return an expression with the parts that Spark computes once at every place that names them."""
    inner = definitions or {}
    if tree.kind == "CommonExpressionRef" and tree.fields["id"] in inner:
        return inner[tree.fields["id"]]
    if tree.kind == "With":
        child, *named = tree.children
        parts = {d.fields["id"]: without_definitions(d.children[0], inner) for d in named}
        return without_definitions(child, {**inner, **parts})
    children = tuple(without_definitions(child, inner) for child in tree.children)
    same = all(a is b for a, b in zip(children, tree.children, strict=True))
    return tree if same else replace(tree, children=children)


def tree_of(text: str, nodes: list[SparkTree]) -> SparkTree:
    """Return the tree of nodes that refer to each other by number, as `Catalyst.json` writes them.

    Args:
        text: the nodes that are not among `nodes`, and the number of the root.
        nodes: those of the trees before; the others are added.
    """
    *added, root = json.loads(text)
    for node in added:
        nodes.append(_node(len(nodes), node, nodes))
    return nodes[int(root)]


_PLAIN = (
    "kind",
    "type",
    "nullable",
    "deterministic",
    "name",
    "id",
    "same",
    "zone",
    "start",
    "stop",
    "metadata",
)


def _node(number: int, node: Mapping[str, Any], nodes: Sequence[SparkTree]) -> SparkTree:
    replacement = node.get("replacement")
    return SparkTree(
        number=number,
        fields={name: _value(value, nodes) for name, value in node["fields"].items()},
        children=tuple(nodes[child] for child in node["children"]),
        replacement=None if replacement is None else nodes[replacement],
        output=tuple(OutputColumn(*column) for column in node.get("output", ())),
        **{name: node[name] for name in _PLAIN if name in node},
    )


def _value(value: Any, nodes: Sequence[SparkTree]) -> Any:
    if isinstance(value, list):
        return [_value(one, nodes) for one in value]
    if isinstance(value, dict):
        if "#" in value:
            return nodes[value["#"]]
        return {name: _value(one, nodes) for name, one in value.items()}
    return value
