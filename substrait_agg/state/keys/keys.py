"""Order-preserving keys: columns of any type as unsigned words and bytes with the same order.

The total order of each type, ascending:

==================================  ================================================================
integers, dates, times, durations   by number
decimals                            by number; all values of a column have one scale
floats                              by number; -0.0 equals 0.0; NaN equals NaN, above infinity
booleans                            false, true
strings                             by UTF-8 bytes, which is the order of code points
binary, fixed size binary           by unsigned bytes; a prefix comes first
calendar intervals                  by months, then days, then nanoseconds
structs                             field by field; a null field comes before all values
lists                               element by element; a null element comes before all values; a
                                    prefix comes first
maps                                as the list of their entries ordered by key; the order of the
                                    entries does not matter
==================================  ================================================================

`Component.descending` inverts this order, also inside values. It does not affect nulls of the
column itself: `Component.nulls_first` places them before or after all values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.state.keys.fixed_keys import Part, Words, fixed_parts, pack, width
from substrait_agg.state.keys.rows import Indices, Mask, as_mask, stable_order
from substrait_agg.state.keys.variable_keys import (
    first_words,
    join,
    parts_as_bytes,
    variable_bytes,
)

WIDE_WORDS = 4
"""Words of `EncodedKeys.wide` keys: 32 bytes tell most keys of numbers and short texts apart."""


@dataclass(frozen=True, slots=True)
class Component:
    """One column of a key.

    Attributes:
        type: Arrow type of the column.
        nullable: whether nulls occur; only then the key has a flag byte.
        descending: greatest values first.
        nulls_first: whether nulls come before all values rather than after them, whatever the
            direction.
    """

    type: pa.DataType
    nullable: bool = False
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class KeyForm:
    """The form of keys of some components: the number of words, and whether there is a rest."""

    words: int
    rest: bool


@dataclass(frozen=True, slots=True)
class EncodedKeys:
    """Some keys, as columns.

    Attributes:
        words: at least one column; compared first, in order, as unsigned numbers.
        rest: pa.binary() without nulls, compared last, bytewise; None if the words contain the
            whole key.
    """

    words: tuple[Words, ...]
    rest: pa.Array | None = None
    _wide: list[EncodedKeys] = field(default_factory=list, init=False, repr=False, compare=False)

    def wide(self) -> EncodedKeys:
        """Return the keys with `WIDE_WORDS` words of the rest, which compare faster than its bytes.

        They are computed once.
        """
        if self.rest is None:
            return self
        if not self._wide:
            further = (first_words(self.rest, 8 * i) for i in range(1, WIDE_WORDS))
            self._wide.append(EncodedKeys((self.words[0], *further), self.rest))
        return self._wide[0]

    def __len__(self) -> int:
        return len(self.words[0])

    def take(self, indices: npt.NDArray[Any]) -> EncodedKeys:
        """Return the keys at `indices`."""
        rest = None if self.rest is None else self.rest.take(pa.array(indices))
        return EncodedKeys(tuple(word[indices] for word in self.words), rest)

    def slice(self, start: int, stop: int) -> EncodedKeys:
        """Return the keys from `start` to `stop` (exclusive), without copying."""
        rest = None if self.rest is None else self.rest.slice(start, stop - start)
        return EncodedKeys(tuple(word[start:stop] for word in self.words), rest)

    @staticmethod
    def concat(parts: Sequence[EncodedKeys]) -> EncodedKeys:
        """Concatenate keys (at least one part, all of one form)."""
        if len(parts) == 1:
            return parts[0]
        words = tuple(np.concatenate(word) for word in zip(*(p.words for p in parts), strict=True))
        rests = [p.rest for p in parts if p.rest is not None]
        return EncodedKeys(words, pa.concat_arrays(rests) if rests else None)


def key_form(components: Sequence[Component]) -> KeyForm:
    """Return the form of keys of these components.

    Raises:
        TypeError: values of a component's type have no order.
    """
    widths = [width(c.type) for c in components]
    if None in widths:
        return KeyForm(1, rest=True)
    size = sum((w or 0) + c.nullable for w, c in zip(widths, components, strict=True))
    return KeyForm(max(1, -(-size // 8)), rest=False)


def encode(columns: Sequence[pa.Array], components: Sequence[Component]) -> EncodedKeys:
    """Encode rows as keys.

    Args:
        columns: one per component, of its type and all of one length; slices are allowed.
        components: at least one.

    Raises:
        TypeError: values of a type have no order.
        ValueError: a null in a component that is not nullable.
    """
    if len(columns) != len(components):
        raise ValueError("there is not one column per component")
    return prefix_keys(columns, components)


def prefix_keys(columns: Sequence[pa.Array], components: Sequence[Component]) -> EncodedKeys:
    """Encode the first components of rows as keys.

    A returned key comes before all keys whose first components are not below the values, and after
    all others.

    Args:
        columns: one per component, or only the first ones (at least one).
        components: components of the keys to compare with.
    """
    length, form = len(columns[0]), key_form(components)
    if not form.rest:
        parts: list[Part] = []
        for column, component in zip(columns, components, strict=False):
            parts += _parts(column, component)
        words = pack(parts, length)
        nothing = np.zeros(length, np.uint64)
        return EncodedKeys((*words, *[nothing] * (form.words - len(words))))
    pieces: list[pa.Array] = []
    pending: list[Part] = []
    for i, (column, component) in enumerate(zip(columns, components, strict=False)):
        if width(component.type) is not None:
            pending += _parts(column, component)
            continue
        if pending:
            pieces.append(parts_as_bytes(pending, length))
            pending = []
        pieces.append(_bytes(column, component, last=i == len(components) - 1))
    if pending:
        pieces.append(parts_as_bytes(pending, length))
    rest = join(*pieces)
    return EncodedKeys((first_words(rest),), rest)


def _parts(column: pa.Array, component: Component) -> list[Part]:
    return fixed_parts(
        column,
        nullable=component.nullable,
        descending=component.descending,
        nulls_first=component.nulls_first,
    )


def _bytes(column: pa.Array, component: Component, *, last: bool) -> pa.Array:
    # The last string needs no end marker because nothing follows it. An inverted string needs one,
    # to come after the strings it is a prefix of.
    return variable_bytes(
        column,
        nullable=component.nullable,
        descending=component.descending,
        nulls_first=component.nulls_first,
        raw=last and not component.descending,
    )


def before(
    left: EncodedKeys,
    left_at: npt.NDArray[Any],
    right: EncodedKeys,
    right_at: npt.NDArray[Any],
    *,
    or_equal: bool = False,
) -> Mask:
    """Return a mask of the pairs in which the key of `left` comes before the key of `right`.

    With `or_equal`, the mask includes pairs of equal keys.
    """
    left_words, right_words = left.words[0][left_at], right.words[0][right_at]
    whole = len(left.words) == 1 and left.rest is None
    if whole:
        return np.asarray(left_words <= right_words if or_equal else left_words < right_words)
    result = np.asarray(left_words < right_words)
    ties = np.flatnonzero(left_words == right_words)
    for left_column, right_column in zip(left.words[1:], right.words[1:], strict=True):
        left_words, right_words = left_column[left_at[ties]], right_column[right_at[ties]]
        result[ties] = left_words < right_words
        ties = ties[left_words == right_words]
    if left.rest is None or right.rest is None:
        result[ties] = or_equal
    elif len(ties):
        compare_rest = pc.less_equal if or_equal else pc.less
        result[ties] = as_mask(
            compare_rest(
                left.rest.take(pa.array(left_at[ties])), right.rest.take(pa.array(right_at[ties]))
            )
        )
    return result


def compare(left: EncodedKeys, right: EncodedKeys) -> npt.NDArray[np.int8]:
    """Compare keys pairwise: -1 if the left key comes first, 0 if both are equal, else 1."""
    at = np.arange(len(left))
    after = before(right, at, left, at).astype(np.int8)
    return np.asarray(after - before(left, at, right, at).astype(np.int8))


_WORD_BITS = 64


def sort_order(leading: Sequence[npt.NDArray[Any]], keys: EncodedKeys) -> tuple[Indices, Mask]:
    """Return the stable order of rows by numbers, then by key.

    Args:
        leading: columns of numbers that are compared first.
        keys: one key per row.

    Returns:
        The order, and for each row in that order whether it differs from the one before it.
    """
    columns = [column for column in (*leading, *keys.words) if not _constant(column)]
    order, first = _by_numbers(columns, len(keys))
    if keys.rest is not None and not first.all():
        _order_ties(order, first, keys.rest)
    return order, first


def _by_numbers(columns: Sequence[npt.NDArray[Any]], rows: int) -> tuple[Indices, Mask]:
    first = np.zeros(rows, np.bool_)
    first[:1] = True
    packed = _pack(columns) if columns else None
    if packed is None and len(columns) > 1:
        # Hashes need 64 bits; their ranks leave room for the other columns.
        packed = _pack([_ranks(columns[0]), *columns[1:]])
    if packed is not None:
        order = stable_order(packed)
        columns = [packed]
    else:
        order = np.lexsort(columns[::-1]) if columns else np.arange(rows)
    for column in columns:
        ordered = column[order]
        first[1:] |= ordered[1:] != ordered[:-1]
    return order, first


def _ranks(column: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return per number how many different numbers of the column are less.

    A stable sort is fast for columns that consist of a few sorted parts, as those of merged runs.
    """
    order = np.argsort(column, kind="stable")
    ordered = column[order]
    ranks = np.zeros(len(column), np.int64)
    ranks[order[1:]] = np.cumsum(ordered[1:] != ordered[:-1])
    return ranks


def _pack(columns: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.uint64] | None:
    """Pack columns of numbers in one column with the same order.

    The numbers are in the upper bits. None if they need more than 64 bits.
    """
    ranges = [(int(column.min()), int(column.max())) for column in columns]
    bits = [(high - low).bit_length() for low, high in ranges]
    if sum(bits) > _WORD_BITS:
        return None
    packed = np.zeros(len(columns[0]), np.uint64)
    for column, (low, _), column_bits in zip(columns, ranges, bits, strict=True):
        # Subtract modulo 2^64, which is correct for negative numbers, too.
        above = column.astype(np.uint64) - np.uint64(low % (1 << _WORD_BITS))
        packed = above if column_bits == _WORD_BITS else packed << np.uint64(column_bits) | above
    return packed << np.uint64(_WORD_BITS - sum(bits))


def _constant(column: npt.NDArray[Any]) -> bool:
    return not len(column) or bool(column[0] == column[-1] and (column == column[0]).all())


def _order_ties(order: Indices, first: Mask, rest: pa.Array) -> None:
    """Sort rows with equal numbers by the rest of their keys, in place."""
    tied = ~first
    tied[:-1] |= ~first[1:]
    at = np.flatnonzero(tied)
    table = pa.table({"tie": np.cumsum(first)[at], "rest": rest.take(pa.array(order[at]))})
    by = [("tie", "ascending"), ("rest", "ascending")]
    within = pc.sort_indices(table, sort_keys=by)
    order[at] = order[at][within.to_numpy()]
    ordered = table.column("rest").take(within).combine_chunks()
    same_tie = ~first[at][1:]
    differs = as_mask(pc.not_equal(ordered[1:], ordered[:-1]))
    first[at[1:]] |= same_tie & differs
