"""The decoder over messages made by hand, against a decoder of one message at a time."""

from __future__ import annotations

import struct
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from substrait_agg.connect.postgres import pgoutput
from substrait_agg.connect.postgres.position import Position, VisibleTransactions

Value = str | None
Row = tuple[Value, ...]
WIDTH = 3
NAMES = ("a", "b", "c")


def relation(oid: int, names: tuple[str, ...] = NAMES, identity: str = "f") -> bytes:
    columns = b"".join(b"\1" + n.encode() + b"\0" + struct.pack(">Ii", 25, -1) for n in names)
    head = struct.pack(">I", oid) + b"public\0t\0" + identity.encode()
    return b"R" + head + struct.pack(">H", len(names)) + columns


def row_of(values: Row, unchanged: frozenset[int] = frozenset()) -> bytes:
    parts = [struct.pack(">H", len(values))]
    for number, value in enumerate(values):
        if number in unchanged:
            parts.append(b"u")
        elif value is None:
            parts.append(b"n")
        else:
            data = value.encode()
            parts.append(b"t" + struct.pack(">I", len(data)) + data)
    return b"".join(parts)


VALUES = st.none() | st.text(max_size=6)
ROWS = st.tuples(VALUES, VALUES, VALUES)
OIDS = st.sampled_from([7, 8, 9])
CHANGES = st.tuples(
    st.sampled_from("IUD"), OIDS, ROWS, ROWS, st.frozensets(st.integers(0, WIDTH - 1))
)
Change = tuple[str, int, Row, Row, frozenset[int]]


def message(change: Change) -> tuple[bytes, list[tuple[Row, int]]]:
    """A message, and its rows with weights."""
    kind, oid, old, new, same = change
    head = kind.encode() + struct.pack(">I", oid)
    if kind == "I":
        return head + b"N" + row_of(new), [(new, 1)]
    if kind == "D":
        return head + b"O" + row_of(old), [(old, -1)]
    same = frozenset(i for i in same if old[i] is not None)
    new = tuple(old[i] if i in same else new[i] for i in range(WIDTH))
    return head + b"O" + row_of(old) + b"N" + row_of(new, same), [(old, -1), (new, 1)]


@given(st.lists(CHANGES), st.sets(OIDS))
def test_rows_of_random_messages(changes: list[Change], read: set[int]) -> None:
    messages = [relation(oid) for oid in (7, 8, 9)]
    messages += [message(change)[0] for change in changes]
    block = pgoutput.decode(messages, {}, dict.fromkeys(read, ("c", "a")))
    found = {c.relation.oid: c for c in block.changes}
    for oid in (7, 8, 9):
        mine = (message(change)[1] for change in changes if change[1] == oid)
        expected = [((row[2], row[0]), weight) for row, weight in chain.from_iterable(mine)]
        if oid not in read or not expected:
            assert oid not in found
            continue
        decoded = found[oid]
        rows = zip(decoded.texts["c"].to_pylist(), decoded.texts["a"].to_pylist(), strict=True)
        assert list(zip(rows, decoded.weights.tolist(), strict=True)) == expected
        assert not any(decoded.incomplete.values())
        assert decoded.whole
        for texts in decoded.texts.values():
            texts.validate(full=True)


@given(
    st.lists(st.tuples(ROWS, st.frozensets(st.integers(0, WIDTH - 1)), st.booleans()), min_size=1)
)
def test_a_missing_value_without_old_row_is_seen(
    rows: list[tuple[Row, frozenset[int], bool]],
) -> None:
    messages = [relation(7, identity="d")]
    for row, same, with_key in rows:
        key = b"K" + row_of((row[0], None, None)) if with_key else b""
        messages.append(b"U" + struct.pack(">I", 7) + key + b"N" + row_of(row, same - {0}))
    (changes,) = pgoutput.decode(messages, {}, {7: NAMES}).changes
    for number, name in enumerate(NAMES[1:], 1):
        assert changes.incomplete[name] == any(number in same for _, same, _ in rows)
    assert not changes.whole


def test_two_versions_of_a_table_in_one_block() -> None:
    insert = b"I" + struct.pack(">I", 7) + b"N"
    messages = [
        insert + row_of(("1", "2", "3")),
        relation(7),
        insert + row_of(("4", "5", "6")),
        relation(7, ("a", "c")),
        insert + row_of(("7", "9")),
    ]
    before = {7: pgoutput.read_relation(relation(7))}
    block = pgoutput.decode(messages, before, {7: NAMES})
    assert [c.texts["c"].to_pylist() for c in block.changes] == [["3", "6"], ["9"]]
    assert [sorted(c.texts) for c in block.changes] == [["a", "b", "c"], ["a", "c"]]
    assert block.relations[7].columns == ("a", "c")
    assert before[7].columns == NAMES


def test_truncated_tables_are_named() -> None:
    truncate = b"T" + struct.pack(">IBII", 2, 0, 7, 9)
    assert pgoutput.decode([truncate], {}, {}).truncated == {7, 9}


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 20), st.integers(1, 5))
def test_blocks_have_every_message_once(sizes: list[int], most: int, count: int) -> None:
    messages = [bytes(size) for size in sizes]
    bytes_, messages_ = pgoutput.BLOCK_BYTES, pgoutput.BLOCK_MESSAGES
    pgoutput.BLOCK_BYTES, pgoutput.BLOCK_MESSAGES = most, count
    try:
        blocks = list(pgoutput.blocks(messages))
    finally:
        pgoutput.BLOCK_BYTES, pgoutput.BLOCK_MESSAGES = bytes_, messages_
    assert [m for block in blocks for m in block] == messages
    assert all(len(block) == 1 or sum(map(len, block)) <= most for block in blocks)
    assert all(0 < len(block) <= count for block in blocks)


FIRST = st.integers(2**32 - 50, 2**32 + 50) | st.integers(3, 2**40)


@given(FIRST, st.integers(0, 20), st.sets(st.integers(0, 19)), st.integers(-100, 100))
def test_transactions_of_a_snapshot_across_2_to_the_32(
    xmin: int, size: int, open_: set[int], distance: int
) -> None:
    """The stream has ids of 32 bits, the snapshot of 64 bits."""
    ids = ",".join(str(xmin + i) for i in sorted(open_) if i < size)
    snapshot = VisibleTransactions.parse(f"{xmin}:{xmin + size}:{ids}", 1000)
    xid = xmin + distance
    expected = xid < xmin or (xid < xmin + size and distance not in open_)
    assert snapshot.has(xid % 2**32, 1000) == expected
    assert not snapshot.has(xid % 2**32, 1001)
    position = Position(5, 4, snapshot, {"tables": {}})
    assert Position.parse(str(position)).snapshot is not None
    assert Position.parse(str(position)).snapshot.has(xid % 2**32, 1000) == expected  # type: ignore[union-attr]
    assert position.move(999, 998, {}).snapshot is snapshot
    assert position.move(1000, 998, {}).snapshot is None
