"""Function names as plans declare them: undeclared, bare, from another extension, with another signature."""

from __future__ import annotations

from substrait_agg.bind.context import BindContext
from substrait_agg.functions.aggregates.catalogue import STANDARD_URNS
from substrait_agg.functions.windows import WINDOWS_URN
from substrait_agg.plan.model import NO_FUNCTION, FunctionName

# A URI that names only the folder of the standard extensions says nothing about the extension.
FOLDERS = frozenset({"", "extensions"})


def is_foreign(function: FunctionName) -> bool:
    """Whether a function belongs to an extension that is not one of the standard's."""
    return function.urn not in (None, *FOLDERS, *STANDARD_URNS)


def check_declared(function: FunctionName, path: str, context: BindContext) -> bool:
    """Report what is wrong with a function's declaration; False when it cannot be resolved at all.

    That is reported once, at the declaration; `path`, the place of use, stands for one that is not there or not known.
    """
    if function == NO_FUNCTION:
        return False
    if not function.known:
        context.report("FUNCTION_UNDECLARED", path, name=function.declared)
        return False
    bare = function.urn is None or function.urn in FOLDERS
    if not bare and function.urn not in (WINDOWS_URN, *STANDARD_URNS):
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


def check_column_names(
    names: tuple[str, ...], path: str, context: BindContext, places: tuple[int, ...] | None = None
) -> None:
    """Report names that are empty or given twice.

    Args:
        names: of the columns, top level.
        path: of the list of names in the plan message.
        context: takes the problems.
        places: where in that list each name stands; one after the other when None.
    """
    first: dict[str, int] = {}
    for ordinal, name in enumerate(names):
        place = f"{path}[{ordinal if places is None else places[ordinal]}]"
        if not name:
            context.report("NAME_EMPTY", place, ordinal=ordinal)
        elif first.setdefault(name, ordinal) != ordinal:
            context.report("NAME_REPEATED", place, name=name, first=first[name], ordinal=ordinal)
