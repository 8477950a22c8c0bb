"""Rows with their weights, as `Connector.read` gives them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from substrait_agg.connect.protocol import WEIGHT


def with_weights(rows: pa.Table, weights: np.ndarray | int = 1) -> pa.Table:
    """Return rows with their weights, or with one weight for all of them."""
    return rows.append_column(WEIGHT, pa.array(np.full(rows.num_rows, weights, np.int64)))


def add_weight(schema: pa.Schema) -> pa.Schema:
    """Return the columns with that of the weights."""
    return schema.append(pa.field(WEIGHT, pa.int64()))
