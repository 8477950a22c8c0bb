"""Read the extension declarations of a plan: map anchors to names, by URN or by the older URI."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from substrait_agg.plan.decoding.context import DecodeContext, TypeName
from substrait_agg.plan.messages.node import MessageNode
from substrait_agg.plan.model import NO_FUNCTION, FunctionName

_STANDARD_OWNER = "io.substrait"
_SITES = (
    "github.com/substrait-io/substrait",
    "raw.githubusercontent.com/substrait-io/substrait",
    "substrait.io",
)
_STANDARD_SITES = tuple(
    f"{scheme}://{www}{site}/"
    for scheme in ("https", "http")
    for www in ("", "www.")
    for site in _SITES
)
"""URL prefixes under which the files of the standard are published."""

NO_EXTENSION = 2**32 - 1
"""Reference of a function without an extension, as DataFusion writes it."""

_URN_REFERENCE, _URI_REFERENCE = "extension_urn_reference", "extension_uri_reference"

Names = dict[int, str | None]
"""Anchor -> name of the extension; None if the declaration names no extension."""


@dataclass(frozen=True, slots=True)
class _Extensions:
    """The extensions that a plan declares, by the field that refers to them."""

    by_field: dict[str, Names]

    def by_anchor(self, item: MessageNode, field: str) -> bool:
        """Return whether the extension that a declaration refers to in `field` exists."""
        return item.number(field) in self.by_field[field]

    def name(self, item: MessageNode, field: str) -> str | None:
        """Return the name of the extension that a declaration refers to in `field`."""
        return self.by_field[field].get(item.number(field))


@dataclass(frozen=True, slots=True)
class _DeclaringExtension:
    """The extension of a declaration, `undeclared` if it refers to a missing one."""

    name: str | None
    undeclared: bool = False


def read_extensions(plan: MessageNode, context: DecodeContext) -> None:
    """Fill the tables of functions, types and variations of `context` from a ``Plan`` message."""
    urns = _by_anchor(plan, "urn", _name_of_urn, context)
    uris = _by_anchor(plan, "uri", _name_of_uri, context)
    if uris and not urns:
        context.report_removed(plan, "extension_uris", "0.85")
    extensions = _Extensions({_URN_REFERENCE: urns, _URI_REFERENCE: uris})
    for declaration in plan.messages("extensions"):
        _read_declaration(declaration, extensions, context)


def _by_anchor(
    plan: MessageNode, what: str, name_of: Callable[[str], str | None], context: DecodeContext
) -> Names:
    """Return the extensions of a plan by anchor, declared by URN or by URI.

    If an anchor is declared twice, the first declaration counts, and the second is reported.
    """
    names: Names = {}
    for item in plan.messages(f"extension_{what}s"):
        written = item.text(what).strip()
        anchor, name = item.number(f"extension_{what}_anchor"), name_of(written)
        _check_form(item, what, written, name, context)
        if names.setdefault(anchor, name) != name:
            _report_repeated(item, anchor, "extension", context)
    return names


def _check_form(
    item: MessageNode, what: str, written: str, name: str | None, context: DecodeContext
) -> None:
    """Report a URL in a URN field, and a URN in a URI field."""
    address = what == "urn" and _is_standard_file(written)
    urn = what == "uri" and written.lower().startswith("extension:")
    if name is not None and (address or urn):
        form = "the address of a file" if address else "a URN"
        context.report(
            "EXTENSION_NAME_FORM", item.at(what), field=what, written=written, form=form, name=name,
            urn=written if urn else f"extension:{_STANDARD_OWNER}:{name}",
        )  # fmt: skip


def _read_declaration(
    declaration: MessageNode, extensions: _Extensions, context: DecodeContext
) -> None:
    kind = declaration.which("mapping_type")
    item = declaration.message(kind) if kind else None
    if item is None:
        context.report_missing(declaration, "mapping_type")
        return
    owner = _owner(item, extensions, context)
    name = item.text("name")
    named = bool(name.partition(":")[0].strip())
    if not named:
        context.report_missing(item, "name")
    if kind == "extension_function":
        anchor, what = item.number("function_anchor"), "function"
        function = _function(name, owner, item.path) if named else NO_FUNCTION
        same = context.functions.setdefault(anchor, function) == function
    else:
        what = "type" if kind == "extension_type" else "type variation"
        table = context.types if kind == "extension_type" else context.variations
        anchor = item.number("type_anchor" if what == "type" else "type_variation_anchor")
        declared = TypeName(name, owner.name) if named else None
        same = table.setdefault(anchor, declared) == declared
    if not same:
        _report_repeated(item, anchor, what, context)


def _report_repeated(item: MessageNode, anchor: int, what: str, context: DecodeContext) -> None:
    context.report("ANCHOR_REPEATED", item.path, anchor=anchor, what=what)


def _owner(
    item: MessageNode, extensions: _Extensions, context: DecodeContext
) -> _DeclaringExtension:
    """Return the extension that a declaration refers to.

    Report missing and contradicting references.

    If both references are written, the URN counts. If none is written, the anchor is 0.
    """
    both = (_URN_REFERENCE, _URI_REFERENCE)
    written = [f for f in both if item.has(f) and item.number(f) != NO_EXTENSION]
    declared = [f for f in written or both if extensions.by_anchor(item, f)]
    if len(written) == len(both) and declared and not _agree(item, declared, extensions):
        context.report(
            "FIELD_CONFLICT", item.at(_URI_REFERENCE), field=_URI_REFERENCE, other=_URN_REFERENCE
        )
    for field in written[:1] if not declared else ():
        anchor, what = item.number(field), field.split("_")[1].upper()
        context.report(
            "EXTENSION_UNDECLARED", item.at(field),
            name=item.text("name"), what=what, anchor=anchor,
        )  # fmt: skip
    names = (extensions.name(item, field) for field in declared)
    return _DeclaringExtension(next((n for n in names if n), None), bool(written) and not declared)


def _agree(item: MessageNode, declared: list[str], extensions: _Extensions) -> bool:
    """Return whether URN and URI of a declaration name the same extension.

    A URN of another owner than the standard's does not determine a file name, and a folder does not
    determine its content; both count as equal.
    """
    if len(declared) < 2:
        return False
    urn, uri = (extensions.name(item, field) for field in (_URN_REFERENCE, _URI_REFERENCE))
    return urn is None or uri is None or ":" in urn or urn == uri


def _function(declared: str, owner: _DeclaringExtension, path: str) -> FunctionName:
    """Return a name such as ``sum:i32``, ``count:`` or ``sum``, declared at `path`, split into its parts."""
    name, colon, signature = declared.strip().partition(":")
    return FunctionName(
        name.lower(), signature if colon else None, owner.name, declared,
        path=path, undeclared_extension=owner.undeclared,
    )  # fmt: skip


def _name_of_urn(urn: str) -> str | None:
    """Return ``functions_x`` for ``extension:io.substrait:functions_x``.

    Other owners stay in the name.

    The URL of a file of the standard names the extension in that file.
    """
    if _is_standard_file(urn):
        return _name_of_uri(urn)
    parts = [part for part in urn.split(":") if part]
    if len(parts) > 1 and parts[0].lower() == "extension":
        parts = parts[1:]
    if len(parts) > 1 and parts[0].lower() == _STANDARD_OWNER:
        parts = parts[1:]
    return ":".join(parts) or None


def _is_standard_file(text: str) -> bool:
    """Return whether a text is the URL of a file of the standard, or a path to an extension file."""
    path = text.partition("?")[0].partition("#")[0].lower()
    return path.endswith((".yaml", ".yml")) and (
        path.startswith(_STANDARD_SITES) or ":" not in path
    )


def _name_of_uri(uri: str) -> str | None:
    """Return the file's name without ``.yaml``; None for a folder, which names no extension."""
    file = uri.partition("?")[0].partition("#")[0].rpartition("/")[2]
    for suffix in (".yaml", ".yml"):
        if file.lower().endswith(suffix):
            return file[: -len(suffix)] or None
    return None if uri.endswith("/") else _name_of_urn(file)
