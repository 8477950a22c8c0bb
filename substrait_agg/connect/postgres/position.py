"""What a position of a database is: the end of a transaction, and what the tables were then."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

Identity = Mapping[str, object]
"""What shows that tables and publication are still those that were read (`setup.read_identity`)."""


@dataclass(frozen=True, slots=True)
class VisibleTransactions:
    """Which transactions the initial rows have.

    An LSN does not say it: a commit is written before its transaction is visible. The stream has
    transaction ids of 32 bits, the snapshot ids of 64 bits.

    Attributes:
        xmin: all transactions before it are in the snapshot.
        xmax: none from it on is in the snapshot.
        open: transactions between that are not in the snapshot.
        end: LSN after which no transaction of the snapshot was committed. Later ids are not compared,
            as they come again after 2^32 transactions.
    """

    xmin: int
    xmax: int
    open: frozenset[int]
    end: int

    @classmethod
    def parse(cls, text: str, end: int) -> VisibleTransactions:
        """Read the text of a ``pg_snapshot``.

        >>> VisibleTransactions.parse("10:14:11,13", 0).has(12, 0)
        True
        """
        xmin, xmax, ids = text.split(":")
        open_ = frozenset(int(xid) % (1 << 32) for xid in ids.split(",") if xid)
        return cls(int(xmin), int(xmax), open_, end)

    def has(self, xid: int, end: int) -> bool:
        """Return whether a transaction is in the snapshot.

        Args:
            xid: its id of 32 bits.
            end: LSN of its end.
        """
        if end > self.end:
            return False
        if _is_before(xid, self.xmin):
            return True
        return _is_before(xid, self.xmax) and xid not in self.open

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.open)))}"


def _is_before(xid: int, other: int) -> bool:
    """Compare ids modulo 2^32, as PostgreSQL does."""
    return (xid - other) % (1 << 32) >= 1 << 31


@dataclass(frozen=True, slots=True)
class Position:
    """The end of a transaction.

    Attributes:
        end: LSN of the end of its commit record; the next transactions end after it.
        commit: LSN of the start of its commit record. The slot is confirmed up to here, so the server
            sends this transaction first on each connection, and a slot that is further belongs to a
            newer position.
        snapshot: which of the next transactions the initial rows have; None if none of them.
        identity: what the tables were.
    """

    end: int
    commit: int
    snapshot: VisibleTransactions | None
    identity: Identity

    @classmethod
    def parse(cls, text: str) -> Position:
        """Read the text of a position."""
        document = json.loads(text)
        snapshot = None
        if "snapshot" in document:
            end = read_lsn(document["snapshot"]["end"])
            snapshot = VisibleTransactions.parse(document["snapshot"]["transactions"], end)
        lsns = read_lsn(document["lsn"]), read_lsn(document["commit"])
        return cls(*lsns, snapshot, document["identity"])

    def __str__(self) -> str:
        document: dict[str, object] = {
            "lsn": write_lsn(self.end),
            "commit": write_lsn(self.commit),
            "identity": self.identity,
        }
        if self.snapshot is not None:
            end = write_lsn(self.snapshot.end)
            document["snapshot"] = {"transactions": str(self.snapshot), "end": end}
        return json.dumps(document, sort_keys=True)

    def move(self, end: int, commit: int, identity: Identity) -> Position:
        """Return the position at the end of a later transaction."""
        snapshot = self.snapshot
        if snapshot is not None and end >= snapshot.end:
            snapshot = None
        return replace(self, end=end, commit=commit, snapshot=snapshot, identity=identity)


def read_lsn(text: str) -> int:
    """Return an LSN as a number.

    >>> hex(read_lsn("1/A0"))
    '0x1000000a0'
    """
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def write_lsn(lsn: int) -> str:
    """Return an LSN as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
