"""Decode the content of a plan to the typed relation tree.

Every field that was not read is reported, unless it cannot change the result.

Shared subtrees are relations of the plan (``ReferenceRel``), detached expressions, and detached
relations of one relation entry.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from substrait_agg.errors import PlanUnreadable
from substrait_agg.plan.decoding.context import DecodeContext, DecodeProblems, Handler
from substrait_agg.plan.decoding.expressions import read_expression
from substrait_agg.plan.decoding.extensions import read_extensions
from substrait_agg.plan.decoding.files import file_tables
from substrait_agg.plan.decoding.literals import read_literal
from substrait_agg.plan.decoding.relations import read_relation
from substrait_agg.plan.decoding.types import read_type
from substrait_agg.plan.messages.message import parse_message
from substrait_agg.plan.messages.node import (
    MAX_DEPTH,
    MessageNode,
    Unreadable,
    check_path_text,
    preorder,
)
from substrait_agg.plan.messages.source import plan_bytes
from substrait_agg.plan.model import DecodedPlan, Relation, Unsupported
from substrait_agg.problems import Problems

_HANDLERS: dict[str, Handler] = {
    "Type": read_type,
    "Expression.Literal": read_literal,
    "Expression": read_expression,
    "Rel": read_relation,
}


MAX_IN_PLACE = 200_000
"""Largest number of messages of a subtree after all references in it are expanded."""

_Key = tuple[str, int, int]
"""A reference target: kind, entry of the plan's relations, ordinal in the entry (-1: the entry)."""

_DETACHED = {
    "detached_rel_ordinal": ("detached_rels", "Rel"),
    "detached_expression_ordinal": ("detached_expressions", "Expression"),
}


def decode(source: Any, problems: Problems, root: str = "") -> DecodedPlan:
    """Decode a plan; add all problems to `problems`, in plan order.

    Args:
        source: protobuf or protobuf-JSON as bytes, JSON text, a path to a file with either, or a
            protobuf ``Plan`` message of any bindings.
        problems: receives the problems. Parts that could not be read are `Unsupported` in the tree.
        root: place of the root to read, in a plan with several, such as ``relations[1]``.

    Raises:
        PlanUnreadable: the source is not a Substrait plan, or exceeds a limit. The exception and
            `problems` contain the reason and the problems found before.
        UsageError: the file cannot be read, or the source is of another kind.
    """
    findings = DecodeProblems()
    try:
        content = plan_bytes(source)
        plan = parse_message(content, findings.report)
        order = preorder(plan)
        for place, node in enumerate(order):
            node.place = place
        check_path_text(order)
        decoded = _decode(plan, order, content, DecodeContext(findings), root)
    except Unreadable as reason:
        findings.hand_on(problems, None)
        problems.add(reason.code, reason.path, **reason.params)
        raise PlanUnreadable(tuple(problems.items)) from None
    findings.hand_on(problems, plan)
    return decoded


def _decode(
    plan: MessageNode,
    order: list[MessageNode],
    content: bytes,
    context: DecodeContext,
    root_path: str,
) -> DecodedPlan:
    entries = plan.messages("relations")
    if not entries:
        raise Unreadable("PLAN_UNREADABLE", reason="it has no relations")
    _read_version(plan, context)
    read_extensions(plan, context)
    context.file_tables = file_tables(order)
    units, by_key = _ordered_units(entries, context)
    for unit in units:
        _decode_unit(unit, by_key, context)
    free = _free(entries, by_key)
    roots = tuple(entry.path for entry in free if entry.has("root"))
    names, root, place = _root(entries, free, context, root_path)
    report_leftovers(order, set(_HANDLERS), context)
    unreached = [e for e in free if e.path != place and not (root_path and e.path in roots)]
    if any(entry.has("root") for entry in entries):
        for entry in unreached:
            if entry.has("rel"):
                context.report("RELATION_UNUSED", entry.path)
    tops = map(_top, unreached)
    others = tuple(top.result for top in tops if top is not None and top.result is not None)
    several = roots if len(roots) > 1 else ()
    return DecodedPlan(
        root, names, context.producer, context.version, content, place, others, several
    )


def _decode_unit(unit: Unit, by_key: dict[_Key, Unit], context: DecodeContext) -> None:
    """Decode the messages of a unit, innermost first, without recursion."""
    for node, key in unit.references:
        target = by_key[key].root
        if target.shape.name == "RelRoot":
            node.result = target.values["input"].result if target.has("input") else None
            node.result = node.result or Unsupported("none", target.path)
        else:
            node.result = target.result
    for node in reversed(unit.order):
        handler = _HANDLERS.get(node.shape.name)
        if handler is not None:
            node.result = handler(node, context)


def _read_version(plan: MessageNode, context: DecodeContext) -> None:
    version = plan.message("version")
    if version is None:
        context.report("VERSION_MISSING", "version")
        return
    context.producer = version.text("producer").strip().lower()
    numbers = (version.number(f"{part}_number") for part in ("major", "minor", "patch"))
    major, minor, patch = numbers
    context.version = (major, minor, patch)
    if not (any(context.version) or context.producer):
        context.report("VERSION_MISSING", "version")
    if major:
        context.report("RELEASE_UNKNOWN", "version", version=f"{major}.{minor}.{patch}")


def _free(entries: list[MessageNode], by_key: dict[_Key, Unit]) -> list[MessageNode]:
    """Return the entries that no relation refers to."""
    referred = {key for unit in by_key.values() for _, key in unit.references}
    return [e for at, e in enumerate(entries) if ("relation", at, -1) not in referred]


def _top(entry: MessageNode) -> MessageNode | None:
    """Return the relation of an entry, with or without a root."""
    root = entry.message("root")
    return entry.message("rel") if root is None else root.message("input")


def _root(
    entries: list[MessageNode], free: list[MessageNode], context: DecodeContext, root_path: str
) -> tuple[tuple[str, ...] | None, Relation, str]:
    """Return the names, the relation and the place of a root, or of the only bare relation.

    A root that another one refers to is a shared relation, and its names do not count.
    """
    roots = [entry for entry in entries if entry.has("root")]
    candidates = [entry for entry in roots if entry in free or len(roots) == 1]
    candidates = candidates or [entry for entry in free if entry.has("rel")]
    if root_path:
        candidates = [entry for entry in candidates if entry.path == root_path]
    for entry in entries:
        root = entry.message("root")
        if root is not None:
            root.scalars("names")
            root.message("input")
    if len(candidates) != 1:
        context.report("ROOT_COUNT", "relations", count=len(candidates))
        if not candidates:
            return None, Unsupported("none", "relations[0]"), "relations[0]"
    root = candidates[0].message("root")
    names = None if root is None else tuple(root.scalars("names"))
    top = _top(candidates[0])
    if top is None:
        context.report_missing(root or candidates[0], "input")
        return names, Unsupported("none", candidates[0].path), candidates[0].path
    return names, top.result, candidates[0].path


IGNORED: dict[tuple[str, str], str] = {
    ("RelCommon", "direct"): "it states that there is no output mapping, which is the default",
    ("RelCommon", "hint"): "hints never change the result",
    ("RelCommon", "rel_anchor"): "only outer references by anchor use it, and they read it",
    ("Version", "git_hash"): "it distinguishes builds of one release",
    (
        "Plan",
        "expected_type_urls",
    ): "it lists the types of enhancements, and each enhancement is refused",
    ("Plan", "parameter_bindings"): "only dynamic parameters use it, and they are refused",
    ("Plan", "type_aliases"): "only alias types use it, and values of such types are refused",
    ("Plan", "execution_behavior"): "only context variables use it, and they are refused",
    ("Plan", "named_lambdas"): "only lambdas use it, and they are refused",
    (
        "Expression.MaskExpression",
        "maintain_singular_struct",
    ): "the output of a relation is always a row, also with one column",
    ("Expression.FieldReference", "root_reference"): "the input row is the default root",
    (
        "HashJoinRel",
        "build_input",
    ): "it selects the side of the hash table and does not change the result",
    ("ReadRel.LocalFiles.FileOrFiles", "parquet"): "only its presence counts",
    ("ReadRel.LocalFiles.FileOrFiles", "arrow"): "only its presence counts",
    ("ReadRel.LocalFiles.FileOrFiles", "orc"): "only its presence counts",
    ("ReadRel.LocalFiles.FileOrFiles", "dwrf"): "only its presence counts",
    (
        "ReadRel.LocalFiles.FileOrFiles",
        "partition_index",
    ): "it distributes the files and does not change the result",
    (
        "ReadRel.LocalFiles.FileOrFiles.DelimiterSeparatedTextReadOptions",
        "max_line_size",
    ): "it limits the memory of a reader and does not change the result",
    ("extensions.AdvancedExtension", "optimization"): "optimizations never change the result",
}
"""Fields that are ignored on purpose, by message and name, and why they change nothing."""

_EXTENSION = "extensions.AdvancedExtension"


def report_leftovers(
    order: list[MessageNode], handled: Collection[str], context: DecodeContext
) -> None:
    """Report the unread fields of every message that was read, but not of refused messages."""
    for node in order:
        if not node.opened and node.shape.name not in handled:
            continue
        for name in node.list_unread():
            if (node.shape.name, name) in IGNORED:
                continue
            if node.shape.by_json_name[name].type == _EXTENSION:
                _report_enhancement(node, name, context)
            else:
                context.report(
                    "FIELD_NOT_SUPPORTED", node.at(name), field=name, message=node.shape.name
                )


def _report_enhancement(node: MessageNode, name: str, context: DecodeContext) -> None:
    enhancement = node.values[name].values.get("enhancement")
    if enhancement is not None:
        url = enhancement.values.get("type_url") or "of unknown type"
        context.report(
            "ENHANCEMENT_NOT_SUPPORTED",
            f"{node.at(name)}.enhancement",
            type=url,
            message=node.shape.name,
        )


@dataclass(slots=True)
class Unit:
    """One subtree.

    Attributes:
        key: the key that references use.
        order: its messages, each before its children.
        references: the messages in it that refer to another unit, and the keys of these units.
        depth: levels below its root after all references are expanded.
        size: messages in it after all references are expanded.
    """

    key: _Key
    order: list[MessageNode]
    references: list[tuple[MessageNode, _Key]] = field(default_factory=list)
    depth: int = 0
    size: int = 0

    @property
    def root(self) -> MessageNode:
        """Return the topmost message."""
        return self.order[0]


def _ordered_units(
    entries: list[MessageNode], context: DecodeContext
) -> tuple[list[Unit], dict[_Key, Unit]]:
    """Return all units of the plan's relation entries, each after those it refers to, and by key.

    Invalid references and cycles are reported; the message is then decoded as `Unsupported`.

    Raises:
        Unreadable: after all references are expanded, the plan exceeds a limit.
    """
    units: dict[_Key, Unit] = {}
    for index, entry in enumerate(entries):
        if not entry.has("root") and not entry.has("rel"):
            context.report_missing(entry, "root")
        _add_entry(units, index, entry)
    for unit in units.values():
        _find_references(unit, units, context)
    done: list[Unit] = []
    for unit in units.values():
        _visit(unit, units, done, context)
    return done, units


def _add_entry(units: dict[_Key, Unit], index: int, entry: MessageNode) -> None:
    main = entry.message("root") if entry.has("root") else entry.message("rel")
    if main is not None:
        key = ("relation", index, -1)
        units[key] = Unit(key, preorder(main))
    for name, _ in _DETACHED.values():
        for ordinal, node in enumerate(entry.messages(name)):
            key = (name, index, ordinal)
            units[key] = Unit(key, preorder(node))


def _find_references(unit: Unit, units: dict[_Key, Unit], context: DecodeContext) -> None:
    for node in unit.order:
        key = _reference(node, unit.key[1])
        if key is None:
            continue
        if key in units:
            unit.references.append((node, key))
        else:
            what, shown = _words(key)
            here = [k for k in units if k[0] == key[0] and (key[2] < 0 or k[1] == key[1])]
            context.report("REFERENCE_INVALID", node.path, what=what, index=shown, count=len(here))
            node.result = Unsupported("reference", node.path)


def _reference(node: MessageNode, entry: int) -> _Key | None:
    if node.shape.name == "Rel" and node.has("reference"):
        return ("relation", node.values["reference"].values.get("subtree_ordinal", 0), -1)
    for name, (where, shape) in _DETACHED.items():
        if node.shape.name == shape and node.has(name):
            return (where, entry, node.values[name])
    return None


def _words(key: _Key) -> tuple[str, int]:
    return ("relation", key[1]) if key[2] < 0 else (key[0].removesuffix("s"), key[2])


def _visit(start: Unit, units: dict[_Key, Unit], done: list[Unit], context: DecodeContext) -> None:
    """Append `start` and the units it refers to, depth first without recursion."""
    path: list[tuple[Unit, int]] = [(start, 0)] if not start.size else []
    open_keys = {start.key}
    while path:
        unit, at = path.pop()
        if at == len(unit.references):
            _measure(unit, units)
            open_keys.discard(unit.key)
            done.append(unit)
            continue
        node, key = unit.references[at]
        if key in open_keys:
            what, shown = _words(key)
            context.report("REFERENCE_CYCLE", node.path, what=what, index=shown)
            node.result = Unsupported("reference", node.path)
            del unit.references[at]
            path.append((unit, at))
            continue
        path.append((unit, at + 1))
        if not units[key].size:
            open_keys.add(key)
            path.append((units[key], 0))


def _measure(unit: Unit, units: dict[_Key, Unit]) -> None:
    top = unit.root.depth
    unit.size = len(unit.order) + sum(units[key].size for _, key in unit.references)
    depths = [node.depth - top for node in unit.order]
    depths += [node.depth - top + units[key].depth for node, key in unit.references]
    unit.depth = max(depths)
    if unit.depth > MAX_DEPTH:
        raise Unreadable("PLAN_TOO_DEEP", unit.root.path, limit=MAX_DEPTH)
    if unit.references and unit.size > MAX_IN_PLACE:
        limit = f"{MAX_IN_PLACE} messages after shared relations are expanded"
        raise Unreadable("PLAN_TOO_LARGE", unit.root.path, limit=limit)
