"""Customers and their accounts: actions in the order of time, and the changes of the days after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.tpcdi.columns import (
    Flags,
    Ints,
    Random,
    chosen,
    dates,
    digits,
    few,
    in_office_hours,
    sparse,
    text,
    times,
    where,
)
from benchmarks.tpcdi.people import FIRST_NAMES, LAST_NAMES, LETTERS, MAIL, address, phone
from benchmarks.tpcdi.reference import tax_codes
from benchmarks.tpcdi.schema import SCHEMAS, batch_rows, rows
from benchmarks.tpcdi.sizes import CUSTOMERS_BEGIN, END, LAST, LOADED, Sizes

SHARES = {
    "NEW": 0.306,
    "ADDACCT": 0.304,
    "UPDACCT": 0.174,
    "CLOSEACCT": 0.087,
    "UPDCUST": 0.087,
    "INACT": 0.042,
}
"""Of the actions in the historical load."""
PER_DAY = {"NEW": 3.5, "ADDACCT": 3.5, "UPDACCT": 1.9, "CLOSEACCT": 1.1, "UPDCUST": 1, "INACT": 0.4}
"""Changes of a day per scale factor; each new customer has an account, too."""
INVALID = 0.001
"""Share of the customers whose tier or date of birth is invalid."""
CENTURY = 36_525
"""Days that no customer is older than."""
NAMES = ("c_l_name", "c_f_name", "c_m_name")
ADDRESS = {
    "c_adline1": "line1",
    "c_adline2": "line2",
    "c_zipcode": "zipcode",
    "c_city": "city",
    "c_state_prov": "state",
    "c_ctry": "country",
}
EMAILS = {"c_prim_email": "c_email_1", "c_alt_email": "c_email_2"}
"""Columns that customer_mgmt and customer name differently."""
PHONES = (1, 2, 3)
PERSONAL = tuple(
    name for name in SCHEMAS["customer_mgmt"].names if name.startswith("c_") and name != "c_id"
)
HELD = ("ca_tax_st", "ca_b_id", "ca_name")
"""Columns of an account that may change."""


@dataclass(frozen=True)
class Book:
    """Who is a customer when, and which accounts are open when. Days are since 1970, ends are exclusive.

    Attributes:
        born: the day of each customer, by c_id.
        gone: the day on which a customer becomes inactive; after all batches, if none.
        owner: the customer of each account, by ca_id.
        opened: the day of an account.
        closed: the day on which it is closed or its customer becomes inactive; after all batches, if none.
        opening: whether the account came with its customer.
        closing: the accounts that are closed by an action.
    """

    born: Ints
    gone: Ints
    owner: Ints
    opened: Ints
    closed: Ints
    opening: Flags
    closing: Ints


def open_book(random: Random, sizes: Sizes) -> Book:
    """Return the customers and accounts of the historical load."""
    count = {name: max(2, round(sizes.actions * share)) for name, share in SHARES.items()}
    born = np.sort(random.integers(CUSTOMERS_BEGIN, END - 30, count["NEW"]))
    gone = np.full(count["NEW"], LAST)
    inactive = random.choice(count["NEW"], count["INACT"], replace=False)
    gone[inactive] = random.integers(born[inactive] + 20, END)
    owner = np.concatenate(
        [np.arange(count["NEW"]), random.integers(0, count["NEW"], count["ADDACCT"])]
    )
    added = owner[count["NEW"] :]
    until = np.minimum(gone, END)
    opened = np.concatenate([born, random.integers(born[added] + 1, until[added] - 5)])
    order = np.argsort(opened, kind="stable")
    owner, opened = owner[order], opened[order]
    closed = gone[owner]
    closing = np.sort(random.choice(len(owner), count["CLOSEACCT"], replace=False))
    closed[closing] = random.integers(opened[closing] + 2, until[owner[closing]])
    return Book(born, gone, owner, opened, closed, order < count["NEW"], closing)


def people(random: Random, count: int) -> dict[str, Any]:
    """Return all columns of persons but their ids."""
    first, last = chosen(random, count, FIRST_NAMES), chosen(random, count, LAST_NAMES)
    place = address(random, count)
    countries, states = tax_codes()
    tier = random.choice([1, 2, 3], count, p=[0.2, 0.4, 0.4])
    wrong = few(random, count, INVALID)
    tier[wrong] = random.choice([0, 4, 5, 9], len(wrong))
    birth = random.integers(LOADED - 85 * 365, LOADED - 18 * 365, count)
    wrong = few(random, count, INVALID)
    birth[wrong] = random.choice([LOADED - CENTURY - 400, LAST + 400], len(wrong))
    number = random.integers(0, 1_000_000_000, count)
    parts = (number // 1_000_000, number // 10_000 % 100, number % 10_000)
    tax = text(
        *(digits(part, width) for part, width in zip(parts, (3, 2, 4), strict=True)), between="-"
    )
    mails = (
        text(first, text(last, random.integers(1, 9999, count), between=""), between=".")
        for _ in EMAILS
    )
    mail, other = (text(name, chosen(random, count, MAIL), between="@") for name in mails)
    return {
        "c_tax_id": tax,
        "c_gndr": sparse(random, chosen(random, count, "MMMMMFFFFFmfXU")),
        "c_tier": tier,
        "c_dob": dates(birth),
        **dict(zip(NAMES, (last, first, sparse(random, chosen(random, count, LETTERS))), strict=True)),
        **{name: place[part] for name, part in ADDRESS.items()},
        "c_prim_email": sparse(random, mail),
        "c_alt_email": sparse(random, other, 0.5),
        **{name: part for number in PHONES for name, part in phone(random, count, number).items()},
        "c_lcl_tx_id": chosen(random, count, states),
        "c_nat_tx_id": chosen(random, count, countries),
    }  # fmt: skip


def new_values(random: Random, count: int) -> dict[str, Any]:
    """Return columns of persons of whom one or two groups of properties change; the others are NULL."""
    groups = ([*NAMES[:1]], [*ADDRESS], [*EMAILS], ["c_tier"], [*phone(random, 0, 1)], [*phone(random, 0, 2)])  # fmt: skip
    drawn = random.integers(0, len(groups), (count, 2))
    person = people(random, count)
    return {
        name: where((drawn == number).any(axis=1), person[name])
        for number, names in enumerate(groups)
        for name in names
    }


def held(random: Random, brokers: Ints, count: int) -> dict[str, Any]:
    """Return the columns of accounts but their ids."""
    name = text(chosen(random, count, FIRST_NAMES), chosen(random, count, LAST_NAMES), "Account")
    return {
        "ca_tax_st": random.integers(0, 3, count),
        "ca_b_id": random.choice(brokers, count),
        "ca_name": sparse(random, name),
    }


def new_holding(random: Random, brokers: Ints, count: int) -> dict[str, Any]:
    """Return columns of accounts of which one changes; the others are NULL."""
    drawn = random.integers(0, len(HELD), count)
    return {
        name: where(drawn == number, values)
        for number, (name, values) in enumerate(held(random, brokers, count).items())
    }


def latest(changes: pa.Table, key: str) -> pa.Table:
    """Return a row per key: the last value of each column that is not NULL.

    Args:
        changes: rows in the order of time, the first one of a key whole.
        key: name of the column.
    """
    keys = np.asarray(changes[key])
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.append(True, keys[1:] != keys[:-1])
    last = np.append(first[1:], True)
    place = np.arange(len(keys))

    def column(name: str) -> pa.Array:
        given = changes[name].combine_chunks().take(pa.array(order))
        filled = np.maximum.accumulate(np.where(np.asarray(given.is_valid()) | first, place, 0))
        return given.take(pa.array(filled[last]))

    return pa.table({name: column(name) for name in changes.column_names})


class Customers:
    """Customers and accounts, which change day by day.

    Attributes:
        book: those of the historical load.
        actions: the table customer_mgmt.
        people: the customers as they are now, by c_id.
        accounts: the accounts as they are now, by ca_id.
    """

    def __init__(self, random: Random, sizes: Sizes, brokers: Ints) -> None:
        self._random, self._sizes, self._brokers = random, sizes, brokers
        self.book = open_book(random, sizes)
        self.actions = self._history().sort_by([("action_ts", "ascending"), ("c_id", "ascending")])
        self.people = self._people()
        self.accounts = self._accounts()

    def _updates(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Customers and days of changes, accounts and days of theirs: one change of a customer per day."""
        r, book = self._random, self.book
        until = np.minimum(book.gone, END)
        customer = r.integers(
            0, len(book.born), max(2, round(self._sizes.actions * SHARES["UPDCUST"]))
        )
        on = r.integers(book.born[customer] + 1, until[customer])
        account = r.integers(
            0, len(book.owner), max(2, round(self._sizes.actions * SHARES["UPDACCT"]))
        )
        then = r.integers(book.opened[account] + 1, np.minimum(book.closed, END)[account])
        busy = np.concatenate([
            _slots(book.owner, book.opened), _slots(book.owner, book.closed),
            _slots(np.arange(len(book.gone)), book.gone),
        ])  # fmt: skip
        slots = _slots(customer, on)
        kept = _first(slots) & ~np.isin(slots, busy)
        others = _slots(book.owner[account], then)
        stays = _first(others) & ~np.isin(others, np.concatenate([busy, slots[kept]]))
        return customer[kept], on[kept], account[stays], then[stays]

    def _history(self) -> pa.Table:
        r, book = self._random, self.book
        customer, on, account, then = self._updates()
        came = np.flatnonzero(book.opening)
        came = came[np.argsort(book.owner[came])]
        added = np.flatnonzero(~book.opening)
        gone = np.flatnonzero(book.gone < END)
        accounts = held(r, self._brokers, len(book.owner))
        taken = {name: pa.array(values) for name, values in accounts.items()}
        return pa.concat_tables([
            self._acted("NEW", book.born, np.arange(len(book.born)), ca_id=came, **people(r, len(came)),
                        **{name: values.take(pa.array(came)) for name, values in taken.items()}),
            self._acted("ADDACCT", book.opened[added], book.owner[added], ca_id=added,
                        **{name: values.take(pa.array(added)) for name, values in taken.items()}),
            self._acted("UPDCUST", on, customer, **new_values(r, len(customer))),
            self._acted("UPDACCT", then, book.owner[account], ca_id=account,
                        **new_holding(r, self._brokers, len(account))),
            self._acted("CLOSEACCT", book.closed[book.closing], book.owner[book.closing], ca_id=book.closing),
            self._acted("INACT", book.gone[gone], gone),
        ])  # fmt: skip

    def _acted(self, action: str, days: Ints, customer: Ints, **columns: Any) -> pa.Table:
        shared = {"action_type": np.full(len(days), action, object), "c_id": customer}
        return rows(
            "customer_mgmt",
            {**shared, "action_ts": times(in_office_hours(self._random, days)), **columns},
        )

    def _people(self) -> pa.Table:
        kept = pc.is_in(self.actions["action_type"], pa.array(["NEW", "UPDCUST"]))
        state = latest(self.actions.filter(kept).select(["c_id", *PERSONAL]), "c_id")
        return state.append_column("c_st_id", _status(self.book.gone >= END))

    def _accounts(self) -> pa.Table:
        kept = pc.is_in(self.actions["action_type"], pa.array(["NEW", "ADDACCT", "UPDACCT"]))
        state = latest(self.actions.filter(kept).select(["ca_id", "c_id", *HELD]), "ca_id")
        return state.append_column("ca_st_id", _status(self.book.closed >= END))

    def change(self, batch: int) -> dict[str, pa.Table]:
        """Change some for a batch, and return the tables customer and account."""
        r = self._random
        count = {name: self._sizes.of(number) for name, number in PER_DAY.items()}
        new = len(self.people) + np.arange(count["NEW"])
        active = _active(self.people, "c_st_id")
        moved, inactive = np.split(r.permutation(active)[: count["UPDCUST"] + count["INACT"]], [count["UPDCUST"]])  # fmt: skip
        self.people = latest(_appended(self.people, [
            {"c_id": new, **people(r, len(new)), "c_st_id": _status(np.full(len(new), True))},
            {"c_id": moved, **new_values(r, len(moved))},
            {"c_id": inactive, "c_st_id": _status(np.full(len(inactive), False))},
        ]), "c_id")  # fmt: skip
        owner = np.concatenate([new, r.choice(np.setdiff1d(active, inactive), count["ADDACCT"])])
        accounts = self._change_accounts(batch, owner, inactive, count)
        changed = _changed(self.people, "c_id", np.concatenate([new, moved, inactive]))
        customers = {EMAILS.get(name, name): changed[name] for name in changed.column_names}
        customers["cdc_flag"] = _flag(changed["c_id"], new)
        return {"customer": batch_rows("customer", batch, customers), "account": accounts}

    def _change_accounts(
        self, batch: int, owner: Ints, inactive: Ints, count: dict[str, int]
    ) -> pa.Table:
        r = self._random
        new = len(self.accounts) + np.arange(len(owner))
        active = _active(self.accounts, "ca_st_id")
        lost = np.isin(np.asarray(self.accounts["c_id"])[active], inactive)
        drawn = r.permutation(active[~lost])[: count["UPDACCT"] + count["CLOSEACCT"]]
        moved, ended = np.split(drawn, [count["UPDACCT"]])
        ended = np.concatenate([ended, active[lost]])
        self.accounts = latest(_appended(self.accounts, [
            {"ca_id": new, "c_id": owner, **held(r, self._brokers, len(new)),
             "ca_st_id": _status(np.full(len(new), True))},
            {"ca_id": moved, **new_holding(r, self._brokers, len(moved))},
            {"ca_id": ended, "ca_st_id": _status(np.full(len(ended), False))},
        ]), "ca_id")  # fmt: skip
        changed = _changed(self.accounts, "ca_id", np.concatenate([new, moved, ended]))
        columns = dict(zip(changed.column_names, changed.columns, strict=True))
        columns["ca_c_id"] = columns.pop("c_id")
        return batch_rows("account", batch, {**columns, "cdc_flag": _flag(changed["ca_id"], new)})


def _slots(customer: Ints, days: Ints) -> Ints:
    """Numbers of a customer and a day."""
    return customer * 1_000_000 + days


def _first(values: Ints) -> Flags:
    """Whether a value is the first of its kind."""
    kept = np.zeros(len(values), bool)
    kept[np.unique(values, return_index=True)[1]] = True
    return kept


def _status(active: Flags) -> pa.Array:
    return pa.array(np.where(active, "ACTV", "INAC").astype(object), pa.string())


def _active(state: pa.Table, status: str) -> Ints:
    return np.flatnonzero(pc.equal(state[status], "ACTV").to_numpy())


def _appended(state: pa.Table, changes: list[dict[str, Any]]) -> pa.Table:
    tables = [
        pa.table(
            {
                name: pa.array(values).cast(state.schema.field(name).type)
                for name, values in one.items()
            }
        )
        for one in changes
    ]
    return pa.concat_tables([state, *tables], promote_options="default")


def _changed(state: pa.Table, key: str, ids: Ints) -> pa.Table:
    return state.filter(pc.is_in(state[key], pa.array(ids)))


def _flag(ids: pa.ChunkedArray, new: Ints) -> pa.Array:
    return pc.if_else(pc.is_in(ids, pa.array(new)), "I", "U")
