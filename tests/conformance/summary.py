"""Counts of outcomes per file: as recorded beside the tests, and as the page of the documentation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.conformance.cases import Kind, names_of
from tests.conformance.outcomes import Outcome
from tests.conformance.reasons import DISPUTED, REFUSED_AGGREGATES

RECORDED = Path(__file__).with_name("outcomes.json")
PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
COMMAND = "python -m tests.conformance.report"


@dataclass(frozen=True, slots=True)
class Counts:
    """How the cases of one file came out; `refused` has the codes of the errors."""

    passes: int
    refused: Mapping[str, int] = field(default_factory=dict)
    listed: int = 0

    @property
    def cases(self) -> int:
        """All cases of the file."""
        return self.passes + sum(self.refused.values()) + self.listed


def counted(outcomes: Iterable[Outcome]) -> Counts:
    """The counts of one file."""
    found = list(outcomes)
    verdicts = Counter(o.verdict for o in found)
    refused = Counter(o.detail for o in found if o.verdict == "refused")
    return Counts(verdicts["passes"], dict(sorted(refused.items())), verdicts["wrong"])


def recorded() -> dict[str, Counts]:
    """File -> the counts that were recorded last."""
    return {name: Counts(**c) for name, c in json.loads(RECORDED.read_text("utf-8")).items()}


def record(counts: Mapping[str, Counts]) -> None:
    """Record the counts and write the page."""
    content = {name: asdict(c) for name, c in sorted(counts.items())}
    RECORDED.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    PAGE.write_text(page(counts), "utf-8")


def compared(name: str, outcomes: Iterable[Outcome]) -> list[str]:
    """What differs from the counts recorded for a file."""
    now, before = counted(outcomes), recorded().get(name)
    if now == before:
        return []
    return [f"recorded were {before}, now there are {now}: run `{COMMAND}`"]


def page(counts: Mapping[str, Counts]) -> str:
    """The page of the documentation."""
    parts = [_HEAD]
    for kind, title, text in _SECTIONS:
        names = [n for n in names_of(kind) if n in counts]
        parts += [f"## {title}\n", text, _table({n: counts[n] for n in names})]
    parts += ["## Cases that are listed\n", _LISTED, _reasons()]
    return "\n".join(parts)


def _table(counts: Mapping[str, Counts]) -> str:
    total = Counts(
        sum(c.passes for c in counts.values()),
        dict(sum((Counter(c.refused) for c in counts.values()), Counter[str]())),
        sum(c.listed for c in counts.values()),
    )
    rows = [_row(name, c) for name, c in counts.items()]
    head = "| file | cases | pass | refused | listed |\n|---|---:|---:|---|---:|"
    return "\n".join([head, *rows, _row(f"**{len(counts)} files**", total), ""])


def _row(name: str, counts: Counts) -> str:
    refused = "; ".join(f"{n} `{code}`" for code, n in counts.refused.items())
    refused = refused.replace(", ", "`, `")
    return f"| {name} | {counts.cases} | {counts.passes} | {refused} | {counts.listed or ''} |"


def _reasons() -> str:
    rows = [f"| {file} | `{text}` | {reason} |" for (file, text), reason in DISPUTED.items()]
    refused = [f"| {file} | refused | {reason} |" for file, reason in REFUSED_AGGREGATES.items()]
    head = "| file | case | reason |\n|---|---|---|"
    return "\n".join([head, *rows, *refused, ""])


_HEAD = f"""# Conformance

The Substrait project writes test cases for its functions; they ship in the Python package `substrait-extensions`. All of
them for scalar and aggregate functions are run here (`tests/conformance`). A case either passes, or its plan is
refused before a row is read, with the codes below, or it is listed at the end with a reason. No case gives a wrong answer.

This page is written by `{COMMAND}`; the tests fail where it is not up to date.
"""

_SECTIONS: tuple[tuple[Kind, str, str], ...] = (
    (
        "scalar",
        "Scalar functions",
        "Each case runs as an expression of a plan on Spark, once with its arguments in columns and once as constants.\n",
    ),
    (
        "aggregate",
        "Aggregate functions",
        "Each case runs in one batch, row by row, and with noise: rows that come and are retracted in other batches.\n",
    ),
)

_LISTED = "What these expect is not what the extension files declare, or not what the numbers in them give.\n"
