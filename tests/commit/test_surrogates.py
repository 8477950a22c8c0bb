"""Surrogate keys: no two tasks get the same ones."""

from __future__ import annotations

import numpy as np

from substrait_agg.commit.hash_ranges import partition_range
from substrait_agg.commit.tasks.surrogates import Surrogates


def test_no_two_tasks_of_a_version_give_the_same_key() -> None:
    """Surrogate keys are unique within a version, also if the driver computes one pass and Spark
    the other.
    """
    for first, second in ((1, 1), (1, 4), (4, 1), (4, 4), (2, 8)):
        given = [
            Surrogates(7, *partition_range(p, count), again=again)(1000)
            for count, again in ((first, False), (second, True))
            for p in range(count)
        ]
        keys = np.concatenate(given)
        assert len(np.unique(keys)) == len(keys), (first, second)
        assert len(np.intersect1d(keys, Surrogates(8, *partition_range(0, 1))(1000))) == 0


def test_a_task_without_a_range_can_be_made() -> None:
    """An exchange with more partitions than tasks has partitions without rows and without a hash
    range.
    """
    Surrogates(7, 1, 0)
