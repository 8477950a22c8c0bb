"""Check function names as plans declare them: undeclared, without extension, or foreign."""

from __future__ import annotations

from substrait_agg.bind.context import BindContext
from substrait_agg.functions.aggregates.catalogue import STANDARD_URNS
from substrait_agg.functions.spark_sql import SPARK_URN
from substrait_agg.functions.windows import WINDOWS_URN
from substrait_agg.plan.model import NO_FUNCTION, FunctionName

# A URI that names only the folder of the standard extensions does not identify an extension.
FOLDERS = frozenset({"", "extensions"})


def is_foreign(function: FunctionName) -> bool:
    """Return whether a function belongs to an extension outside of the standard."""
    return function.urn not in (None, *FOLDERS, *STANDARD_URNS)


def check_declared(function: FunctionName, path: str, context: BindContext) -> bool:
    """Report errors in the declaration of a function. Return False if it cannot be resolved.

    Each error is reported once, at the declaration. If the declaration is missing or its place is
    unknown, the report uses `path`, the place of use.
    """
    if function == NO_FUNCTION:
        return False
    if not function.known:
        context.report("FUNCTION_UNDECLARED", path, name=function.declared)
        return False
    bare = function.urn is None or function.urn in FOLDERS
    if not bare and function.urn not in (WINDOWS_URN, SPARK_URN, *STANDARD_URNS):
        place = function.path or path
        context.report("FUNCTION_URN_UNKNOWN", place, name=function.declared, urn=function.urn)
        return False
    missing = [
        word
        for word, absent in (
            ("an extension", bare and not function.undeclared_extension),
            ("a signature", function.signature is None),
        )
        if absent
    ]
    if missing:
        _report_bare(function, " and ".join(missing), path, context)
    return True


def _report_bare(function: FunctionName, what: str, path: str, context: BindContext) -> None:
    if not function.path:
        if function.declared in context.named:
            return
        context.named.add(function.declared)
    place = function.path or path
    context.report("FUNCTION_NAME_BARE", place, name=function.declared, what=what)


def check_field_names(
    names: tuple[str, ...], path: str, context: BindContext, places: tuple[int, ...] | None = None
) -> None:
    """Report names of columns, or of the fields of a struct, that are empty or repeated.

    Args:
        names: names of all columns, or of all fields of a struct.
        path: path of the list of names in the plan message.
        context: collects the problems.
        places: position of each name in that list; None if they are consecutive.
    """
    first: dict[str, int] = {}
    for ordinal, name in enumerate(names):
        place = f"{path}[{ordinal if places is None else places[ordinal]}]"
        if not name:
            context.report("NAME_EMPTY", place, ordinal=ordinal)
        elif first.setdefault(name, ordinal) != ordinal:
            context.report("NAME_REPEATED", place, name=name, first=first[name], ordinal=ordinal)
