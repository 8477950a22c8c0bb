"""Prospects: each day all of them, of whom some are customers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.tpcdi.columns import Ints, Random, chosen, digits, few, sparse, text
from benchmarks.tpcdi.people import FIRST_NAMES, LAST_NAMES, LETTERS, address, full_phone
from benchmarks.tpcdi.schema import batch_rows
from benchmarks.tpcdi.sizes import Sizes

MATCHING = 0.25
"""Share of the prospects that have the name and the address of a customer."""
NEW = 0.0012
"""Share of the prospects that leave in a day, and that come."""
MOVED = 0.002
"""Share that changes in a day."""
OF_CUSTOMER = {
    "lastname": "c_l_name",
    "firstname": "c_f_name",
    "middleinitial": "c_m_name",
    "gender": "c_gndr",
    "addressline1": "c_adline1",
    "addressline2": "c_adline2",
    "postalcode": "c_zipcode",
    "city": "c_city",
    "state": "c_state_prov",
    "country": "c_ctry",
}
EMPLOYERS = "Atlas,Beacon,Cobalt,Delta,Ember,Falcon,Granite,Harbor,Iris,Juniper".split(",")


class Prospects:
    """The prospects of a day, which change day by day."""

    def __init__(self, random: Random, sizes: Sizes, customers: pa.Table) -> None:
        self._random = random
        self._next = 0
        count = round(sizes.prospects * MATCHING)
        matching = random.choice(len(customers), min(count, len(customers)), replace=False)
        others = self._made(sizes.prospects - len(matching))
        known = self._made(len(matching), customers.take(pa.array(matching)))
        self._rows = pa.concat_tables([known, others])
        self._rows = self._rows.take(pa.array(random.permutation(len(self._rows))))

    def table(self, batch: int) -> pa.Table:
        """Return the table prospect of a batch."""
        columns = dict(zip(self._rows.column_names, self._rows.columns, strict=True))
        return batch_rows("prospect", batch, columns)

    def change(self) -> None:
        """Let some prospects leave, some come, and some change."""
        r, old = self._random, self._rows
        drawn = r.permutation(few(r, len(old), NEW + MOVED))
        gone = drawn[: max(1, round(len(old) * NEW))]
        stays = np.ones(len(old), bool)
        stays[drawn] = False
        moved = _with(
            old.take(pa.array(drawn[len(gone) :])), self._situation(len(drawn) - len(gone))
        )
        self._rows = pa.concat_tables([old.filter(pa.array(stays)), moved, self._made(len(gone))])

    def _made(self, count: int, customers: pa.Table | None = None) -> pa.Table:
        r = self._random
        number = self._next + np.arange(count)
        self._next += count
        place = address(r, count)
        last = chosen(r, count, LAST_NAMES)
        columns: dict[str, Any] = {
            "agencyid": text(pc.ascii_upper(pc.utf8_slice_codeunits(last, 0, 3)), digits(number, 12), between=""),
            "lastname": last,
            "firstname": chosen(r, count, FIRST_NAMES),
            "middleinitial": sparse(r, chosen(r, count, LETTERS)),
            "gender": sparse(r, chosen(r, count, "MFmfU")),
            "addressline1": place["line1"],
            "addressline2": place["line2"],
            "postalcode": place["zipcode"],
            "city": place["city"],
            "state": place["state"],
            "country": place["country"],
            "phone": sparse(r, full_phone(r, count)),
            **self._situation(count),
        }  # fmt: skip
        if customers is not None:
            columns |= {
                name: customers[other].combine_chunks() for name, other in OF_CUSTOMER.items()
            }
            loud = r.random(count) < 0.1
            columns["lastname"] = pc.if_else(
                loud, pc.utf8_upper(columns["lastname"]), columns["lastname"]
            )
        return pa.table(columns)

    def _situation(self, count: int) -> dict[str, pa.Array]:
        r = self._random

        def numbers(low: int, high: int) -> pa.Array:
            return sparse(r, _drawn(r, low, high, count))

        return {
            "income": numbers(10_000, 450_000),
            "numbercars": numbers(0, 5),
            "numberchildren": numbers(0, 5),
            "maritalstatus": sparse(r, chosen(r, count, "SMDWU")),
            "age": numbers(18, 95),
            "creditrating": numbers(300, 851),
            "ownorrentflag": sparse(r, chosen(r, count, "ORU")),
            "employer": sparse(r, text(chosen(r, count, EMPLOYERS), _drawn(r, 1, 50, count))),
            "numbercreditcards": numbers(0, 10),
            "networth": numbers(-50_000, 3_000_000),
        }


def _drawn(random: Random, low: int, high: int, count: int) -> Ints:
    return random.integers(low, high, count)


def _with(rows: pa.Table, columns: dict[str, pa.Array]) -> pa.Table:
    for name, values in columns.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, values)
    return rows
