"""Tables that do not change: days, seconds, codes, and the employees."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.tpcdi.columns import (
    Ints,
    Random,
    chosen,
    dates,
    decimals,
    digits,
    sparse,
    text,
    where,
    words,
)
from benchmarks.tpcdi.people import (
    FIRST_NAMES,
    LAST_NAMES,
    LETTERS,
    STATES,
    full_phone,
)
from benchmarks.tpcdi.schema import rows
from benchmarks.tpcdi.sizes import LOADED, SECONDS, day

BROKER = 314
"""Job code of brokers."""
OTHER_JOBS = (47, 48, 262, 266, 364, 393, 534, 647, 658)
BROKERS_SHARE = 0.3

STATUSES = {
    "ACTV": "Active",
    "CMPT": "Completed",
    "CNCL": "Canceled",
    "PNDG": "Pending",
    "SBMT": "Submitted",
    "INAC": "Inactive",
}
TRADE_TYPES = (
    ("TMB", "Market Buy", 0, 1),
    ("TMS", "Market Sell", 1, 1),
    ("TSL", "Stop Loss", 1, 0),
    ("TLS", "Limit Sell", 1, 0),
    ("TLB", "Limit Buy", 0, 0),
)
SECTORS = (
    "BM CG CN EN FI HC SE TE TR UT CO ED".split(),
    (
        "Basic Materials,Capital Goods,Consumer,Energy,Financial,Health Care,Services,Technology,Transport,"
        "Utilities,Conglomerates,Education"
    ).split(","),
)
INDUSTRIES = 102
RATES_PER_PLACE = 5
_MONTHS = (
    "January February March April May June July August September October November December"
).split()
_WEEKDAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split()


def days() -> pa.Table:
    """Return the table date: 1950 to 2020."""
    number = np.arange(day(1950, 1, 1), day(2021, 1, 1))
    column = dates(number)
    year, month, of_month = (
        function(column).to_numpy() for function in (pc.year, pc.month, pc.day)
    )
    quarter = (month + 2) // 3
    week = (pc.day_of_year(column).to_numpy() + 6) // 7
    weekday = (number + 4) % 7
    fiscal_year = year + (month > 6)
    fiscal_quarter = (quarter + 1) % 4 + 1
    holiday = ((month == 12) & (of_month == 25)) | ((month == 7) & (of_month == 4)) | (
        (month == 1) & (of_month == 1)
    )  # fmt: skip
    month_name = words(month - 1, _MONTHS)
    return rows("date", {
        "sk_dateid": year * 10_000 + month * 100 + of_month,
        "datevalue": column,
        "datedesc": text(month_name, text(of_month, year, between=", ")),
        "calendaryearid": year,
        "calendaryeardesc": text(year),
        "calendarqtrid": year * 10 + quarter,
        "calendarqtrdesc": text(year, text("Q", quarter, between="")),
        "calendarmonthid": year * 100 + month,
        "calendarmonthdesc": text(year, month_name),
        "calendarweekid": year * 100 + week,
        "calendarweekdesc": text(year, text("W", week, between="")),
        "dayofweeknum": weekday + 1,
        "dayofweekdesc": words(weekday, _WEEKDAYS),
        "fiscalyearid": fiscal_year,
        "fiscalyeardesc": text(fiscal_year),
        "fiscalqtrid": fiscal_year * 10 + fiscal_quarter,
        "fiscalqtrdesc": text(fiscal_year, text("Q", fiscal_quarter, between="")),
        "holidayflag": holiday,
    })  # fmt: skip


def seconds() -> pa.Table:
    """Return the table time: each second of a day."""
    number = np.arange(SECONDS)
    hour, minute, second = number // 3600, number // 60 % 60, number % 60
    hour_text, minute_text, second_text = (digits(n, 2) for n in (hour, minute, second))
    return rows("time", {
        "sk_timeid": hour * 10_000 + minute * 100 + second,
        "timevalue": text(hour_text, minute_text, second_text, between=":"),
        "hourid": hour,
        "hourdesc": text("Hour", hour_text),
        "minuteid": minute,
        "minutedesc": text("Minute", minute_text),
        "secondid": second,
        "seconddesc": text("Second", second_text),
        "markethoursflag": (number >= 9.5 * 3600) & (number < 16 * 3600),
        "officehoursflag": (hour >= 8) & (hour < 17),
    })  # fmt: skip


def industry_codes() -> list[str]:
    """Return the in_id of each industry."""
    return [first + second for first in LETTERS for second in LETTERS][:INDUSTRIES]


def industries() -> pa.Table:
    """Return the table industry."""
    number = np.arange(INDUSTRIES)
    codes, names = SECTORS
    sector = number % len(codes)
    return rows("industry", {
        "in_id": industry_codes(),
        "in_name": text(words(sector, names), number // len(codes) + 1),
        "in_sc_id": words(sector, codes),
    })  # fmt: skip


def status_types() -> pa.Table:
    """Return the table status_type."""
    return rows("status_type", {"st_id": list(STATUSES), "st_name": list(STATUSES.values())})


def trade_types() -> pa.Table:
    """Return the table trade_type."""
    names = ("tt_id", "tt_name", "tt_is_sell", "tt_is_mrkt")
    return rows(
        "trade_type", dict(zip(names, map(list, zip(*TRADE_TYPES, strict=True)), strict=True))
    )


def tax_codes() -> tuple[list[str], list[str]]:
    """Return the tx_id of the rates of countries, and of those of states and provinces."""
    steps = range(1, RATES_PER_PLACE + 1)
    countries = [f"{country}{step}" for country in ("US", "CN") for step in steps]
    return countries, [f"{state}{step}" for state in STATES for step in steps]


def tax_rates() -> pa.Table:
    """Return the table tax_rate."""
    countries, places = tax_codes()
    codes = countries + places
    step = np.arange(len(codes)) % RATES_PER_PLACE
    national = np.arange(len(codes)) < len(countries)
    rate = np.where(national, 15_000 + 5_000 * step, 1_000 + 1_500 * step)
    return rows("tax_rate", {
        "tx_id": codes,
        "tx_name": [f"Income tax {code[:-1]}, bracket {code[-1]}" for code in codes],
        "tx_rate": decimals(rate, 6, 5),
    })  # fmt: skip


def batch_date(batch: int) -> pa.Table:
    """Return the table batch_date of a batch."""
    return rows(
        "batch_date", {"batch_id": [batch], "batchdate": dates(np.array([LOADED + batch - 1]))}
    )


def employees(random: Random, count: int) -> pa.Table:
    """Return the table hr."""
    number = np.arange(count)
    other = random.choice(np.array(OTHER_JOBS), count)
    broker = random.random(count) < BROKERS_SHARE
    broker[:2] = [False, True]
    manager = (number * random.random(count)).astype(np.int64)
    return rows("hr", {
        "employeeid": number,
        "managerid": manager,
        "employeefirstname": chosen(random, count, FIRST_NAMES),
        "employeelastname": chosen(random, count, LAST_NAMES),
        "employeemi": sparse(random, chosen(random, count, LETTERS), 0.3),
        "employeejobcode": where(broker | (random.random(count) > 0.02), np.where(broker, BROKER, other)),
        "employeebranch": sparse(random, text("Branch", random.integers(1, 100, count))),
        "employeeoffice": sparse(random, text("OFFICE", random.integers(1, 9999, count), between="")),
        "employeephone": sparse(random, full_phone(random, count)),
    })  # fmt: skip


def brokers(hr: pa.Table) -> Ints:
    """Return the ids of employees that are brokers."""
    kept = pc.fill_null(pc.equal(hr["employeejobcode"], BROKER), False)
    return np.asarray(hr["employeeid"].filter(kept))
