"""Read the rows that a join stores of one side back as input rows of the join, as retractions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.operator.common.names import PORT, WEIGHT
from substrait_agg.state.arrangement import Arrangement, ArrangementLayout
from substrait_agg.state.run import HASH_MAX, RunFile


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The stored rows of a port of an operator."""

    checkpoint: str
    runs: tuple[RunFile, ...]
    layout: ArrangementLayout
    port: int
    first: int

    def retract(self, low: int = 0, high: int = HASH_MAX) -> Iterator[pa.Table]:
        """Yield the rows with hashes from `low` to `high`, with opposite weights.

        Yields:
            ``k0``, ..., ``x<first>``, ..., ``__weight``, ``__port``: rows that cancel out with
            equal input rows of the port.
        """
        if not self.runs:
            return
        storage = FolderFiles(f"{self.checkpoint}/state")
        for rows in Arrangement(storage, self.runs, self.layout).scan(low, high):
            columns = {f"k{i}": rows.column(f"k{i}") for i in range(len(self.layout.key_types))}
            for i in range(len(self.layout.value_types)):
                columns[f"x{self.first + i}"] = rows.column(f"v{i}")
            columns[WEIGHT] = pa.array(-rows.column("weight").to_numpy())
            columns[PORT] = pa.array(np.full(rows.num_rows, self.port, np.int8))
            yield pa.table(columns)
