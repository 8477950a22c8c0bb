"""The two processes of `make test` share all tests, and neither has much more to do than the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durations import (
    JVM,
    OTHER,
    UNKNOWN,
    FilePart,
    Spent,
    read_recorded,
    shares,
    summary,
    write_recorded,
)


def seconds(parts: set[FilePart], recorded: dict[FilePart, float]) -> float:
    return sum(recorded.get(part, UNKNOWN) for part in parts)


def test_every_part_is_in_one_share() -> None:
    parts = [FilePart(OTHER, f"{i}.py") for i in range(9)] + [
        FilePart(JVM, "1.py"),
        FilePart(JVM, "x.py"),
    ]
    first, second = shares(parts, {FilePart(OTHER, "3.py"): 9.0})
    assert first | second == set(parts)
    assert not first & second
    assert {part for part in first if part.kind == JVM} == {
        FilePart(JVM, "1.py"),
        FilePart(JVM, "x.py"),
    }
    assert not any(part.kind == JVM for part in second)


@pytest.mark.parametrize("jvm", [0.0, 5.0, 12.0])
def test_shares_are_balanced(jvm: float) -> None:
    recorded = {FilePart(JVM, "spark.py"): jvm}
    recorded |= {FilePart(OTHER, f"{i}.py"): i / 4 for i in range(4, 16)}
    first, second = shares(recorded, recorded)
    longest = max(s for part, s in recorded.items() if part.kind == OTHER)
    assert abs(seconds(first, recorded) - seconds(second, recorded)) <= longest


def test_where_one_process_is_busy_throughout_the_other_has_the_rest() -> None:
    recorded = {
        FilePart(JVM, "spark.py"): 100.0,
        FilePart(OTHER, "a.py"): 3.0,
        FilePart(OTHER, "b.py"): 1.0,
    }
    first, second = shares(recorded, recorded)
    assert (len(first), len(second)) == (1, 2)


def test_what_is_recorded_is_read(tmp_path: Path) -> None:
    long, short, other = FilePart(JVM, "a.py"), FilePart(OTHER, "b.py"), FilePart(OTHER, "a.py")
    spent = {long: Spent(9.0, 3.25), short: Spent(9.0, UNKNOWN / 2), other: Spent(1.0, 2.0)}
    write_recorded(spent, tmp_path / "durations.json")
    assert read_recorded(tmp_path / "durations.json") == {long: 3.2, other: 2.0}


def test_the_summary_has_processes_folders_and_files() -> None:
    first = {FilePart(JVM, "tests/x/a.py"): Spent(2.0, 3.0)}
    second = {
        FilePart(OTHER, "tests/y/b.py"): Spent(1.0, 1.0),
        FilePart(OTHER, "tests/y/c.py"): Spent(4.0, 1.0),
    }
    assert [line.split() for line in summary([first, second])][1:4] == [
        ["5.0", "2.0", "process", "2", "of", "2"],
        ["2.0", "3.0", "process", "1", "of", "2"],
        [],
    ]
    assert "    5.0        2.0  tests/y/" in summary([first, second])
    assert "    2.0        3.0  tests/x/a.py (JVM)" in summary([first, second])
