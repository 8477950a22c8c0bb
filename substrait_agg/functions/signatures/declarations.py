"""Read the standard's declarations of functions from the extension files of `substrait_extensions`.

A file is read when its declarations are first needed, and only the requested section is parsed. The
catalogues define which functions can run. The files show where a plan deviates from the standard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any
from typing import Literal as OneOf

from substrait_agg.functions.windows import WINDOWS_URN, windows_text

Section = OneOf["aggregate_functions", "scalar_functions", "window_functions"]
"""A section of an extension file."""

SHORT_NAMES = {
    "string": "str", "binary": "vbin", "boolean": "bool", "fixedchar": "fchar", "varchar": "vchar",
    "fixedbinary": "fbin", "decimal": "dec", "precision_time": "pt", "precision_timestamp": "pts",
    "precision_timestamp_tz": "ptstz", "interval_year": "iyear", "interval_day": "iday",
    "interval_compound": "icompound",
}  # fmt: skip
"""Type name of the extension files -> its short name in signatures, if the two differ."""


@dataclass(frozen=True, slots=True)
class SignatureArgument:
    """An argument of a declaration: a type expression, or the words of an enumeration."""

    name: str
    type: str
    words: tuple[str, ...] = ()
    constant: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """One declared implementation of a function.

    Attributes:
        urn: last part of the URN of its extension; ``owner:id`` for an extension outside of the
            standard.
        signature: compound name, such as ``sum:i32``.
        arguments: in order.
        nullability: ``MIRROR``, ``DECLARED_OUTPUT`` or ``DISCRETE``.
        returns: type expression of the result; for some scalar functions several lines that compute
            it.
        intermediate: type expression of partial results, or empty.
        decomposable: ``NONE``, ``ONE`` or ``MANY``.
        ordered: whether the result depends on the order of rows.
        deprecated: release that deprecated it, or empty.
        instead: the standard's text on the deprecation.
        variadic: minimum number of times that a repeatable last argument is written, else None.
    """

    urn: str
    name: str
    signature: str
    arguments: tuple[SignatureArgument, ...]
    nullability: str
    returns: str
    intermediate: str
    decomposable: str
    ordered: bool
    options: Mapping[str, tuple[str, ...]]
    deprecated: str
    variadic: int | None = None
    instead: str = ""


Declarations = Mapping[str, tuple[Signature, ...]]
"""Lower-case name -> implementations, in the order of their file."""


@lru_cache(maxsize=1)
def signatures() -> tuple[Signature, ...]:
    """Return all aggregate implementations of the standard, by extension file and position."""
    return tuple(_parse_declaration("aggregate_functions"))


@lru_cache(maxsize=1)
def scalar_signatures() -> tuple[Signature, ...]:
    """Return all scalar implementations of the standard, by extension file and position."""
    return tuple(_parse_declaration("scalar_functions"))


@lru_cache(maxsize=1)
def window_signatures() -> tuple[Signature, ...]:
    """Return all implementations in this program's extension (`functions.windows`), in order."""
    by_name = declarations(WINDOWS_URN, "scalar_functions")
    return tuple(signature for declared in by_name.values() for signature in declared)


@lru_cache(maxsize=64)
def declarations(urn: str, section: Section) -> Declarations:
    """Return the declarations in one section of one extension.

    An extension that the standard lacks has none.

    Args:
        urn: last part of the URN of the extension, or `functions.windows.WINDOWS_URN`.
        section: kind of functions.
    """
    by_name: dict[str, tuple[Signature, ...]] = {}
    for signature in _of_file(_text(urn), section):
        name = signature.name.lower()
        by_name[name] = (*by_name.get(name, ()), signature)
    return by_name


def _text(urn: str) -> str:
    """Return the file of an extension; empty if there is none."""
    if urn == WINDOWS_URN:
        return windows_text()
    file = _folder().joinpath(f"{urn}.yaml")
    return file.read_text(encoding="utf-8") if urn.isidentifier() and file.is_file() else ""


def _parse_declaration(section: Section) -> Iterator[Signature]:
    names = sorted(f.name for f in _folder().iterdir() if f.name.endswith(".yaml"))
    for name in names:
        for declared in declarations(name.removesuffix(".yaml"), section).values():
            yield from declared


def _folder() -> Traversable:
    return files("substrait_extensions").joinpath("extensions")


def _of_file(text: str, section: Section) -> Iterator[Signature]:
    # Parse one section only, because scalar functions are most of every file.
    start = text.find(f"\n{section}:")
    if start < 0:
        return
    if "\nurn:" not in text:
        return
    head = text[: text.index("\n", text.index("\nurn:") + 1) + 1]
    content = _load(head + _section(text[start + 1 :]))
    urn = str(content["urn"]).removeprefix("extension:").removeprefix("io.substrait:")
    for function in content[section]:
        for declaration in function["impls"]:
            yield _signature(urn, str(function["name"]), declaration)


def _section(text: str) -> str:
    """Return the first top-level block of `text`."""
    lines = text.splitlines(keepends=True)
    after = (i for i, line in enumerate(lines[1:], 1) if line[0].isalpha())
    return "".join(lines[: next(after, len(lines))])


def _load(text: str) -> Any:
    # Import the YAML reader only when declarations are needed.
    yaml = import_module("yaml")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(text, Loader=loader)


def _signature(urn: str, name: str, declaration: Mapping[str, Any]) -> Signature:
    arguments = tuple(_argument(a) for a in declaration.get("args", ()))
    options = declaration.get("options") or {}
    deprecated = declaration.get("deprecated") or {}
    variadic = declaration.get("variadic")
    return Signature(
        urn,
        name,
        f"{name}:{'_'.join(map(_short, arguments))}",
        arguments,
        str(declaration.get("nullability", "MIRROR")),
        str(declaration["return"]),
        str(declaration.get("intermediate", "")),
        str(declaration.get("decomposable", "NONE")),
        bool(declaration.get("ordered", False)),
        {str(key): tuple(map(str, value["values"])) for key, value in options.items()},
        str(deprecated.get("since", "")),
        None if variadic is None else int(variadic.get("min", 0)),
        str(deprecated.get("reason", "")),
    )


def _argument(argument: Mapping[str, Any]) -> SignatureArgument:
    words = tuple(map(str, argument.get("options", ())))
    type_ = "enum" if words else str(argument["value"])
    return SignatureArgument(
        str(argument.get("name", "")), type_, words, bool(argument.get("constant", False))
    )


def _short(argument: SignatureArgument) -> str:
    """Return the argument's word in a compound name: ``i64``, ``dec``, ``any``, ``req`` (enum)."""
    if argument.words:
        return "req"
    base = argument.type.partition("<")[0].rstrip("?").lower()
    return "any" if base.startswith("any") else SHORT_NAMES.get(base, base)
