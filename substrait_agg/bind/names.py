"""Function names as plans declare them: undeclared, bare, from another extension, with another signature."""

from __future__ import annotations

from substrait_agg.bind.context import Context, Schema, listed
from substrait_agg.functions.aggregates import STANDARD_URNS
from substrait_agg.plan.model import FunctionName

# A URI that names only the folder of the standard extensions says nothing about the extension.
FOLDERS = frozenset({"", "extensions"})

SHORT_NAMES: dict[str, frozenset[str]] = {
    **{
        kind: frozenset({kind})
        for kind in ("i8", "i16", "i32", "i64", "fp32", "fp64", "bool", "date", "struct", "list", "map")
    },
    "str": frozenset({"string", "varchar", "fixedchar"}),
    "vchar": frozenset({"string", "varchar", "fixedchar"}),
    "fchar": frozenset({"string", "varchar", "fixedchar"}),
    "vbin": frozenset({"binary", "fixedbinary"}),
    "fbin": frozenset({"binary", "fixedbinary"}),
    "dec": frozenset({"decimal"}),
    "pt": frozenset({"precision_time"}),
    "time": frozenset({"precision_time"}),
    "pts": frozenset({"precision_timestamp"}),
    "ts": frozenset({"precision_timestamp"}),
    "ptstz": frozenset({"precision_timestamp_tz"}),
    "tstz": frozenset({"precision_timestamp_tz"}),
    "iyear": frozenset({"interval_year"}),
    "iday": frozenset({"interval_day"}),
    "icompound": frozenset({"interval_compound"}),
    **{f"u!{kind}": frozenset({kind}) for kind in ("u8", "u16", "u32", "u64")},
}  # fmt: skip
"""Short type name of a signature -> type kinds; other words (any, req, long names) are not compared."""


def check_declared(function: FunctionName, path: str, context: Context) -> bool:
    """Report what is wrong with a function's declaration; False when it cannot be resolved at all."""
    if not function.known:
        context.report("FUNCTION_UNDECLARED", path, name=function.declared)
        return False
    bare = function.urn is None or function.urn in FOLDERS
    if not bare and function.urn not in STANDARD_URNS:
        context.report("FUNCTION_URN_UNKNOWN", path, name=function.declared, urn=function.urn)
        return False
    missing = [
        word
        for word, absent in (("an extension", bare), ("a signature", function.signature is None))
        if absent
    ]
    if missing and function.declared not in context.named:
        context.named.add(function.declared)
        what = " and ".join(missing)
        context.report("FUNCTION_NAME_BARE", path, name=function.declared, what=what)
    return True


def check_signature(function: FunctionName, types: Schema, path: str, context: Context) -> None:
    """Report argument types that are not those of the signature the plan declares.

    `types` are those of the value arguments, so that enumeration words (``req``) are left out.
    """
    if function.signature is None:
        return
    words = [w for w in function.signature.split("_") if w not in ("", "req", "opt", "enum")]
    if len(words) == len(types):
        fits = all(
            t.kind in SHORT_NAMES.get(w.rstrip("?"), (t.kind,)) or t.kind == "unknown"
            for w, t in zip(words, types, strict=True)
        )
    else:
        fits = len(words) == 1 and len(types) > 1  # variadic: the repeated argument is named once
    if not fits and all(w.rstrip("?") in SHORT_NAMES or w.startswith("any") for w in words):
        context.report("SIGNATURE_DIFFERS", path, name=function.declared, types=listed(types))
