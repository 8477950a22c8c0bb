"""The cases of the Substrait project's function test files, as values.

The files ship in the package ``substrait-extensions`` (folder ``testcases``), the parser in ``substrait-antlr``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any
from typing import Literal as OneOf

from substrait_agg.plan.types import Type

Kind = OneOf["scalar", "aggregate", "window"]


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; `value` as in `substrait_agg.plan.model.Literal` (None for null)."""

    type: Type
    value: Any


@dataclass(frozen=True, slots=True)
class Enum:
    """An enumeration argument."""

    word: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the lambda around it."""

    name: str


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """Column `ordinal` of the case's table."""

    ordinal: int


@dataclass(frozen=True, slots=True)
class Call:
    """A function of arguments."""

    function: str
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Lambda:
    """A function value: its type has the result first, then the parameters."""

    type: Type
    parameters: tuple[str, ...]
    body: Call


Argument = Literal | Enum | Parameter | ColumnRef | Call | Lambda


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected result of a case: a value (or a call that returns it), an error, or anything but
    an error.
    """

    kind: OneOf["value", "error", "undefined"]
    value: Literal | Call | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """The rows that an aggregate function is given; types of columns with nulls in them are nullable."""

    types: tuple[Type, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One test case.

    Attributes:
        file: path below ``testcases``, without the ending.
        group: name of the group of cases.
        text: the case as written, blanks and line ends single.
        urns: the extension under test and then those its cases depend on, without the owner.
        call: the function and its arguments.
        options: name and value, as written.
        expected: what must come out.
        table: the input of an aggregate function, else None.
    """

    file: str
    group: str
    text: str
    urns: tuple[str, ...]
    call: Call
    options: tuple[tuple[str, str], ...]
    expected: Expected
    table: Table | None


@dataclass(frozen=True, slots=True)
class TestFile:
    """One file: what kind of functions it tests, and its cases in order."""

    __test__ = False

    name: str
    kind: Kind
    cases: tuple[Case, ...]


def file_names() -> tuple[str, ...]:
    """Names of all test files, sorted."""
    return tuple(sorted(_found()))


def _found() -> dict[str, Traversable]:
    root = files("substrait_extensions").joinpath("testcases")
    return {
        f"{folder.name}/{item.name.removesuffix('.test')}": item
        for folder in root.iterdir()
        if folder.is_dir()
        for item in folder.iterdir()
        if item.name.endswith(".test")
    }


@cache
def read_file(name: str) -> TestFile:
    """The cases of a file.

    Raises:
        ValueError: the file does not follow the grammar, or contains an unsupported form.
    """
    from tests.conformance.grammar import parse

    return parse(name, _found()[name].read_text(encoding="utf-8"))


@cache
def names_of(kind: Kind) -> tuple[str, ...]:
    """Names of the files that test functions of a kind; only their first line is read."""
    marker = f"SUBSTRAIT_{kind.upper()}_TEST"
    found = _found()
    return tuple(n for n in sorted(found) if marker in _first_line(found[n]))


def _first_line(item: Traversable) -> str:
    return item.read_text(encoding="utf-8").partition("\n")[0].upper()


def all_cases(kind: Kind) -> Iterator[Case]:
    """Every case of a kind, file by file."""
    for name in names_of(kind):
        yield from read_file(name).cases
