"""Measures computed from all live entries of a group: lists, texts, modes, ranks, products, bits.

Every kernel works on whole columns of groups; no loop runs over groups or entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.functions.aggregates.kinds import MeasureKind, complete, kinds_of
from substrait_agg.operator.common.spec import MeasureSpec
from substrait_agg.operator.measures.contributors import (
    Contributors,
    choose,
    convert,
    lists,
    require_room,
)
from substrait_agg.operator.measures.count_min import count_min_sketch
from substrait_agg.operator.measures.exact_product import product
from substrait_agg.operator.measures.hyperloglog import estimated_count
from substrait_agg.operator.measures.ranks import median, percentile_cont, percentile_disc, quantile
from substrait_agg.operator.measures.shape import kurtosis, skewness
from substrait_agg.operator.numeric.numbers import integer_words, integers
from substrait_agg.state.segments import Segments


def _list(segments: Segments, measure: MeasureSpec) -> pa.Array:
    contributors = Contributors.of(segments, measure, nulls=True)
    totals, values = contributors.repeat()
    filled = totals > 0 if measure.option("EMPTY") == "NULL" else np.ones(len(totals), np.bool_)
    return lists(measure, totals, values, filled)


def _list_union(segments: Segments, measure: MeasureSpec) -> pa.Array:
    contributors = Contributors.of(segments, measure, nulls=True)
    sizes = contributors.sizes
    return lists(measure, sizes, contributors.values, np.ones(len(sizes), np.bool_))


def _string_agg(segments: Segments, measure: MeasureSpec) -> pa.Array:
    contributors = Contributors.of(segments, measure)
    totals, values = contributors.repeat()
    separator = measure.constants[0] or ""
    glue = pa.scalar(separator, pa.string()).cast(values.type)
    text = pc.fill_null(pc.sum(pc.binary_length(values)), 0).as_py()
    require_room(measure, text + len(glue.as_buffer()) * len(values), "bytes of text")
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(totals)]).astype(np.int32)
    parts = pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(totals == 0))
    return convert(pc.binary_join(parts, glue), measure)


def _mode(segments: Segments, measure: MeasureSpec) -> pa.Array:
    """Return the most frequent value; of several, the least or the greatest in the order of the tree."""
    contributors = Contributors.of(segments, measure)
    filled, weights = contributors.filled, contributors.weights
    most = np.repeat(contributors.reduce(np.maximum, weights), contributors.sizes[filled])
    candidates = np.flatnonzero(weights == most)
    entries = np.zeros(len(contributors), np.int64)
    greatest = measure.option("TIES") == "GREATEST"
    ends = contributors.offsets[1:] if greatest else contributors.offsets[:-1]
    entries[filled] = candidates[np.searchsorted(candidates, ends[filled]) - greatest]
    return choose(contributors, entries, contributors.sizes > 0)


def _nth_value(segments: Segments, measure: MeasureSpec) -> pa.Array:
    contributors = Contributors.of(segments, measure, nulls=True)
    position = measure.constants[0]
    valid = np.zeros(len(contributors), np.bool_)
    entries = np.zeros(len(contributors), np.int64)
    if position is not None and 1 <= position < 1 << 63:
        valid = contributors.totals >= position
        groups = np.flatnonzero(valid)
        entries[groups] = contributors.at(groups, np.full(len(groups), position - 1, np.int64))
    return choose(contributors, entries, valid)


def _bits(ufunc: np.ufunc) -> Callable[[Segments, MeasureSpec], pa.Array]:
    def kernel(segments: Segments, measure: MeasureSpec) -> pa.Array:
        """Combine the bits of the values of each group."""
        contributors = Contributors.of(segments, measure)
        words = integer_words(contributors.values)[:, 0]
        if ufunc is np.bitwise_xor:
            # An even number of equal values cancels out.
            words = np.where(contributors.weights & 1, words, np.int64(0))
        result = np.zeros(len(contributors), np.int64)
        result[contributors.filled] = contributors.reduce(ufunc, words)
        # Convert to the type of the values first: it can represent any result of their bits.
        typed = replace(measure, type=measure.inputs[0]) if measure.inputs else measure
        whole = integers(typed, result.view(np.uint64), contributors.sizes > 0)
        return convert(whole, measure)

    return kernel


SCANS: Mapping[MeasureKind, Callable[[Segments, MeasureSpec], pa.Array]] = complete(
    {
        "estimated_count": estimated_count,
        "skewness": skewness,
        "kurtosis": kurtosis,
        "count_min_sketch": count_min_sketch,
        "list": _list,
        "list_union_distinct": _list_union,
        "string_agg": _string_agg,
        "mode": _mode,
        "median": median,
        "quantile": quantile,
        "percentile_cont": percentile_cont,
        "percentile_disc": percentile_disc,
        "product": product,
        "bit_and": _bits(np.bitwise_and),
        "bit_or": _bits(np.bitwise_or),
        "bit_xor": _bits(np.bitwise_xor),
        "nth_value": _nth_value,
    },
    kinds_of("multiset"),
)
"""Kind of measure -> kernel from the live entries of n groups to n values of the measure's type.

The value of a group without contributors is null, with these exceptions. It is 0 for
``estimated_count``. It is a sketch of no values for ``count_min_sketch``. It is the empty list for
``list_union_distinct``, and for ``list`` unless its option EMPTY is NULL. It is 1 for ``product``
unless its option EMPTY is NULL. Nulls count if the tree contains them: in ``list``,
``list_union_distinct`` and ``nth_value`` as values; in ``quantile`` they make the result null.
"""
