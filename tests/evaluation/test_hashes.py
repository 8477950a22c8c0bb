"""The hashes of keys are those of Spark, bit for bit."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from substrait_agg.evaluation.hashes import (
    LOW_31_BITS,
    can_hash,
    key_hashes,
    murmur3,
    normalise,
    xxhash64,
)
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import Type
from substrait_agg.spark.types import keys as spark_keys
from substrait_agg.spark.types.schema import to_spark
from tests.evaluation.random_columns import TYPES, column, table
from tests.sampling import seeds

ROWS = 200


def keys(rng: random.Random) -> tuple[list[Type], pa.Table]:
    types, rows = table(rng, ROWS)
    for length in (3, 40, 70, 300):
        texts = [
            "".join(rng.choice("aé日\U0001f600") for _ in range(rng.randint(0, length)))
            for _ in range(ROWS)
        ]
        types.append(Type("string"))
        rows = rows.append_column(f"c{len(types) - 1}", [pa.array(texts)])
    return types, rows


@pytest.mark.parametrize("seed", seeds(1, 40))
def test_hashes_are_those_of_spark(spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    types, rows = keys(rng)
    fields = [StructField(f"c{i}", to_spark(t)) for i, t in enumerate(types)]
    frame = spark.createDataFrame(rows, schema=StructType(fields))
    frame = frame.select(
        *(spark_keys.normalise(F.col(f.name), f.dataType).alias(f.name) for f in fields)
    )
    names = frame.columns
    sets = [[name] for name in names] + [rng.sample(names, rng.randint(1, 5)) for _ in range(20)]
    wanted = frame.select(
        *(F.hash(*s).alias(f"m{i}") for i, s in enumerate(sets)),
        *(F.xxhash64(*s).alias(f"x{i}") for i, s in enumerate(sets)),
    ).toArrow()
    for i, chosen in enumerate(sets):
        columns = [rows.column(name).combine_chunks() for name in chosen]
        assert all(can_hash(c.type) for c in columns)
        for found, name in ((murmur3(columns, ROWS), f"m{i}"), (xxhash64(columns, ROWS), f"x{i}")):
            assert np.array_equal(found, wanted.column(name).to_numpy()), chosen


@pytest.mark.parametrize("hash_", [murmur3, xxhash64])
def test_a_slice_has_the_hashes_of_its_rows(hash_: object) -> None:
    assert callable(hash_)
    rng = random.Random(5)
    for type_ in TYPES:
        whole = column(rng, type_, 50, tame=False)
        found = hash_([whole.slice(7, 30)], 30)
        assert np.array_equal(found, hash_([whole], 50)[7:37]), type_


@pytest.mark.parametrize("rows", [50, 5_000])
def test_keys_that_repeat_have_the_hashes_of_their_values(rows: int) -> None:
    rng = random.Random(rows)
    for type_ in TYPES:
        texts = [rng.choice(["", "a", "é" * 40, None]) for _ in range(rows)]
        values = normalise(column(rng, type_, 40, tame=False))
        repeated = values.take(pa.array([rng.randrange(40) for _ in range(rows)]))
        chosen = [pa.array(texts, pa.string()), repeated, pa.array([1, 2] * (rows // 2))]
        for columns in (chosen, chosen[::-1], [pa.array(map(str, range(rows))), repeated]):
            murmur, other = key_hashes(columns, rows)
            assert np.array_equal(murmur, murmur3(columns, rows)), type_
            assert np.array_equal(other, xxhash64(columns, rows) & LOW_31_BITS), type_


def test_no_rows_have_no_hashes() -> None:
    for type_ in TYPES:
        assert len(murmur3([pa.array([], to_arrow(type_))], 0)) == 0
        assert len(xxhash64([pa.array([], to_arrow(type_))], 0)) == 0


def test_structs_have_the_hashes_of_spark(spark: SparkSession) -> None:
    rng = random.Random(3)
    types = rng.sample(TYPES, 4)
    inner = Type("struct", children=tuple(types[:2]))
    type_ = Type("struct", children=(inner, *types[2:]))
    nulls = [pa.array([rng.random() < 0.2 for _ in range(ROWS)]) for _ in range(2)]
    parts = [column(rng, t, ROWS, tame=False) for t in types]
    fields = [[*to_arrow(t)] for t in (inner, type_)]
    within = pa.StructArray.from_arrays(parts[:2], fields=fields[0], mask=nulls[0])
    whole = pa.StructArray.from_arrays([within, *parts[2:]], fields=fields[1], mask=nulls[1])
    schema = StructType([StructField("c0", to_spark(type_)), StructField("c1", to_spark(types[0]))])
    frame = spark.createDataFrame(pa.table([whole, parts[0]], names=["c0", "c1"]), schema=schema)
    names = [spark_keys.normalise(F.col(f.name), f.dataType).alias(f.name) for f in schema.fields]
    wanted = frame.select(*names).select(F.hash("c0", "c1"), F.xxhash64("c1", "c0")).toArrow()
    assert can_hash(whole.type)
    columns = [normalise(whole), normalise(parts[0])]
    assert np.array_equal(murmur3(columns, ROWS), wanted.column(0).to_numpy())
    assert np.array_equal(xxhash64(columns[::-1], ROWS), wanted.column(1).to_numpy())
    sliced = columns[0].slice(7, 30)
    assert np.array_equal(murmur3([sliced], 30), murmur3(columns[:1], ROWS)[7:37])


def test_lists_cannot_be_hashed() -> None:
    assert not can_hash(pa.list_(pa.int64()))
    assert not can_hash(pa.struct([("f0", pa.list_(pa.int64()))]))
