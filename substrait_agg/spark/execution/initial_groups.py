"""Compute the initial groups: the global group and the groups of empty grouping sets.

They are in the view whatever the input is.
"""

from __future__ import annotations

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from substrait_agg.commit.hash_ranges import sort_hash
from substrait_agg.operator.common.spec import InputSpec


def initial_groups(spark: SparkSession, spec: InputSpec) -> tuple[tuple[int, int], ...]:
    """Return (sort hash, grouping set index) of every group of an operator that is always shown.

    Their keys are null except the set index. Spark computes the hashes, so that they agree with
    those of the exchange.
    """
    if spec.is_global:
        return ((0, 0),)
    if not spec.always:
        return ()
    nulls = [F.lit(None).cast("int") for _ in spec.keys[:-1]]  # the hash of null has no type
    keys = [[*nulls, F.lit(index).cast("int")] for index in spec.always]
    columns = [column for key in keys for column in (F.hash(*key), F.xxhash64(*key))]
    found = np.array(list(spark.range(1).select(*columns).collect()[0]), np.int64)
    murmur = found[::2].astype(np.int32)
    other = (found[1::2] & 0x7FFFFFFF).astype(np.int32)
    hashes = sort_hash(murmur, other)
    return tuple((int(h), index) for h, index in zip(hashes, spec.always, strict=True))
