"""Convert plans between protobuf and JSON, and from any release to the newest that is known.

A plan is read with the fields of all releases, its old forms are replaced by the new ones, and the
result is written with the messages of the newest release.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from google.protobuf import (
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    json_format,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.message import Message
from substrait import plan_pb2

from substrait_agg.errors import UsageError
from substrait_agg.plan.messages.message import parse_message
from substrait_agg.plan.messages.node import MessageNode, preorder
from substrait_agg.plan.messages.schema import ANY, MESSAGE, schema
from substrait_agg.plan.messages.source import json_text, plan_bytes

RELEASE = (0, 106, 0)
"""The release of the messages that are written."""

WELL_KNOWN = (
    duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2,
)  # fmt: skip
"""The modules of the messages that JSON can write inside of an ``Any``. Importing them is enough."""

NO_EXTENSION = 2**32 - 1
"""The reference of a function without an extension."""

_STANDARD = re.compile(r"(?:^|.*/)(functions_\w+)\.ya?ml(?:[?#].*)?$")
_MICROSECONDS = 6


def json_of(message: Message) -> str:
    """Return a message as JSON text.

    Raises:
        UsageError: PLAN_NOT_CONVERTED, for an ``Any`` of an unknown message.
    """
    try:
        return str(json_format.MessageToJson(message, indent=2))
    except TypeError as error:
        raise UsageError(
            "PLAN_NOT_CONVERTED",
            f"JSON cannot express a message in the plan: {error}",
            help="write the plan as protobuf, to a name that does not end in .json",
        ) from error


def bytes_of(message: Message) -> bytes:
    """Return a message as protobuf."""
    return bytes(message.SerializeToString(deterministic=True))


def as_message(content: Any, *, state_release: bool = True, repeated_keys: bool = False) -> Any:
    """Return a plan as a message of the newest release.

    Args:
        content: the plan, in any form that `plan_bytes` takes.
        state_release: whether the plan states the newest release; False keeps the release that it
            states, for plans of producers whose meaning depends on it.
        repeated_keys: whether equal expressions inside one grouping set stay separate keys.

    Raises:
        UsageError: PLAN_SOURCE, PLAN_NOT_CONVERTED.
        Unreadable: the content is not a plan.
    """
    encoded = plan_bytes(content)
    root = parse_message(encoded, _refuse)
    upgrades: _Upgrades = {
        **_UPGRADES,
        "AggregateRel": (partial(_upgrade_groupings, repeated=repeated_keys),),
        **({} if json_text(encoded) is None else _UPGRADES_OF_JSON),
    }
    for node in list(preorder(root)):
        for upgrade in upgrades.get(node.shape.name, ()):
            upgrade(node)
    plan = plan_pb2.Plan()
    _fill(plan, root)
    if state_release:
        plan.version.major_number, plan.version.minor_number, plan.version.patch_number = RELEASE
    return plan


def _refuse(code: str, path: str, **params: object) -> None:
    """Refuse what cannot be read: the result would be another plan, without it."""
    if code == "UNKNOWN_FIELD":
        raise _not_converted(path, str(params.get("name", params.get("field", "a field"))))
    reason = params.get("reason", f"and {params.get('other')} are both set")
    raise UsageError(
        "PLAN_NOT_CONVERTED",
        f"{params.get('field', 'a field')} {reason}",
        help="correct the plan; substrait-agg validate lists all its problems",
        path=path,
    )


def _not_converted(path: str, name: str) -> UsageError:
    return UsageError(
        "PLAN_NOT_CONVERTED",
        f"{name} is no field of release {'.'.join(map(str, RELEASE))} of Substrait",
        help="remove the field, or use the plan as it is",
        path=path,
    )


# --- old forms ----------------------------------------------------------------------------------


def _upgrade_uris(plan: MessageNode) -> None:
    """Replace the URIs of extensions by URNs, with free anchors."""
    urns = plan.values.setdefault("extension_urns", [])
    names = {u.values.get("extension_urn_anchor", 0): u.values.get("urn", "") for u in urns}
    anchors: dict[int, int] = {}
    for uri in plan.values.pop("extension_uris", []):
        anchor, name = uri.values.get("extension_uri_anchor", 0), _urn(uri.values.get("uri", ""))
        if anchor in anchors:
            continue
        if not name:
            anchors[anchor] = NO_EXTENSION
            continue
        anchors[anchor] = anchor if names.get(anchor, name) == name else max(names) + 1
        if anchors[anchor] not in names:
            names[anchors[anchor]] = name
            urn = _make(plan, "extension_urns", "extensions.SimpleExtensionURN")
            urn.values |= {"extension_urn_anchor": anchors[anchor], "urn": name}
            urns.append(urn)
    for extension in plan.values.get("extensions", []):
        for declared in extension.values.values():
            _refer(declared, anchors, names)


def _refer(declared: MessageNode, anchors: dict[int, int], names: dict[int, str]) -> None:
    """Replace the reference to a URI by one to its URN. A reference that is not written is 0."""
    urn = declared.values.get("extension_urn_reference")
    uri = declared.values.pop("extension_uri_reference", None)
    if urn in names:
        return
    if urn is None and uri is None and 0 not in names:
        uri = 0 if 0 in anchors else None
    if uri is not None:
        declared.values["extension_urn_reference"] = anchors.get(uri, uri)


def _urn(uri: str) -> str:
    """Return the URN of an extension; empty for a folder, which names no extension."""
    standard = _STANDARD.match(uri.strip())
    if standard:
        return f"extension:io.substrait:{standard[1]}"
    return "" if uri.strip().endswith("/") else uri


def _upgrade_groupings(aggregate: MessageNode, *, repeated: bool) -> None:
    """Move grouping expressions from the grouping sets to the aggregate.

    Args:
        aggregate: the relation.
        repeated: whether equal expressions inside one grouping set stay separate keys.
    """
    expressions = aggregate.values.setdefault("grouping_expressions", [])
    keys = [_key(e) for e in expressions]
    for grouping in aggregate.values.get("groupings", []):
        own = grouping.values.pop("grouping_expressions", [])
        if grouping.values.get("expression_references"):
            continue
        references: list[int] = []
        for expression in own:
            key = _key(expression)
            used = references if repeated else ()
            same = [i for i, other in enumerate(keys) if other == key and i not in used]
            if not same:
                same.append(len(keys))
                keys.append(key)
                expressions.append(expression)
            references.append(same[0])
        if references:
            grouping.values["expression_references"] = references


def _key(node: Any) -> Any:
    """Return a value that is equal for equal messages."""
    if isinstance(node, MessageNode):
        return node.shape.name, tuple(sorted((n, _key(v)) for n, v in node.values.items()))
    return tuple(map(_key, node)) if isinstance(node, list) else node


def _drop_hints(extension: MessageNode) -> None:
    """Leave out hints for optimizers, which have no effect: JSON is read without their content."""
    extension.values.pop("optimization", None)


def _refuse_content(message: MessageNode) -> None:
    if not message.step.startswith("optimization"):
        raise UsageError(
            "PLAN_NOT_CONVERTED",
            "the content of a google.protobuf.Any cannot be read from JSON",
            help="give the plan as protobuf",
            path=message.path,
        )


def _upgrade_arguments(call: MessageNode) -> None:
    """Replace plain arguments by values, and enumerations among them by their names."""
    arguments = call.values.setdefault("arguments", [])
    for old in call.values.pop("args", []):
        argument = _make(call, "arguments", "FunctionArgument")
        enum = old.values.get("enum")
        if enum is None:
            argument.values["value"] = old
        else:
            argument.values["enum"] = enum.values.get("specified", "")
        arguments.append(argument)


_OLD_TYPES = {
    "timestamp": "precision_timestamp",
    "timestamp_tz": "precision_timestamp_tz",
    "time": "precision_time",
}
_PRECISE = {"timestamp": "PrecisionTimestamp", "timestamp_tz": "PrecisionTimestampTZ", "time": "PrecisionTime"}  # fmt: skip


def _upgrade_type(type_: MessageNode) -> None:
    """Replace times of fixed precision by times of six digits."""
    for old, new in _OLD_TYPES.items():
        old_time = type_.values.pop(old, None)
        if old_time is not None:
            upgraded = _make(type_, new, f"Type.{_PRECISE[old]}")
            upgraded.values = {**old_time.values, "precision": _MICROSECONDS}
            type_.values[new] = upgraded


def _upgrade_literal(literal: MessageNode) -> None:
    for old, new in _OLD_TYPES.items():
        value = literal.values.pop(old, None)
        if value is not None:
            kind = "PrecisionTime" if old == "time" else "PrecisionTimestamp"
            upgraded = _make(literal, new, f"Expression.Literal.{kind}")
            upgraded.values = {"precision": _MICROSECONDS, "value": value}
            literal.values[new] = upgraded


def _upgrade_interval(interval: MessageNode) -> None:
    micros = interval.values.pop("microseconds", None)
    if micros is not None:
        interval.values |= {"precision": _MICROSECONDS, "subseconds": micros}


def _upgrade_fetch(fetch: MessageNode) -> None:
    """Replace whole numbers by expressions. A negative count means all rows."""
    for old in ("offset", "count"):
        value = fetch.values.pop(old, None)
        if value is not None and value >= 0:
            fetch.values[f"{old}_expr"] = _literal(fetch, f"{old}_expr", {"i64": value})


def _upgrade_rows(table: MessageNode) -> None:
    """Replace rows of literals by rows of expressions."""
    rows = table.values.setdefault("expressions", [])
    for old in table.values.pop("values", []):
        row = _make(table, "expressions", "Expression.Nested.Struct")
        row.values["fields"] = []
        for value in old.values.get("fields", []):
            expression = _make(row, "fields", "Expression")
            expression.values["literal"] = value
            row.values["fields"].append(expression)
        rows.append(row)


def _upgrade_keys(join: MessageNode) -> None:
    """Replace two lists of keys by pairs that are compared by equality."""
    left = join.values.pop("left_keys", [])
    right = join.values.pop("right_keys", [])
    keys = join.values.setdefault("keys", [])
    for pair in zip(left, right, strict=False):
        key = _make(join, "keys", "ComparisonJoinKey")
        comparison = _make(key, "comparison", "ComparisonJoinKey.ComparisonType")
        comparison.values["simple"] = 1  # SIMPLE_COMPARISON_TYPE_EQ
        key.values |= {"left": pair[0], "right": pair[1], "comparison": comparison}
        keys.append(key)


def _make(parent: MessageNode, step: str, name: str) -> MessageNode:
    return MessageNode(schema().messages[name], parent, step)


def _literal(parent: MessageNode, step: str, values: dict[str, Any]) -> MessageNode:
    expression = _make(parent, step, "Expression")
    literal = _make(expression, "literal", "Expression.Literal")
    literal.values = values
    expression.values["literal"] = literal
    return expression


_Upgrades = dict[str, tuple[Callable[[MessageNode], None], ...]]

_UPGRADES: _Upgrades = {
    "Plan": (_upgrade_uris,),
    "AggregateFunction": (_upgrade_arguments,),
    "Expression.ScalarFunction": (_upgrade_arguments,),
    "Expression.WindowFunction": (_upgrade_arguments,),
    "Type": (_upgrade_type,),
    "Expression.Literal": (_upgrade_literal,),
    "Expression.Literal.IntervalDayToSecond": (_upgrade_interval,),
    "FetchRel": (_upgrade_fetch,),
    "ReadRel.VirtualTable": (_upgrade_rows,),
    "HashJoinRel": (_upgrade_keys,),
    "MergeJoinRel": (_upgrade_keys,),
}
"""Message -> what replaces the forms of older releases in it."""

_UPGRADES_OF_JSON: _Upgrades = {
    ANY: (_refuse_content,),
    "extensions.AdvancedExtension": (_drop_hints,),
}


# --- writing ------------------------------------------------------------------------------------


def _fill(message: Any, root: MessageNode) -> None:
    """Copy the values of a node into a message."""
    waiting = [(message, root)]
    while waiting:
        target, node = waiting.pop()
        waiting.extend(_fill_scalars(target, node))


def _fill_scalars(target: Any, node: MessageNode) -> Iterator[tuple[Any, MessageNode]]:
    """Copy the scalars of a node; yield the messages in it with their targets."""
    for name, value in node.values.items():
        field = node.shape.by_json_name[name]
        if field.name not in target.DESCRIPTOR.fields_by_name:
            if value in ([], None):
                continue
            raise _not_converted(node.at(name), f"{node.shape.name}.{name}")
        if field.kind != MESSAGE:
            _set(target, field.name, value, repeated=field.repeated)
        elif field.repeated:
            container = getattr(target, field.name)
            for part in value:
                yield container.add(), part
        else:
            inner = getattr(target, field.name)
            inner.SetInParent()
            yield inner, value


def _set(target: Any, name: str, value: Any, *, repeated: bool) -> None:
    if repeated:
        getattr(target, name).extend(value)
    else:
        setattr(target, name, value)
