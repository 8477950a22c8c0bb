"""Spark's SQL that merges a list of sketches or bits, called c0, into one value.

What is in braces stands for constant arguments of the aggregate function.
"""

from __future__ import annotations

_NO_HLL = "X'0201070c030400080000000000000000000000000000000000000000000000000000000000000000'"
_NO_THETA = "X'01030300001e0000'"
"""What Spark gives for no sketch: an empty one."""

HLL_UNION = (
    f"if(size(c0) = 0, {_NO_HLL}, "
    "reduce(slice(c0, 2, size(c0)), get(c0, 0), (a, b) -> hll_union(a, b, {})))"
)
THETA_INTERSECTION = (
    f"if(size(c0) = 0, {_NO_THETA}, reduce(c0, get(c0, 0), (a, b) -> theta_intersection(a, b)))"
)
THETA_UNION = f"reduce(c0, {_NO_THETA}, (a, b) -> theta_union(a, b, {{}}))"

_WORD = "CAST(conv(hex(substr({}, 8 * i + 1, 8)), 16, -10) AS BIGINT)"
_OTHER_WORD = _WORD.format("rpad(b, 4096, X'00')")
BITMAPS = (
    "reduce(c0, unhex(repeat('{}', 4096)), (a, b) -> unhex(array_join(transform(sequence(0, 511), "
    f"i -> lpad(hex({_WORD.format('a')} {{}} {_OTHER_WORD}), 16, '0')), '')))"
)
"""Bitmaps merged by words of 64 bits: the byte of an empty one, and the operator."""

BITMAP = (
    "if(exists(c0, p -> p < 0 OR p > 32767), "
    "CAST(raise_error('a bit of a bitmap is not in 0 to 32767') AS BINARY), "
    "unhex(array_join(transform(regexp_extract_all(rpad(array_join(transform(c0, (p, i) -> "
    "concat(repeat('0', CAST(p - if(i = 0, 0L, get(c0, i - 1) + 1L) AS INT)), '1')), ''), 32768, '0'), "
    "'........', 0), b -> lpad(conv(reverse(b), 2, 16), 2, '0')), '')))"
)
"""The bitmap of a sorted list of distinct bits."""

VARIANT_SCHEMA = (
    "regexp_replace(schema_of_variant(to_variant_object("
    "transform(c0, p -> variant_of_parts(p)))), '^ARRAY<|>$', '')"
)
"""The schema of variants: that of the elements of their array, which Spark merges in the same way."""

PERCENTILE = (
    "if(exists(c0, r -> r.f1 < 0), CAST(raise_error('a frequency of a percentile is below 0') AS DOUBLE), "
    "get(transform(array(reduce(c0, -1L, (a, r) -> a + r.f1)), m -> if(m < 0, NULL, "
    "reduce(array_sort(c0), struct(0L AS n, get(c0, 0).f0 AS low, get(c0, 0).f0 AS high), (a, r) -> struct("
    "a.n + r.f1 AS n, "
    "if(floor(m * {0}D) BETWEEN a.n AND a.n + r.f1 - 1, r.f0, a.low) AS low, "
    "if(ceil(m * {0}D) BETWEEN a.n AND a.n + r.f1 - 1, r.f0, a.high) AS high), "
    "a -> if(a.low = a.high, double(a.low), "
    "double(a.low) + (m * {0}D - floor(m * {0}D)) * (double(a.high) - double(a.low)))))), 0))"
)
"""A percentile of a list of values and how often each counts."""
