"""Generate surrogate keys that no group has had, numbered within version and hash range."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from substrait_agg.errors import RunFailed
from substrait_agg.state.run import HASH_MAX

KEY_BITS = 36  # bits of a surrogate key below the version, which has the other 27


class Surrogates:
    """Generates the surrogate keys of a task.

    Args:
        version: the version being made.
        low: least sort hash of the task's range.
        high: greatest sort hash of the range.
        again: whether this is the second pass of a version, which uses the upper half of the keys.
    """

    def __init__(self, version: int, low: int, high: int, *, again: bool = False) -> None:
        self._version = version
        size = max(1, high - low + 1)  # a task without a range generates no keys
        self._ranges, self._place = (HASH_MAX + 1) // size, low // size
        self._half = (1 << KEY_BITS - 1) // self._ranges
        self._first = self._half if again else 0
        self._given = 0

    def __call__(self, count: int) -> npt.NDArray[np.int64]:
        """Return `count` new keys.

        Raises:
            RunFailed: SURROGATE_KEYS_EXHAUSTED.
        """
        first = self._given + self._first
        self._given += count
        if self._given > self._half:
            raise RunFailed(
                "SURROGATE_KEYS_EXHAUSTED",
                f"one batch needs more than 2^{KEY_BITS - 1} surrogate keys",
                help="use smaller batches (batch-files= in the source)",
            )
        if self._version >> (63 - KEY_BITS):
            raise RunFailed(
                "SURROGATE_KEYS_EXHAUSTED",
                f"version {self._version} has no surrogate keys left",
                help="start a new checkpoint with larger batches",
            )
        base = (self._version << KEY_BITS) + self._place
        return base + np.arange(first, first + count, dtype=np.int64) * self._ranges
