"""Write the documentation of problem and error codes: for the terminal, as JSON, and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from textwrap import shorten
from typing import Any

from substrait_agg.error_codes import ORIGINS, ErrorCode
from substrait_agg.functions.listing.catalogue_tables import CatalogueTable, code
from substrait_agg.functions.listing.markdown import fold, plain, record
from substrait_agg.functions.listing.markdown import markdown as markdown_of
from substrait_agg.functions.listing.markdown import text as text_of
from substrait_agg.problem_kinds import Area, ProblemKind
from substrait_agg.problems import Problem

FOLDER = "examples"

GENERATED: dict[str, str] = {
    "PLAN_TOO_LARGE": "a file of more than 32 MiB, a plan with more than a million values, or a few relations that "
                      "refer to each other so often that they expand to more than 200,000 messages",
    "PLAN_TOO_DEEP": "a filter over a filter over a filter, 1,000 of them",
    "TOO_MANY_PROBLEMS": "a read of 1,001 columns without nullability",
    "EXPRESSION_TOO_LARGE": "a switch of 200 cases whose match value is another switch of 200 cases",
}  # fmt: skip
"""Codes whose plan is too large for a file, with a description of the plan.

Tests generate these.
"""

PREPARED: dict[str, str] = {
    "USER_MEASURE_FAILED": (
        "with a measure `half_life` registered under this URN, whose class raises an exception "
        "in `result`"
    ),
}
"""Codes whose plan needs preparation by the embedding program, with a description."""


def example(code: str) -> str | None:
    """Return the smallest plan that causes `code`, as protobuf-JSON; None without a file."""
    file = files(__package__) / FOLDER / f"{code}.json"
    return file.read_text(encoding="utf-8") if file.is_file() else None


Examine = Callable[[str], Iterable[Problem]]
"""Returns the problems of a plan given as protobuf-JSON."""

AREAS: dict[Area, str] = {
    "plans": "Plans",
    "relations": "Relations",
    "expressions": "Expressions and functions",
    "aggregates": "Aggregates and measures",
}
"""Area of the table of problems -> its heading."""

HOME = f"../substrait_agg/report/{FOLDER}"
"""Path of the example files, relative to the documentation page."""

FIRST_WORDS = 52
SHORT_PLAN = 12
"""Longest example that is shown expanded, in lines."""


def find_problem(kind: ProblemKind, examine: Examine) -> Problem | None:
    """Return the problem that the example of a kind causes.

    None if the example has no file or needs preparation.
    """
    plan = example(kind.code)
    if plan is None or kind.code in PREPARED:
        return None
    return next((p for p in examine(plan) if p.code == kind.code), None)


def _lines(problem: Problem) -> str:
    """Return the problem as ``validate`` prints it."""
    where = f" at {problem.path}" if problem.path else ""
    return f"{problem.level}[{problem.code}]{where}: {problem.message}\nhelp: {problem.help}"


def _levels(kind: ProblemKind) -> str:
    same = kind.lenient == kind.strict
    return kind.lenient if same else f"{kind.lenient}, in strict mode {kind.strict}"


# --- overview ----------------------------------------------------------------------------------


def overview(kinds: Sequence[ProblemKind], errors: Sequence[ErrorCode], width: int) -> str:
    """Return tables of the problems and errors for the terminal."""
    sections = (_area_section(area, kinds) for area in AREAS)
    return text_of((*(s for s in sections if s.rows), *_error_sections(errors)), width)


def _area_section(
    area: Area, kinds: Sequence[ProblemKind], *, linked: bool = False
) -> CatalogueTable:
    rows = tuple(
        (
            f"[{code(k.code)}](#{k.code.lower()})" if linked else k.code,
            k.lenient,
            k.strict,
            shorten(k.message, FIRST_WORDS, placeholder=" ..."),
        )
        for k in kinds
        if k.area == area
    )
    return CatalogueTable(AREAS[area], ("code", "lenient", "strict", "message"), rows)


def _error_sections(errors: Sequence[ErrorCode]) -> Iterator[CatalogueTable]:
    for origin, title in ORIGINS.items():
        rows = tuple((code(e.code), e.meaning, e.help) for e in errors if e.origin == origin)
        if rows:
            yield CatalogueTable(title, ("code", "meaning", "help"), rows)


# --- one code ----------------------------------------------------------------------------------


def kind_page(kind: ProblemKind, examine: Examine, width: int) -> str:
    """Return the documentation of one problem for the terminal."""
    plan, problem = example(kind.code), find_problem(kind, examine)
    facts = (
        ("level", _levels(kind)),
        ("message", kind.message),
        ("help", kind.help),
        ("why", kind.why),
        ("example", plain(GENERATED.get(kind.code, PREPARED.get(kind.code, "")))),
    )
    parts = [f"{kind.code} ({AREAS[kind.area].lower()})\n\n{record(facts, width)}"]
    if plan is not None:
        parts.append(f"The smallest plan that raises it:\n\n{plan.rstrip()}")
    if problem is not None:
        parts.append(f"The output of validate for this plan:\n\n{_lines(problem)}")
    return "\n\n".join(parts)


def error_page(error: ErrorCode, width: int) -> str:
    """Return the documentation of one error that is not about a plan, for the terminal."""
    facts = (("meaning", error.meaning), ("help", error.help))
    return f"{error.code} ({ORIGINS[error.origin].lower()})\n\n{record(facts, width)}"


# --- JSON --------------------------------------------------------------------------------------


def document(
    kinds: Sequence[ProblemKind], errors: Sequence[ErrorCode], examine: Examine
) -> Mapping[str, Any]:
    """Return problems and errors as JSON-ready values; an example is the text of a plan."""
    return {
        "problems": [_kind_entry(kind, examine) for kind in kinds],
        "errors": [
            {"code": e.code, "origin": e.origin, "meaning": e.meaning, "help": e.help}
            for e in errors
        ],
    }


def _kind_entry(kind: ProblemKind, examine: Examine) -> Mapping[str, Any]:
    problem = find_problem(kind, examine)
    return {
        "code": kind.code,
        "area": kind.area,
        "level": {"lenient": kind.lenient, "strict": kind.strict},
        "message": kind.message,
        "help": kind.help,
        "why": kind.why,
        "example": example(kind.code),
        "example_is": GENERATED.get(kind.code, PREPARED.get(kind.code)),
        "reported": None if problem is None else problem.as_dict(),
    }


# --- Markdown ----------------------------------------------------------------------------------


def markdown(kinds: Sequence[ProblemKind], errors: Sequence[ErrorCode], examine: Examine) -> str:
    """Return problems and errors as Markdown.

    Each area has a table and an entry per code; the tables of errors follow.
    """
    parts: list[str] = []
    for area in AREAS:
        section = _area_section(area, kinds, linked=True)
        if section.rows:
            parts.append(markdown_of((section,), 2))
            parts += [_entry(kind, examine) for kind in kinds if kind.area == area]
    if errors:
        parts.append("## Errors that are not about plans")
        parts.append(markdown_of(tuple(_error_sections(errors)), 3))
    return "\n\n".join(parts)


def _entry(kind: ProblemKind, examine: Examine) -> str:
    facts = ("level", _levels(kind)), ("message", code(kind.message)), ("help", code(kind.help))
    listing = "\n".join(fold(f"{name}: {text}", "- ") for name, text in facts)
    lines = [f"### {code(kind.code)}", listing, fold(kind.why)]
    lines += _example(kind)
    problem = find_problem(kind, examine)
    if problem is not None:
        lines.append(f"```text\n{_lines(problem)}\n```")
    return "\n\n".join(line for line in lines if line)


def _example(kind: ProblemKind) -> Iterator[str]:
    plan = example(kind.code)
    if plan is None:
        yield fold(f"Example: {GENERATED[kind.code]}.")
        return
    more = f", {plain(PREPARED[kind.code])}" if kind.code in PREPARED else ""
    title = f"The smallest plan that raises it{more}"
    link = f"[{kind.code}.json]({HOME}/{kind.code}.json):"
    block = f"```json\n{plan.rstrip()}\n```"
    if plan.count("\n") <= SHORT_PLAN:
        yield f"{fold(f'{title}, {link}')}\n\n{block}"
    else:
        yield f"<details><summary>{title}</summary>\n\n{link}\n\n{block}\n\n</details>"
