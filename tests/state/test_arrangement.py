"""Consolidated rows of arrangements, against a count of equal rows."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from substrait_agg.state.arrangement import ArrangementLayout, consolidate_rows
from substrait_agg.state.keys.variable_keys import byte_hashes

LAYOUT = ArrangementLayout((pa.int64(),), (pa.string(), pa.float64()))


@pytest.mark.parametrize("hashes", [1, 3, 40, 1 << 62])
@pytest.mark.parametrize("rows", [0, 1, 2, 100, 1000])
def test_equal_rows_are_added_up(rows: int, hashes: int) -> None:
    """Whether hashes are unique, repeated by equal rows, or shared by different keys."""
    rng = random.Random(rows * hashes)
    drawn: Counter[tuple[int, int, str, float | None]] = Counter()
    table: list[tuple[int, int, int, str, float | None]] = []
    for _ in range(rows):
        hash_ = rng.randrange(hashes)
        row = (hash_, hash_ * 2 + rng.randrange(2), rng.choice(["a", "bc", ""]), rng.choice([1.5, None]))  # fmt: skip
        for weight in rng.choice([[1], [-1], [1, -1], [2, 3], [0]]):
            table.append((row[0], weight, *row[1:]))
            drawn[row] += weight
    rng.shuffle(table)
    columns = list(zip(*table, strict=True)) or [()] * 5
    typed = zip(columns, LAYOUT.schema, strict=True)
    given = pa.Table.from_arrays([pa.array(c, f.type) for c, f in typed], schema=LAYOUT.schema)
    done = consolidate_rows(given)
    shown = [tuple(row.values()) for row in done.to_pylist()]
    assert [row[0] for row in shown] == sorted(row[0] for row in shown)
    assert len(shown) == len({(hash_, *row) for hash_, _, *row in shown})
    summed = {(hash_, *row): weight for hash_, weight, *row in shown}
    assert summed == {row: weight for row, weight in drawn.items() if weight}


def test_the_hash_of_a_value_does_not_depend_on_the_lengths_of_others() -> None:
    values = [b"Customer#1", b"Customer#2", b"Clerk"]
    together = byte_hashes(pa.array(values))
    alone = [byte_hashes(pa.array([value]))[0] for value in values]
    assert together.tolist() == alone
    assert len(np.unique(together)) == 3
