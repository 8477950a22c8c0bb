"""Describe the messages of a plan in one line each, for its tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from substrait_agg.plan.messages.node import MessageNode
from substrait_agg.report.tree.columns import body_of, enum_name, inputs_of
from substrait_agg.report.tree.constants import clipped, quoted, type_text
from substrait_agg.report.tree.expressions import MAX_NAME, Speech

_SHOWN = 6


def title(node: MessageNode, speech: Speech) -> str:
    """Return the line of a message; empty if its name in the plan is sufficient."""
    maker = _TITLES.get(node.shape.name)
    if maker is not None:
        return maker(node, speech)
    if node.parent is not None and node.parent.shape.name == "Rel":
        return node.step.replace("_", " ")
    return ""


def count(number: int, word: str) -> str:
    """Return a number with its noun in the right form, such as ``2 keys``."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def names_text(names: list[str]) -> str:
    """Return names separated by commas, and how many are left out."""
    shown = ", ".join(clipped(name, MAX_NAME) for name in names[:_SHOWN])
    more = len(names) - _SHOWN
    return f"{shown}, … {more:,} more" if more > 0 else shown


def _plan(node: MessageNode, speech: Speech) -> str:
    version = node.values.get("version")
    return "plan" if version is None else f"plan, {_version(version, speech)}"


def _version(node: MessageNode, speech: Speech) -> str:
    numbers = ".".join(
        str(node.values.get(f"{part}_number", 0)) for part in ("major", "minor", "patch")
    )
    producer = clipped(node.values.get("producer", ""), MAX_NAME)
    return f"Substrait {numbers}" + (f" by {producer}" if producer else "")


def _root(node: MessageNode, speech: Speech) -> str:
    names = node.values.get("names", [])
    return f"result: {names_text(names)}" if names else "result without column names"


def _read(node: MessageNode, speech: Speech) -> str:
    filtered = ", filtered" if "filter" in node.values else ""
    table = node.values.get("named_table")
    if table is not None:
        return f"read {'.'.join(clipped(n, MAX_NAME) for n in table.values.get('names', ())[:_SHOWN])}{filtered}"
    rows = node.values.get("virtual_table")
    if rows is not None:
        number = len(rows.values.get("expressions") or rows.values.get("values", ()))
        return f"read {count(number, 'constant row')}{filtered}"
    files = node.values.get("local_files")
    if files is not None:
        return f"read {count(len(files.values.get('items', ())), 'file')}{filtered}"
    return f"read{filtered}"


def _filter(node: MessageNode, speech: Speech) -> str:
    condition = node.values.get("condition")
    return "filter" if condition is None else f"filter: {speech.say(condition)}"


def _project(node: MessageNode, speech: Speech) -> str:
    return f"project: {count(len(node.values.get('expressions', ())), 'expression')}"


def _aggregate(node: MessageNode, speech: Speech) -> str:
    groupings = node.values.get("groupings", ())
    keys = len(node.values.get("grouping_expressions", ()))
    if not keys and groupings:
        keys = max(len(g.values.get("grouping_expressions", ())) for g in groupings)
    parts = [count(keys, "key")] if keys else ["no keys"]
    parts.append(count(len(node.values.get("measures", ())), "measure"))
    if len(groupings) > 1:
        parts.append(count(len(groupings), "grouping set"))
    return f"aggregate: {', '.join(parts)}"


def _grouping(node: MessageNode, speech: Speech) -> str:
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
    held = node.values.get(f"{name}_expr", node.values.get(name))
    return (
        speech.say(held) if isinstance(held, MessageNode) else None if held is None else str(held)
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
    return f"{_words(node, 'op', 'SET_OP_')} of {count(len(inputs_of(node)), 'input')}"


def _relation(node: MessageNode, speech: Speech) -> str:
    body = body_of(node)
    return "relation of no kind" if body is None else title(body, speech)


def _schema(node: MessageNode, speech: Speech) -> str:
    return count(len(node.values.get("names", ())), "column name")


def _struct_type(node: MessageNode, speech: Speech) -> str:
    return count(len(node.values.get("types", ())), "field type")


def _option(node: MessageNode, speech: Speech) -> str:
    preferences = " or ".join(
        clipped(p, MAX_NAME) for p in node.values.get("preference", ())[:_SHOWN]
    )
    return f"{clipped(node.values.get('name', ''), MAX_NAME)}: {preferences or 'no preference'}"


def _function(node: MessageNode, speech: Speech) -> str:
    name = clipped(node.values.get("name", ""), MAX_NAME)
    return f"function {node.values.get('function_anchor', 0)} is {name or 'nameless'}"


def _type_declaration(node: MessageNode, speech: Speech) -> str:
    name = clipped(node.values.get("name", ""), MAX_NAME)
    return f"type {node.values.get('type_anchor', 0)} is {name or 'nameless'}"


def _urn(node: MessageNode, speech: Speech) -> str:
    return clipped(node.values.get("urn", node.values.get("uri", "")), 2 * MAX_NAME)


def _emit(node: MessageNode, speech: Speech) -> str:
    return f"gives {count(len(node.values.get('output_mapping', ())), 'column')}"


def _table(node: MessageNode, speech: Speech) -> str:
    return "table " + ".".join(quoted(n, MAX_NAME) for n in node.values.get("names", ())[:_SHOWN])


def _said(node: MessageNode, speech: Speech) -> str:
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
    "AggregateRel.Grouping": _grouping,
    "SortRel": _sort,
    "FetchRel": _fetch,
    "SetRel": _set,
    **dict.fromkeys(("JoinRel", "HashJoinRel", "MergeJoinRel", "NestedLoopJoinRel"), _join),
    **dict.fromkeys(
        (
            "Expression", "Expression.Literal", "Expression.FieldReference", "FunctionArgument", "AggregateFunction",
            "AggregateRel.Measure", "SortField", "ConsistentPartitionWindowRel.WindowRelFunction",
        ),
        _said,
    ),
    "Type": lambda node, _: type_text(node),
    "NamedStruct": _schema,
    "Type.Struct": _struct_type,
    "FunctionOption": _option,
    "extensions.SimpleExtensionDeclaration.ExtensionFunction": _function,
    "extensions.SimpleExtensionDeclaration.ExtensionType": _type_declaration,
    "extensions.SimpleExtensionURN": _urn,
    "extensions.SimpleExtensionURI": _urn,
    "RelCommon.Emit": _emit,
    "ReadRel.NamedTable": _table,
}  # fmt: skip
