"""Mistakes in a plan as a message: declarations, version, extensions, roots, shared relations, names."""

from __future__ import annotations

from collections.abc import Callable

from tests.planted.changes import (
    NULLABLE,
    OUTSIDE,
    REQUIRED,
    Change,
    adding,
    at_declaration,
    at_fixed_path,
    becoming,
    calling,
    clearing,
    combined,
    setting,
)
from tests.planted.mistake import Mistake
from tests.planted.places import Place, call, first, measure

PLAN = first("Plan")
ROOT = first("RelRoot")
ONE_SET = first(
    "RelRoot",
    lambda p: all(len(i.message.groupings) < 2 for i in p.inside() if i.kind == "AggregateRel"),
)
"""Roots of plans without grouping sets: with them, one more name would name the index of the set."""
AVG = measure("avg")
COMPARED = call("gt", "lt")
READ = first("Rel", lambda p: p.message.HasField("read"))

ARITHMETIC, COMPARISON, STRING = (
    f"functions_{name}" for name in ("arithmetic", "comparison", "string")
)
ADDRESS = "https://github.com/substrait-io/substrait/blob/main/extensions"
OWN = "extension:com.example:functions_own"
ONE_COLUMN = {
    "base_schema": {"names": ["k"], "struct": {"types": [{"i64": NULLABLE}], **REQUIRED}},
    "named_table": {"names": ["t"]},
}
UNKNOWN_FIELD = b"\xfa\x3f\x01x"
"""Field 1023 with one byte: no release has it in any message."""


def _extra_field(place: Place) -> None:
    place.message.MergeFromString(UNKNOWN_FIELD)


def _enhanced(place: Place) -> None:
    place.message.advanced_extensions.enhancement.type_url = "type.googleapis.com/com.example.Own"


def _names(change: Callable[[list[str]], list[str]]) -> Change:
    """Changes the list of the root's names."""

    def apply(place: Place) -> str:
        place.message.names[:] = change(list(place.message.names))
        return f"{place.path}.names"

    return apply


def _last_name(change: Callable[[list[str]], str]) -> Change:
    """Changes the last of the root's names, where the problem is."""

    def apply(place: Place) -> str:
        names = place.message.names
        names[-1] = change(list(names))
        return f"{place.path}.names[{len(names) - 1}]"

    return apply


def _same_anchor(place: Place) -> None:
    """The function declared last gets the anchor of the first."""
    functions = place.message.extensions
    anchor = functions[0].extension_function.function_anchor
    functions[-1].extension_function.function_anchor = anchor


def _address(place: Place) -> str:
    """The extension of a measure's function is named by the address of its file."""
    calling(f"{ADDRESS}/{ARITHMETIC}.yaml", "max:fp64")(place)
    return f"extension_urns[{len(place.plan.extension_urns) - 1}].urn"


DECLARATIONS = (
    Mistake("one anchor for two functions", "ANCHOR_REPEATED", PLAN, at_declaration(combined(
        adding("extensions", extension_function={"name": "another:i64"}), _same_anchor))),
    Mistake("a declaration that declares nothing", "FIELD_MISSING", PLAN, adding("extensions")),
    Mistake("a function declared without an extension", "FUNCTION_NAME_BARE", AVG,
            at_declaration(combined(
                calling(ARITHMETIC, "max:fp64"),
                lambda p: setting(extension_urn_reference=0)(p.top.down("extensions[-1].extension_function"))))),
    Mistake("a function of an extension that is not declared", "EXTENSION_UNDECLARED", AVG,
            at_declaration(combined(
                calling(ARITHMETIC, "max:fp64"),
                lambda p: setting(extension_urn_reference=OUTSIDE)(p.top.down("extensions[-1].extension_function")))),
            ".extension_urn_reference"),
    Mistake("a measure of a function without a name", "FIELD_MISSING", AVG,
            at_declaration(calling(ARITHMETIC, ""))),
    Mistake("a scalar function without a name", "FIELD_MISSING", COMPARED,
            at_declaration(calling(ARITHMETIC, ":i64_i64"))),
    Mistake("the address of a standard extension as a URN", "EXTENSION_NAME_FORM", AVG,
            _address),
    Mistake("a function declared without its signature", "FUNCTION_NAME_BARE", AVG,
            at_declaration(calling(ARITHMETIC, "max"))),
    Mistake("a measure of an extension that is not known", "FUNCTION_URN_UNKNOWN", AVG,
            at_declaration(calling(OWN, "avg:fp64"))),
    Mistake("a measure under the wrong standard extension", "FUNCTION_URN_DIFFERS", AVG,
            at_declaration(calling(STRING, "avg:fp64"))),
    Mistake("a measure's signature that the extension does not have", "SIGNATURE_UNKNOWN", AVG,
            at_declaration(calling(ARITHMETIC, "avg:str"))),
    Mistake("a scalar function of an extension that is not known", "FUNCTION_URN_UNKNOWN", COMPARED,
            at_declaration(calling(OWN, "gt:any_any"))),
    Mistake("a scalar function under the wrong standard extension", "FUNCTION_URN_DIFFERS", COMPARED,
            at_declaration(calling(STRING, "gt:any_any"))),
    Mistake("a scalar function's signature that the extension does not have", "SIGNATURE_UNKNOWN", COMPARED,
            at_declaration(calling(COMPARISON, "gt:any"))),
)  # fmt: skip

WHOLE = (
    Mistake("a plan without a version", "VERSION_MISSING", PLAN, at_fixed_path("version", clearing("version")),
            producers=("substrait-python",)),  # DataFusion's plans mean something else without their producer
    Mistake("an enhancement that is not known", "ENHANCEMENT_NOT_SUPPORTED", PLAN,
            at_fixed_path("advanced_extensions.enhancement", _enhanced), json=False),
    Mistake("a field that no release has", "UNKNOWN_FIELD", measure("sum"), _extra_field, ".1023",
            json=False),
    Mistake("a root without a relation", "FIELD_MISSING", ROOT, clearing("input")),
    Mistake("a reference to a relation that is not there", "REFERENCE_INVALID", READ,
            becoming(reference={"subtree_ordinal": OUTSIDE})),
    Mistake("a relation that refers to itself", "REFERENCE_CYCLE", READ,
            becoming(reference={"subtree_ordinal": 0})),
    Mistake("a relation that says nothing", "FIELD_MISSING", READ, becoming()),
)  # fmt: skip

NAMES = (
    Mistake("a root with a name too few", "NAMES_COUNT", ROOT, _names(lambda n: n[:-1])),
    Mistake("a root with a name too many", "NAMES_COUNT", ONE_SET, _names(lambda n: [*n, "more"])),
    Mistake("two columns of one name", "NAME_REPEATED", ROOT, _last_name(lambda n: n[0])),
    Mistake("a column with an empty name", "NAME_EMPTY", ROOT, _last_name(lambda _: "")),
    Mistake(
        "a column with the name of the weight of a change",
        "NAME_RESERVED",
        ROOT,
        _last_name(lambda _: "__weight"),
    ),
)

PLANS = (*DECLARATIONS, *WHOLE, *NAMES)
