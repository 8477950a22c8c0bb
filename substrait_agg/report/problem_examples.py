"""The smallest plan that causes each problem, one file per code; tests run all of them."""

from __future__ import annotations

from importlib.resources import files

FOLDER = "examples"

GENERATED: dict[str, str] = {
    "PLAN_TOO_LARGE": "a file of more than 32 MiB, a plan with more than a million values, or a few relations that refer to each other"
    " so often that they stand for more than 200,000 messages",
    "PLAN_TOO_DEEP": "a filter over a filter over a filter, 1,000 of them",
    "TOO_MANY_PROBLEMS": "a read of 1,001 columns that do not say whether they are nullable",
    "EXPRESSION_TOO_LARGE": "a switch of 200 cases that matches another switch of 200 cases",
}  # fmt: skip
"""Codes whose plan is too large for a file, with a description of the plan.

Tests generate these.
"""

PREPARED: dict[str, str] = {
    "USER_MEASURE_FAILED": "with a measure `half_life` registered under this URN whose class raises in `result`",
}
"""Codes whose plan needs preparation by the embedding program, with a description."""


def example(code: str) -> str | None:
    """Return the smallest plan that causes the problem `code`, as protobuf-JSON.

    None without a file.
    """
    file = files(__package__) / FOLDER / f"{code}.json"
    return file.read_text(encoding="utf-8") if file.is_file() else None


def example_codes() -> frozenset[str]:
    """Return the codes of all existing files."""
    folder = files(__package__) / FOLDER
    return frozenset(file.name.removesuffix(".json") for file in folder.iterdir())
