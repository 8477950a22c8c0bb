"""Extension declarations of a plan: from anchors to names, by URN or by the URIs that came before."""

from __future__ import annotations

from substrait_agg.plan.context import Context, TypeName
from substrait_agg.plan.model import FunctionName
from substrait_agg.plan.node import Node

_STANDARD_OWNER = "io.substrait"


def read_extensions(plan: Node, context: Context) -> None:
    """Fill the tables of functions and types of `context` from a ``Plan`` message."""
    urns = {
        item.number("extension_urn_anchor"): _name_of_urn(item.text("urn"))
        for item in plan.messages("extension_urns")
    }
    uris = {
        item.number("extension_uri_anchor"): _name_of_uri(item.text("uri"))
        for item in plan.messages("extension_uris")
    }
    if uris and not urns:
        context.removed(plan, "extension_uris", "0.85")
    for declaration in plan.messages("extensions"):
        _read_declaration(declaration, urns, uris, context)


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
        known = context.functions.setdefault(anchor, function_name(name, urn))
        same = known == function_name(name, urn)
    else:
        anchor = item.number("type_anchor")
        same = context.types.setdefault(anchor, TypeName(name, urn)) == TypeName(name, urn)
    if not same:
        reason = f"{anchor} is declared twice"
        context.report("VALUE_INVALID", item.path, field="anchor", reason=reason)


def _owner(item: Node, urns: dict[int, str | None], uris: dict[int, str | None]) -> str | None:
    """The extension that a declaration refers to: a URN counts before a URI, unknown anchors are none."""
    by_urn = item.number("extension_urn_reference")
    by_uri = item.number("extension_uri_reference")
    return urns.get(by_urn) or uris.get(by_uri)


def function_name(declared: str, urn: str | None) -> FunctionName:
    """A declared name such as ``sum:i32``, ``count:`` or ``sum`` in its parts."""
    name, colon, signature = declared.strip().partition(":")
    return FunctionName(name.lower(), signature if colon else None, urn, declared)


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
