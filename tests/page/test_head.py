"""`View.head` returns the first rows of `View.to_arrow`."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import substrait_agg as sa
from substrait_agg.errors import StateRefused, UsageError
from tests.page.runs import largest, shown_run, totals
from tests.sampling import sample
from tests.sizes import tiny_sizes


@pytest.mark.parametrize("plan", [totals(), largest()], ids=["unsorted", "sorted"])
@pytest.mark.parametrize("seed", sample(range(12), 4))
def test_the_first_rows_are_those_of_the_whole_view(plan: str, seed: int, tmp_path: Path) -> None:
    """Most rows have equal sort keys, and lie in several runs and pages."""
    random = Random(seed)
    batches = [[(f"r{random.randrange(30)}", random.randrange(4)) for _ in range(25)] for _ in range(4)]  # fmt: skip
    with tiny_sizes(random), shown_run(tmp_path, batches, plan) as shown:
        while shown.run.batch():
            pass
        view = sa.open_view(tmp_path / "c")
        for version in (*view.versions(), None):
            whole = view.to_arrow(version)
            for rows in (0, 1, 7, 29, whole.num_rows, 1_000):
                head = view.head(rows, version)
                assert head.to_pylist() == whole.slice(0, rows).to_pylist()
                assert head.schema.equals(whole.schema)


def test_a_number_of_rows_is_not_negative(tmp_path: Path) -> None:
    with shown_run(tmp_path, [[("north", 1)]]), pytest.raises(UsageError) as refused:
        sa.open_view(tmp_path / "c").head(-1)
    assert refused.value.code == "OPTION_INVALID"


def test_the_version_must_be_there(tmp_path: Path) -> None:
    with shown_run(tmp_path, [[("north", 1)]]) as shown:
        shown.run.batch()
        with pytest.raises(StateRefused, match="VERSION_UNKNOWN"):
            sa.open_view(tmp_path / "c").head(1, 9)
