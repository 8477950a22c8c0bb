"""The standard's declarations of functions, read from the extension files of `substrait_extensions`.

Each file is read when its declarations are first asked for, and of it only the section asked for: what a plan can be
run with stands in the catalogues, the files say what of it deviates from the standard.
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
"""A part of an extension file."""

SHORT_NAMES = {
    "string": "str", "binary": "vbin", "boolean": "bool", "fixedchar": "fchar", "varchar": "vchar",
    "fixedbinary": "fbin", "decimal": "dec", "precision_time": "pt", "precision_timestamp": "pts",
    "precision_timestamp_tz": "ptstz", "interval_year": "iyear", "interval_day": "iday",
    "interval_compound": "icompound",
}  # fmt: skip
"""Type name of the extension files -> its short name in signatures, where the two differ."""


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
        urn: last part of the URN of its extension; of an extension that is not the standard's ``owner:id``.
        name: of the function.
        signature: compound name, ``sum:i32``.
        arguments: in order.
        nullability: ``MIRROR``, ``DECLARED_OUTPUT`` or ``DISCRETE``.
        returns: type expression of the result; of some scalar functions several lines that compute it.
        intermediate: type expression of partial results, or empty.
        decomposable: ``NONE``, ``ONE`` or ``MANY``.
        ordered: whether the result depends on the order of rows.
        options: option name -> values, as declared.
        deprecated: release since which it should not be written, or empty.
        instead: what the standard says about a deprecated one.
        variadic: fewest times that the last argument is written where it may repeat, else None.
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
    """All aggregate implementations that the standard declares, by extension file and place in it."""
    return tuple(_declared("aggregate_functions"))


@lru_cache(maxsize=1)
def scalar_signatures() -> tuple[Signature, ...]:
    """All scalar implementations that the standard declares, by extension file and place in it."""
    return tuple(_declared("scalar_functions"))


@lru_cache(maxsize=1)
def window_signatures() -> tuple[Signature, ...]:
    """All implementations that the extension of this program declares (`functions.windows`), in the order of its file."""
    found = declarations(WINDOWS_URN, "scalar_functions")
    return tuple(signature for declared in found.values() for signature in declared)


@lru_cache(maxsize=64)
def declarations(urn: str, section: Section) -> Declarations:
    """What one extension declares in one section; nothing where the standard has no such extension.

    Args:
        urn: last part of the URN of the extension, or `functions.windows.WINDOWS_URN`.
        section: kind of functions.
    """
    found: dict[str, tuple[Signature, ...]] = {}
    for signature in _of_file(_text(urn), section):
        name = signature.name.lower()
        found[name] = (*found.get(name, ()), signature)
    return found


def _text(urn: str) -> str:
    """The file of an extension; empty where there is none."""
    if urn == WINDOWS_URN:
        return windows_text()
    file = _folder().joinpath(f"{urn}.yaml")
    return file.read_text(encoding="utf-8") if urn.isidentifier() and file.is_file() else ""


def _declared(section: Section) -> Iterator[Signature]:
    names = sorted(f.name for f in _folder().iterdir() if f.name.endswith(".yaml"))
    for name in names:
        for found in declarations(name.removesuffix(".yaml"), section).values():
            yield from found


def _folder() -> Traversable:
    return files("substrait_extensions").joinpath("extensions")


def _of_file(text: str, section: Section) -> Iterator[Signature]:
    # Only the section is parsed: scalar functions are most of every file.
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
    """The first top-level block of `text`."""
    lines = text.splitlines(keepends=True)
    after = (i for i, line in enumerate(lines[1:], 1) if line[0].isalpha())
    return "".join(lines[: next(after, len(lines))])


def _load(text: str) -> Any:
    # Only who asks for declarations pays for the reader.
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
    """The argument's word in a compound name: ``i64``, ``dec``, ``any``, ``req`` for an enumeration."""
    if argument.words:
        return "req"
    base = argument.type.partition("<")[0].rstrip("?").lower()
    return "any" if base.startswith("any") else SHORT_NAMES.get(base, base)
