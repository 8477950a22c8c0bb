"""Live entries of several groups, concatenated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Segments:
    """Live entries of some groups, in key order within each group.

    Attributes:
        offsets: one more than there are groups; entries offsets[i]:offsets[i + 1] belong to group
            i.
        columns: the values of the entries, as inserted.
        weights: the weight of each entry, above 0.
    """

    offsets: npt.NDArray[np.int64]
    columns: tuple[pa.Array, ...]
    weights: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def owners(self) -> npt.NDArray[np.int64]:
        """Return the group of each entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))
