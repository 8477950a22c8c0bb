"""A view with a key of two columns that changes at random, the same in every process."""

from __future__ import annotations

import sys
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, cast

import pyarrow as pa

from substrait_agg.changes import Delivery
from substrait_agg.commit.documents.change_metadata import ChangesOrigin

SCHEMA = pa.schema(
    [
        ("shop", pa.string()),
        ("item", pa.int64()),
        ("total", pa.decimal128(12, 2)),
        ("note", pa.string()),
    ]
)
CHANGES = pa.schema([*SCHEMA, ("__version", pa.int64()), ("__weight", pa.int64())])
NOTES = (None, "", "a,b", 'a "quoted" line\nand another', "\\.", "\\N", "NULL", " spaces ", "ü€😀")

Key = tuple[str | None, int | None]
Row = tuple[str | None, int | None, Decimal, str | None]


def changes_of(
    rows: list[tuple[Any, ...]],
    keys: tuple[int, ...] | None = (0, 1),
    *,
    repeats: bool = False,
) -> pa.Table:
    """Changes as `View.changes` returns them."""
    columns = list(zip(*rows, strict=True)) or [()] * len(CHANGES)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, CHANGES, strict=True)]
    origin = ChangesOrigin(keys, "plan", {}, repeats)
    return pa.table(arrays, CHANGES.with_metadata(origin.metadata()))


class KeyedView:
    """The view; version 0 is the first.

    Args:
        version: the newest version.
        seed: of the changes.
    """

    def __init__(self, version: int, seed: int = 1) -> None:
        self.version = version
        random = Random(seed)
        self.states: list[dict[Key, Row]] = [{}]
        for _ in range(version + 1):
            self.states.append(_next(self.states[-1], random))

    def versions(self) -> list[int]:
        return list(range(self.version + 1))

    def rows(self, version: int) -> set[Row]:
        return set(self.states[version + 1].values())

    def changes(self, since: int | None = None, until: int | None = None) -> pa.Table:
        first = 0 if since is None else since + 1
        last = self.version if until is None else until
        rows: list[tuple[Any, ...]] = []
        for version in range(first, last + 1):
            before, after = self.rows(version - 1), self.rows(version)
            rows += [(*row, version, -1) for row in before - after]
            rows += [(*row, version, 1) for row in after - before]
        return changes_of(rows)

    def evolutions(self) -> list[Any]:
        return []


def _next(state: dict[Key, Row], random: Random) -> dict[Key, Row]:
    after = dict(state)
    for _ in range(random.randrange(12)):
        shop = random.choice([None, "", "north", "süd", "a\nb"])
        key = (shop, random.choice([None, *range(8)]))
        after.pop(key, None)
        if random.random() < 0.7:
            total = Decimal(random.randrange(-(10**6), 10**6)).scaleb(-2)
            after[key] = (*key, total, random.choice(NOTES))
    return after


def deliver_all(output: str, checkpoint: Path, version: int) -> None:
    """Deliver all versions in order; say when the first delivery begins."""
    view = KeyedView(version)
    with closing(Delivery([output], checkpoint=checkpoint)) as delivery:
        sys.stdout.write("begun\n")
        sys.stdout.flush()
        delivery.deliver(cast("Any", view))
