"""Extension declarations of a plan: from anchors to names, by URN or by the URIs that came before."""

from __future__ import annotations

from collections.abc import Callable

from substrait_agg.plan.context import Context, TypeName
from substrait_agg.plan.model import FunctionName
from substrait_agg.plan.node import Node

_STANDARD_OWNER = "io.substrait"


def read_extensions(plan: Node, context: Context) -> None:
    """Fill the tables of functions and types of `context` from a ``Plan`` message."""
    urns = _by_anchor(plan, "urn", _name_of_urn, context)
    uris = _by_anchor(plan, "uri", _name_of_uri, context)
    if uris and not urns:
        context.removed(plan, "extension_uris", "0.85")
    for declaration in plan.messages("extensions"):
        _read_declaration(declaration, urns, uris, context)


def _by_anchor(
    plan: Node, what: str, name_of: Callable[[str], str | None], context: Context
) -> dict[int, str | None]:
    """The extensions of a plan, by URN or by URI; of two under one anchor the first, which is reported."""
    found: dict[int, str | None] = {}
    for item in plan.messages(f"extension_{what}s"):
        anchor, name = item.number(f"extension_{what}_anchor"), name_of(item.text(what))
        if found.setdefault(anchor, name) != name:
            _report_twice(item, anchor, context)
    return found


def _read_declaration(
    declaration: Node, urns: dict[int, str | None], uris: dict[int, str | None], context: Context
) -> None:
    kind = declaration.which("mapping_type")
    if kind == "extension_type_variation":
        return
    item = declaration.message(kind) if kind else None
    if item is None:
        context.missing(declaration, "mapping_type")
        return
    urn = _owner(item, urns, uris)
    name = item.text("name")
    if kind == "extension_function":
        anchor = item.number("function_anchor")
        declared = function_name(name, urn, item.path)
        same = context.functions.setdefault(anchor, declared) == declared
    else:
        anchor = item.number("type_anchor")
        same = context.types.setdefault(anchor, TypeName(name, urn)) == TypeName(name, urn)
    if not same:
        _report_twice(item, anchor, context)


def _report_twice(item: Node, anchor: int, context: Context) -> None:
    reason = f"{anchor} is declared twice"
    context.report("VALUE_INVALID", item.path, field="anchor", reason=reason)


def _owner(item: Node, urns: dict[int, str | None], uris: dict[int, str | None]) -> str | None:
    """The extension that a declaration refers to: a URN counts before a URI, unknown anchors are none."""
    by_urn = item.number("extension_urn_reference")
    by_uri = item.number("extension_uri_reference")
    return urns.get(by_urn) or uris.get(by_uri)


def function_name(declared: str, urn: str | None, path: str = "") -> FunctionName:
    """A name such as ``sum:i32``, ``count:`` or ``sum``, declared at `path`, in its parts."""
    name, colon, signature = declared.strip().partition(":")
    return FunctionName(name.lower(), signature if colon else None, urn, declared, path=path)


def _name_of_urn(urn: str) -> str | None:
    """``extension:io.substrait:functions_x`` to ``functions_x``; other owners stay in the name."""
    parts = [part for part in urn.strip().split(":") if part]
    if len(parts) > 1 and parts[0].lower() == "extension":
        parts = parts[1:]
    if len(parts) > 1 and parts[0].lower() == _STANDARD_OWNER:
        parts = parts[1:]
    return ":".join(parts) or None


def _name_of_uri(uri: str) -> str | None:
    """The file's name without ``.yaml``; None for a mere folder, which says nothing."""
    file = uri.strip().split("?")[0].split("#")[0].rpartition("/")[2]
    for suffix in (".yaml", ".yml"):
        if file.lower().endswith(suffix):
            return file[: -len(suffix)] or None
    return None if uri.strip().endswith("/") else _name_of_urn(file)
