"""Settings of all tests of operators."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from substrait_agg.commit.tasks import spill

SPILL_BUCKETS = 8
"""Ranges of hashes of a large batch. The batches here are large from a few rows on, and most of 64 ranges are empty."""


@pytest.fixture(autouse=True, scope="package")
def few_buckets() -> Iterator[None]:
    """Spill to few buckets."""
    with patch.object(spill, "SPILL_BUCKETS", SPILL_BUCKETS):
        yield
