"""Write docs/api.md from the docstrings of the public names: ``python tests/tools/write_api_page.py``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import substrait_agg
from substrait_agg.functions.listing.markdown import fold
from substrait_agg.spark.query.handle import Run

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
HEAD = """# Python API

<!-- This page is generated: python tests/tools/write_api_page.py -->

`import substrait_agg as sa` loads neither PySpark nor Arrow. `run` needs the extra `spark`; the other names work
without it. The package has type annotations (`py.typed`). What is listed here is stable as
[Deprecation policy](deprecation.md) says; all other modules and names may change in any release.

An argument of another type than its annotation raises `UsageError` (`OPTION_INVALID`) with the name of the argument,
before anything is read or written.
"""
SECTIONS: dict[str, tuple[str, ...]] = {
    "Plans": ("load", "sql", "sql_views", "from_dataframe", "validate", "explain", "Plan", "PlanSet", "Report", "Problem"),
    "Runs": ("run", "Run", "RunListener", "SparkSink"),
    "Views and state": ("open_view", "View", "open_state", "State"),
    "Measures of your own": (
        "AdditiveMeasure", "OrderedMeasure", "GroupedValues", "register_measure", "unregister_measure", "Type",
    ),
}  # fmt: skip
"""Heading -> names, in the order of the page. Exceptions and further names have sections of their own."""
_PARTS = re.compile(r"^(Args|Attributes|Returns|Raises|Yields|Example):\n", re.M)
_ENTRY = re.compile(r"^(\*{0,2}[A-Za-z_][\w., ]*): (.*)")


def public() -> dict[str, Any]:
    """Name -> object of all that the page describes."""
    names = (n for n in substrait_agg.__all__ if n != "__version__")
    return {"Run": Run, **{name: getattr(substrait_agg, name) for name in names}}


def api_page() -> str:
    """Return the page."""
    names = public()
    errors = [n for n, value in names.items() if _is_error(value)]
    listed = {name for section in SECTIONS.values() for name in section} | set(errors)
    others = tuple(name for name in names if name not in listed)
    sections = {**SECTIONS, **({"Further names": others} if others else {})}
    parts = [HEAD]
    for heading, members in sections.items():
        parts.append(f"## {heading}\n")
        parts += [_described(name, names[name]) for name in members if name in names]
    parts.append(
        "## Exceptions\n\nAll have `code`, `message`, `help` and `path`. [Problem codes](problems.md) lists the codes.\n"
    )
    parts.append(
        "| exception | raised when |\n|---|---|\n"
        + "".join(_error_row(n, names[n]) for n in errors)
    )
    return "\n".join(parts)


def _is_error(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


def _error_row(name: str, value: type) -> str:
    bases = [base.__name__ for base in value.__bases__ if base is not Exception]
    above = f" (a `{bases[0]}`)" if bases else ""
    first = inspect.getdoc(value) or ""
    return f"| `{name}`{above} | {_plain(first.partition(chr(10) * 2)[0])} |\n"


def _described(name: str, value: Any) -> str:
    if not inspect.isclass(value):
        return f"### {name}\n\n{_signature(name, value)}\n\n{_docstring(value)}"
    blocks = [f"### {name}\n\n{_docstring(value)}"]
    blocks += [_member(name, member, found) for member, found in _members(value)]
    return "\n".join(blocks)


def _members(value: type) -> Iterator[tuple[str, Any]]:
    for name, member in vars(value).items():
        if not name.startswith("_") and inspect.getdoc(member) and not inspect.isclass(member):
            if isinstance(member, staticmethod | classmethod):
                member = member.__func__  # noqa: PLW2901
            if (
                inspect.isfunction(member)
                or isinstance(member, property)
                or hasattr(member, "func")
            ):
                yield name, member


def _member(owner: str, name: str, member: Any) -> str:
    shown = (
        _signature(f"{owner}.{name}", member) if inspect.isfunction(member) else f"`{owner}.{name}`"
    )
    return f"#### {owner}.{name}\n\n{shown}\n\n{_docstring(member)}"


def _signature(name: str, function: Any) -> str:
    signature = inspect.signature(function)
    given = [p for n, p in signature.parameters.items() if n not in ("self", "cls")]
    listed = list(_parameters(given))
    returned = _short(signature.return_annotation)
    text = f"{name}({', '.join(listed)}) -> {returned}"
    if len(text) > 100:
        inner = "".join(f"    {parameter},\n" for parameter in listed)
        text = f"{name}(\n{inner}) -> {returned}"
    return f"```python\n{text}\n```"


def _parameters(given: list[inspect.Parameter]) -> Iterator[str]:
    keywords = False
    for parameter in given:
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
            keywords = True
            yield "*"
        typed = f": {_short(parameter.annotation)}"
        shown = repr(parameter.default)
        # An object that means "not given" has no text of its own.
        default = f" = {'...' if shown.startswith('<') else shown}"
        default = "" if parameter.default is parameter.empty else default
        yield f"{parameter.name}{'' if parameter.annotation is parameter.empty else typed}{default}"


def _short(annotation: Any) -> str:
    return re.sub(r"\b[a-z_.]+\.(?=[A-Z]\w+)", "", str(annotation).strip("'"))


def _docstring(value: Any) -> str:
    """A docstring in the style of Google, as Markdown."""
    text = inspect.getdoc(value) or ""
    pieces = _PARTS.split(text)
    written = [_paragraphs(pieces[0])]
    for heading, body in zip(pieces[1::2], pieces[2::2], strict=True):
        lines = inspect.cleandoc(body).rstrip()
        if heading == "Example":
            written.append(f"```pycon\n{lines}\n```\n")
        elif heading in ("Returns", "Yields"):
            written.append(_paragraphs(f"{heading}: {lines}"))
        else:
            written.append(_entries(heading, body))
    return "\n".join(written)


def _entries(heading: str, body: str) -> str:
    rows: list[str] = []
    listed, _, example = body.partition("\n\n>>> ")
    for line in inspect.cleandoc(listed).rstrip().splitlines():
        entry = _ENTRY.match(line)
        if entry:
            rows.append(f"`{entry[1]}`: {entry[2]}")
        elif rows:
            rows[-1] += f" {line.strip()}"
        else:
            rows.append(line.strip())
    text = f"{heading}:\n\n" + "\n".join(fold(_plain(row), "- ") for row in rows) + "\n"
    return f"{text}\n```pycon\n>>> {example.rstrip()}\n```\n" if example else text


def _paragraphs(text: str) -> str:
    return "\n\n".join(fold(_plain(part)) for part in text.strip().split("\n\n")) + "\n"


def _plain(text: str) -> str:
    """Markdown code instead of that of docstrings; characters of HTML escaped outside code."""
    text = " ".join(text.replace("``", "`").split())
    parts = text.split("`")
    parts[::2] = [p.replace("<", "&lt;").replace("|", "\\|") for p in parts[::2]]
    return "`".join(parts)


if __name__ == "__main__":
    PAGE.write_text(api_page(), encoding="utf-8")
