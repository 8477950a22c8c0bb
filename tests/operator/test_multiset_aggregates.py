"""Measures over the live entries of groups: every kernel equals a plain model, group by group."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from substrait_agg.errors import RunFailed
from substrait_agg.operator.common.spec import MeasureSpec
from substrait_agg.operator.measures.multiset_aggregates import SCANS
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import DATE, FP32, FP64, I8, I16, I32, I64, STRING, Type, decimal
from substrait_agg.state.segments import Segments
from tests.operator.rounding import MODES, round_float, round_whole

Entry = tuple[Any, int]
Groups = list[list[Entry]]
U64 = Type("u64")


def list_of(type_: Type) -> Type:
    """The type of lists of `type_`."""
    return Type("list", True, (), (type_,))


def measure_of(
    kind: Any,
    input_: Type,
    output: Type | None = None,
    *constants: Any,
    distinct: bool = False,
    **options: str,
) -> MeasureSpec:
    """A measure over the second component of a tree."""
    return MeasureSpec(
        kind, (), output or input_, kind,
        values=(1,), distinct=distinct, options=tuple(options.items()), constants=constants, inputs=(input_,),
    )  # fmt: skip


def scan(measure: MeasureSpec, groups: Groups) -> list[Any]:
    """The results of a kernel as Python values; the segments do not begin at 0."""
    entries = [entry for group in groups for entry in group]
    offsets = np.cumsum([1, *map(len, groups)])
    type_ = to_arrow(measure.inputs[0])
    values = pa.array([None, *(v for v, _ in entries), None], type_)
    order = pa.array(np.arange(len(entries) + 2))
    weights = np.array([7, *(w for _, w in entries), 7], np.int64)
    result = SCANS[measure.kind](Segments(offsets, (order, values), weights), measure)
    result.validate(full=True)
    assert result.type == to_arrow(measure.type)
    assert len(result) == len(groups)
    return list(result.to_pylist())


def repeated(group: Sequence[Entry], *, distinct: bool = False) -> list[Any]:
    """The values of a group, each as often as it occurs."""
    return [v for v, w in group for _ in range(1 if distinct else w)]


def groups_of(values: st.SearchStrategy[Any], most: int = 4) -> st.SearchStrategy[Groups]:
    """Groups, empty ones among them, of entries in order."""
    entry = st.tuples(values, st.integers(1, most))
    unique = st.lists(entry, max_size=6, unique_by=lambda e: repr(e[0]))
    return st.lists(unique.map(lambda g: sorted(g, key=lambda e: (e[0] is None, e[0]))), max_size=5)


WORDS = st.text("ab\0é", max_size=3)
LONGS = st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1))
FINITE = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([5e-324, -5e-324, 1.7976931348623157e308, 1e-320, 0.1, 1.0]),
).map(lambda x: x + 0.0)


# --- lists and texts --------------------------------------------------------------------------


@settings(deadline=None)
@given(groups_of(st.one_of(st.none(), WORDS)), st.booleans(), st.sampled_from(["NULL", "EMPTY"]))
def test_list_repeats_by_weight_in_order(groups: Groups, distinct: bool, empty: str) -> None:
    """Nulls stay; no entries give an empty list, or null when asked for."""
    measure = measure_of("list", STRING, list_of(STRING), distinct=distinct, EMPTY=empty)
    wanted = [repeated(g, distinct=distinct) or (None if empty == "NULL" else []) for g in groups]
    assert scan(measure, groups) == wanted


@settings(deadline=None)
@given(groups_of(st.one_of(st.none(), WORDS)))
def test_list_union_lists_entries_once(groups: Groups) -> None:
    measure = measure_of("list_union_distinct", STRING, list_of(STRING))
    assert scan(measure, groups) == [[v for v, _ in g] for g in groups]


@settings(deadline=None)
@given(groups_of(st.one_of(st.none(), WORDS)), st.sampled_from(["", ",", "é, "]), st.booleans())
def test_string_agg_joins(groups: Groups, separator: str, distinct: bool) -> None:
    """A single empty text gives an empty text, not null."""
    measure = measure_of("string_agg", STRING, STRING, separator, distinct=distinct)
    parts = [[v for v in repeated(g, distinct=distinct) if v is not None] for g in groups]
    assert scan(measure, groups) == [separator.join(p) if p else None for p in parts]


def test_string_agg_of_binary_and_without_separator() -> None:
    groups: Groups = [[(b"a", 2), (b"\xff", 1)], []]
    binary = Type("binary")
    assert scan(measure_of("string_agg", binary, None, "-"), groups) == [b"a-a-\xff", None]
    assert scan(measure_of("string_agg", binary, None, None), groups) == [b"aa\xff", None]


@pytest.mark.parametrize(("kind", "output"), [("list", list_of(STRING)), ("string_agg", STRING)])
def test_results_that_no_column_holds_are_refused(kind: str, output: Type) -> None:
    """More elements or more text than 32-bit offsets reach fail before any memory is taken."""
    for group in ([("a", 2**31)], [("a" * 1000, 2**22)]):
        with pytest.raises(RunFailed, match="the limit is 2147483647") as caught:
            scan(measure_of(kind, STRING, output, ","), [group])
        assert caught.value.code == "RESULT_TOO_LARGE"


def test_lists_of_structs_keep_the_declared_nullability() -> None:
    pair = Type("struct", True, (), (Type("i64", False), STRING))
    groups: Groups = [[({"f0": 1, "f1": None}, 2), (None, 1)], []]
    measure = measure_of("list", pair, list_of(pair))
    assert scan(measure, groups) == [[{"f0": 1, "f1": None}] * 2 + [None], []]


# --- choosing ---------------------------------------------------------------------------------


@settings(deadline=None)
@given(groups_of(st.one_of(st.none(), LONGS)))
def test_mode_is_most_frequent_and_then_least(groups: Groups) -> None:
    def wanted(group: list[Entry]) -> Any:
        present = [(v, w) for v, w in group if v is not None]
        return max(present, key=lambda e: (e[1], -e[0]))[0] if present else None

    assert scan(measure_of("mode", I64), groups) == [wanted(g) for g in groups]


@settings(deadline=None)
@given(
    groups_of(st.one_of(st.none(), WORDS)), st.one_of(st.none(), st.integers(-1, 9)), st.booleans()
)
def test_nth_value_counts_with_weights(groups: Groups, n: int | None, distinct: bool) -> None:
    def wanted(group: list[Entry]) -> Any:
        values = repeated(group, distinct=distinct)
        return values[n - 1] if n is not None and 1 <= n <= len(values) else None

    measure = measure_of("nth_value", STRING, None, n, distinct=distinct)
    assert scan(measure, groups) == [wanted(g) for g in groups]


def test_ranks_beyond_what_could_be_listed() -> None:
    """Values by rank need no list: weights of 2^60 and more are walked as they are, in several groups."""
    groups: Groups = [[(1, 2**60), (2, 1), (3, 2**60)]] * 9
    assert scan(measure_of("median", I64), groups) == [2] * 9
    assert scan(measure_of("nth_value", I64, None, 2**60 + 2), groups) == [3] * 9
    with pytest.raises(RunFailed) as caught:
        scan(measure_of("median", I64), [[(1, 2**62), (2, 2**62)]])
    assert caught.value.code == "WEIGHT_OVERFLOW"


# --- ranks ------------------------------------------------------------------------------------


def _between(low: Any, high: Any, part: Fraction) -> Fraction:
    return Fraction(low) * (1 - part) + Fraction(high) * part


def _at(values: Sequence[Any], position: Fraction) -> Fraction:
    rank = math.floor(position)
    return _between(values[rank], values[min(rank + 1, len(values) - 1)], position - rank)


def rounder(type_: Type, mode: str) -> Callable[[Fraction], Any]:
    """Rounds a fraction once to a type."""
    if type_.kind in ("fp32", "fp64"):
        return lambda x: round_float(x, mode, single=type_.kind == "fp32")
    if type_.kind == "decimal":
        scale = type_.params[1]
        return lambda x: Decimal(f"{round_whole(x * 10**scale, mode)}e-{scale}")
    return lambda x: round_whole(x, mode)


MONEY = decimal(38, 4)
AMOUNTS = st.integers(1 - 10**38, 10**38 - 1).map(lambda u: Decimal(f"{u}e-4"))
NUMBERS: list[tuple[Type, Type, st.SearchStrategy[Any]]] = [
    (I64, I64, LONGS),
    (I64, FP64, LONGS),
    (I8, I8, st.integers(-128, 127)),
    (U64, U64, st.integers(0, 2**64 - 1).map(Decimal)),
    (FP64, FP64, FINITE),
    (FP32, FP32, st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0)),
    (MONEY, MONEY, AMOUNTS),
    (MONEY, FP64, AMOUNTS),
    (MONEY, decimal(38, 2), AMOUNTS),
]


@pytest.mark.parametrize(("input_", "output", "values"), NUMBERS)
@settings(deadline=None)
@given(data=st.data())
def test_median_is_rounded_once(
    input_: Type, output: Type, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    """The exact mean of the middle two, rounded once to the type, in every rounding mode."""
    groups, mode = data.draw(groups_of(values)), data.draw(st.sampled_from(MODES))
    found = scan(measure_of("median", input_, output, ROUNDING=mode), groups)
    for got, group in zip(found, groups, strict=True):
        every = repeated(group)
        middle = Fraction(len(every) - 1, 2)
        assert got == (rounder(output, mode)(_at(every, middle)) if every else None)


@pytest.mark.parametrize(("input_", "output", "values"), NUMBERS)
@settings(deadline=None)
@given(data=st.data())
def test_percentile_cont_takes_the_fraction_as_written(
    input_: Type, output: Type, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    """Exact interpolation at 0.1 means one tenth, not the binary number next to it."""
    groups = data.draw(groups_of(values))
    written = data.draw(st.sampled_from([0, 0.1, 0.3, 0.5, Decimal("0.95"), 1.0, 1e-9, 1 / 3]))
    found = scan(measure_of("percentile_cont", input_, output, written), groups)
    for got, group in zip(found, groups, strict=True):
        every = repeated(group)
        position = (len(every) - 1) * Fraction(str(written))
        assert got == (rounder(output, "TIE_TO_EVEN")(_at(every, position)) if every else None)


@settings(deadline=None)
@given(groups_of(WORDS), st.sampled_from([0, 0.1, 0.3, 0.5, Decimal("0.95"), 1]))
def test_percentile_disc_chooses_a_value(groups: Groups, written: Any) -> None:
    def wanted(group: list[Entry]) -> Any:
        every = repeated(group)
        rank = max(0, math.ceil(len(every) * Fraction(str(written))) - 1)
        return every[rank] if every else None

    measure = measure_of("percentile_disc", STRING, None, written)
    assert scan(measure, groups) == [wanted(g) for g in groups]


@pytest.mark.parametrize("kind", ["percentile_cont", "percentile_disc"])
def test_percentiles_at_a_null_fraction_are_null(kind: str) -> None:
    assert scan(measure_of(kind, I64, None, None), [[(1, 1), (2, 3)], []]) == [None, None]


QUANTILE_TYPES: list[tuple[Type, st.SearchStrategy[Any]]] = [
    (I64, LONGS), (FP64, FINITE), (MONEY, AMOUNTS),
]  # fmt: skip
BOUNDARIES = {"NEITHER": (1, 0), "MINIMUM": (0, 0), "MAXIMUM": (1, 1), "BOTH": (0, 1)}


@pytest.mark.parametrize(("type_", "values"), QUANTILE_TYPES)
@settings(deadline=None)
@given(data=st.data())
def test_quantile_lists_boundaries(
    type_: Type, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    """The exact boundaries between n bins; null without values, with a null among them, and for n below 1."""
    groups = data.draw(groups_of(st.one_of(values, values, values, st.none())))
    n = data.draw(st.one_of(st.none(), st.integers(-1, 5)))
    boundaries, mode = (
        data.draw(st.sampled_from(list(BOUNDARIES))),
        data.draw(st.sampled_from(MODES)),
    )
    measure = measure_of(
        "quantile",
        type_,
        list_of(type_),
        n,
        BOUNDARIES=boundaries,
        ROUNDING=mode,
        PRECISION="EXACT",
    )
    first, last = BOUNDARIES[boundaries]
    for got, group in zip(scan(measure, groups), groups, strict=True):
        every = repeated(group)
        if n is None or n < 1 or not every or None in every:
            assert got is None
            continue
        positions = [Fraction(k * (len(every) - 1), n) for k in range(first, n + last)]
        assert got == [rounder(type_, mode)(_at(every, p)) for p in positions]


def test_quantile_of_other_values_rounds_the_rank() -> None:
    """Dates and texts have no value in between, so the rank is rounded as the option says."""
    words: Groups = [[("a", 1), ("b", 1), ("c", 1), ("d", 1)]]
    wanted = {
        "TIE_TO_EVEN": "c",
        "TIE_AWAY_FROM_ZERO": "c",
        "TRUNCATE": "b",
        "FLOOR": "b",
        "CEILING": "c",
    }
    for mode, value in wanted.items():
        assert scan(measure_of("quantile", STRING, list_of(STRING), 2, ROUNDING=mode), words) == [
            [value]
        ]
        assert scan(measure_of("median", STRING, None, ROUNDING=mode), words) == [value]
    assert scan(measure_of("median", DATE), [[]]) == [None]


def test_points_between_special_floats() -> None:
    inf, nan = math.inf, math.nan
    groups: Groups = [
        [(-inf, 1), (1.0, 1)], [(1.0, 1), (inf, 1)], [(-inf, 1), (inf, 1)], [(1.0, 1), (nan, 1)],
        [(inf, 2)], [(1e308, 1), (1.5e308, 1)],
    ]  # fmt: skip
    found = scan(measure_of("median", FP64), groups)
    assert found[:2] == [-inf, inf]
    assert all(map(math.isnan, found[2:4]))
    assert found[4:] == [inf, 1.25e308]


# --- products ---------------------------------------------------------------------------------

INTEGER_ENDS = [
    (I8, -128, 127),
    (I16, -(2**15), 2**15 - 1),
    (I64, -(2**63), 2**63 - 1),
    (U64, 0, 2**64 - 1),
]
FACTORS = st.one_of(st.integers(-3, 3), st.sampled_from([127, -128, 7, 2]))
LARGE = st.one_of(
    FACTORS, LONGS, st.sampled_from([2**31, 2**32 - 1, 2**32 + 1, 3037000500, 4294967291])
)


@pytest.mark.parametrize(("type_", "least", "most"), INTEGER_ENDS)
@settings(deadline=None)
@given(data=st.data())
def test_integer_products_are_exact_or_overflow(
    type_: Type, least: int, most: int, data: st.DataObject
) -> None:
    """Within the type exact; beyond it an error, the nearer end, or the product modulo the size of the type."""
    values = (FACTORS if type_ == I8 else LARGE).filter(lambda v: least <= v <= most)
    groups = data.draw(groups_of(values.map(Decimal) if type_ == U64 else values, 9))
    exactly = [math.prod(int(v) ** w for v, w in g) for g in groups]
    size = most - least + 1
    found = scan(measure_of("product", type_, OVERFLOW="SATURATE"), groups)
    assert found == [max(least, min(most, p)) for p in exactly]
    found = scan(measure_of("product", type_, OVERFLOW="SILENT"), groups)
    assert found == [(p - least) % size + least for p in exactly]
    if all(least <= p <= most for p in exactly):
        assert scan(measure_of("product", type_), groups) == exactly
    else:
        with pytest.raises(RunFailed) as caught:
            scan(measure_of("product", type_), groups)
        assert caught.value.code == "RESULT_OVERFLOW"


def test_products_next_to_the_ends() -> None:
    """The largest and smallest integers differ from their neighbours."""
    groups: Groups = [
        [(-2, 63)], [(-2, 1), (2, 62)], [(2, 63)], [(7, 2), (73, 1), (127, 1), (337, 1), (92737, 1), (649657, 1)],
        [(2, 2**62)], [(-1, 2**62 - 1)], [(0, 1), (2, 2**40)], [],
    ]  # fmt: skip
    most, least = 2**63 - 1, -(2**63)
    wanted = [least, least, most, most, most, -1, 0, 1]
    assert scan(measure_of("product", I64, OVERFLOW="SATURATE"), groups) == wanted
    assert scan(measure_of("product", I64, EMPTY="NULL"), [[], [(2, 2)]]) == [None, 4]
    edge: Groups = [[(Decimal(2), 64)], [(Decimal(2**32 - 1), 1), (Decimal(2**32 + 1), 1)]]
    assert scan(measure_of("product", U64, OVERFLOW="SATURATE"), edge) == [2**64 - 1, 2**64 - 1]
    assert scan(measure_of("product", U64, OVERFLOW="SILENT"), edge) == [0, 2**64 - 1]


@settings(deadline=None)
@given(groups_of(FINITE, 5))
def test_float_products_are_rounded_once(groups: Groups) -> None:
    """No overflow or underflow on the way; up to the error of the double-length factors the nearest float."""
    for got, group in zip(scan(measure_of("product", FP64), groups), groups, strict=True):
        exactly = Fraction(math.prod(Fraction(v) ** w for v, w in group))
        near = Fraction(1, 2**90)
        ends = {round_float(exactly * (1 + e), "TIE_TO_EVEN") for e in (-near, Fraction(0), near)}
        assert got in ends


def test_float_products_of_many_and_often() -> None:
    """A hundred thousand factors, and one a billion times; directions of rounding; fp32; integers and large weights."""
    many = [(1 + k / 2**20, 1) for k in range(1, 3000)]
    small = [(1 / v, w) for v, w in many]
    wanted = round_float(Fraction(math.prod(Fraction(v) for v, _ in many)), "TIE_TO_EVEN")
    found = scan(measure_of("product", FP64), [many, [], [*many, *small], [(1 + 2**-40, 2**40)]])
    assert found[:2] == [wanted, 1.0]
    assert found[2] == pytest.approx(1.0, rel=1e-12)
    assert found[3] == pytest.approx(math.e, rel=1e-12)
    tiny: Groups = [
        [(1e-300, 2), (1e300, 2)],
        [(1e300, 2)],
        [(-1e300, 3)],
        [(1e-300, 2)],
        [(-1e-300, 3)],
    ]
    assert scan(measure_of("product", FP64), tiny)[1:] == [math.inf, -math.inf, 0.0, 0.0]
    assert scan(measure_of("product", FP64), tiny)[0] == pytest.approx(1.0)
    assert scan(measure_of("product", FP64, ROUNDING="TRUNCATE"), tiny)[1] == 1.7976931348623157e308
    assert scan(measure_of("product", FP32), [[(0.5, 1), (3.0, 2)]]) == [4.5]
    assert scan(measure_of("product", I64, FP64), [[(2**63 - 1, 2)]]) == [float((2**63 - 1) ** 2)]
    assert scan(measure_of("product", FP64), [[(-1.0, 2**62 - 1)], [(0.5, 2**61)]]) == [-1.0, 0.0]


def test_float_products_of_special_values() -> None:
    inf, nan = math.inf, math.nan
    groups: Groups = [
        [(-inf, 1), (2.0, 1)], [(-inf, 2)], [(0.0, 1), (inf, 1)], [(1.0, 1), (nan, 1)], [(-1.0, 1), (0.0, 3)],
        [(-2.0, 1), (inf, 1)],
    ]  # fmt: skip
    found = scan(measure_of("product", FP64), groups)
    assert found[:2] == [-inf, inf]
    assert all(map(math.isnan, found[2:4]))
    assert found[4:] == [0.0, -inf]
    assert math.copysign(1, found[4]) == 1


# --- bits -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bit_and", "bit_or", "bit_xor"])
@settings(deadline=None)
@given(groups=groups_of(LONGS), distinct=st.booleans())
def test_bits(kind: str, groups: Groups, distinct: bool) -> None:
    """Each over all values; of nothing null; an even number of equal values cancels in xor."""
    fold: dict[str, Callable[[int, int], int]] = {
        "bit_and": lambda a, b: a & b, "bit_or": lambda a, b: a | b, "bit_xor": lambda a, b: a ^ b,
    }  # fmt: skip

    def wanted(group: list[Entry]) -> int | None:
        values = repeated(group, distinct=distinct)
        result = None
        for value in values:
            result = value if result is None else fold[kind](result, value)
        return result

    measure = measure_of(kind, I64, distinct=distinct)
    assert scan(measure, groups) == [wanted(g) for g in groups]


def test_bits_of_narrow_and_unsigned_types() -> None:
    assert scan(measure_of("bit_or", I32), [[(-8, 1), (3, 1)]]) == [-5]
    assert scan(measure_of("bit_xor", Type("u8")), [[(255, 1), (1, 3)]]) == [254]
    top = Decimal(2**64 - 1)
    assert scan(measure_of("bit_and", U64), [[(top, 1), (Decimal(2**63), 1)]]) == [2**63]


@pytest.mark.parametrize("n", [2**63 - 1, 2**40])
@pytest.mark.parametrize("boundaries", BOUNDARIES)
def test_any_number_of_bins_has_room_in_groups_without_boundaries(boundaries: str, n: int) -> None:
    """Groups that are empty or have a null have no list; groups with values exceed the limit."""
    measure = measure_of("quantile", I64, list_of(I64), n, BOUNDARIES=boundaries)
    assert scan(measure, [[], [(None, 1)]]) == [None, None]
    with pytest.raises(RunFailed, match="RESULT_TOO_LARGE"):
        scan(measure, [[(1, 1)], []])


def test_no_groups_at_all() -> None:
    """Every kernel takes a slice without groups, and one of empty groups only."""
    outputs: dict[str, tuple[Type, Type]] = {
        "string_agg": (STRING, STRING),
        "list": (I64, list_of(I64)),
        "list_union_distinct": (I64, list_of(I64)),
        "quantile": (I64, list_of(I64)),
        "count_min_sketch": (I64, Type("binary")),
    }
    for kind in SCANS:
        input_, output = outputs.get(kind, (I64, I64))
        constants: tuple[Any, ...] = {"string_agg": (",",), "count_min_sketch": (2, 8, 1)}.get(
            kind, (1,)
        )
        measure = measure_of(kind, input_, output, *constants)
        assert scan(measure, []) == []
        assert len(set(map(repr, scan(measure, [[], []])))) == 1
